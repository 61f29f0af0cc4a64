"""Gradients of ConvTanh and fused_conv_tanh: values, which are computed, dynamic shapes, gradients of gradients."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
from problems import GEOMETRIES, attributes_of
from processes import run
from reference import DTYPES, random_problem
from tensors import MS_DTYPES, array, random_tensor, tensor

import mindspore as ms
from mindspore import Tensor, nn, ops

from ms_convtanh import ConvTanh, _custom, fused_conv_tanh, native

GEOMETRIES = {**GEOMETRIES, "one_axis": ((2, 4, 30), (6, 2, 5), (2,), (3, 1), (2,), 2)}


class Functional(nn.Cell):
    """fused_conv_tanh inside a network, where its attributes are constants of the graph."""

    def __init__(self, strides: Any = (1, 1), pads: Any = 0, dilations: Any = (1, 1), groups: int = 1) -> None:
        super().__init__()
        self.attributes = {"strides": strides, "pads": pads, "dilations": dilations, "groups": groups}

    def construct(self, x: Tensor, conv_filter: Tensor, bias: Any = None) -> Tensor:
        return fused_conv_tanh(x, conv_filter, bias, **self.attributes)


def gradients(network: nn.Cell, operands: list[Tensor], grad_y: Tensor) -> tuple[Tensor, ...]:
    """Of all operands, for a given gradient of the result."""
    return ops.GradOperation(get_all=True, sens_param=True)(network)(*operands, grad_y)


def flat(values: Any) -> list[np.ndarray]:
    return [array(values)] if isinstance(values, Tensor) else [leaf for value in values for leaf in flat(value)]


@pytest.mark.parametrize("bias", [False, True], ids=["no_bias", "bias"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_values(mode: str, geometry: Any, dtype: str, bias: bool, rng: np.random.Generator) -> None:
    """Feature: gradients. Description: odd geometries. Expectation: the bits of the NumPy view, and near float64."""
    operands = random_problem(rng, *geometry[:2], dtype, bias)
    x, conv_filter = operands[:2]
    attributes = attributes_of(geometry)
    y = native.fused_conv_tanh(*operands, **attributes)
    grad_y = rng.uniform(-1, 1, y.shape).astype(DTYPES[dtype])
    given = [tensor(operand) for operand in operands if operand is not None]
    computed = gradients(Functional(**attributes), given, tensor(grad_y))
    assert [gradient.dtype for gradient in computed] == [MS_DTYPES[dtype]] * len(given)
    expected = native.fused_conv_tanh_backward(grad_y, y, x, conv_filter, **attributes)
    for gradient, same in zip(computed, expected, strict=False):
        np.testing.assert_array_equal(array(gradient), same.astype(np.float32))
    if x.ndim == 4:
        golden = reference.conv_tanh_gradients(grad_y, y, x, conv_filter, **attributes)
        for gradient, expected_gradient in zip(computed, golden, strict=False):
            reference.assert_gradient_close(array(gradient), expected_gradient, dtype)


def test_every_ceiling(mode: str, ceiling: str, rng: np.random.Generator) -> None:
    """Feature: options. Description: every variant. Expectation: near float64."""
    x, conv_filter, bias = random_problem(rng, (2, 19, 23, 21), (35, 19, 3, 3), "float32")
    network = Functional(pads=[1, 1, 1, 1])
    y = native.fused_conv_tanh(x, conv_filter, bias, pads=[1, 1, 1, 1])
    grad_y = rng.uniform(-1, 1, y.shape).astype(np.float32)
    computed = gradients(network, [tensor(x), tensor(conv_filter), tensor(bias)], tensor(grad_y))
    golden = reference.conv_tanh_gradients(grad_y, y, x, conv_filter, pads=(1, 1, 1, 1))
    for gradient, expected in zip(computed, golden, strict=True):
        reference.assert_gradient_close(array(gradient), expected, "float32")


def pair(seed: int, *positional: Any, **named: Any) -> tuple[nn.Cell, nn.Cell]:
    """ConvTanh and what it replaces, with equal parameters."""
    ms.set_seed(seed)
    ours = ConvTanh(*positional, **named)
    ms.set_seed(seed)
    return ours, nn.SequentialCell(nn.Conv2d(*positional, **named), nn.Tanh())


def assert_like_stock(mine: Any, theirs: Any) -> None:
    """Within what stock nn.Tanh errs by on CPUs, 1e-4."""
    for ours, stock in zip(flat(mine), flat(theirs), strict=True):
        np.testing.assert_allclose(ours, stock, rtol=0, atol=5e-4 * max(1, np.abs(stock).max()))


@pytest.mark.parametrize("pad_mode", ["same", "valid", "pad"])
def test_like_stock(mode: str, pad_mode: str) -> None:
    """Feature: ConvTanh. Description: ms.grad and value_and_grad, of input, weights, both. Expectation: as stock."""
    padding = (0, 1, 2, 3) if pad_mode == "pad" else 0
    named = {"stride": (2, 1), "pad_mode": pad_mode, "padding": padding, "dilation": (1, 2), "has_bias": True}
    networks = pair(3, 4, 6, (3, 2), group=2, **named)
    x = random_tensor(1, 2, 4, 9, 8)
    for position, of_weights in ((0, False), (None, True), (0, True)):
        results = []
        for network in networks:
            weights = network.trainable_params() if of_weights else None
            results.append([ms.value_and_grad(network, position, weights)(x), ms.grad(network, position, weights)(x)])
            np.testing.assert_array_equal(flat(results[-1][0][1])[0], flat(results[-1][1])[0])
        assert_like_stock(*results)


@pytest.mark.parametrize("dtype", DTYPES)
def test_saturated(mode: str, dtype: str) -> None:
    """Feature: tanh near 1. Description: sums from 0 to 300. Expectation: no gradient below 0, and 0 where y is 1."""
    x = Tensor(np.linspace(0, 300, 30001, dtype=np.float32).reshape(1, 1, 1, -1)).astype(MS_DTYPES[dtype])
    conv_filter = Tensor(np.ones((1, 1, 1, 1), np.float32)).astype(MS_DTYPES[dtype])
    network = Functional()
    y = array(network(x, conv_filter))
    ones = Tensor(np.ones(x.shape, np.float32)).astype(MS_DTYPES[dtype])
    grad_x, grad_filter = (array(g) for g in gradients(network, [x, conv_filter], ones))
    assert np.all(grad_x >= 0)
    assert (y == 1).sum() > 20000
    assert np.all(grad_x[y == 1] == 0)
    assert np.all(grad_x[y < 1] > 0)
    assert grad_filter > 0
    saturated = x[..., 20000:]
    for gradient in gradients(network, [saturated, conv_filter], ones[..., 20000:]):
        assert np.all(array(gradient) == 0)


@pytest.fixture
def launches(monkeypatch: pytest.MonkeyPatch, pynative: None) -> list[str]:
    """Names of the operators that PyNative mode starts: forward, x, filter, bias."""
    started: list[str] = []
    call = _custom._Operator.__call__

    def record(self: Any, *operands: Any) -> Any:
        started.append(getattr(self, "wanted", "forward"))
        return call(self, *operands)

    monkeypatch.setattr(_custom._Operator, "__call__", record)
    return started


def two_cells(frozen: list[str], dtype: Any = None) -> nn.Cell:
    network = nn.SequentialCell(ConvTanh(3, 4, 3, has_bias=True), ConvTanh(4, 5, 3, has_bias=True))
    for name, parameter in network.parameters_and_names():
        parameter.requires_grad = name not in frozen
    return network if dtype is None else network.to_float(dtype)


ALL = ["0.weight", "0.bias", "1.weight", "1.bias"]
# frozen, whether the gradient of the input is asked for, what the backward pass computes in graphs
NEEDS: dict[str, tuple[list[str], bool, list[str]]] = {
    "weights": ([], False, ["bias", "bias", "filter", "filter", "x"]),
    "input": (ALL, True, ["x", "x"]),
    "frozen_filter": (["1.weight"], False, ["bias", "bias", "filter", "x"]),
    "frozen_bias": (["0.bias"], False, ["bias", "filter", "filter", "x"]),
    "frozen_first": (ALL[:2], False, ["bias", "filter"]),
    "frozen_first_and_input": (ALL[:2], True, ["bias", "filter", "x", "x"]),
}


@pytest.mark.parametrize("dtype", [None, ms.float16], ids=["float32", "to_float16"])
@pytest.mark.parametrize(("frozen", "of_input", "needed"), NEEDS.values(), ids=NEEDS)
def test_computes_what_is_needed(
    launches: list[str], frozen: list[str], of_input: bool, needed: list[str], dtype: Any
) -> None:
    """Feature: frozen weights. Description: PyNative mode. Expectation: nothing is computed for them.

    MindSpore does not tell whether the gradient of a network's own input is wanted: its first trainable cell computes
    that as well.
    """
    network = two_cells(frozen, dtype)
    ms.grad(network, 0 if of_input else None, network.trainable_params())(random_tensor(1, 1, 3, 8, 8))
    assert launches[:2] == ["forward"] * 2
    assert sorted(launches[2:]) == sorted(needed if of_input else [*needed, "x"])


GRAPHS = """
import sys
import mindspore as ms, numpy as np
from mindspore import nn
from ms_convtanh import ConvTanh
ms.set_context(mode=ms.GRAPH_MODE)
network = nn.SequentialCell(ConvTanh(3, 4, 3, has_bias=True), ConvTanh(4, 5, 3, has_bias=True))
for name, parameter in network.parameters_and_names():
    parameter.requires_grad = name not in sys.argv[2:]
x = ms.Tensor(np.ones((1, 3, 8, 8), np.float32))
ms.grad(network, 0 if sys.argv[1] == "True" else None, network.trainable_params())(x)
"""


@pytest.mark.parametrize("case", ["weights", "input", "frozen_filter"])
def test_graphs_hold_what_is_needed(case: str, tmp_path: Path) -> None:
    """Feature: frozen weights. Description: the graph that is executed. Expectation: no operators for them."""
    frozen, of_input, needed = NEEDS[case]
    run(GRAPHS, of_input, *frozen, MS_DEV_SAVE_GRAPHS="1", MS_DEV_SAVE_GRAPHS_PATH=str(tmp_path))
    (executed,) = tmp_path.rglob("[0-9][0-9]_execute_*.ir")
    assert sorted(re.findall(r'\bwanted: "(\w+)"', executed.read_text())) == needed


def test_called_twice(mode: str) -> None:
    """Feature: gradients. Description: the same call again, and others between. Expectation: the same bits."""
    network = two_cells([])
    gradient = ms.value_and_grad(network, 0, network.trainable_params())
    x, other = random_tensor(1, 2, 3, 8, 9), random_tensor(2, 3, 3, 12, 7)
    first = flat(gradient(x))
    gradient(other)
    network(x)
    for before, after in zip(first, flat(gradient(x)), strict=True):
        np.testing.assert_array_equal(before, after)


class Twice(nn.Cell):
    """One cell at two places of a network."""

    def __init__(self, cell: nn.Cell) -> None:
        super().__init__()
        self.cell = cell

    def construct(self, x: Tensor) -> Tensor:
        return self.cell(self.cell(x) * 2) + self.cell(x)


def test_one_cell_at_two_places(mode: str) -> None:
    """Feature: gradients. Description: shared weights. Expectation: the sum of all uses, as stock."""
    x = random_tensor(1, 2, 4, 6, 7)
    networks = [Twice(cell) for cell in pair(2, 4, 4, 3, has_bias=True)]
    assert_like_stock(*[ms.grad(network, 0, network.trainable_params())(x) for network in networks])


def test_inside_jit(pynative: None) -> None:
    """Feature: @ms.jit. Description: the function and its gradient compiled. Expectation: as eager calls."""

    def loss(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        y = fused_conv_tanh(x, w, b, strides=[2, 1], pads=[1, 0, 1, 1])
        return (y * y).sum() + fused_conv_tanh(-x, w, pads=2).sum()

    operands = random_tensor(1, 2, 3, 9, 9), random_tensor(2, 4, 3, 3, 3), random_tensor(3, 4)
    eager = flat(ms.grad(loss, (0, 1, 2))(*operands))
    for compiled in (ms.jit(ms.grad(loss, (0, 1, 2))), ms.grad(ms.jit(loss), (0, 1, 2))):
        for gradient, expected in zip(flat(compiled(*operands)), eager, strict=True):
            np.testing.assert_allclose(gradient, expected, rtol=1e-5, atol=1e-5)


def test_views(mode: str) -> None:
    """Feature: views. Description: the gradient arrives transposed. Expectation: as for a copy."""

    class Network(nn.Cell):
        def construct(self, x: Tensor, w: Tensor, factor: Tensor) -> Tensor:
            return fused_conv_tanh(x, w).transpose(0, 2, 3, 1) * factor

    x, w, factor = random_tensor(1, 2, 3, 6, 7), random_tensor(2, 5, 3, 3, 3), random_tensor(3, 2, 4, 5, 5)
    computed = flat(ms.grad(Network(), (0, 1))(x, w, factor))
    grad_y = np.ascontiguousarray(factor.asnumpy().transpose(0, 3, 1, 2))
    for gradient, expected in zip(computed, flat(gradients(Functional(), [x, w], Tensor(grad_y))), strict=True):
        np.testing.assert_array_equal(gradient, expected)


@pytest.mark.parametrize("shape", [[None, 3, None, None], None], ids=["shape", "rank"])
def test_dynamic_shapes(mode: str, shape: Any) -> None:
    """Feature: dynamic shapes. Description: small, large, small. Expectation: the bits of static networks."""
    network, static = ConvTanh(3, 5, (3, 2), 2, has_bias=True), ConvTanh(3, 5, (3, 2), 2, has_bias=True)
    ms.load_param_into_net(static, network.parameters_dict())
    network.set_inputs(Tensor(shape=shape, dtype=ms.float32))
    gradient, expected = (ms.grad(cell, 0, cell.trainable_params()) for cell in (network, static))
    for size in ((1, 3, 8, 8), (4, 3, 70, 65), (1, 3, 8, 8), (2, 3, 9, 7)):
        x = random_tensor(1, *size)
        for mine, theirs in zip(flat(gradient(x)), flat(expected(x)), strict=True):
            np.testing.assert_array_equal(mine, theirs)


def stock(attributes: dict[str, Any], taps: tuple[int, int], channels: int) -> Callable[..., Tensor]:
    """The function from MindSpore's differentiable operators, tanh without the error of the one on CPUs."""
    convolution = ops.Conv2D(
        channels,
        taps,
        pad_mode="pad",
        pad=attributes["pads"],
        stride=attributes["strides"],
        dilation=attributes["dilations"],
        group=attributes["groups"],
    )

    def function(x: Tensor, conv_filter: Tensor, bias: Tensor) -> Tensor:
        return 2 * ops.sigmoid(2 * ops.bias_add(convolution(x, conv_filter), bias)) - 1

    return function


@pytest.mark.parametrize("geometry", ["plain", "all_different"])
def test_gradients_of_gradients(mode: str, geometry: str) -> None:
    """Feature: higher orders. Description: first to third. Expectation: as MindSpore's own operators."""
    x_shape, filter_shape = GEOMETRIES[geometry][:2]
    attributes = attributes_of(GEOMETRIES[geometry])
    operands = [random_tensor(i, *shape) * 0.3 for i, shape in enumerate((x_shape, filter_shape, filter_shape[:1]))]
    directions = [random_tensor(5 + i, *operand.shape) for i, operand in enumerate(operands)]
    ours = Functional(**attributes)
    weight = random_tensor(9, *ours(*operands).shape)

    def orders(function: Callable[..., Tensor]) -> list[list[np.ndarray]]:
        def first(x: Tensor, conv_filter: Tensor, bias: Tensor) -> Tensor:
            return (function(x, conv_filter, bias) * weight).sum()

        def along(gradient: Callable[..., Any]) -> Callable[..., Tensor]:
            def derivative(x: Tensor, conv_filter: Tensor, bias: Tensor) -> Tensor:
                g = gradient(x, conv_filter, bias)
                return (g[0] * directions[0]).sum() + (g[1] * directions[1]).sum() + (g[2] * directions[2]).sum()

            return derivative

        gradient = ms.grad(first, (0, 1, 2))
        found = [flat(gradient(*operands))]
        for _ in range(2):
            gradient = ms.grad(along(gradient), (0, 1, 2))
            found.append(flat(gradient(*operands)))
        return found

    for mine, theirs in zip(orders(ours), orders(stock(attributes, filter_shape[2:], filter_shape[0])), strict=True):
        for gradient, expected in zip(mine, theirs, strict=True):
            np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("pad_mode", ["same", "valid"])
def test_gradient_penalty(mode: str, pad_mode: str, dtype: str) -> None:
    """Feature: second order. Description: the penalty of WGAN-GP, per pad_mode and dtype. Expectation: as stock.

    In graphs MindSpore cannot add bfloat16 gradients on CPUs, and says so.
    """
    networks = pair(4, 3, 5, (3, 2), stride=2, pad_mode=pad_mode, has_bias=True)
    networks[0].to_float(MS_DTYPES[dtype])
    x = random_tensor(1, 2, 3, 7, 8) * 0.2
    results = []
    for network in networks:
        weights = network.trainable_params()
        gradient = ms.grad(network)

        def penalty(x: Tensor) -> Tensor:
            return (gradient(x) ** 2).sum()  # noqa: B023 (called before the next)

        if mode == "graph" and dtype == "bfloat16" and network is networks[0]:
            with pytest.raises(TypeError, match=r"CPU operator\[AddN\]"):
                ms.grad(penalty, None, weights)(x)
            return
        results.append(flat(ms.grad(penalty, None, weights)(x)))
    for mine, theirs in zip(*results, strict=True):
        tolerance = max(5e-4, 8 * reference.THRESHOLDS[dtype])
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=tolerance * np.abs(theirs).max())


def test_second_order_of_one_axis(mode: str) -> None:
    """Feature: second order. Description: three-dimensional tensors. Expectation: as the same in four dimensions."""
    line, plane = Functional((2,), (1, 2), (1,)), Functional((1, 2), (0, 0, 1, 2), (1, 1))
    x, w = random_tensor(1, 2, 3, 9), random_tensor(2, 4, 3, 3)
    results = []
    for network, operands in ((line, (x, w)), (plane, (x.expand_dims(2), w.expand_dims(2)))):
        gradient = ms.grad(network, (0, 1))

        def penalty(x: Tensor, w: Tensor) -> Tensor:
            g = gradient(x, w)  # noqa: B023 (called before the next)
            return (g[0] ** 2).sum() + (g[1] ** 3).sum()

        results.append(flat(ms.grad(penalty, (0, 1))(*operands)))
    for mine, theirs in zip(*results, strict=True):
        np.testing.assert_allclose(mine, theirs.squeeze(2), rtol=1e-5, atol=1e-5)


def test_empty_batch(pynative: None) -> None:
    """Feature: empty tensors. Description: a batch of none. Expectation: weights get gradients of 0."""
    x = Tensor(shape=(0, 3, 8, 8), dtype=ms.float32, init=None)
    w, bias = random_tensor(2, 4, 3, 3, 3), random_tensor(3, 4)
    computed = ms.grad(lambda w, bias: fused_conv_tanh(x, w, bias), (0, 1))(w, bias)
    for gradient, operand in zip(computed, (w, bias), strict=True):
        assert gradient.shape == operand.shape
        assert np.all(gradient.asnumpy() == 0)


def test_wrong_gradient(mode: str) -> None:
    """Feature: errors. Description: a gradient of y of another dtype or shape. Expectation: an error."""
    x, w = random_tensor(1, 1, 3, 8, 8), random_tensor(2, 4, 3, 3, 3)
    for wrong in (random_tensor(3, 1, 4, 6, 5), random_tensor(3, 1, 4, 6, 6).astype(ms.float16)):
        with pytest.raises((TypeError, ValueError, RuntimeError), match="shape|dtype|type"):
            flat(gradients(Functional(), [x, w], wrong))
