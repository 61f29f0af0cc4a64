"""The operator as a MindSpore primitive. The only module that names ops.Custom."""

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import astuple, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import mindspore.common.dtype as mstype
from mindspore import Parameter, context, jit, ops
from mindspore.graph.api import _pynative_executor
from mindspore.train import amp

from ms_convtanh import _custom_ascend, _library
from ms_convtanh._library import OPERATOR
from ms_convtanh._problem import Attributes, Shape, check, check_dtype

_WHITE_LIST = "MS_CUSTOM_AOT_WHITE_LIST"  # MindSpore's: the folder that custom operators may be loaded from

# MindSpore mixes up the results of operators that several Python threads start at the same time (nn.Conv2d's as well).
_starting = threading.Lock()


# (rank of filter, strides, pads, dilations, groups, pad_mode), the attributes as a caller may give them. pad_mode is
# that of nn.Conv2d: "pad" takes pads, "same" and "valid" put their own in their place.
Geometry = tuple[int, Any, Any, Any, Any, str]


def _plain(geometry: Geometry) -> Geometry:
    """geometry with its attributes as ints and tuples of ints.

    Raises:
        TypeError, ValueError: As Attributes.of.
    """
    rank, *attributes, pad_mode = geometry
    return rank, *astuple(Attributes.of(rank, *attributes)), pad_mode


def _registration(
    form: str, operands: Sequence[str], output: str, attributes: Attributes, words: dict[str, str]
) -> dict[str, Any]:
    """Operands, dtypes and attributes for MindSpore. It keys them by the name, so each form needs its own."""
    info = ops.CustomRegOp(form)
    for index, operand in enumerate(operands):
        info.input(index, operand, "required")
    info.output(0, output, "required")
    for dtype in (ops.DataType.F32_Default, ops.DataType.F16_Default, ops.DataType.BF16_Default):
        info.dtype_format(*[dtype] * (len(operands) + 1))
    info.attr("strides", "required", "listInt", value=list(attributes.strides))
    info.attr("pads", "required", "listInt", value=list(attributes.pads))
    info.attr("dilations", "required", "listInt", value=list(attributes.dilations))
    info.attr("groups", "required", "int", value=attributes.groups)
    for word, value in words.items():
        info.attr(word, "required", "str", value=value)
    return info.target("CPU").get_op_info()


def check_library_path(caller: str) -> None:
    """Whether MindSpore can load the library from where it is.

    Raises:
        OSError, RuntimeError: It cannot.
    """
    _library.load()  # reports a missing library better than MindSpore does
    if ":" in str(_library.PATH):
        raise RuntimeError(f"{caller}: MindSpore needs a library path without a colon, got {_library.PATH}")
    folder = os.environ.get(_WHITE_LIST)
    if folder is not None and not _library.PATH.is_relative_to(Path(folder).resolve()):
        raise RuntimeError(f"{caller}: {_WHITE_LIST} must be a folder that holds {_library.PATH}, got {folder!r}")


def _check_target(made_for: str) -> None:
    """A primitive runs where it was made for."""
    target = context.get_context("device_target")
    if target != made_for:
        raise RuntimeError(f"{OPERATOR}: the device target must be {made_for}, got {target}; {_cure(target)}")


def _cure(target: str) -> str:
    if target == "GPU":
        return "this package has no CUDA kernels; mindspore.set_device('CPU') runs it on the CPU"
    return "set the device target before the network is made"


class _Keeping(type(ops.Custom)):  # type: ignore[misc]
    """Makes the instances of an operator: one for each graph node, one for all PyNative calls with equal arguments."""

    def __call__(cls, geometry: Geometry, form: bool | str, in_graph: bool, *more: bool) -> Any:
        if in_graph:
            return super().__call__(geometry, form, in_graph, *more)
        return cls._kept(_plain(geometry), form, context.get_context("device_target"), *more)

    @lru_cache(maxsize=1024)  # noqa: B019 (the classes live as long as the module)
    def _kept(cls, geometry: Geometry, form: bool | str, target: str, *more: bool) -> Any:
        return super().__call__(geometry, form, False, *more)


class _Operator(ops.Custom, metaclass=_Keeping):
    """What both operators have in common.

    Args:
        entry: The library's function.
        form: Distinguishes this operator's operands and output from others'.
        operands: The names of its inputs in messages.
        output: The name of its output.
        geometry: As _plain makes it.
        words: Attributes beyond those of geometry.
        bprop: The gradient, called with the inputs, the output and the gradient of the output.
        in_graph: Whether this instance is a node of one graph.

    Raises:
        RuntimeError: MindSpore cannot load the library from where it is.
    """

    def __init__(
        self,
        entry: str,
        form: str,
        operands: Sequence[str],
        output: str,
        geometry: Geometry,
        words: dict[str, str],
        bprop: Callable[..., Any],
        in_graph: bool,
    ) -> None:
        self._describe(operands, geometry, in_graph, "CPU")
        check_library_path(OPERATOR)
        words = {"pad_mode": self._pad_mode, **words}
        super().__init__(
            f"{_library.PATH}:{entry}",
            out_shape=None,  # the library infers it: only so do dynamic shapes work
            out_dtype=lambda first, *_: first,
            func_type="aot",
            bprop=bprop,
            reg_info=_registration(form, operands, output, self._attributes, words),
        )

    def _describe(self, operands: Sequence[str], geometry: Geometry, in_graph: bool, target: str) -> None:
        rank, *given, self._pad_mode = geometry
        self._attributes = Attributes.of(rank, *given)
        self._operands, self._in_graph, self._target = operands, in_graph, target

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Operator":
        return type(self)(*self._arguments)

    def __call__(self, *operands: Any) -> Any:
        with _starting:
            return super().__call__(*operands)

    def __infer__(self, *operands: dict[str, Any]) -> dict[str, Any]:
        """Called by MindSpore before it runs or compiles the operator, after all casts of mixed precision.

        Raises:
            TypeError, ValueError: As documented for fused_conv_tanh.
            RuntimeError: The device target is another one than when this primitive was made.
        """
        _check_target(self._target)
        dtypes, shapes = {}, []
        tensors = operands[: len(self._operands)]  # on Ascend, attributes follow
        for name, operand in zip(self._operands, tensors, strict=True):
            if not isinstance(operand["dtype"], mstype.TensorType):
                raise TypeError(f"{OPERATOR}: {name} must be a mindspore.Tensor, got {operand['dtype']}")
            dtypes[name] = str(operand["dtype"].element_type()).lower()
            shapes.append(tuple(operand["shape"]))
        dtype = check_dtype(dtypes)
        if all(size >= 0 for shape in shapes for size in shape):
            self._check_shapes(dtype, *shapes)
        elif self._target == "Ascend":
            raise ValueError(f"{OPERATOR}: shapes must be static on Ascend, got {', '.join(map(str, shapes))}")
        result = super().__infer__(*operands)
        if self._in_graph and self._target == "CPU":
            # From here on the library infers the dtype as well: a MindIR with dynamic shapes needs that when it is
            # loaded. Not earlier: MindSpore would not have called this function.
            self.add_prim_attr("cpp_infer_type", True)
        return result

    def _check_shapes(self, dtype: str, *shapes: Shape) -> None:
        raise NotImplementedError


class FusedConvTanh(_Operator):
    """The primitive: called with x, filter and, if has_bias, bias. On Ascend with x, filter, bias and call_values.

    frozen: The library keeps the filter packed, as ConvTanh.freeze says. It has no meaning on Ascend.

    Raises:
        TypeError: Attributes that are not ints.
        RuntimeError: MindSpore cannot load the library from where it is.
    """

    def __init__(self, geometry: Geometry, has_bias: bool, in_graph: bool, frozen: bool = False) -> None:
        self._arguments = geometry, has_bias, in_graph, frozen
        geometry = _plain(geometry)
        if context.get_context("device_target") == "Ascend":
            self._describe(("x", "conv_filter", "bias"), geometry, in_graph, "Ascend")
            _custom_ascend.check_ready()
            ops.Custom.__init__(self, **_custom_ascend.arguments(self._attributes))
            if not in_graph:
                self._graph = _graph_of_one(geometry)
            return
        bprop = _gradients_in_graph(geometry, has_bias) if in_graph else _gradients(geometry)
        operands = ("x", "conv_filter", "bias")[: 3 if has_bias else 2]
        form = "FusedConvTanhBias" if has_bias else "FusedConvTanh"
        super().__init__("FusedConvTanh", form, operands, "y", geometry, {}, bprop, in_graph)
        if frozen:
            self.add_prim_attr("frozen", True)

    def __call__(self, *operands: Any) -> Any:
        if _pynative_executor.grad_flag():
            # MindSpore forgets that a gradient depends on a parameter, but not that it depends on a view of one.
            operands = tuple(t.view(t.shape) if isinstance(t, Parameter) else t for t in operands)
        if self._target == "Ascend":
            return self._graph(*operands[:3])
        return super().__call__(*operands)

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


def _graph_of_one(geometry: Geometry) -> Callable[..., Any]:
    """The operator on Ascend as a graph, for PyNative mode.

    PyNative mode itself hands tensors alone to the aclnn functions of custom operators, and no attributes.
    """
    values = _custom_ascend.call_values(geometry)

    @jit
    def call(x: Any, conv_filter: Any, bias: Any) -> Any:
        return FusedConvTanh(geometry, True, True)(x, conv_filter, bias, *values)

    return call


class FusedConvTanhBackward(_Operator):
    """The primitive for one gradient: called with grad_y, y, x and filter. wanted: "x", "filter" or "bias"."""

    def __init__(self, geometry: Geometry, wanted: str, in_graph: bool) -> None:
        self._arguments = geometry, wanted, in_graph
        self.wanted = wanted
        geometry = _plain(geometry)
        super().__init__(
            "FusedConvTanhBackward",
            f"FusedConvTanhBackward_{wanted}",
            ("grad_y", "y", "x", "conv_filter"),
            f"grad_{wanted}",
            geometry,
            {"wanted": wanted},
            _second_gradients(geometry, wanted, in_graph),
            in_graph,
        )

    def _check_shapes(self, dtype: str, *shapes: Shape) -> None:
        grad_y, y = shapes[:2]
        if grad_y != y:
            raise ValueError(f"{OPERATOR}: the gradient of y must have the shape of y = {y}, got {grad_y}")


def register() -> None:
    """Tells MindSpore the operands and dtypes of the CPU operators. It learns them from their Python form only, and
    needs them before it runs graphs that were not made here. The device target must be CPU."""
    geometry = (4, 1, 0, 1, 1, "pad")
    for has_bias in (False, True):
        FusedConvTanh(geometry, has_bias, True)
    for wanted in ("x", "filter", "bias"):
        FusedConvTanhBackward(geometry, wanted, True)


# amp.auto_mixed_precision "O1" computes in float16 or bfloat16 what is in this list, convolutions above all.
amp.AMP_WHITE_LIST.append(FusedConvTanh)


def _gradients(geometry: Geometry) -> Callable[..., Any]:
    """The gradients of FusedConvTanh in PyNative mode: None for operands that need none, such as frozen weights."""

    def bprop(*tensors: Any) -> Any:
        *inputs, y, grad_y = tensors
        return tuple(
            FusedConvTanhBackward(geometry, wanted, False)(grad_y, y, *inputs[:2]) if tensor._requires_grad else None
            for wanted, tensor in zip(("x", "filter", "bias"), inputs, strict=False)
        )

    return bprop


# MindSpore compiles the functions that the following ones return.


def _gradients_in_graph(geometry: Geometry, has_bias: bool) -> Callable[..., Any]:
    """The gradients of FusedConvTanh in graphs, from which MindSpore removes those that nothing uses."""

    def gradient(wanted: str, *tensors: Any) -> Any:
        return FusedConvTanhBackward(geometry, wanted, True)(*tensors)

    def without_bias(x: Any, conv_filter: Any, y: Any, grad_y: Any) -> Any:
        tensors = grad_y, y, x, conv_filter
        return gradient("x", *tensors), gradient("filter", *tensors)

    def with_bias(x: Any, conv_filter: Any, bias: Any, y: Any, grad_y: Any) -> Any:
        tensors = grad_y, y, x, conv_filter
        return gradient("x", *tensors), gradient("filter", *tensors), gradient("bias", *tensors)

    return with_bias if has_bias else without_bias


def _convolution(geometry: Geometry) -> Callable[..., Any]:
    """conv2d in float32 by MindSpore's own operator."""
    rank, *given, pad_mode = geometry
    one_axis = rank == 3
    strides, pads, dilations, groups = astuple(Attributes(*given).on_two_axes())
    if pad_mode != "pad":
        pads = 0

    def convolution(x: Any, conv_filter: Any) -> Any:
        x, conv_filter = x.astype(mstype.float32), conv_filter.astype(mstype.float32)
        if one_axis:
            x, conv_filter = x.expand_dims(2), conv_filter.expand_dims(2)
        channels, _, height, width = conv_filter.shape
        y = ops.Conv2D(channels, (height, width), 1, pad_mode, pads, strides, dilations, groups)(x, conv_filter)
        return y.squeeze(2) if one_axis else y

    return convolution


def _second_gradients(geometry: Geometry, wanted: str, in_graph: bool) -> Callable[..., Any]:
    """The gradients of FusedConvTanhBackward.

    It is linear in dz = grad_y * (1 - y * y) and in x or filter. The gradients by those are FusedConvTanhBackward once
    more, with the given gradient in the place of the other; that by dz is a convolution.
    """
    convolution = _convolution(geometry)

    def zeros_like(tensor: Any) -> Any:
        return ops.zeros_like(tensor.astype(mstype.float32)).astype(tensor.dtype)  # not there for bfloat16

    def gradient(of: str, *tensors: Any) -> Any:
        return FusedConvTanhBackward(geometry, of, in_graph)(*tensors)

    def bprop(grad_y: Any, y: Any, x: Any, conv_filter: Any, out: Any, given: Any) -> Any:
        for_x, for_filter = zeros_like(x), zeros_like(conv_filter)
        if wanted == "x":
            for_dz = convolution(given, conv_filter)
            for_filter = gradient("filter", grad_y, y, given, conv_filter)
        elif wanted == "filter":
            for_dz = convolution(x, given)
            for_x = gradient("x", grad_y, y, x, given)
        else:
            for_dz = given.astype(mstype.float32).reshape((1, -1) + (1,) * (y.ndim - 2))
        grad_y32, y32 = grad_y.astype(mstype.float32), y.astype(mstype.float32)
        for_grad_y = (for_dz * (1 - y32 * y32)).astype(y.dtype)
        for_y = (for_dz * grad_y32 * y32 * -2).astype(y.dtype)
        return for_grad_y, for_y, for_x, for_filter

    return bprop
