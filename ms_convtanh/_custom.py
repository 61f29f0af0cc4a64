"""The operator as a MindSpore primitive. The only module that names ops.Custom."""

import os
import threading
from dataclasses import astuple, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import mindspore.common.dtype as mstype
from mindspore import context, ops

from ms_convtanh import _library
from ms_convtanh._library import OPERATOR
from ms_convtanh._problem import Attributes, check, check_dtype

_WHITE_LIST = "MS_CUSTOM_AOT_WHITE_LIST"  # MindSpore's: the folder that custom operators may be loaded from
_NEEDED = {"Ascend": "the CANN operator package of aclnnFusedConvTanh", "GPU": "CUDA kernels"}
_OPERANDS = ("x", "conv_filter", "bias")

# MindSpore mixes up the results of operators that several Python threads start at the same time (nn.Conv2d's as well).
_starting = threading.Lock()


def _registration(attributes: Attributes, pad_mode: str, has_bias: bool) -> dict[str, Any]:
    """Operands, dtypes and attributes for MindSpore. It keys them by the name, so each form needs its own."""
    info = ops.CustomRegOp("FusedConvTanhBias" if has_bias else "FusedConvTanh")
    names = ("x", "filter", "bias") if has_bias else ("x", "filter")
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
    _library.load()  # reports a missing library better than MindSpore does
    if ":" in str(_library.PATH):
        raise RuntimeError(f"{OPERATOR}: MindSpore needs a library path without a colon, got {_library.PATH}")
    folder = os.environ.get(_WHITE_LIST)
    if folder is not None and not _library.PATH.is_relative_to(Path(folder).resolve()):
        raise RuntimeError(f"{OPERATOR}: {_WHITE_LIST} must be a folder that holds {_library.PATH}, got {folder!r}")


def _check_target() -> None:
    target = context.get_context("device_target")
    if target != "CPU":
        raise RuntimeError(
            f"{OPERATOR}: the device target must be CPU, got {target}, which needs {_NEEDED.get(target, 'kernels')} "
            f"that this package does not have; mindspore.set_device('CPU') runs it on the CPU"
        )


class FusedConvTanh(ops.Custom):
    """The primitive: called with x, filter and, if has_bias, bias.

    Args:
        rank: Of filter.
        strides, pads, dilations, groups: As for fused_conv_tanh.
        pad_mode: That of nn.Conv2d. "pad" takes pads, "same" and "valid" put their own in their place.
        has_bias: Whether there is a third operand.
        in_graph: Whether this instance is a node of one graph.

    Raises:
        TypeError: Attributes that are not ints.
        RuntimeError: MindSpore cannot load the library from where it is.
    """

    def __init__(
        self,
        rank: int,
        strides: Any,
        pads: Any,
        dilations: Any,
        groups: Any,
        pad_mode: str,
        has_bias: bool,
        in_graph: bool,
    ) -> None:
        self._arguments = (rank, strides, pads, dilations, groups, pad_mode, has_bias, in_graph)
        self._attributes = Attributes.of(rank, strides, pads, dilations, groups)
        self._pad_mode, self._in_graph = pad_mode, in_graph
        _check_library_path()
        super().__init__(
            f"{_library.PATH}:FusedConvTanh",
            out_shape=None,  # the library infers it: only so do dynamic shapes work
            out_dtype=lambda x, *_: x,
            func_type="aot",
            reg_info=_registration(self._attributes, pad_mode, has_bias),
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> "FusedConvTanh":
        return type(self)(*self._arguments)

    def __call__(self, *operands: Any) -> Any:
        with _starting:
            return super().__call__(*operands)

    def __infer__(self, *operands: dict[str, Any]) -> dict[str, Any]:
        """Called by MindSpore before it runs or compiles the operator, after all casts of mixed precision.

        Raises:
            TypeError, ValueError: As documented for fused_conv_tanh.
            RuntimeError: The device target is not CPU.
        """
        _check_target()
        dtypes, shapes = {}, []
        for name, operand in zip(_OPERANDS, operands, strict=False):
            if not isinstance(operand["dtype"], mstype.TensorType):
                raise TypeError(f"{OPERATOR}: {name} must be a mindspore.Tensor, got {operand['dtype']}")
            dtypes[name] = str(operand["dtype"].element_type()).lower()
            shapes.append(tuple(operand["shape"]))
        dtype = check_dtype(dtypes)
        if all(size >= 0 for shape in shapes for size in shape):
            x, conv_filter, *bias = shapes
            check(dtype, x, conv_filter, bias[0] if bias else None, self._attributes_to_check(conv_filter))
        result = super().__infer__(*operands)
        if self._in_graph:
            # From here on the library infers the dtype as well: a MindIR with dynamic shapes needs that when it is
            # loaded. Not earlier: MindSpore would not have called this function.
            self.add_prim_attr("cpp_infer_type", True)
        return result

    def _attributes_to_check(self, conv_filter: tuple[int, ...]) -> Attributes:
        """With pads that "same" makes at most, so that every kernel fits. The library knows the exact ones."""
        given = self._attributes
        if self._pad_mode == "valid":
            return replace(given, pads=(0,) * len(given.pads))
        if self._pad_mode == "same":
            axes = zip(conv_filter[2:], given.dilations, strict=False)
            return replace(given, pads=tuple(pad for taps, step in axes for pad in (0, step * (taps - 1))))
        return given


@lru_cache(maxsize=1024)
def _kept(attributes: Attributes, rank: int, pad_mode: str, has_bias: bool) -> FusedConvTanh:
    strides, pads, dilations, groups = astuple(attributes)
    return FusedConvTanh(rank, strides, pads, dilations, groups, pad_mode, has_bias, in_graph=False)


def kept_primitive(
    rank: int, strides: Any, pads: Any, dilations: Any, groups: Any, pad_mode: str, has_bias: bool
) -> FusedConvTanh:
    """The instance for PyNative calls with these attributes, made at the first of them."""
    return _kept(Attributes.of(rank, strides, pads, dilations, groups), rank, pad_mode, has_bias)
