"""The executor's `pypto_pro.language`: the names of the subset that the kernels use. Signatures as in PyPTO Pro."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from types import SimpleNamespace
from typing import Any

from . import operations as _operations
from .frontend import jit
from .machine import current
from .memory import Pointer, Tensor, TileGroup
from .operations import (
    cast,
    expands,
    fill_index,
    gather,
    load,
    matmul,
    matmul_acc,
    move,
    select,
    set_validshape,
    store,
    transpose,
)
from .operations import less as lt
from .types import (
    DT_BF16,
    DT_FP16,
    DT_FP32,
    DT_INT32,
    DT_UINT8,
    AccPhase,
    AccToVecMode,
    DataType,
    ExecutorError,
    MemorySpace,
    RoundMode,
    STPhase,
    TileType,
    Unsigned,
)
from .types import Pipe as PipeType

__all__ = [
    "DT_BF16", "DT_FP16", "DT_FP32", "DT_INT32", "DT_UINT8", "AccPhase", "AccToVecMode", "MemorySpace", "PipeType",
    "Ptr", "RoundMode", "STPhase", "TileType", "abs", "add", "cast", "div", "exp", "expands", "fill_index", "gather",
    "get_block_idx", "get_block_num", "get_subblock_idx", "get_subblock_num", "jit", "load", "lt", "make_tensor",
    "make_tile_group", "matmul", "matmul_acc", "max", "min", "move", "mul", "range", "section_cube", "section_vector",
    "select", "set_validshape", "store", "system", "transpose",
]  # fmt: skip

_python_min, _python_max, _python_range = min, max, range


class Ptr:
    """pl.Ptr[dtype]: an annotation."""

    def __class_getitem__(cls, dtype: DataType) -> type:
        return cls


abs = partial(_operations.unary, "abs")
exp = partial(_operations.unary, "exp")
add = partial(_operations.binary, "add")
mul = partial(_operations.binary, "mul")
div = partial(_operations.binary, "div")


def min(left: int, right: int) -> int:
    """Signed 64 bits, whatever the operands are."""
    return int(_python_min(int(left), int(right)))


def max(left: int, right: int) -> int:
    """Signed 64 bits, whatever the operands are."""
    return int(_python_max(int(left), int(right)))


def range(start: int, stop: int, step: int = 1) -> Iterator[Unsigned]:
    """Counts in uint64_t."""
    if start < 0 or stop < 0 or step < 1:
        raise ExecutorError(f"range({start}, {stop}, {step}): a negative bound would be a huge unsigned number")
    for value in _python_range(int(start), int(stop), int(step)):
        yield Unsigned(value)


def section_cube() -> bool:
    return _enter("cube")


def section_vector() -> bool:
    return _enter("vector")


def _enter(section: str) -> bool:
    current.actor.section = section
    return current.actor.cube == (section == "cube")


def get_block_num() -> int:
    return current.actor.block_dim


def get_block_idx() -> int:
    """In a vector section the vector core's number in the whole launch."""
    actor = current.actor
    return actor.block if actor.cube else actor.block * 2 + get_subblock_idx()


def get_subblock_num() -> int:
    return 2


def get_subblock_idx() -> int:
    return int(current.actor.name == "AIV1")


def make_tensor(
    ptr: Pointer, shape: Sequence[int], stride: Sequence[int] | None = None, dtype: DataType = DT_UINT8
) -> Tensor:
    return Tensor(ptr, shape, stride, dtype)


def make_tile_group(*, type: TileType, addrs: int | Sequence[int], mutex_ids: Sequence[int]) -> TileGroup:
    return TileGroup(f"{type.space.name} tile {'x'.join(map(str, type.shape))} {mutex_ids}", type, addrs, mutex_ids)


def _set_cross_core(*, pipe: PipeType, event_id: int) -> None:
    _operations.set_cross_core(pipe, event_id)


def _wait_cross_core(*, pipe: PipeType, event_id: int) -> None:
    _operations.wait_cross_core(pipe, event_id)


def _barrier(pipe: PipeType) -> Callable[[], None]:
    return lambda: _operations.barrier(pipe)


def _set_mm_layout_transform(*, enabled: bool) -> None:
    """The order in which FIX reads L0C: no influence on results."""


system: Any = SimpleNamespace(
    set_cross_core=_set_cross_core,
    wait_cross_core=_wait_cross_core,
    bar_mte2=_barrier(PipeType.MTE2),
    bar_mte3=_barrier(PipeType.MTE3),
    set_mm_layout_transform=_set_mm_layout_transform,
)

