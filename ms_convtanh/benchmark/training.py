"""Training: forward and backward of the cases beside PyTorch's autograd, and a train step beside MindSpore's layers."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from ms_convtanh import native
from ms_convtanh._compare import DTYPES, THRESHOLDS
from ms_convtanh._extras import require
from ms_convtanh._trace import Peaks
from ms_convtanh.benchmark.measure import CELL, OURS, Budget, Record
from ms_convtanh.benchmark.models import Array, ConvTanhLayer, Model, case_names, espcn, make
from ms_convtanh.benchmark.peers import Peer, mindspore_network, stock_conv_tanh, torch_network, torch_tensor
from ms_convtanh.benchmark.timing import Side, take_turns

TRAIN_STEP = "espcn_train_step"
NAMES = (*case_names(), TRAIN_STEP)

_BATCH, _PATCH = 16, 64  # of the train step
_CHECKED_STEPS = 5
_LOSS_TOLERANCE = 1e-4  # stock nn.Tanh errs by that much


def _goldens(layer: ConvTanhLayer, x: Array, y: Array, grad_y: Array) -> list[Array]:
    """The gradients of x, filter and bias in float64, by PyTorch. y is the result that they belong to."""
    torch = require("bench", "torch", "bench")
    leaves = [
        torch.from_numpy(array.astype(np.float64)).requires_grad_() for array in (x, layer.conv_filter, layer.bias)
    ]
    top, bottom, left, right = layer.pads
    padded = torch.nn.functional.pad(leaves[0], (left, right, top, bottom))
    z = torch.nn.functional.conv2d(padded, *leaves[1:], layer.strides, 0, layer.dilations, layer.groups)
    y64, grad64 = y.astype(np.float64), grad_y.astype(np.float64)
    z.backward(torch.from_numpy(grad64 * (1 - y64 * y64)))
    return [leaf.grad.numpy() for leaf in leaves]


def _accuracy(gradients: Sequence[Any], goldens: Sequence[Array], dtype: str) -> Record:
    """The largest error of each gradient, against the largest element of its golden."""
    relative = [
        float(np.abs(actual.astype(np.float64) - golden).max() / np.abs(golden).max())
        for actual, golden in zip(gradients, goldens, strict=True)
    ]
    return {"passed": max(relative) <= THRESHOLDS[dtype], "max_relative": max(relative)}


def _autograd(model: Model, grad_y: Array, layout: str) -> Callable[[], Any]:
    import torch

    memory_format = getattr(torch, layout)
    network = torch_network(model).to(memory_format=memory_format)
    x = torch_tensor(model.x).to(memory_format=memory_format).requires_grad_()
    gradient = torch_tensor(grad_y).to(memory_format=memory_format)

    def run() -> Any:
        x.grad = None
        network.zero_grad()
        network(x).backward(gradient)

    return run


_LAYOUTS = {"torch": "contiguous_format", "torch_channels_last": "channels_last"}


def _case(model: Model, peers: Sequence[Peer], peaks: Peaks, budget: Budget) -> Record:
    (layer,) = model.layers
    assert isinstance(layer, ConvTanhLayer)
    x, conv_filter, bias = model.x, layer.conv_filter, layer.bias

    def ours() -> tuple[Array, tuple[Array | None, ...]]:
        y = native.fused_conv_tanh(x, conv_filter, bias, **layer.attributes)
        return y, native.fused_conv_tanh_backward(grad_y, y, x, conv_filter, **layer.attributes)

    y = native.fused_conv_tanh(x, conv_filter, bias, **layer.attributes)
    grad_y = np.random.default_rng(3).uniform(-1, 1, y.shape).astype(DTYPES[model.dtype])
    found = _accuracy(ours()[1], _goldens(layer, x, y, grad_y), model.dtype)
    if not found["passed"]:
        raise RuntimeError(
            f"bench: {model.name}: our gradients are wrong by {found['max_relative']:.2g} of the largest"
        )
    records: Record = {OURS: {"accuracy": found}}
    sides = {OURS: Side(ours)}
    for peer in peers:
        if peer.name in _LAYOUTS:  # the others have no gradients, or are measured by the train step
            sides[peer.name] = Side(_autograd(model, grad_y, _LAYOUTS[peer.name]))
    for side in sides.values():
        side.run()  # allocates and compiles
    for name, timing in take_turns(sides, budget.seconds).items():
        records.setdefault(name, {}).update(asdict(timing))
    operands = x.nbytes + conv_filter.nbytes + bias.nbytes + y.nbytes
    return {
        "name": model.name,
        "kind": "training",
        "dtype": model.dtype,
        "x": list(x.shape),
        "filter": list(conv_filter.shape),
        "y": list(y.shape),
        "flops": 3 * model.flops,
        "bytes": 2 * operands,  # each tensor and its gradient
        "compute_bound": 3 * model.flops / peaks.of(model.dtype),
        "memory_bound": 2 * operands / peaks.bytes,
        "ours": OURS,
        "sides": records,
    }


def _train_step(peaks: Peaks, budget: Budget) -> Record:
    """Graph mode, the same weights and batch on both sides."""
    require("bench", "mindspore", "mindspore")
    import mindspore as ms
    from mindspore import nn

    from ms_convtanh import ConvTanh

    model = espcn("train", _BATCH, _PATCH)
    random = np.random.default_rng(1)
    x = ms.Tensor(model.x)
    wanted = ms.Tensor(random.uniform(-0.5, 0.5, model.golden.shape).astype(np.float32))

    def step_with(conv_tanh: Callable[..., Any]) -> Any:
        network = mindspore_network(model, conv_tanh)
        optimizer = nn.Adam(network.trainable_params(), 1e-3)
        return nn.TrainOneStepCell(nn.WithLossCell(network, nn.MSELoss()), optimizer).set_train()

    steps = {CELL: step_with(ConvTanh), "mindspore": step_with(stock_conv_tanh)}
    losses = {
        name: np.array([step(x, wanted).asnumpy() for _ in range(_CHECKED_STEPS)]) for name, step in steps.items()
    }
    error = float(np.abs(losses[CELL] / losses["mindspore"] - 1).max())
    if not error <= _LOSS_TOLERANCE:
        raise RuntimeError(f"bench: {TRAIN_STEP}: losses differ from those of stock layers by {error:.2g}")

    def side(step: Any) -> Side:
        return Side(lambda: step(x, wanted).asnumpy())

    records: Record = {CELL: {"accuracy": {"passed": True, "max_relative": error}}, "mindspore": {}}
    for name, timing in take_turns({name: side(step) for name, step in steps.items()}, 4 * budget.seconds).items():
        records[name].update(asdict(timing))
    return {
        "name": TRAIN_STEP,
        "kind": "training",
        "dtype": model.dtype,
        "x": list(model.x.shape),
        "y": list(model.golden.shape),
        "flops": 3 * model.flops,
        "bytes": 2 * model.bytes,
        "compute_bound": 3 * model.flops / peaks.of(model.dtype),
        "memory_bound": 2 * model.bytes / peaks.bytes,
        "ours": CELL,
        "sides": records,
    }


def measure_training(name: str, peers: Sequence[Peer], peaks: Peaks, budget: Budget) -> Record:
    """Forward and backward of a case, or the train step.

    Raises:
        RuntimeError: Gradients of ours are wrong; PyTorch or MindSpore is missing.
    """
    if name == TRAIN_STEP:
        return _train_step(peaks, budget)
    return _case(make(name), peers, peaks, budget)
