"""MindSpore's operators in float64 with NumPy: what a layer of a network should give.

Each takes the operator's inputs as MindIR lists them and its attributes. A reduction also gives a bound on what float32
accumulation may lose: u * (terms + 1) * sum |a| |b| with u = 2^-24, the first-order bound of a chain of multiply-adds
(Higham, "Accuracy and Stability of Numerical Algorithms", 2002, section 3.1).
"""

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from ms_convtanh import _problem

Array = NDArray[Any]
_UNIT = 2.0**-24  # of float32


class Unknown(Exception):
    """No reference is known for an operator, or for this use of it."""


@dataclass(frozen=True)
class Reference:
    value: Any  # an array, or a tuple of them for an operator with several outputs
    bound: Array | None = None  # of accumulation in float32, if the operator accumulates


Attributes = Mapping[str, Any]
_TABLE: dict[str, Callable[..., Any]] = {}


def _operator(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for name in names:
            _TABLE[name] = function
        return function

    return register


def evaluate(operator: str, attributes: Attributes, inputs: Sequence[Any]) -> Reference:
    """The operator's result in float64.

    Raises:
        Unknown: There is no reference for it.
    """
    if operator not in _TABLE:
        raise Unknown(f"no reference for {operator}")
    with np.errstate(all="ignore"):
        try:
            result = _TABLE[operator](attributes, *inputs)
        except (TypeError, ValueError, IndexError, KeyError) as error:
            raise Unknown(f"no reference for this use of {operator}: {error}") from error
    return result if isinstance(result, Reference) else Reference(result)


# Convolutions


def _windows(x: Array, kernel: Sequence[int], strides: Sequence[int], dilations: Sequence[int]) -> Array:
    """[n, c, ho, wo, kh, kw] of a padded input."""
    extents = tuple(step * (size - 1) + 1 for size, step in zip(kernel, dilations, strict=True))
    windows = sliding_window_view(x, extents, axis=(2, 3))  # type: ignore[call-overload]
    return windows[:, :, :: strides[0], :: strides[1], :: dilations[0], :: dilations[1]]


def _pads(attributes: Attributes, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int]) -> list[int]:
    """[top, bottom, left, right] by pad_mode; pad_list holds those of "pad"."""
    mode = str(attributes["pad_mode"]).lower()
    if mode == "valid":
        return [0, 0, 0, 0]
    if mode == "pad":
        return list(attributes["pad_list"])
    return [pad for axis in zip(sizes, kernel, strides, strict=True) for pad in _problem.same_pads(*axis)]


def _padded(x: Array, pads: Sequence[int], value: float = 0.0) -> Array:
    return np.pad(x, ((0, 0), (0, 0), (pads[0], pads[1]), (pads[2], pads[3])), constant_values=value)


_CHUNK = 2**22  # elements of windows that are multiplied at a time, 32 MiB


def conv2d(x: Array, w: Array, strides: Any, pads: Any, dilations: Any, groups: int) -> Array:
    """The convolution of float64 arrays, pads [top, bottom, left, right]; some output rows at a time."""
    windows = _windows(_padded(x, pads), w.shape[2:], strides, dilations)
    n, co, (ho, wo) = x.shape[0], w.shape[0], windows.shape[2:4]
    filters = w.reshape(groups, co // groups, *w.shape[1:])
    y = np.empty((n, groups, co // groups, ho, wo))
    terms = math.prod(w.shape[1:])
    step = max(1, _CHUNK // max(1, terms * wo))
    for image, group, row in itertools.product(range(n), range(groups), range(0, ho, step)):
        channels = slice(group * w.shape[1], (group + 1) * w.shape[1])
        part = windows[image, channels, row : row + step]
        y[image, group, :, row : row + step] = np.einsum("chwij,ocij->ohw", part, filters[group], optimize=True)
    return y.reshape(n, co, ho, wo)


def _convolution(x: Array, w: Array, strides: Any, pads: Any, dilations: Any, groups: int) -> Reference:
    geometry = (strides, pads, dilations, groups)
    terms = math.prod(w.shape[1:])
    return Reference(conv2d(x, w, *geometry), _UNIT * (terms + 1) * conv2d(np.abs(x), np.abs(w), *geometry))


@_operator("Conv2D")
def _conv2d(attributes: Attributes, x: Array, w: Array) -> Reference:
    strides, dilations = attributes["stride"][-2:], attributes["dilation"][-2:]
    extents = [step * (size - 1) + 1 for size, step in zip(w.shape[2:], dilations, strict=True)]
    return _convolution(x, w, strides, _pads(attributes, x.shape[2:], extents, strides), dilations, attributes["group"])


@_operator("FusedConvTanh")
def _fused_conv_tanh(attributes: Attributes, x: Array, w: Array, bias: Array | None = None) -> Reference:
    one_axis = x.ndim == 3
    if one_axis:
        x, w = x[:, :, None], w[:, :, None]
    strides, pads, dilations = (tuple(attributes[name]) for name in ("strides", "pads", "dilations"))
    given = _problem.Attributes(strides, pads, dilations, attributes["groups"])
    strides, pads, dilations, groups = astuple(given.on_two_axes())
    extents = [step * (size - 1) + 1 for size, step in zip(w.shape[2:], dilations, strict=True)]
    by_mode = _pads({"pad_mode": attributes["pad_mode"], "pad_list": pads}, x.shape[2:], extents, strides)
    sums = _convolution(x, w, strides, by_mode, dilations, groups)
    y, bound = sums.value, sums.bound
    if bias is not None:
        y = y + bias[:, None, None]
    y = np.tanh(y)  # whose slope is at most 1: the bound on the sums holds for y
    return Reference(y[:, :, 0], None if bound is None else bound[:, :, 0]) if one_axis else Reference(y, bound)


@_operator("Conv2DTranspose", "Conv2DBackpropInput")
def _conv2d_transpose(attributes: Attributes, x: Array, w: Array, shape: Sequence[int]) -> Reference:
    strides, dilations, groups = attributes["stride"][-2:], attributes["dilation"][-2:], attributes["group"]
    extents = [step * (size - 1) + 1 for size, step in zip(w.shape[2:], dilations, strict=True)]
    pads = _pads(attributes, shape[2:], extents, strides)

    def apply(x: Array, w: Array) -> Array:
        n, ci, h, wi = x.shape
        full = np.zeros((n, groups, w.shape[1], shape[2] + pads[0] + pads[1], shape[3] + pads[2] + pads[3]))
        parts = x.reshape(n, groups, ci // groups, h, wi)
        filters = w.reshape(groups, ci // groups, *w.shape[1:])
        for i, j in np.ndindex(*w.shape[2:]):
            rows = slice(i * dilations[0], i * dilations[0] + (h - 1) * strides[0] + 1, strides[0])
            columns = slice(j * dilations[1], j * dilations[1] + (wi - 1) * strides[1] + 1, strides[1])
            full[..., rows, columns] += np.einsum("ngchw,gco->ngohw", parts, filters[..., i, j], optimize=True)
        inner = full[..., pads[0] : pads[0] + shape[2], pads[2] : pads[2] + shape[3]]
        return inner.reshape(n, -1, shape[2], shape[3])

    terms = w.shape[0] // groups * w.shape[2] * w.shape[3]
    return Reference(apply(x, w), _UNIT * (terms + 1) * apply(np.abs(x), np.abs(w)))


# Matrices, pooling, normalisation


@_operator("MatMul", "BatchMatMul")
def _matmul(_: Attributes, a: Array, b: Array, transpose_a: bool = False, transpose_b: bool = False) -> Reference:
    a = a.swapaxes(-1, -2) if transpose_a else a
    b = b.swapaxes(-1, -2) if transpose_b else b
    return Reference(a @ b, _UNIT * (a.shape[-1] + 1) * (np.abs(a) @ np.abs(b)))


@_operator("Dense")
def _dense(_: Attributes, x: Array, w: Array, bias: Array | None = None) -> Reference:
    y = x @ w.T
    return Reference(y if bias is None else y + bias, _UNIT * (w.shape[1] + 1) * (np.abs(x) @ np.abs(w.T)))


def _pool(x: Array, kernel: Any, strides: Any, mode: Any, fill: float) -> Array:
    kernel, strides = kernel[-2:], strides[-2:]
    word = {1: "same", 2: "valid"}.get(mode, mode)
    if str(word).lower() not in ("same", "valid"):
        raise ValueError(f"pad_mode {mode}")
    return _windows(_padded(x, _pads({"pad_mode": word}, x.shape[2:], kernel, strides), fill), kernel, strides, (1, 1))


@_operator("AvgPool")
def _average_pool(_: Attributes, x: Array, kernel: Any, strides: Any, mode: Any, layout: int) -> Reference:
    if layout != 0:
        raise ValueError("data_format")
    mean = np.nanmean(_pool(x, kernel, strides, mode, np.nan), axis=(4, 5))  # pads are not counted
    size = np.nanmean(_pool(np.abs(x), kernel, strides, mode, np.nan), axis=(4, 5))
    return Reference(mean, _UNIT * (math.prod(kernel[-2:]) + 1) * size)


@_operator("MaxPool")
def _max_pool(attributes: Attributes, x: Array) -> Array:
    return _pool(x, attributes["kernel_size"], attributes["strides"], attributes["pad_mode"], -np.inf).max((4, 5))


def _normalised(x: Array, axes: tuple[int, ...], epsilon: float) -> tuple[Array, Array, Array]:
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + epsilon), mean, variance


def _accumulated(x: Array, y: Array, terms: int) -> Reference:
    """A normalised y; its mean and variance are sums over `terms` elements of x."""
    return Reference((y,), _UNIT * (terms + 1) * np.maximum(np.abs(y), 1.0) * (np.abs(x).max(initial=0.0) + 1.0))


@_operator("BatchNorm")
def _batch_norm(
    _: Attributes, x: Array, scale: Array, shift: Array, mean: Array, variance: Array, training: bool, epsilon: float,
    *__: Any,
) -> Reference:  # fmt: skip
    if training:
        raise ValueError("training")
    channels = (1, -1) + (1,) * (x.ndim - 2)
    factor = (scale / np.sqrt(variance + epsilon)).reshape(channels)
    y = (x - mean.reshape(channels)) * factor + shift.reshape(channels)
    size = (np.abs(x) + np.abs(mean).reshape(channels)) * np.abs(factor) + np.abs(shift).reshape(channels)
    return Reference((y,), 8 * _UNIT * size)  # a handful of roundings


@_operator("GroupNorm")
def _group_norm(_: Attributes, x: Array, groups: int, scale: Array, shift: Array, epsilon: float) -> Reference:
    parts = x.reshape(x.shape[0], groups, -1)
    normal, _mean, _variance = _normalised(parts, (2,), epsilon)
    channels = (1, -1) + (1,) * (x.ndim - 2)
    y = normal.reshape(x.shape) * scale.reshape(channels) + shift.reshape(channels)
    return _accumulated(x, y, parts.shape[2])


@_operator("LayerNorm")
def _layer_norm(_: Attributes, x: Array, scale: Array, shift: Array, axis: int, __: int, epsilon: float) -> Reference:
    axes = tuple(range(axis % x.ndim, x.ndim))
    normal, _mean, _variance = _normalised(x, axes, epsilon)
    return _accumulated(x, normal * scale + shift, math.prod(x.shape[i] for i in axes))


def _axes(axis: Any) -> tuple[int, ...] | None:
    return None if axis is None or axis == () else tuple(np.atleast_1d(axis).tolist())


@_operator("ReduceMean", "MeanExt")
def _mean(_: Attributes, x: Array, axis: Any = None, keep: bool = False, *__: Any) -> Reference:
    y = x.mean(_axes(axis), keepdims=bool(keep))
    return Reference(y, _UNIT * (x.size // max(y.size, 1) + 1) * np.abs(x).mean(_axes(axis), keepdims=bool(keep)))


@_operator("ReduceSum", "SumExt")
def _sum(_: Attributes, x: Array, axis: Any = None, keep: bool = False, *__: Any) -> Reference:
    y = x.sum(_axes(axis), keepdims=bool(keep))
    return Reference(y, _UNIT * (x.size // max(y.size, 1) + 1) * np.abs(x).sum(_axes(axis), keepdims=bool(keep)))


@_operator("Softmax")
def _softmax(_: Attributes, x: Array, axis: Any = -1) -> Array:
    axes = _axes(axis)
    powers = np.exp(x - x.max(axes, keepdims=True))
    return powers / powers.sum(axes, keepdims=True)


# Elementwise


@_operator("BiasAdd")
def _bias_add(_: Attributes, x: Array, bias: Array, *__: Any) -> Array:
    return x + bias.reshape((1, -1) + (1,) * (x.ndim - 2))


def _gelu(x: Array) -> Array:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


_ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "Abs": np.abs,
    "Add": np.add,
    "AddExt": lambda a, b, alpha=1: a + alpha * b,
    "Div": np.divide,
    "Exp": np.exp,
    "GeLU": _gelu,
    "Log": np.log,
    "Maximum": np.maximum,
    "Minimum": np.minimum,
    "Mul": np.multiply,
    "Muls": np.multiply,
    "Neg": np.negative,
    "Pow": np.power,
    "ReLU": lambda x: np.maximum(x, 0),
    "ReLU6": lambda x: np.clip(x, 0, 6),
    "RealDiv": np.divide,
    "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Sigmoid": lambda x: 0.5 * (1 + np.tanh(0.5 * x)),
    "Sqrt": np.sqrt,
    "Square": np.square,
    "Sub": np.subtract,
    "SubExt": lambda a, b, alpha=1: a - alpha * b,
    "Tanh": np.tanh,
}
for _name, _function in _ELEMENTWISE.items():
    _TABLE[_name] = lambda _, *inputs, function=_function: function(*inputs)


# Places, not values

_FLOATS = (42, 43, 44, 45)  # TypeId of float16, float32, float64 and bfloat16: a float64 run stays in float64

_TABLE.update(
    {
        "Cast": lambda _, x, kind: x if kind in _FLOATS else np.trunc(x),
        "ExpandDims": lambda _, x, axis: np.expand_dims(x, axis),
        "Flatten": lambda _, x: x.reshape(x.shape[0], -1),
        "Identity": lambda _, x: x,
        "MakeTuple": lambda _, *inputs: inputs,
        "Squeeze": lambda a, x: np.squeeze(x, _axes(a.get("axis"))),
        "Transpose": lambda _, x, order: np.transpose(x, order),
        "TupleGetItem": lambda _, x, index: x[index],
    }
)  # fmt: skip


@_operator("Concat")
def _concat(_: Attributes, *inputs: Any) -> Array:
    arrays = inputs[0] if isinstance(inputs[0], tuple) else inputs[:-1]
    return np.concatenate(arrays, inputs[-1])


@_operator("Reshape")
def _reshape(_: Attributes, x: Array, shape: Any) -> Array:
    return x.reshape(tuple(np.atleast_1d(shape).astype(np.int64)))


@_operator("MirrorPad")
def _mirror_pad(attributes: Attributes, x: Array, pads: Array) -> Array:
    mode = {"REFLECT": "reflect", "SYMMETRIC": "symmetric"}[attributes["mode"]]
    return np.pad(x, np.asarray(pads, np.int64), mode=mode)  # type: ignore[call-overload]


@_operator("StridedSlice")
def _strided_slice(_: Attributes, x: Array, begin: Any, end: Any, step: Any, *masks: int) -> Array:
    begin_mask, end_mask, *others = (*masks, 0, 0)[: max(2, len(masks))]
    if any(others):
        raise ValueError("masks")
    return x[
        tuple(
            slice(None if begin_mask >> i & 1 else first, None if end_mask >> i & 1 else last, by)
            for i, (first, last, by) in enumerate(zip(begin, end, step, strict=True))
        )
    ]
