"""Shapes and attributes of one call, checked by the same code as the C operator's."""

import ctypes
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from numbers import Integral
from typing import Any

import numpy as np

from ms_convtanh import _library
from ms_convtanh._library import OPERATOR

Ints = int | Sequence[int]
Shape = tuple[int, ...]

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


def to_int(name: str, value: Any, caller: str = OPERATOR) -> int:
    """value as a Python int that fits int64. A bool is not an int here."""
    try:
        if isinstance(value, bool | np.bool_):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{caller}: {name} must be of int, got {type(value).__name__} {value!r}") from None
    if not _INT64_MIN <= number <= _INT64_MAX:
        raise ValueError(f"{caller}: {name} must fit 64 bits, got {number}")
    return number


def to_ints(name: str, values: Any, caller: str = OPERATOR) -> tuple[int, ...]:
    """values, a sequence of ints, as a tuple."""
    try:
        if isinstance(values, str | bytes | Mapping | Set):
            raise TypeError
        items = tuple(values)
    except TypeError:
        kind = type(values).__name__
        raise TypeError(f"{caller}: {name} must be an int or a sequence of int, got {kind} {values!r}") from None
    return tuple(to_int(name, item, caller) for item in items)


def _for_axes(name: str, values: Any, count: int, default: tuple[int, ...], caller: str) -> tuple[int, ...]:
    """One entry per axis or side. An int stands for all of them, the defaults of 2-D for those of 1-D."""
    if isinstance(values, Integral):
        return (to_int(name, values, caller),) * count
    entries = to_ints(name, values, caller)
    return entries[:count] if entries == default and count < len(default) else entries


@dataclass(frozen=True)
class Attributes:
    """The operator's attributes as plain ints. How many there must be, and of what size, the library checks."""

    strides: tuple[int, ...]
    pads: tuple[int, ...]
    dilations: tuple[int, ...]
    groups: int

    @classmethod
    def of(
        cls, rank: int, strides: Ints, pads: Ints, dilations: Ints, groups: int, caller: str = OPERATOR
    ) -> "Attributes":
        """From a caller's arguments, for a filter of the given rank. Messages name the caller.

        Raises:
            TypeError: Not ints.
            ValueError: Beyond 64 bits.
        """
        axes = 1 if rank == 3 else 2
        return cls(
            _for_axes("strides", strides, axes, (1, 1), caller),
            _for_axes("pads", pads, 2 * axes, (0, 0, 0, 0), caller),
            _for_axes("dilations", dilations, axes, (1, 1), caller),
            to_int("groups", groups, caller),
        )

    @property
    def each_side(self) -> tuple[int, ...]:
        """pads with a value for each side of each axis."""
        if len(self.pads) > len(self.strides):
            return self.pads
        return tuple(pad for pad in self.pads for _ in range(2))

    def on_two_axes(self) -> "Attributes":
        """Those of the same problem on (N, C, H, W), with pads for each side: (N, C, L) is (N, C, 1, L)."""
        if len(self.strides) == 2:
            return replace(self, pads=self.each_side)
        return Attributes((1, *self.strides), (0, 0, *self.each_side), (1, *self.dilations), self.groups)

    def y_shape(self, x: Shape, filter_shape: Shape) -> Shape:
        """Shape of y, the formula of the operator. Wrong arguments give some shape that the library then refuses."""
        y = [*x[:1], *filter_shape[:1], *[0] * (len(x) - 2)]
        axes = zip(x[2:], filter_shape[2:], self.strides, self.dilations, strict=False)
        for axis, (size, taps, stride, dilation) in enumerate(axes):
            room = size + sum(self.each_side[2 * axis : 2 * axis + 2]) - dilation * (taps - 1) - 1
            steps = room // max(stride, 1) + 1
            y[axis + 2] = steps if 0 <= steps < 2**40 else 0
        return tuple(y)


def same_pads(size: int, extent: int, stride: int) -> tuple[int, int]:
    """The pads of pad_mode "same" before and behind an axis, for a dilated kernel of this extent."""
    missing = max((-(-size // stride) - 1) * stride + extent - size, 0)
    return missing // 2, missing - missing // 2


@dataclass(frozen=True)
class View:
    """A tensor for the library: memory by its address, strides in elements, None for a contiguous one."""

    shape: Shape
    strides: Shape | None = None
    address: int | None = None

    def extent(self) -> int:
        """Elements from the first one to behind the last one."""
        if 0 in self.shape:
            return 0
        if self.strides is None:
            return -1
        return 1 + sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))


def _int64s(values: Sequence[int]) -> Any:
    return (ctypes.c_int64 * len(values))(*values)


class _Handles:
    """Tensors and arrays of the library, until close()."""

    def __init__(self, dtype: str, rank: int) -> None:
        self._library = _library.load()
        self._dtype = _library.ACL_DTYPES[dtype]
        self._format = _library.ACL_FORMAT_NCL if rank == 3 else _library.ACL_FORMAT_NCHW
        self._created: list[tuple[Callable[[Any], int], int]] = []

    def _keep(self, destroy: Callable[[Any], int], handle: int | None) -> int:
        if handle is None:
            raise MemoryError(f"{OPERATOR}: {(self._library.aclGetRecentErrMsg() or b'out of memory').decode()}")
        self._created.append((destroy, handle))
        return handle

    def tensor(self, view: View | None) -> int | None:
        if view is None:
            return None
        shape, rank = _int64s(view.shape), len(view.shape)
        strides, storage, storage_rank = None, shape, rank
        if view.strides is not None:
            strides, storage, storage_rank = _int64s(view.strides), _int64s([view.extent()]), 1
        create, destroy = self._library.aclCreateTensor, self._library.aclDestroyTensor
        arguments = (shape, rank, self._dtype, strides, 0, self._format, storage, storage_rank, view.address)
        return self._keep(destroy, create(*arguments))

    def ints(self, values: Sequence[int]) -> int:
        create, destroy = self._library.aclCreateIntArray, self._library.aclDestroyIntArray
        return self._keep(destroy, create(_int64s(values), len(values)))

    def bools(self, values: Sequence[bool]) -> int:
        create, destroy = self._library.aclCreateBoolArray, self._library.aclDestroyBoolArray
        return self._keep(destroy, create((ctypes.c_bool * len(values))(*values), len(values)))

    def attributes(self, attributes: Attributes) -> tuple[int, ...]:
        arrays = (self.ints(attributes.strides), self.ints(attributes.pads), self.ints(attributes.dilations))
        return (*arrays, attributes.groups, _library.KEEP_DTYPE)

    def close(self) -> None:
        for destroy, handle in self._created:
            destroy(handle)


@contextmanager
def operands(
    dtype: str, x: View, conv_filter: View, bias: View | None, attributes: Attributes, y: View
) -> Iterator[tuple[Any, ...]]:
    """The arguments that phase 1 and explain share, alive inside the with block."""
    with closing(_Handles(dtype, len(x.shape))) as handles:
        inputs = [handles.tensor(view) for view in (x, conv_filter, bias)]
        yield (*inputs, *handles.attributes(attributes), handles.tensor(y))


@contextmanager
def backward_operands(
    dtype: str, inputs: Sequence[View], attributes: Attributes, gradients: Sequence[View | None]
) -> Iterator[tuple[Any, ...]]:
    """The arguments of the backward operator's phase 1, alive inside the with block.

    Args:
        dtype: Of all tensors.
        inputs: gradY, y, x, filter.
        attributes: The forward operator's.
        gradients: gradX, gradFilter, gradBias; None for those that are not wanted.
    """
    with closing(_Handles(dtype, len(inputs[2].shape))) as handles:
        tensors = [handles.tensor(view) for view in inputs]
        mask = handles.bools([view is not None for view in gradients])
        yield (*tensors, *handles.attributes(attributes), mask, *(handles.tensor(view) for view in gradients))


def plan_of(dtype: str, x: Shape, conv_filter: Shape, bias: Shape | None, attributes: Attributes) -> _library.Plan:
    """How the problem would run; makes all checks of phase 1.

    Raises:
        ValueError: An argument is wrong.
    """
    plan = _library.Plan()
    y = View(attributes.y_shape(x, conv_filter))
    with operands(dtype, View(x), View(conv_filter), None if bias is None else View(bias), attributes, y) as arguments:
        _library.raise_for_status(_library.load().msctExplainFusedConvTanh(*arguments, ctypes.byref(plan)))
    return plan


def check_dtype(dtypes: dict[str, str], caller: str = OPERATOR) -> str:
    """The one dtype of all operands, given by name.

    Raises:
        TypeError: They differ, or the library does not compute in it.
    """
    (first, dtype), *others = dtypes.items()
    if dtype not in _library.ACL_DTYPES:
        raise TypeError(f"{caller}: {first}.dtype must be float32, float16 or bfloat16, got {dtype}")
    for name, other in others:
        if other != dtype:
            raise TypeError(f"{caller}: {name}.dtype must be {first}.dtype = {dtype}, got {other}")
    return dtype


@lru_cache(maxsize=4096)
def check(dtype: str, x: Shape, conv_filter: Shape, bias: Shape | None, attributes: Attributes) -> None:
    """Makes all checks of phase 1 that need no data. Remembers what passed.

    Raises:
        ValueError: An argument is wrong.
    """
    plan_of(dtype, x, conv_filter, bias, attributes)
