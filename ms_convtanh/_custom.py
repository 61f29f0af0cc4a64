"""The operator as a MindSpore primitive. The only module that names ops.Custom."""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import mindspore.common.dtype as mstype
from mindspore import context, ops

from ms_convtanh import _library
from ms_convtanh._library import OPERATOR
from ms_convtanh._problem import Attributes, Shape, check, check_dtype

_WHITE_LIST = "MS_CUSTOM_AOT_WHITE_LIST"  # MindSpore's: the folder that custom operators may be loaded from
_NEEDED = {"Ascend": "the CANN operator package of aclnnFusedConvTanh", "GPU": "CUDA kernels"}

# MindSpore mixes up the results of operators that several Python threads start at the same time (nn.Conv2d's as well).
_starting = threading.Lock()


_DTYPES = (ops.DataType.F32_Default, ops.DataType.F16_Default, ops.DataType.BF16_Default)


def _registration(
    name: str, inputs: Sequence[str], output: str, attributes: Attributes, words: dict[str, str]
) -> dict[str, Any]:
    """Operands, dtypes and attributes for MindSpore. It keys them by the name, so each form needs its own."""
    info = ops.CustomRegOp(name)
    for index, operand in enumerate(inputs):
        info.input(index, operand, "required")
    info.output(0, output, "required")
    for dtype in _DTYPES:
        info.dtype_format(*[dtype] * (len(inputs) + 1))
    info.attr("strides", "required", "listInt", value=list(attributes.strides))
    info.attr("pads", "required", "listInt", value=list(attributes.pads))
    info.attr("dilations", "required", "listInt", value=list(attributes.dilations))
    info.attr("groups", "required", "int", value=attributes.groups)
    for word, value in words.items():
        info.attr(word, "required", "str", value=value)
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


class _Operator(ops.Custom):
    """What both operators share: the library, the checks of dtypes, and the way MindSpore starts them.

    Args:
        entry: The library's function.
        form: A name for MindSpore: entry, and what distinguishes the operands or the output of this instance.
        operands: Names of the inputs in messages.
        output: Name of the output.
        words: Further attributes.
        bprop: The gradient.
        in_graph: Whether this instance is a node of one graph.
    """

    def __init__(
        self,
        entry: str,
        form: str,
        operands: Sequence[str],
        output: str,
        attributes: Attributes,
        words: dict[str, str],
        bprop: Callable[..., Any] | None,
        in_graph: bool,
    ) -> None:
        self._operands, self._attributes, self._in_graph = operands, attributes, in_graph
        _check_library_path()
        super().__init__(
            f"{_library.PATH}:{entry}",
            out_shape=None,  # the library infers it: only so do dynamic shapes work
            out_dtype=lambda first, *_: first,
            func_type="aot",
            bprop=bprop,
            reg_info=_registration(form, operands, output, attributes, words),
        )

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
        for name, operand in zip(self._operands, operands, strict=False):
            if not isinstance(operand["dtype"], mstype.TensorType):
                raise TypeError(f"{OPERATOR}: {name} must be a mindspore.Tensor, got {operand['dtype']}")
            dtypes[name] = str(operand["dtype"].element_type()).lower()
            shapes.append(tuple(operand["shape"]))
        dtype = check_dtype(dtypes)
        if all(size >= 0 for shape in shapes for size in shape):
            self._check_shapes(dtype, *shapes)
        result = super().__infer__(*operands)
        if self._in_graph:
            # From here on the library infers the dtype as well: a MindIR with dynamic shapes needs that when it is
            # loaded. Not earlier: MindSpore would not have called this function.
            self.add_prim_attr("cpp_infer_type", True)
        return result

    def _check_shapes(self, dtype: str, *shapes: Shape) -> None:
        """Checks the shapes of the inputs."""


class FusedConvTanh(_Operator):
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
        self._pad_mode = pad_mode
        attributes = Attributes.of(rank, strides, pads, dilations, groups)
        shared = (rank, strides, pads, dilations, groups, pad_mode)
        super().__init__(
            "FusedConvTanh",
            "FusedConvTanhBias" if has_bias else "FusedConvTanh",
            ("x", "conv_filter", "bias") if has_bias else ("x", "conv_filter"),
            "y",
            attributes,
            {"pad_mode": pad_mode},
            _gradient_in_graphs(shared, has_bias) if in_graph else _gradient(shared),
            in_graph,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> "FusedConvTanh":
        return type(self)(*self._arguments)

    def _check_shapes(self, dtype: str, *shapes: Shape) -> None:
        x, conv_filter, *bias = shapes
        check(dtype, x, conv_filter, bias[0] if bias else None, self._attributes_to_check(conv_filter))

    def _attributes_to_check(self, conv_filter: Shape) -> Attributes:
        """With pads that "same" makes at most, so that every kernel fits. The library knows the exact ones."""
        given = self._attributes
        if self._pad_mode == "valid":
            return replace(given, pads=(0,) * len(given.pads))
        if self._pad_mode == "same":
            axes = zip(conv_filter[2:], given.dilations, strict=False)
            return replace(given, pads=tuple(pad for taps, step in axes for pad in (0, step * (taps - 1))))
        return given


class FusedConvTanhBackward(_Operator):
    """The primitive for one gradient: called with grad_y, y, x and filter.

    Args:
        wanted: Whose gradient: x, filter or bias.
        rank, strides, pads, dilations, groups, pad_mode, in_graph: As for FusedConvTanh.
    """

    def __init__(
        self,
        wanted: str,
        rank: int,
        strides: Any,
        pads: Any,
        dilations: Any,
        groups: Any,
        pad_mode: str,
        in_graph: bool,
    ) -> None:
        self._arguments = (wanted, rank, strides, pads, dilations, groups, pad_mode, in_graph)
        super().__init__(
            "FusedConvTanhBackward",
            f"FusedConvTanhBackward_{wanted}",
            ("grad_y", "y", "x", "conv_filter"),
            f"grad_{wanted}",
            Attributes.of(rank, strides, pads, dilations, groups),
            {"pad_mode": pad_mode, "wanted": wanted},
            None,
            in_graph,
        )

    def __deepcopy__(self, memo: dict[int, Any]) -> "FusedConvTanhBackward":
        return type(self)(*self._arguments)


def _gradient_in_graphs(shared: tuple[Any, ...], has_bias: bool) -> Callable[..., Any]:
    """The gradient of FusedConvTanh inside graphs. MindSpore drops the operators that nothing needs."""
    rank, strides, pads, dilations, groups, pad_mode = shared

    def gradient(wanted: str, operands: Any) -> Any:
        operator = FusedConvTanhBackward(wanted, rank, strides, pads, dilations, groups, pad_mode, True)
        x, conv_filter, y, grad_y = operands
        return operator(grad_y, y, x, conv_filter)

    def without_bias(x: Any, conv_filter: Any, y: Any, grad_y: Any) -> Any:
        operands = (x, conv_filter, y, grad_y)
        return gradient("x", operands), gradient("filter", operands)

    def with_bias(x: Any, conv_filter: Any, bias: Any, y: Any, grad_y: Any) -> Any:
        operands = (x, conv_filter, y, grad_y)
        return gradient("x", operands), gradient("filter", operands), gradient("bias", operands)

    return with_bias if has_bias else without_bias


def _gradient(shared: tuple[Any, ...]) -> Callable[..., Any]:
    """The gradient of FusedConvTanh in PyNative mode."""

    def bprop(*operands: Any) -> Any:
        *inputs, y, grad_y = operands
        x, conv_filter = inputs[:2]
        return tuple(
            kept_backward(wanted, *shared)(grad_y, y, x, conv_filter) if tensor._requires_grad else None
            for wanted, tensor in zip(("x", "filter", "bias"), inputs, strict=False)
        )

    return bprop


@lru_cache(maxsize=1024)
def _kept(attributes: Attributes, rank: int, pad_mode: str, has_bias: bool) -> FusedConvTanh:
    strides, pads, dilations, groups = astuple(attributes)
    return FusedConvTanh(rank, strides, pads, dilations, groups, pad_mode, has_bias, in_graph=False)


@lru_cache(maxsize=1024)
def _kept_backward(wanted: str, attributes: Attributes, rank: int, pad_mode: str) -> FusedConvTanhBackward:
    strides, pads, dilations, groups = astuple(attributes)
    return FusedConvTanhBackward(wanted, rank, strides, pads, dilations, groups, pad_mode, in_graph=False)


def kept_backward(
    wanted: str, rank: int, strides: Any, pads: Any, dilations: Any, groups: Any, pad_mode: str
) -> FusedConvTanhBackward:
    return _kept_backward(wanted, Attributes.of(rank, strides, pads, dilations, groups), rank, pad_mode)


def kept_primitive(
    rank: int, strides: Any, pads: Any, dilations: Any, groups: Any, pad_mode: str, has_bias: bool
) -> FusedConvTanh:
    """The instance for PyNative calls with these attributes, made at the first of them."""
    return _kept(Attributes.of(rank, strides, pads, dilations, groups), rank, pad_mode, has_bias)
