"""Other ways to compute a model: MindSpore's own layers, PyTorch, ONNX Runtime and OpenVINO, and our cell in MindSpore.

Each gives a call that computes the model's output, made with as many threads as ours has. Their packages are imported
when they are asked for.
"""

import importlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ms_convtanh.benchmark.models import Array, AveragePool, ConvTanhLayer, Dense, Flatten, Layer, Model
from ms_convtanh.benchmark.onnx_model import onnx_model


class Unsupported(Exception):
    """A peer cannot compute a model; the text says why."""


class Prepared(NamedTuple):
    run: Callable[[], Any]
    output: Callable[[Any], Array]  # of what run returned; bfloat16 may come as float32


class Peer(NamedTuple):
    name: str
    label: str
    packages: tuple[str, ...]  # that it imports; the first one's version is reported
    prepare: Callable[[Model, int], Prepared]  # may raise anything: it is reported as the reason

    def version(self) -> str:
        """Raises ImportError if a package is missing."""
        modules = [importlib.import_module(package) for package in self.packages]
        return str(modules[0].__version__)


# MindSpore


def mindspore_layer(layer: Layer, conv_tanh: Callable[..., Any]) -> Any:
    """A layer as a cell, with its weights. conv_tanh: makes tanh(conv2d(x)) with nn.Conv2d's arguments."""
    import mindspore as ms
    from mindspore import nn

    from ms_convtanh._networks import tensor

    if isinstance(layer, ConvTanhLayer):
        co, ci, *kernel = layer.conv_filter.shape
        return conv_tanh(
            ci * layer.groups,
            co,
            tuple(kernel),
            stride=layer.strides,
            pad_mode="pad",
            padding=layer.pads,
            dilation=layer.dilations,
            group=layer.groups,
            has_bias=True,
            weight_init=tensor(layer.conv_filter),
            bias_init=tensor(layer.bias),
            dtype=getattr(ms, layer.bias.dtype.name),
        )
    if isinstance(layer, Dense):
        outputs, inputs = layer.weight.shape
        weights = {"weight_init": tensor(layer.weight), "bias_init": tensor(layer.bias)}
        return nn.Dense(inputs, outputs, activation="tanh" if layer.tanh else None, **weights)
    if isinstance(layer, AveragePool):
        return nn.AvgPool2d(2, 2)
    return nn.Flatten() if isinstance(layer, Flatten) else nn.PixelShuffle(layer.scale)


def stock_conv_tanh(*arguments: Any, **named: Any) -> Any:
    """tanh(conv2d(x)) of MindSpore's own layers."""
    from mindspore import nn

    return nn.SequentialCell(nn.Conv2d(*arguments, **named), nn.Tanh())


def mindspore_network(model: Model, conv_tanh: Callable[..., Any]) -> Any:
    """The model as a cell."""
    from mindspore import nn

    return nn.SequentialCell(*(mindspore_layer(layer, conv_tanh) for layer in model.layers))


def _mindspore(conv_tanh: Callable[..., Any]) -> Callable[[Model, int], Prepared]:
    def prepare(model: Model, threads: int) -> Prepared:
        from ms_convtanh._networks import tensor

        network, x = mindspore_network(model, conv_tanh).set_train(False), tensor(model.x)

        def output(y: Any) -> Array:
            import mindspore as ms

            return (y.astype(ms.float32) if model.dtype == "bfloat16" else y).asnumpy()

        return Prepared(lambda: network(x), output)

    return prepare


def _our_cell(*arguments: Any, **named: Any) -> Any:
    from ms_convtanh import ConvTanh

    return ConvTanh(*arguments, **named)


# PyTorch


def torch_tensor(array: Array) -> Any:
    """array as a tensor of PyTorch."""
    import torch

    # PyTorch does not know NumPy's bfloat16; float32 holds all three dtypes exactly.
    return torch.from_numpy(array.astype(np.float32)).to(getattr(torch, array.dtype.name))


def _torch_layer(layer: Layer) -> list[Any]:
    from torch import nn

    def filled(module: Any, weight: Array, bias: Array) -> Any:
        module.weight = nn.Parameter(torch_tensor(weight))
        module.bias = nn.Parameter(torch_tensor(bias))
        return module

    if isinstance(layer, ConvTanhLayer):
        co, ci, *kernel = layer.conv_filter.shape
        top, bottom, left, right = layer.pads
        symmetric = (top, left) == (bottom, right)
        arguments = (layer.strides, (top, left) if symmetric else 0, layer.dilations, layer.groups)
        conv = filled(nn.Conv2d(ci * layer.groups, co, kernel, *arguments), layer.conv_filter, layer.bias)
        return [*([] if symmetric else [nn.ZeroPad2d((left, right, top, bottom))]), conv, nn.Tanh()]
    if isinstance(layer, Dense):
        dense = filled(nn.Linear(*reversed(layer.weight.shape)), layer.weight, layer.bias)
        return [dense, nn.Tanh()] if layer.tanh else [dense]
    if isinstance(layer, AveragePool):
        return [nn.AvgPool2d(2)]
    return [nn.Flatten()] if isinstance(layer, Flatten) else [nn.PixelShuffle(layer.scale)]


def torch_network(model: Model) -> Any:
    """The model as a module."""
    from torch import nn

    return nn.Sequential(*(module for layer in model.layers for module in _torch_layer(layer)))


def _torch(layout: str = "contiguous_format", compiled: bool = False) -> Callable[[Model, int], Prepared]:
    def prepare(model: Model, threads: int) -> Prepared:
        import torch

        torch.set_num_threads(threads)
        memory_format = getattr(torch, layout)
        network = torch_network(model).eval().to(memory_format=memory_format)
        x = torch_tensor(model.x).to(memory_format=memory_format)
        if compiled:
            torch._dynamo.reset()  # after some models it would give up and run eagerly
            network = torch.compile(network, dynamic=False, options={"freezing": True})

        def run() -> Any:
            with torch.no_grad():
                return network(x)

        return Prepared(run, lambda y: y.float().numpy())

    return prepare


# ONNX Runtime and OpenVINO


def _onnxruntime(model: Model, threads: int) -> Prepared:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads, options.inter_op_num_threads = threads, 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.force_spinning_stop", "1")  # its idle threads would disturb the others
    try:
        session = onnxruntime.InferenceSession(onnx_model(model), options, providers=["CPUExecutionProvider"])
    except Exception as error:
        if "NOT_IMPLEMENTED" in str(error):
            raise Unsupported(f"no kernel for {model.dtype}") from error
        raise
    return Prepared(lambda: session.run(None, {"x": model.x}), lambda y: y[0])


_OPENVINO_TYPES = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


def _openvino(model: Model, threads: int) -> Prepared:
    import openvino

    config = {
        "INFERENCE_NUM_THREADS": threads,
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": _OPENVINO_TYPES[model.dtype],  # its own choice may be less precise than asked for
        "ENABLE_CPU_PINNING": False,  # it would pin the calling thread, that of all sides
    }
    core = openvino.Core()
    request = core.compile_model(core.read_model(onnx_model(model)), "CPU", config).create_infer_request()
    x = openvino.Tensor(getattr(openvino.Type, _OPENVINO_TYPES[model.dtype]), openvino.Shape(model.x.shape))
    x.data.view(np.uint8)[...] = model.x.view(np.uint8)  # its NumPy views have no bfloat16
    request.set_input_tensor(x)

    def run() -> Any:
        request.infer()
        return request.get_output_tensor()

    return Prepared(run, lambda y: y.data.view(model.x.dtype).copy())


# Ours in MindSpore is no peer, but is prepared like one.
CELL = Peer("cell", "ConvTanh in MindSpore", ("mindspore",), _mindspore(_our_cell))
PEERS = (
    Peer("mindspore", "MindSpore", ("mindspore",), _mindspore(stock_conv_tanh)),
    Peer("torch", "PyTorch", ("torch",), _torch()),
    Peer("torch_channels_last", "PyTorch channels-last", ("torch",), _torch("channels_last")),
    Peer("torch_compile", "torch.compile", ("torch",), _torch(compiled=True)),
    Peer("onnxruntime", "ONNX Runtime", ("onnxruntime", "onnx"), _onnxruntime),
    Peer("openvino", "OpenVINO", ("openvino", "onnx"), _openvino),
)
