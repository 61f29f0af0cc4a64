"""fuse and unfuse: what they find, what they leave alone, and that results, parameters and training stay."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import networks
import numpy as np
import onnx
import onnx.reference
import pytest
import reference
from networks import CASES, Espcn, Stages, made
from tensors import random_tensor

import mindspore as ms
from mindspore import Tensor, nn

import ms_convtanh
from ms_convtanh import ConvTanh
from ms_convtanh._custom import FusedConvTanh


def parameter_names(net: nn.Cell) -> list[str]:
    return [parameter.name for parameter in net.get_parameters()]


def count(net: nn.Cell, kind: type[nn.Cell]) -> int:
    return sum(type(cell) is kind for _, cell in net.cells_and_names())


@pytest.mark.parametrize("name", CASES)
def test_networks(mode: str, name: str) -> None:
    """Feature: fuse. Description: public networks. Expectation: the pairs are found; float64 within the standard."""
    net, x = made(CASES[name])
    golden, before = networks.golden(net, x), net(Tensor(x)).asnumpy()
    fused, report = ms_convtanh.fuse(net)
    assert len(report.changed) == count(fused, ConvTanh) == CASES[name].cells
    y = fused(Tensor(x)).asnumpy()
    reference.assert_close(y, golden, "float32")
    if not report.changed:
        np.testing.assert_array_equal(y, before)
    assert count(net, ConvTanh) == 0
    np.testing.assert_array_equal(net(Tensor(x)).asnumpy(), before)


@pytest.mark.parametrize("name", ["lenet", "stages"])
def test_parameters_are_the_same_objects(name: str) -> None:
    """Feature: fuse. Description: copy and in place. Expectation: the very Parameters, in order, with their names."""
    net, _ = made(CASES[name])
    before = list(net.get_parameters())
    names = parameter_names(net)
    for inplace in (False, True):
        fused, _ = ms_convtanh.fuse(net, inplace=inplace)
        assert (fused is net) == inplace
        assert all(ours is theirs for ours, theirs in zip(fused.get_parameters(), before, strict=True))
        assert parameter_names(fused) == names
        assert list(fused.parameters_dict()) == names


def test_in_place_after_a_run(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Feature: fuse. Description: a network that ran, fused in place. Expectation: MindSpore runs the new cells."""
    net, x = made(CASES["two_in_a_row"])
    before = net(Tensor(x)).asnumpy()
    inferred = []
    infer = FusedConvTanh.__infer__

    def spy(self: Any, *operands: Any) -> Any:
        inferred.append(self)
        return infer(self, *operands)

    monkeypatch.setattr(FusedConvTanh, "__infer__", spy)
    net(Tensor(x))
    assert not inferred
    ms_convtanh.fuse(net, inplace=True)
    np.testing.assert_allclose(net(Tensor(x)).asnumpy(), before, atol=5e-4)  # nn.Tanh errs by 1e-4
    assert len(inferred) >= 2


def test_training_goes_on(mode: str) -> None:
    """Feature: fuse. Description: an optimiser made before. Expectation: steps as those of the unfused network."""
    weights = []
    for fused in (False, True):
        net, x = made(CASES["espcn"])
        optimizer = nn.Adam(net.trainable_params(), 0.01)
        if fused:
            net, report = ms_convtanh.fuse(net)
            assert len(report.changed) == 2
        step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer).set_train()
        target = Tensor(np.full((1, 1, 34, 40), 0.5, np.float32))
        for _ in range(3):
            step(Tensor(x), target)
        weights.append([parameter.asnumpy() for parameter in net.get_parameters()])
    for ours, theirs in zip(*weights, strict=True):
        np.testing.assert_allclose(ours, theirs, atol=1e-3)


def test_checkpoints_both_ways(tmp_path: Path) -> None:
    """Feature: checkpoints. Description: fused to stock and back. Expectation: everything loads."""
    for source_fused in (False, True):
        source, _ = made(CASES["espcn"])
        target = Espcn()
        if source_fused:
            source, _ = ms_convtanh.fuse(source)
        else:
            target, _ = ms_convtanh.fuse(target)
        path = str(tmp_path / f"{source_fused}.ckpt")
        ms.save_checkpoint(source, path)
        missing, unexpected = ms.load_param_into_net(target, ms.load_checkpoint(path))
        assert missing == unexpected == []
        for ours, theirs in zip(source.get_parameters(), target.get_parameters(), strict=True):
            np.testing.assert_array_equal(ours.asnumpy(), theirs.asnumpy())


class OwnConv(nn.Conv2d):
    pass


class OwnTanh(nn.Tanh):
    pass


def with_hook() -> nn.Cell:
    net = nn.SequentialCell(nn.Conv2d(3, 4, 3), nn.Tanh())
    net[0].register_forward_hook(lambda cell, inputs, output: None)
    return net


def with_hooked_container() -> nn.Cell:
    inner = nn.SequentialCell(nn.Conv2d(3, 4, 3))
    inner.register_forward_hook(lambda cell, inputs, output: None)
    return nn.SequentialCell(inner, nn.Tanh())


def with_shared() -> nn.Cell:
    conv = nn.Conv2d(3, 3, 3)
    return nn.SequentialCell(conv, nn.Tanh(), conv, nn.Tanh())


def with_shared_blocks() -> nn.Cell:
    return nn.SequentialCell([nn.SequentialCell(nn.Conv2d(3, 3, 3), nn.Tanh())] * 2)


def with_recompute() -> nn.Cell:
    net = nn.SequentialCell(nn.Conv2d(3, 4, 3), nn.Tanh())
    net[0].recompute()
    return net


def with_precisions() -> nn.Cell:
    net = nn.SequentialCell(nn.Conv2d(3, 4, 3), nn.Tanh())
    net[0].to_float(ms.float16)
    return net


def with_own_construct() -> nn.Cell:
    net = nn.SequentialCell(nn.Conv2d(3, 4, 3), nn.Tanh())
    net[1].construct = lambda x: x
    return net


class Outer(nn.Cell):
    """Reads the output of a convolution out of the middle of its chain."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.SequentialCell(nn.Conv2d(3, 4, 3), nn.Tanh())

    def construct(self, x: Tensor) -> Tensor:
        return self.features(x) + self.features[0](x)


class Collecting(nn.Cell):
    """Keeps what is between the cells of a list."""

    def __init__(self) -> None:
        super().__init__()
        self.features = nn.CellList([nn.Conv2d(3, 4, 3), nn.Tanh()])

    def construct(self, x: Tensor) -> Any:
        kept = []
        for cell in self.features:
            x = cell(x)
            kept.append(x)
        return kept


LEFT_ALONE: dict[str, tuple[Callable[[], nn.Cell], str]] = {
    "subclass": (lambda: nn.SequentialCell(OwnConv(3, 4, 3), nn.Tanh()), "OwnConv is not nn.Conv2d"),
    "tanh_subclass": (lambda: nn.SequentialCell(nn.Conv2d(3, 4, 3), OwnTanh()), "OwnTanh follows it"),
    "transposed": (lambda: nn.SequentialCell(nn.Conv2dTranspose(3, 4, 3), nn.Tanh()), "Conv2dTranspose is not"),
    "one_axis": (lambda: nn.SequentialCell(nn.Conv1d(3, 4, 3), nn.Tanh()), "Conv1d is not"),
    "other": (lambda: nn.SequentialCell(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Tanh()), "ReLU follows it"),
    "last": (lambda: nn.SequentialCell(nn.Tanh(), nn.Conv2d(3, 4, 3)), "nothing follows it"),
    "hook": (with_hook, "the convolution has hooks"),
    "hooked_container": (with_hooked_container, "nothing follows it"),
    "shared": (with_shared, "more than once"),
    "shared_blocks": (with_shared_blocks, "more than once"),
    "recompute": (with_recompute, "recompute is set"),
    "precisions": (with_precisions, "different precisions"),
    "construct": (with_own_construct, "the tanh has a construct of its own"),
    "float64": (lambda: nn.SequentialCell(nn.Conv2d(3, 4, 3, dtype=ms.float64), nn.Tanh()), "its dtype is float64"),
    "indexed": (Outer, "does more with its container"),
    "collected": (Collecting, "does more with its container"),
    "attribute": (networks.Functional, "not in a SequentialCell or CellList"),
}


@pytest.mark.parametrize(("make", "reason"), LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_left_alone(make: Callable[[], nn.Cell], reason: str) -> None:
    """Feature: fuse. Description: pairs that mean something else. Expectation: unchanged, with the reason."""
    net = make()
    kinds = [type(cell) for _, cell in net.cells_and_names()]
    fused, report = ms_convtanh.fuse(net, inplace=True)
    assert [type(cell) for _, cell in fused.cells_and_names()] == kinds
    assert report.changed == ()
    assert report.left
    assert all(reason in pair.reason for pair in report.left)


def test_source_that_is_not_there() -> None:
    """Feature: fuse. Description: a class from exec. Expectation: nothing of it is fused, with the reason."""
    scope: dict[str, Any] = {"nn": nn, "__name__": "somewhere"}
    exec(
        "class Unknown(nn.Cell):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.cells_inside = nn.SequentialCell(nn.Conv2d(3, 4, 3), nn.Tanh())\n"
        "    def construct(self, x):\n"
        "        return self.cells_inside(x)\n",
        scope,
    )
    _, report = ms_convtanh.fuse(scope["Unknown"]())
    assert "the source of Unknown is not there" in report.left[0].reason


def test_subclass_of_sequential_cell_and_called_elements(mode: str) -> None:
    """Feature: fuse. Description: a block class, elements called by index. Expectation: fused inside."""

    class Block(nn.SequentialCell):
        def __init__(self, channels: int) -> None:
            super().__init__(nn.Conv2d(channels, channels, 3), nn.Tanh())

    class Blocks(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.CellList([Block(3), Block(3)])

        def construct(self, x: Tensor) -> Tensor:
            return self.blocks[1](self.blocks[0](x)) + x

    net, x = Blocks(), random_tensor(1, 1, 3, 6, 6)
    fused, report = ms_convtanh.fuse(net)
    assert [pair.convolution for pair in report.changed] == ["blocks.0.0", "blocks.1.0"]
    np.testing.assert_allclose(fused(x).asnumpy(), net(x).asnumpy(), atol=5e-4)  # nn.Tanh errs by 1e-4


def test_precision_stays(mode: str) -> None:
    """Feature: fuse. Description: to_float on the whole network. Expectation: fused in that precision."""
    net, x = made(CASES["two_in_a_row"])
    net.to_float(ms.float16)
    fused, report = ms_convtanh.fuse(net)
    assert len(report.changed) == 2
    y = fused(Tensor(x))
    assert y.dtype == ms.float16
    np.testing.assert_allclose(y.asnumpy(), net(Tensor(x)).asnumpy(), atol=2e-3)


def test_report_is_a_table() -> None:
    """Feature: report. Description: str. Expectation: a line for each convolution, in columns."""
    _, report = ms_convtanh.fuse(Espcn())
    assert str(report).splitlines() == [
        "convolution     tanh            result",
        "features.conv1  features.tanh1  changed",
        "features.conv2  features.tanh2  changed",
        "upscale.0       -               left alone: PixelShuffle follows it, not nn.Tanh",
    ]


@pytest.mark.parametrize("inplace", [False, True])
def test_unfuse_restores(mode: str, inplace: bool) -> None:
    """Feature: unfuse. Description: after fuse. Expectation: the cells of before, the same results to the bit."""
    net, x = made(CASES["stages"])
    before, kinds = net(Tensor(x)).asnumpy(), [type(cell) for _, cell in net.cells_and_names()]
    fused, _ = ms_convtanh.fuse(net)
    unfused, report = ms_convtanh.unfuse(fused, inplace=inplace)
    assert (unfused is fused) == inplace
    assert len(report.changed) == 2
    assert [type(cell) for _, cell in unfused.cells_and_names()] == kinds
    assert parameter_names(unfused) == parameter_names(net)
    np.testing.assert_array_equal(unfused(Tensor(x)).asnumpy(), before)


class Written(nn.Cell):
    """A network that was written with ConvTanh; one of them twice."""

    def __init__(self) -> None:
        super().__init__()
        self.head = ConvTanh(3, 4, 3, has_bias=True)
        self.body = nn.SequentialCell([ConvTanh(4, 4, 3)] * 2)

    def construct(self, x: Tensor) -> Tensor:
        return self.body(self.head(x))


@pytest.mark.parametrize("inplace", [False, True])
def test_unfuse_what_was_written_with_the_operator(mode: str, inplace: bool) -> None:
    """Feature: unfuse. Description: ConvTanh in a network's source. Expectation: stock operators, same parameters."""
    net, x = Written(), random_tensor(2, 1, 3, 6, 7)
    before = net(x).asnumpy()
    parameters = list(net.get_parameters())
    unfused, _ = ms_convtanh.unfuse(net, inplace=inplace)
    assert count(unfused, ConvTanh) == 0
    assert unfused.body[0] is unfused.body[1]
    assert all(ours is theirs for ours, theirs in zip(unfused.get_parameters(), parameters, strict=True))
    np.testing.assert_allclose(unfused(x).asnumpy(), before, atol=5e-4)  # nn.Tanh errs by 1e-4


@pytest.mark.parametrize("inplace", [False, True])
def test_unfuse_one_cell(inplace: bool) -> None:
    """Feature: unfuse. Description: the network is a ConvTanh. Expectation: stock operators."""
    net, x = ConvTanh(3, 4, 3, has_bias=True), random_tensor(3, 1, 3, 6, 7)
    before = net(x).asnumpy()
    unfused, report = ms_convtanh.unfuse(net, inplace=inplace)
    assert (unfused is net) == inplace
    assert type(unfused) is not ConvTanh
    assert len(report.changed) == 1
    np.testing.assert_allclose(unfused(x).asnumpy(), before, atol=5e-4)  # nn.Tanh errs by 1e-4


def test_unfuse_leaves_subclasses_alone() -> None:
    """Feature: unfuse. Description: a subclass of ConvTanh. Expectation: unchanged, with the reason."""

    class Own(ConvTanh):
        pass

    net, report = ms_convtanh.unfuse(nn.SequentialCell(Own(3, 4, 3)))
    assert type(net[0]) is Own
    assert "subclass of ConvTanh" in report.left[0].reason


@pytest.mark.parametrize(
    "make", [lambda: ms_convtanh.fuse(made(CASES["lenet"])[0])[0], Written], ids=["lenet", "written"]
)
def test_onnx(make: Callable[[], nn.Cell], tmp_path: Path) -> None:
    """Feature: ONNX. Description: export of the unfused network. Expectation: standard operators, same results."""
    net = make()
    x = random_tensor(4, *((2, 1, 28, 28) if isinstance(net, nn.SequentialCell) else (1, 3, 8, 8)))
    before = net(x).asnumpy()
    unfused, _ = ms_convtanh.unfuse(net)
    ms.export(unfused.set_train(False), x, file_name=str(tmp_path / "net"), file_format="ONNX")
    model = onnx.load(tmp_path / "net.onnx")
    assert {node.domain for node in model.graph.node} == {""}
    inputs = {model.graph.input[0].name: x.asnumpy()}
    (y,) = onnx.reference.ReferenceEvaluator(model).run(None, inputs)
    np.testing.assert_allclose(y, before, atol=1e-5)


@pytest.mark.parametrize("function", ["fuse", "unfuse"])
def test_not_a_cell(function: str) -> None:
    """Feature: errors. Description: net is no Cell. Expectation: TypeError that says so."""
    with pytest.raises(TypeError, match=f"{function}: net must be a mindspore.nn.Cell, got list"):
        getattr(ms_convtanh, function)([])


def test_fuse_twice() -> None:
    """Feature: fuse. Description: a fused network. Expectation: nothing more to do."""
    fused, _ = ms_convtanh.fuse(Stages())
    _, report = ms_convtanh.fuse(fused)
    assert report.changed == report.left == ()
