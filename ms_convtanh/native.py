"""The operator on NumPy arrays, without MindSpore."""

import ctypes
import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ms_convtanh import _library
from ms_convtanh._library import BACKWARD_OPERATOR, OPERATOR
from ms_convtanh._options import options
from ms_convtanh._problem import Attributes, Ints, View, backward_operands, check, check_dtype, operands
from ms_convtanh._reports import Candidate, Features, Plan, explain, features

__all__ = [
    "Candidate",
    "Features",
    "Plan",
    "explain",
    "features",
    "fused_conv_tanh",
    "fused_conv_tanh_backward",
    "options",
]

_MAX_KEPT_WORKSPACE = 256 * 2**20


class _Workspace(threading.local):
    """Scratch that a thread keeps between its calls."""

    buffer: NDArray[np.uint8] = np.empty(0, np.uint8)

    def of(self, size: int) -> NDArray[np.uint8]:
        if size <= self.buffer.size:
            return self.buffer
        buffer = np.empty(size, np.uint8)
        if size <= _MAX_KEPT_WORKSPACE:
            self.buffer = buffer
        return buffer


_workspace = _Workspace()


def _expressible(name: str, array: Any, caller: str = OPERATOR) -> NDArray[Any]:
    """array, or a copy of it if the library cannot read it in place."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{caller}: {name} must be a numpy.ndarray, got {type(array).__name__}")
    if not array.dtype.isnative:
        raise TypeError(f"{caller}: {name}.dtype must have the machine's byte order, got {array.dtype.str}")
    size = array.itemsize
    in_place = array.flags.aligned and all(stride >= 0 and stride % size == 0 for stride in array.strides)
    return array if in_place or array.size == 0 else np.array(array, order="C")


@cache
def _name(dtype: np.dtype[Any]) -> str:
    return dtype.name  # which NumPy makes anew each time, slowly


def _view(array: NDArray[Any]) -> View:
    if array.flags.c_contiguous:
        return View(array.shape, None, array.ctypes.data)
    return View(array.shape, tuple(stride // array.itemsize for stride in array.strides), array.ctypes.data)


def _run(caller: str, function: str, operands: AbstractContextManager[tuple[Any, ...]]) -> None:
    """Both phases of a C operator. Messages name the caller."""
    library = _library.load()
    phase1, phase2 = getattr(library, f"{function}GetWorkspaceSize"), getattr(library, function)
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    with operands as arguments:
        _library.raise_for_status(phase1(*arguments, ctypes.byref(size), ctypes.byref(executor)), caller)
    try:
        workspace = _workspace.of(size.value)
    except MemoryError:
        library.aclDestroyAclOpExecutor(executor)
        raise
    _library.raise_for_status(phase2(workspace.ctypes.data, size, executor, None), caller)


def fused_conv_tanh(
    x: NDArray[Any],
    conv_filter: NDArray[Any],
    bias: NDArray[Any] | None = None,
    strides: Ints = (1, 1),
    pads: Ints = (0, 0, 0, 0),
    dilations: Ints = (1, 1),
    groups: int = 1,
) -> NDArray[Any]:
    """y = tanh(conv2d(x, conv_filter, bias)).

    y[n, co, i, j] = tanh(bias[co] + sum over ci, kh, kw of
    conv_filter[co, ci, kh, kw] * x[n, g * Cin / groups + ci, i * sh + kh * dh - top, j * sw + kw * dw - left]),
    with x = 0 outside its bounds and g the group of co. Sums and tanh are computed in float32 and rounded once.

    Args:
        x: (N, Cin, H, W), or (N, Cin, L) for one spatial axis. float32, float16 or ml_dtypes.bfloat16; any layout.
        conv_filter: (Cout, Cin / groups, KH, KW) or (Cout, Cin / groups, K), of x's dtype.
        bias: (Cout,), of x's dtype.
        strides: [h, w], or [l]; >= 1. An int here and below stands for all entries.
        pads: [top, bottom, left, right] or [h, w]; [left, right] or [l]; >= 0.
        dilations: [h, w], or [l]; >= 1.
        groups: Divides Cin and Cout.

    Returns:
        A new array (N, Cout, Ho, Wo) or (N, Cout, Lo) of x's dtype,
        Ho = (H + top + bottom - dh * (KH - 1) - 1) // sh + 1.

    Raises:
        TypeError: Not arrays, or their dtypes differ or are not supported; attributes that are not ints.
        ValueError: Shapes or attributes that do not fit. Nothing has run then.

    The GIL is released while it runs. Threads may call it at the same time.
    """
    x, conv_filter = _expressible("x", x), _expressible("conv_filter", conv_filter)
    bias = None if bias is None else _expressible("bias", bias)
    dtypes = {"x": _name(x.dtype), "conv_filter": _name(conv_filter.dtype)}
    dtype = check_dtype(dtypes if bias is None else {**dtypes, "bias": _name(bias.dtype)})
    attributes = Attributes.of(conv_filter.ndim, strides, pads, dilations, groups)
    shape = attributes.y_shape(x.shape, conv_filter.shape)
    try:
        y = np.empty(shape, x.dtype)
    except (MemoryError, OverflowError, ValueError):
        check(dtype, x.shape, conv_filter.shape, None if bias is None else bias.shape, attributes)
        raise
    bias_view = None if bias is None else _view(bias)
    arguments = operands(dtype, _view(x), _view(conv_filter), bias_view, attributes, _view(y))
    _run(OPERATOR, "aclnnFusedConvTanh", arguments)
    return y


def _mask(output_mask: Any) -> tuple[bool, bool, bool]:
    try:
        mask = tuple(output_mask)
    except TypeError:
        mask = (None,)
    if not all(isinstance(entry, bool | np.bool_) for entry in mask):
        raise TypeError(f"{BACKWARD_OPERATOR}: output_mask must be a sequence of bool, got {output_mask!r}")
    if len(mask) != 3:
        raise ValueError(f"{BACKWARD_OPERATOR}: output_mask must have 3 entries, got {output_mask!r}")
    return bool(mask[0]), bool(mask[1]), bool(mask[2])


def fused_conv_tanh_backward(
    grad_y: NDArray[Any],
    y: NDArray[Any],
    x: NDArray[Any],
    conv_filter: NDArray[Any],
    strides: Ints = (1, 1),
    pads: Ints = (0, 0, 0, 0),
    dilations: Ints = (1, 1),
    groups: int = 1,
    output_mask: Sequence[bool] = (True, True, True),
) -> tuple[NDArray[Any] | None, NDArray[Any] | None, NDArray[Any] | None]:
    """The gradients of y = tanh(conv2d(x, conv_filter, bias)) with respect to x, conv_filter and bias.

    With dz = grad_y * (1 - y * y), the gradient of x is the transposed convolution of dz with conv_filter, that of
    conv_filter sums dz times the x that each tap reads over batch and space, and that of bias sums dz. Sums are taken
    in float32, those over batch and space in blocks that are added up in float64, and rounded once. dz is exactly 0
    where y is 1 or -1. Results do not depend on the number of threads.

    Args:
        grad_y: (N, Cout, Ho, Wo) or (N, Cout, Lo), of x's dtype; any layout, here and below.
        y: What `fused_conv_tanh` returned; shaped as grad_y, of x's dtype.
        x: (N, Cin, H, W) or (N, Cin, L). float32, float16 or ml_dtypes.bfloat16.
        conv_filter: (Cout, Cin / groups, KH, KW) or (Cout, Cin / groups, K), of x's dtype.
        strides, pads, dilations, groups: As for `fused_conv_tanh`.
        output_mask: Whether to compute the gradients of x, conv_filter and bias.

    Returns:
        New arrays of x's dtype, shaped as x, as conv_filter and (Cout,); None for each that output_mask leaves out.

    Raises:
        TypeError: Not arrays, or their dtypes differ or are not supported; attributes that are not ints, a mask that is
            not of bool.
        ValueError: Shapes or attributes that do not fit. Nothing has run then.

    The GIL is released while it runs. Threads may call it at the same time.
    """
    given = {"x": x, "conv_filter": conv_filter, "grad_y": grad_y, "y": y}
    arrays = {name: _expressible(name, array, BACKWARD_OPERATOR) for name, array in given.items()}
    dtype = check_dtype({name: _name(array.dtype) for name, array in arrays.items()}, BACKWARD_OPERATOR)
    x, conv_filter, grad_y, y = arrays.values()
    attributes = Attributes.of(conv_filter.ndim, strides, pads, dilations, groups, BACKWARD_OPERATOR)
    shapes = (x.shape, conv_filter.shape, conv_filter.shape[:1])
    wanted = zip(_mask(output_mask), shapes, strict=True)
    grad_x, grad_filter, grad_bias = (np.empty(shape, x.dtype) if wants else None for wants, shape in wanted)
    gradients = tuple(None if array is None else _view(array) for array in (grad_x, grad_filter, grad_bias))
    inputs = (_view(grad_y), _view(y), _view(x), _view(conv_filter))
    arguments = backward_operands(dtype, inputs, attributes, gradients)
    _run(BACKWARD_OPERATOR, "aclnnFusedConvTanhBackward", arguments)
    return grad_x, grad_filter, grad_bias
