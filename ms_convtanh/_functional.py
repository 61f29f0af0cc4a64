"""fused_conv_tanh on MindSpore tensors. MindSpore also compiles the plain functions here into graphs."""

from typing import Any

from mindspore import Tensor, ops
from mindspore.ops import constexpr

from ms_convtanh import _custom
from ms_convtanh._library import OPERATOR
from ms_convtanh._problem import Attributes, Ints, check, check_dtype

# The constexpr functions run as Python: when a graph is compiled or, in PyNative mode, at each call. What they are
# given is constant then: dtypes and attributes always, shapes unless they are dynamic.


@constexpr
def _check_dtypes(x: Any, conv_filter: Any, bias: Any, has_bias: bool) -> bool:
    dtypes = {"x": x, "conv_filter": conv_filter} | ({"bias": bias} if has_bias else {})
    for name, dtype in dtypes.items():
        if dtype is None:
            raise TypeError(f"{OPERATOR}: {name} must be a mindspore.Tensor, got something else")
    check_dtype({name: str(dtype).lower() for name, dtype in dtypes.items()})
    return True


@constexpr
def _check_shapes(x: Any, conv_filter: Any, bias: Any, attributes: Any, pad_mode: str) -> bool:
    strides, pads, dilations, groups = attributes
    if (
        pad_mode == "same"
    ):  # fits any kernel; these are the largest pads it may come to, the library knows the exact ones
        pads = [pad for taps, step in zip(conv_filter[2:], dilations, strict=False) for pad in (0, step * (taps - 1))]
    elif pad_mode == "valid":
        pads = 0
    bias_shape = None if bias is None else tuple(bias)
    checked = Attributes.of(len(conv_filter), strides, pads, dilations, groups)
    check("float32", tuple(x), tuple(conv_filter), bias_shape, checked)
    return True


@constexpr
def _primitive(rank: int, attributes: Any, pad_mode: str, has_bias: bool) -> ops.Primitive:
    return _custom.primitive(Attributes.of(rank, *attributes), pad_mode, has_bias)


def _dtype_of(tensor: Any) -> Any:
    if isinstance(tensor, Tensor):
        return tensor.dtype
    return None


def conv_tanh(x: Tensor, conv_filter: Tensor, bias: Tensor | None, attributes: Any, pad_mode: str) -> Tensor:
    """fused_conv_tanh with attributes = (strides, pads, dilations, groups) and the pad_mode of nn.Conv2d.

    "pad" takes the pads, "same" and "valid" put their own in their place.
    """
    has_bias = bias is not None
    _check_dtypes(_dtype_of(x), _dtype_of(conv_filter), _dtype_of(bias), has_bias)
    if ops.isconstant(x.shape) and ops.isconstant(conv_filter.shape):
        _check_shapes(x.shape, conv_filter.shape, None if bias is None else bias.shape, attributes, pad_mode)
    primitive = _primitive(len(conv_filter.shape), attributes, pad_mode, has_bias)
    if has_bias:
        return primitive(x, conv_filter, bias)
    return primitive(x, conv_filter)


def fused_conv_tanh(
    x: Tensor,
    conv_filter: Tensor,
    bias: Tensor | None = None,
    strides: Ints = [1, 1],  # noqa: B006 (never changed)
    pads: Ints = [0, 0, 0, 0],  # noqa: B006
    dilations: Ints = [1, 1],  # noqa: B006
    groups: int = 1,
) -> Tensor:
    """y = tanh(conv2d(x, conv_filter, bias)) as one operator, in PyNative mode and inside graphs.

    Sums and tanh are computed in float32 and rounded once. Dynamic shapes are supported; the attributes are constants.

    Args:
        x: (N, Cin, H, W), or (N, Cin, L) for one spatial axis; float32, float16 or bfloat16.
        conv_filter: (Cout, Cin / groups, KH, KW) or (Cout, Cin / groups, K), of x's dtype.
        bias: (Cout,), of x's dtype.
        strides: [h, w], or [l]; >= 1. An int here and below stands for all entries.
        pads: [top, bottom, left, right] or [h, w]; [left, right] or [l]; >= 0. Pads are zeros.
        dilations: [h, w], or [l]; >= 1.
        groups: Divides Cin and Cout.

    Returns:
        (N, Cout, Ho, Wo) or (N, Cout, Lo) of x's dtype, Ho = (H + top + bottom - dh * (KH - 1) - 1) // sh + 1.

    Raises:
        TypeError: Not tensors, or their dtypes differ or are not supported; attributes that are not ints.
        ValueError: Shapes or attributes that do not fit. Where shapes are dynamic, this is a RuntimeError with the same
            message, when the operator runs.
        RuntimeError: The device target is not CPU, or MindSpore cannot load the library from where it is.
    """
    return conv_tanh(x, conv_filter, bias, (strides, pads, dilations, groups), "pad")
