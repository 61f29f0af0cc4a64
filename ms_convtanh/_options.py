"""Options of the library for a stretch of a program."""

from collections.abc import Iterator
from contextlib import contextmanager

from ms_convtanh import _library

_in_force: dict[str, str | None] = {"max_isa": None, "fusion": None, "num_threads": None}


def _set(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        encoded = None if value is None else value.encode()
        _library.raise_for_status(_library.load().msctSetOption(name.encode(), encoded))
        _in_force[name] = value


@contextmanager
def options(*, max_isa: str | None = None, fusion: str | None = None, num_threads: int | None = None) -> Iterator[None]:
    """Changes options inside a with block. They hold for the whole process, all of its threads and MindSpore.

    Args:
        max_isa: Ceiling of the kernels' instruction sets: portable, avx2 or avx512.
        fusion: auto, half (tanh after the whole convolution) or true (on each block in cache).
        num_threads: Most threads to use, 1 or more; never above the affinity mask and the cgroup quota.
        None leaves an option as it is. Without a call, MS_CONVTANH_MAX_ISA, MS_CONVTANH_FUSION and
        MS_CONVTANH_NUM_THREADS decide.

    Raises:
        ValueError: An unknown value. No option has changed then.
    """
    given = {"max_isa": max_isa, "fusion": fusion, "num_threads": None if num_threads is None else str(num_threads)}
    wanted: dict[str, str | None] = {name: value for name, value in given.items() if value is not None}
    before = {name: _in_force[name] for name in wanted}
    try:
        _set(wanted)
        yield
    finally:
        _set(before)
