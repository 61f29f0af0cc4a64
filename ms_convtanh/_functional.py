"""fused_conv_tanh on MindSpore tensors. MindSpore also compiles the plain functions here into graphs."""

from typing import Any

from mindspore import Tensor, ops
from mindspore.ops import constexpr

from ms_convtanh import _custom_ascend
from ms_convtanh._custom import FusedConvTanh
from ms_convtanh._library import OPERATOR
from ms_convtanh._problem import Ints


@constexpr
def _check_tensors(x: bool, conv_filter: bool, bias: bool) -> bool:
    for name, is_tensor in (("x", x), ("conv_filter", conv_filter), ("bias", bias)):
        if not is_tensor:
            raise TypeError(f"{OPERATOR}: {name} must be a mindspore.Tensor, got something else")
    return True


@constexpr(check=False)
def is_compiled(function: Any) -> bool:
    return function is None  # a graph cannot hand a Python function to a constexpr


def any_function() -> None:
    return None


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

    It can be differentiated any number of times. The gradients of x, conv_filter and bias are operators of their own
    (aclnnFusedConvTanhBackward): those that nothing needs, such as that of a frozen weight, are not computed. Elements
    of y that are 1 or -1 add exactly 0 to them.

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
        RuntimeError: The device target is not CPU or Ascend; MindSpore cannot load the library from where it is; on
            Ascend, CANN, MindSpore's plug-in or the operator package is missing: the message names what and the cure.

    Threads may call it at the same time in PyNative mode. MindSpore itself runs compiled graphs (graph mode,
    @ms.jit) one call at a time only.
    """
    has_bias = bias is not None
    _check_tensors(isinstance(x, Tensor), isinstance(conv_filter, Tensor), not has_bias or isinstance(bias, Tensor))
    geometry = (len(conv_filter.shape), strides, pads, dilations, groups, "pad")
    operator = FusedConvTanh(geometry, has_bias, is_compiled(any_function))
    if _custom_ascend.is_target():
        given = bias if has_bias else ops.zeros((conv_filter.shape[0],), x.dtype)
        return operator(x, conv_filter, given, *_custom_ascend.call_values(geometry))
    if has_bias:
        return operator(x, conv_filter, bias)
    return operator(x, conv_filter)
