"""The operator on NumPy arrays, without MindSpore."""

import ctypes
import threading
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ms_convtanh import _library
from ms_convtanh._library import OPERATOR
from ms_convtanh._options import options
from ms_convtanh._problem import Attributes, Ints, View, check, check_dtype, operands
from ms_convtanh._reports import Features, Plan, explain, features

__all__ = ["Features", "Plan", "explain", "features", "fused_conv_tanh", "options"]

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


def _expressible(name: str, array: Any) -> NDArray[Any]:
    """array, or a copy of it if the library cannot read it in place."""
    if not isinstance(array, np.ndarray):
        raise TypeError(f"{OPERATOR}: {name} must be a numpy.ndarray, got {type(array).__name__}")
    if not array.dtype.isnative:
        raise TypeError(f"{OPERATOR}: {name}.dtype must have the machine's byte order, got {array.dtype.str}")
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
    library = _library.load()
    size, executor = ctypes.c_uint64(), ctypes.c_void_p()
    bias_view = None if bias is None else _view(bias)
    with operands(dtype, _view(x), _view(conv_filter), bias_view, attributes, _view(y)) as arguments:
        _library.raise_for_status(
            library.aclnnFusedConvTanhGetWorkspaceSize(*arguments, ctypes.byref(size), ctypes.byref(executor))
        )
    try:
        workspace = _workspace.of(size.value)
    except MemoryError:
        library.aclDestroyAclOpExecutor(executor)
        raise
    _library.raise_for_status(library.aclnnFusedConvTanh(workspace.ctypes.data, size, executor, None))
    return y
