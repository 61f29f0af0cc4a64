"""ConvTanh, the operator as a cell."""

from typing import Any

import mindspore.common.dtype as mstype
from mindspore import Tensor, nn, ops

from ms_convtanh import _custom_ascend
from ms_convtanh._custom import FusedConvTanh
from ms_convtanh._functional import any_function, is_compiled


class ConvTanh(nn.Conv2d):
    """tanh(conv2d(x, weight, bias)): replaces `nn.SequentialCell(nn.Conv2d(...), nn.Tanh())`.

    It is an `nn.Conv2d` in all that comes before computing: constructor, checks and their exceptions, parameters, their
    names and their initial values. Checkpoints load both ways. It trains like one: its gradients are those of
    `ms_convtanh.fused_conv_tanh`; `amp.auto_mixed_precision` and `to_float` choose its precision.

    Args:
        in_channels (int): Channels of x.
        out_channels (int): Channels of y.
        kernel_size (Union[int, tuple[int]]): Height and width of the kernel.
        stride (Union[int, tuple[int]]): Steps along height and width. Default: 1.
        pad_mode (str): "same" pads so that y has ceil(size / stride) elements along an axis, an odd pad's larger half
            at the bottom and right; "valid" does not pad; "pad" takes `padding`. Default: "same".
        padding (Union[int, tuple[int]]): For all sides, or (top, bottom, left, right). Zeros. Default: 0.
        dilation (Union[int, tuple[int]]): Distances of the kernel's taps. Default: 1.
        group (int): Divides both channel counts. Default: 1.
        has_bias (bool): Default: False.
        weight_init (Union[Tensor, str, Initializer, numbers.Number]): Initial values. Default: None, as nn.Conv2d.
        bias_init (Union[Tensor, str, Initializer, numbers.Number]): Likewise.
        data_format (str): "NCHW"; as nn.Conv2d on CPUs, "NHWC" raises ValueError. Default: "NCHW".
        dtype (mindspore.dtype): Of the parameters and so of x: float32, float16 or bfloat16. Default: float32.

    Inputs:
        - **x** (Tensor) - (N, in_channels, H, W), of the parameters' dtype.

    Outputs:
        Tensor (N, out_channels, Ho, Wo) of x's dtype.

    Raises:
        TypeError, ValueError: When made, as nn.Conv2d; when called, as `ms_convtanh.fused_conv_tanh`.

    Supported Platforms:
        ``CPU``; ``Ascend`` 950 with CANN and the operator package that `ms-convtanh opp` makes
    """

    frozen = False  # see freeze

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        pad_mode: str = "same",
        padding: Any = 0,
        dilation: Any = 1,
        group: int = 1,
        has_bias: bool = False,
        weight_init: Any = None,
        bias_init: Any = None,
        data_format: str = "NCHW",
        dtype: Any = mstype.float32,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            pad_mode,
            padding,
            dilation,
            group,
            has_bias,
            weight_init,
            bias_init,
            data_format,
            dtype,
        )

    def freeze(self) -> "ConvTanh":
        """Keeps the weights in the packed form that the kernels read, instead of packing them in each call.

        An opt-in for inference, worth it where the weights are many for the pixels. Results are the same bits. It costs
        memory: a copy of the weights and their packed form. Each call compares the copy with the weights and packs anew
        if a byte differs, so weights may still change in any way: loaded, assigned, or updated by another network that
        shares them. While the cell trains (`set_train(True)`) it computes as if it were not frozen. Copies of the cell,
        and MindIR files exported from it, are frozen as well. On Ascend this has no effect.

        In graph mode, a network takes this as it is when it is compiled: call it before the network's first call. It is
        not about gradients, for which there is `requires_grad`.

        Returns:
            This cell.
        """
        self.frozen = True
        self.compile_cache.clear()
        return self

    def unfreeze(self) -> "ConvTanh":
        """Undoes freeze. Returns this cell."""
        self.frozen = False
        self.compile_cache.clear()
        return self

    def construct(self, x: Tensor) -> Tensor:
        # Called here, and not through a function, the primitive gets the casts that Cell.to_float asks for.
        pads, pad_mode = self.padding, self.pad_mode
        if _custom_ascend.is_target():
            pads = _custom_ascend.explicit_pads(pad_mode, pads, x.shape, self.kernel_size, self.stride, self.dilation)
            pad_mode = "pad"
        geometry = (4, self.stride, pads, self.dilation, self.group, pad_mode)
        frozen = self.frozen and not self.training
        operator = FusedConvTanh(geometry, self.has_bias, is_compiled(any_function), frozen)
        if _custom_ascend.is_target():
            bias = self.bias if self.has_bias else ops.zeros((self.out_channels,), x.dtype)
            return operator(x, self.weight, bias, *_custom_ascend.call_values(geometry))
        if self.has_bias:
            return operator(x, self.weight, self.bias)
        return operator(x, self.weight)
