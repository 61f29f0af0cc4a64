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


X = random_tensor(1, 4, 2, 9, 8)
# What a network of the same form makes of X.
TARGET = ops.tanh(2 * ops.avg_pool2d(X[:, :1] - X[:, 1:], 2, 2, ceil_mode=True)) * Tensor(
    [[[[1.0]], [[-0.5]], [[0.2]]]]
)


def train_one_step(network: nn.Cell) -> Callable[[], Tensor]:
    optimizer = nn.Momentum(network.trainable_params(), 1.0, 0.9)
    step = nn.TrainOneStepCell(nn.WithLossCell(network, nn.MSELoss()), optimizer)
    step.set_train()
    return lambda: step(X, TARGET)


def value_and_grad(network: nn.Cell, decorate: Callable[..., Any] = lambda step: step) -> Callable[[], Tensor]:
    optimizer = nn.Momentum(network.trainable_params(), 1.0, 0.9)

    def loss_of(x: Tensor, target: Tensor) -> Tensor:
        return ops.mse_loss(network(x), target)

    gradients = ms.value_and_grad(loss_of, None, network.trainable_params())

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
    np.testing.assert_allclose(mine, expected, rtol=1e-4)  # stock nn.Tanh errs by so much
    for parameter, other in zip(ours.get_parameters(), theirs.get_parameters(), strict=True):
        np.testing.assert_allclose(array(parameter), array(other), atol=1e-4)


def test_frozen_parameters_stay(mode: str) -> None:
    """Feature: frozen weights. Description: a step. Expectation: they keep their bits, all others change."""
    network = network_of(ConvTanh)
    frozen = ["0.weight", "1.weight"]
    for name, parameter in network.parameters_and_names():
        parameter.requires_grad = name not in frozen
    before = {name: array(parameter).copy() for name, parameter in network.parameters_and_names()}
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
def test_fixed_loss_scale(mode: str, level: str) -> None:
    """Feature: loss scaling. Description: float16 with a scaled loss. Expectation: trains like float32."""
    network = network_of(ConvTanh)
    optimizer = nn.Momentum(network.trainable_params(), 1.0, 0.9, loss_scale=1024.0)
    manager = ms.amp.FixedLossScaleManager(1024.0, drop_overflow_update=False)
    step = ms.amp.build_train_network(network, optimizer, nn.MSELoss(), level=level, loss_scale_manager=manager)
    step.set_train()
    expected = losses(train_one_step(network_of(ConvTanh)))
    np.testing.assert_allclose(losses(lambda: step(X, TARGET)), expected, rtol=1e-2)


def test_dynamic_loss_scale(mode: str) -> None:
    """Feature: loss scaling. Description: a scale that overflows float16. Expectation: lowered until it does not."""
    network = ms.amp.auto_mixed_precision(network_of(ConvTanh), "O2", ms.float16)
    plain = network_of(ConvTanh)
    weights, scaler = network.trainable_params(), ms.amp.DynamicLossScaler(2.0**24, 2, 1000)

    def scaled(x: Tensor) -> Tensor:
        return scaler.scale(ops.mse_loss(network(x), TARGET))

    gradient = ms.grad(scaled, None, weights)
    finite = []
    while not finite or not finite[-1]:
        gradients = gradient(X)
        finite.append(bool(ms.amp.all_finite(gradients)))
        scaler.adjust(Tensor(finite[-1]))
    assert not finite[0]
    assert len(finite) < 20

    def unscaled(x: Tensor) -> Tensor:
        return ops.mse_loss(plain(x), TARGET)

    expected = ms.grad(unscaled, None, plain.trainable_params())(X)
    for found, other in zip(scaler.unscale(gradients), expected, strict=True):
        np.testing.assert_allclose(array(found), array(other), rtol=0, atol=2**-8 * np.abs(array(other)).max())


def test_scaled_loss_is_exact(mode: str) -> None:
    """Feature: loss scaling. Description: a power of two. Expectation: exactly so much larger gradients."""
    network = network_of(ConvTanh)

    def gradients(scale: float) -> list[np.ndarray]:
        def loss(x: Tensor) -> Tensor:
            return ops.mse_loss(network(x), TARGET) * scale

        return [array(gradient) for gradient in ms.grad(loss, None, network.trainable_params())(X)]

    for scaled, plain in zip(gradients(2.0**10), gradients(1.0), strict=True):
        np.testing.assert_array_equal(scaled, plain * 2**10)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_low_precision_parameters(mode: str, dtype: str) -> None:
    """Feature: dtypes. Description: all parameters in 16 bits. Expectation: trains like float32."""

    def train(dtype: Any) -> list[float]:
        network = network_of(ConvTanh, dtype=dtype)
        weights = network.trainable_params()
        x = X.astype(dtype)

        def loss(x: Tensor) -> Tensor:
            return ops.mse_loss(network(x).astype(ms.float32), TARGET)

        found = []
        for _ in range(6):
            value, gradients = ms.value_and_grad(loss, None, weights)(x)  # compiled once, it would not see set_data
            found.append(float(value.asnumpy()))
            for weight, gradient in zip(weights, gradients, strict=True):
                assert gradient.dtype == dtype
                weight.set_data((weight.astype(ms.float32) - 3 * gradient.astype(ms.float32)).astype(dtype))
        return found

    expected = train(ms.float32)
    assert expected[-1] < expected[0] / 2
    np.testing.assert_allclose(train(MS_DTYPES[dtype]), expected, rtol={"float16": 0.01, "bfloat16": 0.1}[dtype])


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
    optimizer = nn.Momentum(turns.trainable_params(), 1.0, 0.9)
    found = []
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE, ms.PYNATIVE_MODE):
        ms.set_context(mode=mode)
        step = nn.TrainOneStepCell(nn.WithLossCell(turns, nn.MSELoss()), optimizer)
        found.append(float(step(X, TARGET).asnumpy()))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
