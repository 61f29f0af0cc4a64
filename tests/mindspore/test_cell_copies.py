"""What people do with cells beside calling them: ConvTanh has to do what nn.Conv2d with nn.Tanh does."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensors import random_tensor

import mindspore as ms
from mindspore import Parameter, Tensor, nn, ops
from mindspore.train import amp

from ms_convtanh import ConvTanh


class Stock(nn.Conv2d):
    """The pair in one cell, so that names of parameters are those of ConvTanh."""

    def construct(self, x: Tensor) -> Tensor:
        y = self.conv2d(x, self.weight)
        if self.has_bias:
            y = self.bias_add(y, self.bias)
        return ops.tanh(y)


KINDS = (ConvTanh, Stock)


def made(kind: type[nn.Cell], channels: int = 3, out: int = 3) -> nn.Cell:
    ms.set_seed(4)
    return kind(channels, out, 3, has_bias=True)


def both(run: Callable[[type[nn.Cell]], Any]) -> tuple[Any, Any]:
    """What a function returns, or the type and text of what it raises, for either kind."""
    results = []
    for kind in KINDS:
        try:
            results.append(run(kind))
        except Exception as error:
            results.append((type(error), str(error)))
    return results[0], results[1]


def test_pickle() -> None:
    """Feature: pickle. Description: one cell. Expectation: what nn.Conv2d does, which in MindSpore 2.10 is to raise."""
    ours, stock = both(lambda kind: pickle.loads(pickle.dumps(made(kind)))(random_tensor(1, 1, 3, 5, 5)).shape)
    assert ours == stock


def test_shallow_copy() -> None:
    """Feature: copy.copy. Description: one cell. Expectation: the same parameters, as with nn.Conv2d."""

    def run(kind: type[nn.Cell]) -> bool:
        cell = made(kind)
        return copy.copy(cell).weight is cell.weight

    assert both(run) == (True, True)


@pytest.mark.parametrize("container", [nn.CellList, nn.SequentialCell])
def test_one_cell_many_times(mode: str, container: Any) -> None:
    """Feature: containers. Description: [cell] * 3. Expectation: one set of parameters; as nn.Conv2d."""

    class Net(nn.Cell):
        def __init__(self, kind: type[nn.Cell]) -> None:
            super().__init__()
            self.layers = container([made(kind)] * 3)

        def construct(self, x: Tensor) -> Tensor:
            for layer in self.layers:
                x = layer(x)
            return x

    ours, stock = (Net(kind) for kind in KINDS)
    names = [parameter.name for parameter in ours.trainable_params()]
    assert names == [parameter.name for parameter in stock.trainable_params()]
    assert len(names) == 2
    x = random_tensor(2, 1, 3, 6, 7)
    np.testing.assert_allclose(ours(x).asnumpy(), stock(x).asnumpy(), atol=5e-4)
    gradients = [ms.grad(net, None, net.trainable_params())(x) for net in (ours, stock)]
    for mine, theirs in zip(*gradients, strict=True):
        np.testing.assert_allclose(mine.asnumpy(), theirs.asnumpy(), rtol=5e-3, atol=5e-3)


def test_copies_in_a_list(mode: str) -> None:
    """Feature: containers. Description: a list of deep copies. Expectation: names of their own; trained apart."""
    cell = made(ConvTanh)
    net = nn.SequentialCell([copy.deepcopy(cell) for _ in range(3)])
    assert [p.name for p in net.trainable_params()] == [f"{i}.{name}" for i in range(3) for name in ("weight", "bias")]
    x = random_tensor(3, 1, 3, 6, 6)
    optimizer = nn.SGD(net[1].trainable_params(), 0.1)
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer)
    before = [parameter.asnumpy().copy() for parameter in net.get_parameters()]
    step(x, ops.ones_like(x))
    changed = [not np.array_equal(p.asnumpy(), old) for p, old in zip(net.get_parameters(), before, strict=True)]
    assert changed == [False, False, True, True, False, False]


def test_moving_average(mode: str) -> None:
    """Feature: EMA. Description: a deep copy that follows the weights. Expectation: the average, and its result."""
    net = nn.SequentialCell(made(ConvTanh), made(ConvTanh))
    average = copy.deepcopy(net)
    average.set_train(False)
    for parameter in average.get_parameters():
        parameter.requires_grad = False
    x, goal = random_tensor(4, 1, 3, 6, 6), ops.ones((1, 3, 6, 6))
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.SGD(net.trainable_params(), 0.5)).set_train()
    expected = [parameter.asnumpy().copy() for parameter in net.get_parameters()]
    before = average(x).asnumpy()
    for _ in range(3):
        step(x, goal)
        for index, (slow, fast) in enumerate(zip(average.get_parameters(), net.get_parameters(), strict=True)):
            ops.assign(slow, slow * 0.9 + fast * 0.1)
            expected[index] = expected[index] * 0.9 + fast.asnumpy() * 0.1
    for slow, values in zip(average.get_parameters(), expected, strict=True):
        np.testing.assert_allclose(slow.asnumpy(), values, atol=1e-6)
    assert not average.trainable_params()
    assert not np.array_equal(average(x).asnumpy(), before)


def test_flags() -> None:
    """Feature: cells. Description: set_train, set_grad, freezing. Expectation: what nn.Conv2d shows."""

    def run(kind: type[nn.Cell]) -> Any:
        cell = made(kind).set_train().set_grad()
        flags = [cell.training, cell.requires_grad, cell.phase.split(".")[0]]
        cell.set_train(False)
        cell.weight.requires_grad = False
        return *flags, cell.training, [parameter.name for parameter in cell.trainable_params()], list(cell.state_dict())

    ours, stock = both(run)
    assert ours == stock
    assert ours[0] is True


def test_recompute(mode: str) -> None:
    """Feature: recompute. Description: in a network. Expectation: the gradients of the network without it."""
    gradients = []
    for recompute in (False, True):
        net = nn.SequentialCell(made(ConvTanh), made(ConvTanh))
        if recompute:
            net[0].recompute()
        net.set_train()
        weights = net.trainable_params()
        gradients.append(ms.grad(net, None, weights)(random_tensor(5, 1, 3, 6, 6)))
    for kept, again in zip(*gradients, strict=True):
        np.testing.assert_allclose(again.asnumpy(), kept.asnumpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("listed", ["white", "black"])
def test_amp_lists(listed: str) -> None:
    """Feature: amp lists. Description: the cell by its name in a list. Expectation: the dtypes that nn.Conv2d gets."""

    def run(kind: type[nn.Cell]) -> Any:
        net = nn.SequentialCell(made(kind), nn.Dense(6, 4))
        lists = {"white_list": [kind]} if listed == "white" else {"black_list": [*amp.get_black_list(), kind]}
        mixed = amp.custom_mixed_precision(net, **lists, dtype=ms.float16)
        y = mixed[0](random_tensor(6, 1, 3, 6, 6))
        return mixed[0].mixed_precision_type, mixed[0].weight.dtype, y.dtype, mixed(random_tensor(6, 1, 3, 6, 6)).dtype

    ours, stock = both(run)
    assert ours == stock


def test_to_float_of_what_is_not_one() -> None:
    """Feature: to_float. Description: an integer dtype. Expectation: nn.Conv2d's exception."""
    ours, stock = both(lambda kind: made(kind).to_float(ms.int32))
    assert ours == stock
    assert issubclass(ours[0], ValueError)


def test_parameters_given_by_another_cell(mode: str) -> None:
    """Feature: tied weights. Description: one Parameter in two cells. Expectation: one gradient, the sum of both."""

    class Tied(nn.Cell):
        def __init__(self, kind: type[nn.Cell]) -> None:
            super().__init__()
            self.first, self.second = made(kind), made(kind)
            self.second.weight = self.first.weight

        def construct(self, x: Tensor) -> Tensor:
            return self.second(self.first(x))

    x, gradients = random_tensor(7, 1, 3, 6, 6), []
    for kind in KINDS:
        net = Tied(kind)
        assert isinstance(net.second.weight, Parameter)
        assert len(net.trainable_params()) == 3
        gradients.append(ms.grad(net, None, net.trainable_params())(x))
    for ours, stock in zip(*gradients, strict=True):
        np.testing.assert_allclose(ours.asnumpy(), stock.asnumpy(), rtol=5e-3, atol=5e-3)
