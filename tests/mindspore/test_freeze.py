"""ConvTanh.freeze: the same bits, however weights change; nothing is packed twice."""

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tensors import MS_DTYPES, array, random_tensor

import mindspore as ms
from mindspore import Tensor, nn, ops

import ms_convtanh
from ms_convtanh import ConvTanh
from ms_convtanh._trace import recording

X = (2, 20, 24, 25)


def made(**more: Any) -> ConvTanh:
    """A cell for X whose filter is packed: it covers many pixels."""
    cell = ConvTanh(20, 24, 3, has_bias=True, **more)
    return cell.set_train(False)


def plain(cell: ConvTanh, x: Tensor) -> np.ndarray:
    """What a cell that was never frozen computes with the same weights."""
    other = made(dtype=cell.weight.dtype)
    ms.load_param_into_net(other, {name: copy.copy(p) for name, p in cell.parameters_dict().items()}, strict_load=True)
    return array(other(x))


def packs(cell: ConvTanh, x: Tensor) -> int:
    """Stretches of packing in one call: of the bias, of parts of the filter, of x; and of comparing what is kept."""
    with recording() as trace:
        cell(x).asnumpy()
    return sum(event.phase == "pack" for event in trace.events)


def random_weights(cell: ConvTanh, seed: int) -> Tensor:
    return random_tensor(seed, *cell.weight.shape).astype(cell.weight.dtype) * 0.1


@pytest.mark.parametrize("dtype", MS_DTYPES)
def test_weights_that_change(mode: str, dtype: str) -> None:
    """Feature: freeze. Description: weights set, assigned, loaded. Expectation: the bits of a cell that is not."""
    cell, x = made(dtype=MS_DTYPES[dtype]).freeze(), random_tensor(1, *X).astype(MS_DTYPES[dtype])
    assert cell.frozen

    def check() -> None:
        for _ in range(3):
            np.testing.assert_array_equal(array(cell(x)), plain(cell, x))

    check()
    cell.weight.set_data(random_weights(cell, 2))
    check()
    if dtype != "bfloat16":  # MindSpore has no such assignment
        ops.assign(cell.weight, random_weights(cell, 3))
        check()
    ms.load_param_into_net(cell, {"weight": ms.Parameter(random_weights(cell, 4), name="weight")})
    check()
    assert not cell.unfreeze().frozen
    check()


def test_is_packed_once() -> None:
    """Feature: freeze. Description: PyNative calls in turn of two cells with one geometry, then weights that change in
    place. Expectation: later calls compare, one after a change compares and packs."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    cells, x = [made(), made()], random_tensor(1, *X)
    with ms_convtanh.options(num_threads=1):
        packed = packs(cells[0], x)
        for cell in cells:
            cell.freeze()
        assert [packs(cell, x) for cell in cells] == [packed, packed]
        (compared,) = {packs(cell, x) for cell in [*cells, *cells]}
        ops.assign(cells[1].weight, random_weights(cells[1], 5))
        assert packs(cells[1], x) > max(packed, compared)
        assert [packs(cell, x) for cell in cells] == [compared, compared]


def test_memory_that_is_used_again(mode: str) -> None:
    """Feature: freeze. Description: cells come and go. Expectation: none computes with another's weights."""
    x = random_tensor(1, *X)
    for seed in range(6):
        cell = made().freeze()
        cell.weight.set_data(random_weights(cell, seed))
        np.testing.assert_array_equal(array(cell(x)), plain(cell, x))


def test_training(mode: str) -> None:
    """Feature: freeze. Description: a frozen cell trains beside one that is not. Expectation: equal losses and weights,
    then equal inference."""
    x, wanted = random_tensor(1, *X), random_tensor(2, 2, 24, 24, 25) * 0.5
    losses, cells = [], []
    for frozen in (False, True):
        ms.set_seed(3)
        cell = made()
        if frozen:
            cell.freeze()
        np.testing.assert_array_equal(array(cell(x)), plain(cell, x))
        optimizer = nn.Momentum(cell.trainable_params(), 0.1, 0.9)
        step = nn.TrainOneStepCell(nn.WithLossCell(cell, nn.MSELoss()), optimizer).set_train()
        losses.append([float(step(x, wanted).asnumpy()) for _ in range(3)])
        cells.append(cell.set_train(False))
    assert losses[0] == losses[1]
    assert losses[0][0] > losses[0][-1]
    np.testing.assert_array_equal(array(cells[0](x)), array(cells[1](x)))


def test_gradients(mode: str) -> None:
    """Feature: freeze. Description: gradients in inference. Expectation: those of a cell that is not frozen."""
    cell, x = made(), random_tensor(1, *X)
    gradient = ops.GradOperation(get_by_list=True)
    expected = [array(g) for g in gradient(cell, cell.trainable_params())(x)]
    frozen = copy.deepcopy(cell).freeze()
    got = [array(g) for g in gradient(frozen, frozen.trainable_params())(x)]
    for one, other in zip(expected, got, strict=True):
        np.testing.assert_array_equal(one, other)


def test_copies_and_precision(mode: str) -> None:
    """Feature: freeze. Description: deep copies, fused cells, to_float. Expectation: each keeps its own state."""
    cell, x = made().freeze(), random_tensor(1, *X)
    copied = copy.deepcopy(cell)
    assert copied.frozen
    copied.weight.set_data(random_weights(copied, 6))
    for one in (cell, copied, cell):
        np.testing.assert_array_equal(array(one(x)), plain(one, x))
    half = copy.deepcopy(cell).to_float(ms.float16)
    for _ in range(2):
        np.testing.assert_array_equal(array(half(x)), array(copy.deepcopy(half).unfreeze()(x)))
    net, _ = ms_convtanh.fuse(nn.SequentialCell(nn.Conv2d(20, 24, 3, has_bias=True), nn.Tanh()).set_train(False))
    assert not net[0].frozen
    expected = array(net(x))
    net[0].freeze()
    np.testing.assert_array_equal(array(net(x)), expected)


def test_mindir(tmp_path: Path) -> None:
    """Feature: freeze. Description: export of a frozen cell, loaded twice. Expectation: the same bits."""
    ms.set_context(mode=ms.GRAPH_MODE)
    try:
        cell, x = made().freeze(), random_tensor(1, *X)
        ms.export(cell, x, file_name=str(tmp_path / "frozen.mindir"), file_format="MINDIR")
        loaded = nn.GraphCell(ms.load(str(tmp_path / "frozen.mindir")))
        for _ in range(3):
            np.testing.assert_array_equal(array(loaded(x)), plain(cell, x))
    finally:
        ms.set_context(mode=ms.PYNATIVE_MODE)
