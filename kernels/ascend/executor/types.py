"""The names of the `pl` subset: data types, enumerations, tile types, and integers as the generated C++ has them."""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np


class ExecutorError(Exception):
    """The kernel does what hardware would get wrong, or what the executor's subset of `pl` does not have."""


@dataclass(frozen=True)
class DataType:
    """An element type of tensors and tiles."""

    name: str
    numpy: np.dtype

    @property
    def size(self) -> int:
        return self.numpy.itemsize

    def __repr__(self) -> str:
        return self.name


DT_FP32 = DataType("DT_FP32", np.dtype(np.float32))
DT_FP16 = DataType("DT_FP16", np.dtype(np.float16))
DT_BF16 = DataType("DT_BF16", np.dtype(ml_dtypes.bfloat16))
DT_INT32 = DataType("DT_INT32", np.dtype(np.int32))
DT_UINT8 = DataType("DT_UINT8", np.dtype(np.uint8))
BY_NUMPY = {dtype.numpy: dtype for dtype in (DT_FP32, DT_FP16, DT_BF16, DT_INT32, DT_UINT8)}


class MemorySpace(enum.Enum):
    """Bytes and address alignment on Ascend 950, from the vendor's platform files and its compiler's checks."""

    Mat = ("L1", 524288, 32)
    Left = ("L0A", 65536, 512)
    Right = ("L0B", 65536, 512)
    Acc = ("L0C", 262144, 64)
    Vec = ("UB", 253952, 32)

    def __init__(self, buffer: str, capacity: int, alignment: int) -> None:
        self.buffer = buffer
        self.capacity = capacity
        self.alignment = alignment


Pipe = enum.Enum("Pipe", "MTE1 MTE2 MTE3 M V FIX S")
AccPhase = enum.Enum("AccPhase", "Partial Final")
STPhase = enum.Enum("STPhase", "Partial Final")
RoundMode = enum.Enum("RoundMode", "CAST_NONE CAST_RINT CAST_ROUND CAST_FLOOR CAST_CEIL CAST_TRUNC CAST_ODD")
AccToVecMode = enum.Enum("AccToVecMode", "SingleModeVec0 SingleModeVec1 DualModeSplitM DualModeSplitN")


class TileType:
    """Shape, element type and place of a tile; valid_shape [-1, -1]: set at run time by set_validshape."""

    def __init__(
        self,
        shape: Sequence[int],
        dtype: DataType,
        target_memory: MemorySpace = MemorySpace.Vec,
        valid_shape: Sequence[int] | None = None,
        fractal: int | None = None,
        compact: int | None = None,
    ) -> None:
        self.shape = (int(shape[0]), int(shape[1]))
        self.dtype = dtype
        self.space = target_memory
        self.dynamic = valid_shape is not None and tuple(valid_shape) == (-1, -1)
        self.compact = compact == 1
        rows, columns = self.shape
        if valid_shape is not None and not self.dynamic:
            raise ExecutorError("TileType: the executor knows valid_shape [-1, -1] only")
        if target_memory is MemorySpace.Vec:
            if columns * dtype.size % 32:
                raise ExecutorError(f"TileType: a Vec row of {columns} x {dtype} is no multiple of 32 bytes")
        elif rows % 16 or columns % 16:
            raise ExecutorError(f"TileType: {rows} x {columns} in {target_memory.name} is no multiple of 16 x 16")
        if fractal is not None and fractal != 1024:
            raise ExecutorError("TileType: the executor knows fractal 1024 only")

    @property
    def bytes(self) -> int:
        return self.shape[0] * self.shape[1] * self.dtype.size


class Unsigned(int):
    """A loop variable: uint64_t in the generated code, and so is whatever is computed from it by operators.

    A negative result would wrap around there; here it is an error.
    """

    def __repr__(self) -> str:
        return f"{int(self)}u"


def _unsigned(function: Callable[[int, int], int], symbol: str, reflected: bool) -> Callable[[Any, Any], Any]:
    def method(self: Unsigned, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        left, right = (int(other), int(self)) if reflected else (int(self), int(other))
        if left < 0 or right < 0:
            raise ExecutorError(f"unsigned arithmetic: {left} {symbol} {right} has a negative operand")
        result = function(left, right)
        if result < 0:
            raise ExecutorError(f"unsigned arithmetic: {left} {symbol} {right} is negative, 2^64 is added to it")
        return Unsigned(result)

    return method


def _compared(function: Callable[[int, int], bool], symbol: str) -> Callable[[Any, Any], Any]:
    def method(self: Unsigned, other: Any) -> Any:
        if not isinstance(other, int):
            return NotImplemented
        if other < 0:
            raise ExecutorError(f"unsigned comparison: {int(self)} {symbol} {int(other)} adds 2^64 to the right")
        return function(int(self), int(other))

    return method


for _name, _symbol in (("add", "+"), ("sub", "-"), ("mul", "*"), ("floordiv", "//"), ("mod", "%")):
    _function = getattr(operator, _name)
    setattr(Unsigned, f"__{_name}__", _unsigned(_function, _symbol, False))
    setattr(Unsigned, f"__r{_name}__", _unsigned(_function, _symbol, True))
for _name, _symbol in (("lt", "<"), ("le", "<="), ("gt", ">"), ("ge", ">=")):
    setattr(Unsigned, f"__{_name}__", _compared(getattr(operator, _name), _symbol))
