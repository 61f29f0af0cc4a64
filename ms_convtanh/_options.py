"""Options of the library for a stretch of a program."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ms_convtanh import _library
from ms_convtanh._problem import to_int

_in_force: dict[str, str | None] = {"max_isa": None, "fusion": None, "num_threads": None}


def _word(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"options: {name} must be of str, got {type(value).__name__} {value!r}")
    if "\0" in value or not value.isascii():  # C strings cannot carry all of it
        raise ValueError(f"options: {name} must be a plain word, got {value!r}")
    return value


def _set(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        encoded = None if value is None else value.encode()
        _library.raise_for_status(_library.load().msctSetOption(name.encode(), encoded), "options")
        _in_force[name] = value


@contextmanager
def options(*, max_isa: str | None = None, fusion: str | None = None, num_threads: int | None = None) -> Iterator[None]:
    """Changes options inside a with block. They hold for the whole process, all of its threads and MindSpore.

    Args:
        max_isa: Ceiling of the kernels' instruction sets: portable, avx2, avx512 or amx.
        fusion: auto, half (tanh after the whole convolution) or true (on each block in cache).
        num_threads: Most threads to use, 1 or more; never above the affinity mask and the cgroup quota.
        None leaves an option as it is. Without a call, MS_CONVTANH_MAX_ISA, MS_CONVTANH_FUSION and
        MS_CONVTANH_NUM_THREADS decide.

    Raises:
        TypeError: Not a str, or not an int. No option has changed then.
        ValueError: An unknown value. Likewise.
    """
    wanted: dict[str, str | None] = {}
    for name, word in (("max_isa", max_isa), ("fusion", fusion)):
        if word is not None:
            wanted[name] = _word(name, word)
    if num_threads is not None:
        wanted["num_threads"] = str(to_int("num_threads", num_threads, "options"))
    before = {name: _in_force[name] for name in wanted}
    try:
        _set(wanted)
        yield
    finally:
        _set(before)
