"""The graph pass: what it fuses in networks whose source does not know of it, and how it is compiled."""

import logging
import os
import re
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import networks
import numpy as np
import processes
import pytest
import reference
from networks import CASES, Functional, made
from tensors import MS_DTYPES, array, random_tensor

import mindspore as ms
from mindspore import Parameter, Tensor, mint, nn, ops

import ms_convtanh
from ms_convtanh import _plugin


@pytest.fixture
def auto_fusion(plugin_cache: Path) -> Iterator[None]:
    """Graph mode with the pass switched on."""
    ms.set_context(mode=ms.GRAPH_MODE)
    ms_convtanh.enable_auto_fusion()
    yield
    ms_convtanh.disable_auto_fusion()
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> Any:
    """Takes the log lines of fusions, or of pairs left alone, since the last time."""
    caplog.set_level(logging.DEBUG, "ms_convtanh")

    def take(level: int = logging.INFO) -> list[str]:
        found = [r.getMessage() for r in caplog.records if r.name == "ms_convtanh" and r.levelno == level]
        caplog.clear()
        return found

    return take


@pytest.mark.parametrize("name", CASES)
def test_networks(name: str, auto_fusion: None, lines: Any) -> None:
    """Feature: pass. Description: public networks. Expectation: all pairs are found; float64 within the standard."""
    net, x = made(CASES[name])
    y = net(Tensor(x)).asnumpy()
    assert len(lines()) == CASES[name].graph
    reference.assert_close(y, networks.golden(net, x), "float32")


def test_off_by_default_and_off_again(auto_fusion: None, lines: Any) -> None:
    """Feature: switch. Description: off, on, off. Expectation: graphs that are compiled meanwhile, and only those."""
    ms_convtanh.disable_auto_fusion()
    net, x = made(CASES["lenet"])
    stock = net(Tensor(x)).asnumpy()
    assert not lines()
    ms_convtanh.enable_auto_fusion()
    net(Tensor(x))  # compiled before
    assert not lines()
    net, _ = made(CASES["lenet"])
    fused = net(Tensor(x)).asnumpy()
    assert len(lines()) == 2
    ms_convtanh.disable_auto_fusion()
    np.testing.assert_array_equal(net(Tensor(x)).asnumpy(), fused)
    net, _ = made(CASES["lenet"])
    np.testing.assert_array_equal(net(Tensor(x)).asnumpy(), stock)
    assert not lines()


def test_a_line_for_each_fusion(auto_fusion: None, lines: Any) -> None:
    """Feature: log. Description: one pair. Expectation: its name, shapes and dtype."""
    net, x = made(CASES["functional"])
    net(Tensor(x))
    (line,) = lines()
    assert re.search(
        r"conv-Conv2d/Conv2D-op\d+ and tanh became FusedConvTanh: x 1x3x8x8, filter 4x3x3x3, float32$", line
    )


def test_says_what_stays(auto_fusion: None, lines: Any) -> None:
    """Feature: log. Description: a second reader. Expectation: a line of level DEBUG with the reason."""
    net, x = made(CASES["used_twice"])
    net(Tensor(x))
    assert "something else reads the convolution's output" in lines(logging.DEBUG)[0]


@pytest.mark.parametrize("bias", [False, True], ids=["no_bias", "bias"])
@pytest.mark.parametrize("dtype", MS_DTYPES)
def test_dtypes(dtype: str, bias: bool, auto_fusion: None, lines: Any) -> None:
    """Feature: dtypes. Description: bfloat16 included, which stock convolutions lack. Expectation: the standard."""
    net = nn.SequentialCell(nn.Conv2d(4, 6, 3, has_bias=bias, dtype=MS_DTYPES[dtype]), nn.Tanh())
    x = random_tensor(1, 2, 4, 9, 8).astype(MS_DTYPES[dtype])
    y = net(x)
    assert y.dtype == MS_DTYPES[dtype]
    assert len(lines()) == 1
    filter_and_bias = [array(parameter) for parameter in net.get_parameters()]
    reference.assert_close(array(y), reference.conv_tanh(array(x), *filter_and_bias, pads=(1, 1, 1, 1)), dtype)


class Form(nn.Cell):
    """Functions in the place of cells."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.bias = Parameter(random_tensor(3, 4, 3, 3, 3) * 0.2), Parameter(random_tensor(4, 4))

    def golden(self, x: np.ndarray) -> np.ndarray:
        return reference.conv_tanh(x, self.weight.asnumpy(), self.bias.asnumpy(), pads=(1, 1, 1, 1))


class OfOps(Form):
    def construct(self, x: Tensor) -> Tensor:
        return ops.tanh(ops.conv2d(x, self.weight, self.bias, 1, "pad", 1))


class OfPrimitives(Form):
    def construct(self, x: Tensor) -> Tensor:
        return ops.Tanh()(ops.bias_add(ops.Conv2D(4, 3, pad_mode="same")(x, self.weight), self.bias))


class OfMethods(Form):
    def construct(self, x: Tensor) -> Tensor:
        return ops.bias_add(ops.conv2d(x, self.weight, None, 1, "same"), self.bias).tanh()


class OfMint(Form):
    def construct(self, x: Tensor) -> Tensor:
        return mint.tanh(ops.conv2d(x, self.weight * 1, self.bias, 1, "same"))


@pytest.mark.parametrize("form", [OfOps, OfPrimitives, OfMethods, OfMint])
def test_forms(form: type[Form], auto_fusion: None, lines: Any) -> None:
    """Feature: pass. Description: ways to write the pair. Expectation: fused, float64 within the standard."""
    net, x = form(), random_tensor(5, 2, 3, 7, 8)
    y = net(x).asnumpy()
    assert len(lines()) == 1
    reference.assert_close(y, net.golden(x.asnumpy()), "float32")


def test_rounding_between_stays(auto_fusion: None, lines: Any) -> None:
    """Feature: pass. Description: amp "O1" rounds the convolution to float16 before tanh. Expectation: left alone."""

    class Rounded(Form):
        def construct(self, x: Tensor) -> Tensor:
            return ops.tanh(ops.conv2d(x.half(), self.weight.half(), None, 1, "same").float())

    Rounded()(random_tensor(5, 2, 3, 7, 8))
    assert not lines()


ATTRIBUTES: dict[str, dict[str, Any]] = {
    "pads": {"pad_mode": "pad", "padding": (1, 0, 2, 3)},
    "valid": {"pad_mode": "valid", "stride": (2, 1)},
    "same_odd": {"pad_mode": "same", "stride": (3, 2)},
    "dilation": {"pad_mode": "same", "dilation": (2, 3)},
    "groups": {"pad_mode": "pad", "padding": 1, "group": 2},
    "depthwise": {"pad_mode": "same", "group": 4},
}


@pytest.mark.parametrize("attributes", ATTRIBUTES.values(), ids=ATTRIBUTES)
def test_attributes(attributes: dict[str, Any], auto_fusion: None, lines: Any) -> None:
    """Feature: attributes. Description: each of nn.Conv2d. Expectation: as the stock network, close to float64."""
    net = nn.SequentialCell(nn.Conv2d(4, 8, (3, 2), has_bias=True, **attributes), nn.Tanh())
    x = random_tensor(2, 2, 4, 11, 10)
    y = net(x).asnumpy()
    assert len(lines()) == 1
    reference.assert_close(y, networks.golden(net, x.asnumpy()), "float32")


def test_dynamic_shapes(auto_fusion: None, lines: Any) -> None:
    """Feature: dynamic shapes. Description: batch, height and width unknown. Expectation: fused once, right for all."""
    net, _ = made(CASES["even_kernels"])
    net.set_inputs(Tensor(shape=[None, 3, None, None], dtype=ms.float32))
    for seed, shape in enumerate([(1, 3, 10, 13), (2, 3, 17, 9), (1, 3, 8, 8)]):
        x = random_tensor(seed, *shape)
        reference.assert_close(net(x).asnumpy(), networks.golden(net, x.asnumpy()), "float32")
    assert len(lines()) == 3


def test_dynamic_rank_stays(auto_fusion: None, lines: Any) -> None:
    """Feature: dynamic shapes. Description: unknown rank. Expectation: it runs, fused or not."""
    net, x = made(CASES["functional"])
    net.set_inputs(Tensor(shape=None, dtype=ms.float32))
    reference.assert_close(net(Tensor(x)).asnumpy(), networks.golden(net, x), "float32")


def test_training_graph(auto_fusion: None, lines: Any) -> None:
    """Feature: training. Description: loss and gradients in one graph. Expectation: fused forward, stock gradients."""
    results = []
    for enabled in (False, True):
        (ms_convtanh.enable_auto_fusion if enabled else ms_convtanh.disable_auto_fusion)()
        net, x = made(CASES["lenet"])
        optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
        step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), optimizer).set_train()
        losses = [step(Tensor(x), ops.zeros((2, 10))).asnumpy() for _ in range(3)]
        results.append([*losses, *(parameter.asnumpy() for parameter in net.get_parameters())])
        assert len(lines()) == (2 if enabled else 0)
    for stock, fused in zip(*results, strict=True):
        np.testing.assert_allclose(fused, stock, atol=5e-4)  # nn.Tanh errs by 1e-4


@pytest.mark.parametrize(("change", "fused"), [("after", 1), ("bias", 1), ("weight_and_bias", 0)])
def test_parameters_that_change(change: str, fused: int, auto_fusion: None, lines: Any) -> None:
    """Feature: side effects. Description: assignments around and between the operators. Expectation: their order."""

    class Changing(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.weight = ms.Parameter(random_tensor(7, 4, 3, 3, 3))
            self.bias = ms.Parameter(random_tensor(8, 4))
            self.conv, self.change = ops.Conv2D(4, 3, pad_mode="same"), change

        def construct(self, x: Tensor) -> Tensor:
            y = self.conv(x, self.weight)
            if self.change == "weight_and_bias":
                ops.assign(self.weight, self.weight * 2)
            if self.change != "after":
                ops.assign(self.bias, self.bias + 1)
            y = ops.tanh(ops.bias_add(y, self.bias))
            if self.change != "weight_and_bias":
                ops.assign(self.weight, self.weight * 2)
            return y

    x, net = random_tensor(9, 1, 3, 6, 6), Changing()
    for _ in range(3):
        weight, bias = net.weight.asnumpy().copy(), net.bias.asnumpy() + (change != "after")
        golden = reference.conv_tanh(x.asnumpy(), weight, bias, pads=(1, 1, 1, 1))
        reference.assert_close(net(x).asnumpy(), golden, "float32")
        np.testing.assert_array_equal(net.weight.asnumpy(), weight * 2)
    assert len(lines()) == fused


def test_gradient_that_reads_the_sum(auto_fusion: None, lines: Any) -> None:
    """Feature: training. Description: the convolution's output is in the loss too. Expectation: left alone, right."""

    class Penalised(Functional):
        def construct(self, x: Tensor) -> Tensor:
            z = self.conv(x)
            return (ops.tanh(z) + z * z).sum()

    net, x = Penalised(), random_tensor(5, 1, 3, 6, 6)
    gradients = ms.grad(net, None, net.trainable_params())(x)
    assert not lines()
    ms.set_context(mode=ms.PYNATIVE_MODE)
    for ours, stock in zip(gradients, ms.grad(net, None, net.trainable_params())(x), strict=True):
        np.testing.assert_allclose(ours.asnumpy(), stock.asnumpy(), rtol=1e-5, atol=1e-5)


def test_control_flow(auto_fusion: None, lines: Any) -> None:
    """Feature: pass. Description: the pair is the result of a branch and of a loop. Expectation: right results."""

    class Branches(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.pair = nn.SequentialCell(nn.Conv2d(3, 3, 3, has_bias=True), nn.Tanh())
            self.conv = nn.Conv2d(3, 3, 1)

        def construct(self, x: Tensor, times: Tensor) -> Tensor:
            y = self.conv(x)
            while times > 0:
                x = self.pair(x)
                times = times - 1
            if x.sum() > 1000:
                return y
            return ops.tanh(y) + x

    net, x = Branches(), random_tensor(6, 1, 3, 5, 5)
    y = net(x, Tensor(2, ms.int32)).asnumpy()
    inner = x.asnumpy()
    for _ in range(2):
        inner = networks.golden(net.pair, inner)
    golden = np.tanh(networks.golden(net.conv, x.asnumpy())) + inner
    np.testing.assert_allclose(y, golden, atol=1e-5)


def test_jit_function_in_pynative_mode(auto_fusion: None, lines: Any) -> None:
    """Feature: pass. Description: @ms.jit, and PyNative outside it. Expectation: only the compiled call is fused."""
    ms.set_context(mode=ms.PYNATIVE_MODE)
    net, x = made(CASES["functional"])
    net(Tensor(x))
    assert not lines()
    y = ms.jit(net.construct)(Tensor(x)).asnumpy()
    assert len(lines()) == 1
    reference.assert_close(y, networks.golden(net, x), "float32")


def test_mindir_of_stock_operators(auto_fusion: None, lines: Any, tmp_path: Path) -> None:
    """Feature: MindIR. Description: exported without the package. Expectation: fused when it is loaded and run."""
    net, x = made(CASES["espcn"])
    ms.export(net, Tensor(x), file_name=str(tmp_path / "net"), file_format="MINDIR")
    assert not lines()
    y = nn.GraphCell(ms.load(str(tmp_path / "net.mindir")))(Tensor(x)).asnumpy()
    assert len(lines()) == 2
    reference.assert_close(y, networks.golden(net, x), "float32")


def test_many_threads_switch(auto_fusion: None) -> None:
    """Feature: switch. Description: threads switch on and off. Expectation: no error, and the last word counts."""
    switches = [ms_convtanh.enable_auto_fusion, ms_convtanh.disable_auto_fusion] * 4
    threads = [threading.Thread(target=lambda s=s: [s() for _ in range(50)]) for s in switches]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ms_convtanh.enable_auto_fusion()


PROGRAM = """
import numpy as np
import mindspore as ms
from mindspore import nn
import ms_convtanh
ms.set_context(mode=ms.GRAPH_MODE)
ms_convtanh.enable_auto_fusion()
net = nn.SequentialCell(nn.Conv2d(3, 4, 3, dtype=ms.bfloat16), nn.Tanh())  # stock convolutions lack bfloat16
print(net(ms.ops.ones((1, 3, 8, 8), ms.bfloat16)).shape)
"""


def test_cached_and_quiet(auto_fusion: None, plugin_cache: Path) -> None:
    """Feature: cache. Description: a new process without a compiler. Expectation: it runs; nothing else is printed."""
    output = processes.run(PROGRAM, CXX="/no/such/compiler", XDG_CACHE_HOME=str(plugin_cache))
    assert output.splitlines() == ["(1, 4, 8, 8)"]
    assert [path.suffix for path in (plugin_cache / "ms_convtanh").iterdir() if path.suffix != ".lock"] == [".so"]


def compiler_that(commands: str, folder: Path) -> str:
    """The path of a shell script in a compiler's place."""
    script = folder / "compiler"
    script.write_text(f"#!/bin/sh\n{commands}\n")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return str(script)


def test_processes_at_the_same_time(tmp_path: Path) -> None:
    """Feature: cache. Description: two processes, an empty cache. Expectation: one compiles, both have the result."""
    # Writes its output name, which follows -o, into the file that is there at the end.
    commands = f'echo run >> {tmp_path}/runs; sleep 3; while [ "$1" != -o ]; do shift; done; echo plugin > "$2"'
    environment = {**os.environ, "CXX": compiler_that(commands, tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", "from ms_convtanh import _plugin; print(_plugin.built().read_text(), end='')"]
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[0] for process in running] == ["plugin\n"] * 2
    assert (tmp_path / "runs").read_text() == "run\n"


def test_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Feature: errors. Description: no compiler. Expectation: what was looked for and what to install."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(RuntimeError, match=r"found none \(looked for g\+\+, c\+\+, clang\+\+\); install g\+\+"):
        _plugin.built()


def test_compiler_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Feature: errors. Description: the compiler fails. Expectation: its error and its command; nothing is left."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("CXX", compiler_that("echo 'a.cc:1: error: no such thing'; exit 1", tmp_path) + " -m64")
    with pytest.raises(RuntimeError, match=r"a.cc:1: error: no such thing. The command was: .*compiler -m64 -std"):
        _plugin.built()
    assert [path.suffix for path in (tmp_path / "ms_convtanh").iterdir()] == [".lock"]


def test_other_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Feature: errors. Description: another MindSpore. Expectation: refused, with the way that works."""
    for version in ("2.9.0", "2.11.0", "2.100.1", "3.0"):
        monkeypatch.setattr(_plugin.importlib.metadata, "version", lambda name, version=version: version)
        with pytest.raises(RuntimeError, match=rf"expected MindSpore 2.10, got {version}; use ms_convtanh.fuse"):
            _plugin.built()


def test_cache_folder_that_cannot_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Feature: errors. Description: a file where the folder should be. Expectation: the path and XDG_CACHE_HOME."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(RuntimeError, match="cannot make the cache folder .*/file/ms_convtanh; set XDG_CACHE_HOME"):
        _plugin.built()


def test_cache_folder_of_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Feature: errors. Description: others may write into the cache. Expectation: refused: code is loaded from it."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "ms_convtanh").mkdir()
    (tmp_path / "ms_convtanh").chmod(0o777)
    with pytest.raises(RuntimeError, match="must be yours and writable by you alone"):
        _plugin.built()


def test_device_target(monkeypatch: pytest.MonkeyPatch) -> None:
    """Feature: errors. Description: another device target. Expectation: refused before anything is compiled."""
    monkeypatch.setattr(ms.context, "get_context", lambda name: "Ascend")
    with pytest.raises(RuntimeError, match="enable_auto_fusion: the device target must be CPU, got Ascend"):
        ms_convtanh.enable_auto_fusion()
