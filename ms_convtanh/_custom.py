"""The operator as a MindSpore primitive. The only module that names ops.Custom."""

import os
from functools import lru_cache
from pathlib import Path
from typing import Any

from mindspore import context, ops

from ms_convtanh import _library
from ms_convtanh._library import OPERATOR
from ms_convtanh._problem import Attributes

_WHITE_LIST = "MS_CUSTOM_AOT_WHITE_LIST"  # MindSpore's: the folder that custom operators may be loaded from


def _registration(attributes: Attributes, pad_mode: str, has_bias: bool) -> dict[str, Any]:
    """Operands, dtypes and attributes for MindSpore. It keys them by the name, so each form needs its own."""
    info = ops.CustomRegOp("FusedConvTanhBias" if has_bias else "FusedConvTanh")
    names = ["x", "filter", "bias"] if has_bias else ["x", "filter"]
    for index, name in enumerate(names):
        info.input(index, name, "required")
    info.output(0, "y", "required")
    for dtype in (ops.DataType.F32_Default, ops.DataType.F16_Default, ops.DataType.BF16_Default):
        info.dtype_format(*[dtype] * (len(names) + 1))
    info.attr("strides", "required", "listInt", value=list(attributes.strides))
    info.attr("pads", "required", "listInt", value=list(attributes.pads))
    info.attr("dilations", "required", "listInt", value=list(attributes.dilations))
    info.attr("groups", "required", "int", value=attributes.groups)
    info.attr("pad_mode", "required", "str", value=pad_mode)
    return info.target("CPU").get_op_info()


def _check_library_path() -> None:
    _library.load()  # a missing library is best reported by us; loaded here, it also stays loaded
    if ":" in str(_library.PATH):
        raise RuntimeError(f"{OPERATOR}: MindSpore needs a library path without a colon, got {_library.PATH}")
    folder = os.environ.get(_WHITE_LIST)
    if folder is not None and not _library.PATH.is_relative_to(Path(folder).resolve()):
        raise RuntimeError(f"{OPERATOR}: {_WHITE_LIST} must be a folder that holds {_library.PATH}, got {folder!r}")


@lru_cache(maxsize=1024)
def _primitive(attributes: Attributes, pad_mode: str, has_bias: bool) -> ops.Primitive:
    _check_library_path()
    return ops.Custom(
        f"{_library.PATH}:FusedConvTanh",
        out_shape=None,  # shape and dtype come from the library: only so do dynamic shapes and MindIR work
        out_dtype=None,
        func_type="aot",
        reg_info=_registration(attributes, pad_mode, has_bias),
    )


def primitive(attributes: Attributes, pad_mode: str, has_bias: bool) -> ops.Primitive:
    """The primitive with these attributes; call it with x, filter and, if has_bias, bias.

    Raises:
        RuntimeError: The device target is not CPU, or MindSpore could not load the library from where it is.
    """
    target = context.get_context("device_target")
    if target != "CPU":
        needed = {"Ascend": "the CANN operator package of aclnnFusedConvTanh, which this package does not hold"}
        raise RuntimeError(
            f"{OPERATOR}: the device target must be CPU, got {target}. "
            f"{target} needs {needed.get(target, 'kernels that this package does not have')}; "
            f"to run on the CPU, call mindspore.set_device('CPU')"
        )
    return _primitive(attributes, pad_mode, has_bias)
