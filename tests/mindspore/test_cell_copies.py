"""What people do with cells beside calling them: ConvTanh has to do what nn.Conv2d with nn.Tanh does."""

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tensors import random_tensor

import mindspore as ms
from mindspore import Parameter, ParameterTuple, Tensor, nn, ops
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


def test_shallow_copies_share_parameters(mode: str) -> None:
    """Feature: copy.copy. Description: a change of the copy's weight. Expectation: the cell's changes too."""
    cell, x = made(ConvTanh), random_tensor(1, 1, 3, 5, 5)
    copied = copy.copy(cell)
    assert copied.weight is cell.weight
    before = cell(x).asnumpy()
    copied.weight.set_data(copied.weight * 0.5)
    np.testing.assert_array_equal(cell(x).asnumpy(), copied(x).asnumpy())
    assert not np.array_equal(cell(x).asnumpy(), before)


def test_deep_copies_keep_what_is_set(mode: str) -> None:
    """Feature: copy.deepcopy. Description: training, frozen weights, precision. Expectation: the copy has them."""
    cell, x = made(ConvTanh).set_train().to_float(ms.float16), random_tensor(1, 1, 3, 5, 5)
    cell.bias.requires_grad = False
    copied = copy.deepcopy(cell)
    assert copied.training
    assert [parameter.requires_grad for parameter in copied.get_parameters()] == [True, False]
    y = copied(x)
    assert y.dtype == ms.float16
    np.testing.assert_array_equal(y.asnumpy(), cell(x).asnumpy())


def test_pickled_weights(mode: str) -> None:
    """Feature: pickle. Description: weights as NumPy arrays. Expectation: a new cell takes them, both ways."""
    x = random_tensor(1, 1, 3, 5, 5)
    for source_kind, target_kind in (KINDS, KINDS[::-1]):
        source, target = source_kind(3, 4, 3, has_bias=True), target_kind(3, 4, 3, has_bias=True)
        state = pickle.loads(pickle.dumps({name: p.asnumpy() for name, p in source.parameters_dict().items()}))
        loaded = {name: Parameter(Tensor(values), name=name) for name, values in state.items()}
        assert ms.load_param_into_net(target, loaded, strict_load=True) == ([], [])
        np.testing.assert_allclose(target(x).asnumpy(), source(x).asnumpy(), atol=5e-4)  # ops.tanh errs by 1e-4


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


class Blocks(nn.Cell):
    """A CellList run in a loop, to which cells were added afterwards."""

    def __init__(self, kind: type[nn.Cell]) -> None:
        super().__init__()
        self.blocks = nn.CellList([made(kind) for _ in range(2)])
        self.blocks.insert(0, made(kind))
        self.blocks.append(nn.SequentialCell(made(kind), nn.SequentialCell(made(kind))))

    def construct(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def test_cells_added_to_a_list(mode: str) -> None:
    """Feature: containers. Description: insert, append, nested. Expectation: names and results as nn.Conv2d."""
    ours, stock = (Blocks(kind) for kind in KINDS)
    assert [p.name for p in ours.get_parameters()] == [p.name for p in stock.get_parameters()]
    x = random_tensor(2, 1, 3, 6, 7)
    np.testing.assert_allclose(ours(x).asnumpy(), stock(x).asnumpy(), atol=5e-4)


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


class Ema(nn.Cell):
    """The usual cell that keeps moving averages of a network's parameters."""

    def __init__(self, net: nn.Cell, decay: float) -> None:
        super().__init__()
        self.weights = ParameterTuple(net.trainable_params())
        self.averages = self.weights.clone("ema", init="same")
        self.decay = decay

    def construct(self) -> int:
        for average, weight in zip(self.averages, self.weights):  # noqa: B905 (MindSpore compiles no strict)
            ops.assign(average, average * self.decay + weight * (1 - self.decay))
        return 0


def test_moving_average_of_parameters(mode: str) -> None:
    """Feature: EMA. Description: cloned parameters, updated in a cell. Expectation: the averages; loads into a copy."""
    cell, x = made(ConvTanh), random_tensor(4, 1, 3, 6, 6)
    start = [parameter.asnumpy().copy() for parameter in cell.get_parameters()]
    ema = Ema(cell, 0.75)
    assert [average.name for average in ema.averages] == ["ema.weight", "ema.bias"]
    for parameter in cell.get_parameters():
        parameter.set_data(parameter + 1)
    ema()
    averaged = copy.deepcopy(cell)
    for average, parameter, before in zip(ema.averages, averaged.get_parameters(), start, strict=True):
        np.testing.assert_allclose(average.asnumpy(), before + 0.25, rtol=1e-6, atol=1e-6)
        parameter.set_data(average)
    assert not np.array_equal(averaged(x).asnumpy(), cell(x).asnumpy())


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


SETTINGS: dict[str, Callable[[Any], Any]] = {
    "set_train": lambda cell: cell.set_train().training,
    "set_eval": lambda cell: cell.set_train(False).training,
    "set_grad": lambda cell: cell.set_grad().requires_grad,
    "set_comm_fusion": lambda cell: [p.comm_fusion for p in cell.set_comm_fusion(2).get_parameters()],
    "update_parameters_name": lambda cell: (
        cell.update_parameters_name("net."),
        [p.name for p in cell.get_parameters()],
    )[1],
    "init_parameters_data": lambda cell: [p.name for p in cell.init_parameters_data()],
    "state_dict": lambda cell: list(cell.state_dict()),
    "untrainable": lambda cell: [p.name for p in cell.untrainable_params()],
    "apply": lambda cell: cell.apply(lambda inner: inner.set_train()).training,
    "extend_repr": lambda cell: cell.extend_repr().partition(", weight_init")[0],
    "to_float_of_float64": lambda cell: cell.to_float(ms.float64),
    "to_float_of_int32": lambda cell: cell.to_float(ms.int32),
    "to_float_of_text": lambda cell: cell.to_float("float16"),
    "weight_that_is_no_parameter": lambda cell: setattr(cell, "weight", 3),
    "shard": lambda cell: cell.shard(((1, 1, 1, 1),)),
}


@pytest.mark.parametrize("setting", SETTINGS.values(), ids=SETTINGS)
def test_settings(setting: Callable[[Any], Any], pynative: None) -> None:
    """Feature: methods of Cell. Description: settings, misuse. Expectation: nn.Conv2d's result or exception."""
    ours, stock = both(lambda kind: setting(made(kind)))
    assert ours == stock


@pytest.mark.parametrize("whole", [False, True], ids=["one_cell", "network"])
def test_recompute(mode: str, whole: bool) -> None:
    """Feature: recompute. Description: one cell, the network. Expectation: the gradients of the network without it."""
    gradients = []
    for recompute in (False, True):
        net = nn.SequentialCell(made(ConvTanh), made(ConvTanh))
        if recompute:
            (net if whole else net[0]).recompute()
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
