"""Training networks of ConvTanh cells: optimizers, compiled steps, mixed precision, loss scaling."""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensors import MS_DTYPES, array, random_tensor

import mindspore as ms
from mindspore import Tensor, nn, ops

from ms_convtanh import ConvTanh, _custom

Layer = Callable[..., nn.Cell]


def stock(*positional: Any, **named: Any) -> nn.Cell:
    return nn.SequentialCell(nn.Conv2d(*positional, **named), nn.Tanh())


def network_of(layer: Layer, **named: Any) -> nn.Cell:
    """The same initial weights each time."""
    ms.set_seed(11)
    return nn.SequentialCell(
        layer(2, 6, 3, has_bias=True, **named), layer(6, 4, (3, 2), stride=2, **named), layer(4, 3, 1, **named)
    )


X, TARGET = random_tensor(1, 4, 2, 9, 8), random_tensor(2, 4, 3, 5, 4) * 0.5


def train_one_step(network: nn.Cell) -> Callable[[], Tensor]:
    optimizer = nn.Momentum(network.trainable_params(), 0.3, 0.9)
    step = nn.TrainOneStepCell(nn.WithLossCell(network, nn.MSELoss()), optimizer)
    step.set_train()
    return lambda: step(X, TARGET)


def value_and_grad(network: nn.Cell, decorate: Callable[..., Any] = lambda step: step) -> Callable[[], Tensor]:
    optimizer = nn.Momentum(network.trainable_params(), 0.3, 0.9)
    gradients = ms.value_and_grad(lambda x, target: ops.mse_loss(network(x), target), None, network.trainable_params())

    def step(x: Tensor, target: Tensor) -> Tensor:
        loss, grads = gradients(x, target)
        optimizer(grads)
        return loss

    decorated = decorate(step)
    return lambda: decorated(X, TARGET)


def jit(network: nn.Cell) -> Callable[[], Tensor]:
    return value_and_grad(network, ms.jit)


def losses(step: Callable[[], Tensor], count: int = 12) -> np.ndarray:
    return np.array([float(step().asnumpy()) for _ in range(count)])


@pytest.mark.parametrize("steps", [train_one_step, value_and_grad, jit])
def test_trains_like_stock(mode: str, steps: Callable[[nn.Cell], Callable[[], Tensor]]) -> None:
    """Feature: training. Description: the usual ways to write a step. Expectation: the losses of stock layers."""
    ours, theirs = network_of(ConvTanh), network_of(stock)
    mine, expected = losses(steps(ours)), losses(steps(theirs))
    assert mine[-1] < mine[0] / 2
    np.testing.assert_allclose(mine, expected, rtol=2e-3)  # stock nn.Tanh errs by 1e-4
    for parameter, other in zip(ours.get_parameters(), theirs.get_parameters(), strict=True):
        np.testing.assert_allclose(array(parameter), array(other), atol=2e-3)


def test_frozen_parameters_stay(mode: str) -> None:
    """Feature: frozen weights. Description: a step. Expectation: they keep their bits, all others change."""
    network = network_of(ConvTanh)
    frozen = ["0.weight", "1.weight"]
    for name, parameter in network.parameters_and_names():
        parameter.requires_grad = name not in frozen
    before = {name: array(parameter) for name, parameter in network.parameters_and_names()}
    losses(train_one_step(network), 2)
    for name, parameter in network.parameters_and_names():
        assert np.array_equal(array(parameter), before[name]) == (name in frozen)


@pytest.mark.parametrize("kind", ["O1", "O2", "O3", "to_float"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_mixed_precision(mode: str, kind: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Feature: mixed precision. Description: amp levels, to_float. Expectation: gradients in float32, computed in less.

    float16 is compared with stock layers; MindSpore's CPU operators refuse bfloat16.
    """
    computed_in = set()
    infer = _custom._Operator.__infer__

    def record(self: Any, *operands: Any) -> Any:
        computed_in.update(str(operand["dtype"].element_type()).lower() for operand in operands)
        return infer(self, *operands)

    monkeypatch.setattr(_custom._Operator, "__infer__", record)

    def of(layer: Layer, mixed: bool = True) -> list[np.ndarray]:
        network = network_of(layer)
        if mixed and kind == "to_float":
            network.to_float(MS_DTYPES[dtype])
        elif mixed:
            network = ms.amp.auto_mixed_precision(network, kind, MS_DTYPES[dtype])
        (of_x, of_weights) = ms.grad(network, 0, network.trainable_params())(X)
        assert {gradient.dtype for gradient in (of_x, *of_weights)} == {ms.float32}
        return [array(gradient) for gradient in (of_x, *of_weights)]

    mine = of(ConvTanh)
    assert computed_in == {dtype}
    expected = of(stock) if dtype == "float16" else of(ConvTanh, mixed=False)
    for gradient, other in zip(mine, expected, strict=True):
        tolerance = {"float16": 2**-9, "bfloat16": 2**-6}[dtype]
        np.testing.assert_allclose(gradient, other, rtol=0, atol=tolerance * np.abs(other).max())


def test_functional_in_o1(mode: str) -> None:
    """Feature: amp "O1". Description: the primitive stands in MindSpore's list. Expectation: once."""
    assert ms.amp.get_white_list().count(_custom.FusedConvTanh) == 1


@pytest.mark.parametrize("level", ["O2", "O3"])
@pytest.mark.parametrize("manager", ["fixed", "dynamic"])
def test_loss_scaling(mode: str, level: str, manager: str) -> None:
    """Feature: loss scaling. Description: float16 with a scaled loss. Expectation: trains like float32."""
    network = network_of(ConvTanh)
    scale = ms.amp.FixedLossScaleManager(1024.0, False) if manager == "fixed" else ms.amp.DynamicLossScaleManager()
    named = {"loss_scale": 1024.0} if manager == "fixed" else {}
    optimizer = nn.Momentum(network.trainable_params(), 0.3, 0.9, **named)
    step = ms.amp.build_train_network(network, optimizer, nn.MSELoss(), level=level, loss_scale_manager=scale)
    step.set_train()

    def loss() -> Tensor:
        result = step(X, TARGET)
        return result[0] if isinstance(result, tuple) else result

    np.testing.assert_allclose(losses(loss), losses(train_one_step(network_of(ConvTanh))), rtol=3e-2)


def test_scaled_loss_is_exact(mode: str) -> None:
    """Feature: loss scaling. Description: a power of two. Expectation: exactly so much larger gradients."""
    network = network_of(ConvTanh)

    def gradients(scale: float) -> list[np.ndarray]:
        scaler = ms.amp.StaticLossScaler(scale)
        weights = network.trainable_params()
        forward = ms.grad(lambda x: scaler.scale(ops.mse_loss(network(x), TARGET)), None, weights)
        return [array(gradient) for gradient in forward(X)]

    for scaled, plain in zip(gradients(2.0**10), gradients(1.0), strict=True):
        np.testing.assert_array_equal(scaled, plain * 2**10)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision_parameters(mode: str, dtype: str) -> None:
    """Feature: dtypes. Description: all parameters in 16 bits. Expectation: a step towards a smaller loss."""
    network = network_of(ConvTanh, dtype=MS_DTYPES[dtype])
    weights = network.trainable_params()
    x, target = X.astype(MS_DTYPES[dtype]), TARGET

    def loss(x: Tensor) -> Tensor:
        return ops.mse_loss(network(x).astype(ms.float32), target)

    start = loss(x)
    for _ in range(8):
        for weight, gradient in zip(weights, ms.grad(loss, None, weights)(x), strict=True):
            assert gradient.dtype == MS_DTYPES[dtype]
            weight.set_data((weight.astype(ms.float32) - 0.5 * gradient.astype(ms.float32)).astype(MS_DTYPES[dtype]))
    assert float(loss(x).asnumpy()) < 0.8 * float(start.asnumpy())


def test_copies_train_apart(mode: str) -> None:
    """Feature: copy.deepcopy. Description: a network in training. Expectation: the copy does the same, apart."""
    network = network_of(ConvTanh)
    losses(train_one_step(network), 2)
    copied = copy.deepcopy(network)
    mine = losses(train_one_step(network), 3)
    np.testing.assert_array_equal(losses(train_one_step(copied), 3), mine)


def test_switching_modes(pynative: None) -> None:
    """Feature: modes. Description: steps of one network in turn. Expectation: as in one mode."""
    turns, always = network_of(ConvTanh), network_of(ConvTanh)
    expected = losses(train_one_step(always), 3)
    optimizer = nn.Momentum(turns.trainable_params(), 0.3, 0.9)
    found = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        step = nn.TrainOneStepCell(nn.WithLossCell(turns, nn.MSELoss()), optimizer)
        found.append(float(step(X, TARGET).asnumpy()))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
