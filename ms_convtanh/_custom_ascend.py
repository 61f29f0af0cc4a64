"""The primitive on Ascend: MindSpore's own path to aclnnFusedConvTanh, and gradients by its convolution operators."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from pathlib import Path
from typing import Any

import mindspore
import mindspore.common.dtype as mstype
from mindspore import context, ops
from mindspore.ops import constexpr
from mindspore.ops.operations import _grad_ops, nn_ops

from ms_convtanh._library import KEEP_DTYPE, OPERATOR
from ms_convtanh._problem import Attributes, Shape, same_pads

ENTRY = "aclnnFusedConvTanh"
OPERANDS = ("x", "filter", "bias")
_HEADER = "op_api/include/aclnn_fused_conv_tanh.h"  # MindSpore reads the prototype out of it
_LIBRARY = "op_api/lib/libcust_opapi.so"


def vendor_packages(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """The folders of custom operators, in the order in which CANN and MindSpore look through them."""
    folders = [Path(path) for path in environment.get("ASCEND_CUSTOM_OPP_PATH", "").split(":") if path]
    if environment.get("ASCEND_OPP_PATH"):
        vendors = Path(environment["ASCEND_OPP_PATH"]) / "vendors"
        config = vendors / "config.ini"
        for line in config.read_text().splitlines() if config.is_file() else ():
            key, _, value = line.partition("=")
            if key.strip() == "load_priority":
                folders += [vendors / name.strip() for name in value.split(",") if name.strip()]
    return folders


def check_ready() -> None:
    """Raises RuntimeError, naming the fix, where the operator cannot run on Ascend."""
    if not os.environ.get("ASCEND_OPP_PATH"):
        raise RuntimeError(f"{OPERATOR}: Ascend needs CANN: ASCEND_OPP_PATH is not set; source CANN's set_env.sh")
    plugin = Path(mindspore.__file__).parent / "lib" / "plugin" / "ascend"
    if not any(plugin.glob("libmindspore_*aclnn*")):
        raise RuntimeError(f"{OPERATOR}: Ascend needs a MindSpore with its Ascend plug-in; {plugin} has none")
    if not any((folder / _HEADER).is_file() and (folder / _LIBRARY).is_file() for folder in vendor_packages()):
        raise RuntimeError(
            f"{OPERATOR}: Ascend needs the operator package: no folder of ASCEND_CUSTOM_OPP_PATH has {_LIBRARY} and "
            f"{_HEADER}; make them with: ms-convtanh opp --output DIR --repository OPS_REPOSITORY"
        )


def registration() -> dict[str, Any]:
    """Operands, dtypes and attributes for MindSpore, in the order of the prototype. The bias is always there.

    MindSpore calls the function by this name, and takes attributes without a value here from the call.
    """
    info = ops.CustomRegOp(ENTRY)
    for index, operand in enumerate(OPERANDS):
        info.input(index, operand, "required")
    info.output(0, "y", "required")
    for dtype in (ops.DataType.F32_Default, ops.DataType.F16_Default, ops.DataType.BF16_Default):
        info.dtype_format(*[dtype] * 4)
    for name in ("strides", "pads", "dilations"):
        info.attr(name, "required", "listInt")
    for name in ("groups", "cubeMathType"):
        info.attr(name, "required", "int")
    return info.target("Ascend").get_op_info()


def arguments(attributes: Attributes) -> dict[str, Any]:
    """What ops.Custom is made with."""
    return {
        "func": ENTRY,
        "out_shape": lambda x, conv_filter, *_: attributes.y_shape(tuple(x), tuple(conv_filter)),
        "out_dtype": lambda first, *_: first,
        "func_type": "aot",
        "bprop": gradients(attributes),
        "reg_info": registration(),
    }


# MindSpore compiles what follows into graphs.


@constexpr
def is_target() -> bool:
    return context.get_context("device_target") == "Ascend"


@constexpr
def call_values(geometry: tuple[Any, ...]) -> tuple[Any, ...]:
    """strides, pads, dilations, groups and cubeMathType as the call takes them, behind the operands."""
    rank, *attributes, _ = geometry
    return (*astuple(Attributes.of(rank, *attributes)), KEEP_DTYPE)


@constexpr
def explicit_pads(pad_mode: str, padding: Any, x: Shape, kernel: Sequence[int], strides: Any, dilations: Any) -> Any:
    """pads of a pad_mode of nn.Conv2d for x of a known shape; CPUs get the mode itself and need no shape."""
    if pad_mode == "pad":
        return padding
    if pad_mode == "valid":
        return (0, 0, 0, 0)
    if min(x[2:]) < 0:
        raise ValueError(f"{OPERATOR}: pad_mode 'same' on Ascend needs a static height and width of x, got {x}")
    pads: tuple[int, ...] = ()
    for size, taps, stride, dilation in zip(x[2:], kernel, strides, dilations, strict=True):
        pads += same_pads(size, dilation * (taps - 1) + 1, stride)
    return pads


def gradients(attributes: Attributes) -> Callable[..., Any]:
    """The gradients of x, filter and bias from MindSpore's own operators, in float32 as on the CPU.

    The attributes are inputs too, whose gradients mean nothing.
    """
    one_axis = len(attributes.strides) == 1
    strides, pads, dilations, groups = astuple(attributes.on_two_axes())

    def bprop(
        x: Any,
        conv_filter: Any,
        bias: Any,
        strides_given: Any,
        pads_given: Any,
        dilations_given: Any,
        groups_given: Any,
        math_given: Any,
        y: Any,
        grad_y: Any,
    ) -> Any:
        y32, x32, filter32 = y.astype(mstype.float32), x.astype(mstype.float32), conv_filter.astype(mstype.float32)
        dz = grad_y.astype(mstype.float32) * (1 - y32) * (1 + y32)
        if one_axis:
            dz, x32, filter32 = dz.expand_dims(2), x32.expand_dims(2), filter32.expand_dims(2)
        channels, _, height, width = filter32.shape
        kernel = (height, width)
        of_x = nn_ops.Conv2DBackpropInput(
            channels, kernel, "pad", pads, pads, stride=strides, dilation=dilations, group=groups
        )(dz, filter32, x32.shape)
        of_filter = _grad_ops.Conv2DBackpropFilter(
            channels, kernel, "pad", pads, pads, stride=strides, dilation=(1, 1, *dilations), group=groups
        )(dz, x32, filter32.shape)
        of_bias = dz.sum((0, 2, 3))
        of_x, of_filter = of_x.reshape(x.shape), of_filter.reshape(conv_filter.shape)
        of_operands = of_x.astype(x.dtype), of_filter.astype(conv_filter.dtype), of_bias.astype(bias.dtype)
        return (*of_operands, strides_given, pads_given, dilations_given, groups_given, math_given)

    return bprop
