"""The precision checker: measures, standards, layers of networks, reports and exit statuses."""

import json
import re
import subprocess
import sys
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import mindspore as ms
from mindspore import nn, ops

from ms_convtanh import ConvTanh, checker
from ms_convtanh._reference import Unknown, evaluate


def run(*arguments: object) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "ms_convtanh", "check", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


# Arrays


def test_measures(rng: np.random.Generator) -> None:
    golden = rng.uniform(-1, 1, (3, 5, 7))
    actual = golden.astype(np.float32)
    actual[1, 2, 3] += np.float32(1e-3)
    relative = np.abs(actual - golden) / (np.abs(golden) + 1e-7)
    result = checker.compare(actual, golden)
    assert (result.shape, result.dtype, result.standard) == ((3, 5, 7), "float32", "conv")
    assert result.mere == pytest.approx(relative.mean())
    assert result.mare == pytest.approx(relative.max())
    assert result.worst == (1, 2, 3)
    assert result.max_abs == pytest.approx(1e-3, rel=1e-3)
    assert (result.actual, result.golden) == (float(actual[1, 2, 3]), golden[1, 2, 3])
    assert sum(result.histogram) == golden.size
    assert checker.compare(golden.astype(np.float32), golden).passed


@pytest.mark.parametrize(("dtype", "threshold"), [("float32", 2.0**-13), ("float16", 2.0**-10), ("bfloat16", 2.0**-7)])
def test_ecosystem_thresholds(dtype: str, threshold: float) -> None:
    """MERE < T and MARE < 10 T, on either side of both."""
    golden = np.ones(100)
    for factor, passed in ((0.9, True), (1.1, False)):
        mean = checker.compare(golden * (1 + factor * threshold), golden, standard="ecosystem", dtype=dtype)
        assert mean.passed == passed
        assert ("MERE" in mean.reason) != passed
        single = golden.copy()
        single[7] += factor * 10 * threshold
        assert checker.compare(single, golden, standard="ecosystem", dtype=dtype).passed == passed


def test_cancelled_sums() -> None:
    """conv bounds them by their absolute error, ecosystem by the relative one."""
    golden = np.array([1.0, -0.5, 1e-6])
    near, far = golden + np.array([0, 0, 1e-7]), golden + np.array([0, 0, 2e-5])
    assert checker.compare(near, golden, dtype="float32").passed
    assert not checker.compare(near, golden, dtype="float32", standard="ecosystem").passed
    result = checker.compare(far, golden, dtype="float32")
    assert "where |g| < s" in result.reason


def test_tolerance() -> None:
    golden = np.array([100.0, 0.01])
    assert checker.compare(golden + np.array([0.9, 0.009]), golden, tolerance=0.01).passed
    assert not checker.compare(golden + np.array([1.1, 0]), golden, tolerance=0.01).passed
    assert not checker.compare(golden + np.array([0, 0.011]), golden, tolerance=0.01).passed


def test_nonfinite() -> None:
    """They have to be in the same places, infinities with the same sign."""
    golden = np.array([1.0, np.nan, np.inf, -np.inf])
    assert checker.compare(golden.astype(np.float32), golden).passed
    for place, value in ((0, np.nan), (1, 1), (2, -np.inf), (3, 0)):
        actual = golden.astype(np.float32)
        actual[place] = value
        result = checker.compare(actual, golden)
        assert (result.passed, result.nonfinite) == (False, 1)


def test_empty_and_scalar() -> None:
    assert checker.compare(np.empty((0, 3), np.float32), np.empty((0, 3))).passed
    assert checker.compare(np.float32(0.5).reshape(()), np.array(0.5)).passed


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"standard": "strict"}, "standard must be one of conv, ecosystem, got 'strict'"),
        ({"tolerance": -1.0}, "tolerance must be 0 or more and finite, got -1.0"),
        ({"dtype": "float64"}, "dtype must be float32, float16 or bfloat16, got float64"),
    ],
)
def test_wrong_arguments(keywords: dict, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        checker.compare(np.ones(2, np.float32), np.ones(2), **keywords)
    with pytest.raises(ValueError, match=r"one shape, got \[2\] and \[3\]"):
        checker.compare(np.ones(2, np.float32), np.ones(3))


def test_files(tmp_path: Path) -> None:
    """.npy and .npz, bfloat16 too; one line of an error for what is neither."""
    golden = np.linspace(-1, 1, 40).reshape(4, 10)
    np.save("golden.npy", golden)
    np.save("y.npy", golden.astype(ml_dtypes.bfloat16))
    passed = run("y.npy", "golden.npy", "--json")
    assert passed.returncode == 0, passed.stderr
    (values,) = json.loads(passed.stdout)
    assert (values["dtype"], values["passed"], values["name"]) == ("bfloat16", True, "y")
    np.savez("both.npz", a=golden.astype(np.float32), b=golden.astype(np.float32) * 1.1)
    np.savez("goldens.npz", b=golden, a=golden)
    failed = run("both.npz", "goldens.npz", "--html", "report.html")
    assert failed.returncode == 1
    assert "a: passed" in failed.stdout
    assert "b: failed: MERE" in failed.stdout
    page = Path("report.html").read_text()
    assert page.count("<svg") == 2
    assert not re.search(r"(src|href)=\"https?:", page)
    Path("text.npy").write_text("hello")
    for arguments, words in (
        (("text.npy", "golden.npy"), "text.npy must be an .npy or .npz file"),
        (("both.npz", "golden.npy"), "must hold the same names"),
        (("golden.npy", "golden.npy"), "got float64"),
    ):
        wrong = run(*arguments)
        assert (wrong.returncode, wrong.stdout) == (1, "")
        assert words in wrong.stderr
        assert "Traceback" not in wrong.stderr
    assert run("y.npy").returncode == run("--network", "x.mindir").returncode == run("no.npy", "y.npy").returncode == 2


def test_html_escapes_names() -> None:
    page = checker.as_html([checker.compare(np.ones(1, np.float32), np.ones(1), name="<script>x</script>")])
    assert "<script>" not in page


# Networks


class Mixed(nn.Cell):
    """Most operators that have a reference."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2, pad_mode="same", has_bias=True)
        self.norm = nn.BatchNorm2d(8)
        self.leaky = nn.LeakyReLU(0.2)
        self.up = nn.Conv2dTranspose(8, 4, 4, stride=2, pad_mode="pad", padding=1)
        self.pool = nn.MaxPool2d(2, 2)
        self.average = nn.AvgPool2d(3, 1, pad_mode="same")
        self.group = nn.GroupNorm(2, 4)
        self.layer = nn.LayerNorm((8,))
        self.fused = ConvTanh(4, 6, (3, 2), stride=(1, 2), pad_mode="pad", padding=(0, 1, 2, 1), has_bias=True)
        self.fused_same = ConvTanh(6, 6, 4, stride=3, pad_mode="same", group=2, dilation=1)
        self.dense = nn.Dense(36, 5, activation="sigmoid")

    def construct(self, x: ms.Tensor) -> tuple[ms.Tensor, ms.Tensor]:
        y = self.up(self.leaky(self.norm(self.conv(x))))
        y = self.layer(self.group(self.average(self.pool(y))))
        y = self.fused_same(self.fused(ops.relu(y) - 0.25))
        z = ops.softmax(self.dense(ops.flatten(y)))
        return z, ops.concat((y, y), 1).mean((2, 3))


def export(cell: nn.Cell, *inputs: np.ndarray) -> Path:
    cell.set_train(False)
    ms.export(cell, *map(ms.Tensor, inputs), file_name="network.mindir", file_format="MINDIR")
    return Path("network.mindir")


def test_layers_of_a_network(rng: np.random.Generator) -> None:
    """Every operator has a reference that agrees with MindSpore, and no reason to complain."""
    x = rng.uniform(-1, 1, (2, 3, 16, 16)).astype(np.float32)
    result = checker.check_network(export(Mixed(), x), [x])
    assert result.unreferenced == ()
    assert result.passed, result.reason
    assert result.first_jump is None
    operators = [layer.operator for layer in result.layers]
    assert operators.count("FusedConvTanh") == 2
    assert {"Conv2D", "Conv2DTranspose", "BatchNorm", "GroupNorm", "LayerNorm", "Softmax"} <= set(operators)
    assert [output.shape for output in result.outputs] == [(2, 5), (2, 12)]
    for layer in result.layers:
        assert layer.sources["Inf/NaN"] == layer.sources["saturation"] == 0
    fused = next(layer for layer in result.layers if layer.operator == "FusedConvTanh")
    assert fused.name == "fused-ConvTanh/FusedConvTanh"
    assert fused.sources["rounding"] + fused.sources["accumulation"] > 0


class Overflowing(nn.Cell):
    """In float16 the second layer overflows, the third is only told of it."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.third = nn.Tanh(), nn.ReLU()

    def construct(self, x: ms.Tensor) -> ms.Tensor:
        y = self.first(x).astype(ms.float16) * 300
        return self.third(y * y)


def test_first_jump_and_saturation() -> None:
    x = np.linspace(0.1, 3, 60, dtype=np.float32)
    result = checker.check_network(export(Overflowing(), x), [x])
    assert not result.passed
    assert result.first_jump is not None
    assert result.first_jump.endswith("/Mul")
    jump = [layer for layer in result.layers if layer.own is not None and not layer.own.passed]
    assert len(jump) == 1  # the layers behind it do right by what they got
    assert jump[0].sources["saturation"] > 0
    assert "saturation" in result.reason
    assert not result.layers[-1].total.passed


def test_golden_outputs_and_unknown_operators() -> None:
    class Unusual(nn.Cell):
        def construct(self, x: ms.Tensor) -> ms.Tensor:
            return ops.tanh(ops.erf(x)) * 0.5

    x = np.linspace(-1, 1, 30, dtype=np.float32)
    path = export(Unusual(), x)
    result = checker.check_network(path, [x])
    assert result.passed
    assert len(result.unreferenced) == 1
    assert "Erf: no reference for Erf" in result.unreferenced[0]
    golden = np.tanh(ms.Tensor(x).erf().asnumpy().astype(np.float64)) * 0.5
    assert checker.check_network(path, [x], [golden]).passed
    wrong = checker.check_network(path, [x], [golden + 0.01])
    assert (wrong.passed, wrong.first_jump) == (False, None)
    with pytest.raises(ValueError, match="1 outputs, got 2"):
        checker.check_network(path, [x], [golden, golden])
    with pytest.raises(ValueError, match="takes 1 inputs.*got 2"):
        checker.check_network(path, [x, x])
    Path("text.mindir").write_text("hello")
    with pytest.raises(ValueError, match="text.mindir must be a MindIR file"):
        checker.check_network("text.mindir", [x])


NETWORK = """
import mindspore as ms
from mindspore import nn
from ms_convtanh import ConvTanh

def build():
    ms.set_seed(3)
    return nn.SequentialCell(ConvTanh(2, 3, 3, has_bias=True), nn.Flatten(), nn.Dense(75, 4))

not_a_cell = dict
"""


def test_command_for_a_module(tmp_path: Path, rng: np.random.Generator) -> None:
    Path("mynet.py").write_text(NETWORK)
    np.save("x.npy", rng.uniform(-1, 1, (2, 2, 5, 5)).astype(np.float32))
    result = run("--network", "mynet:build", "--input", "x.npy", "--html", "report.html", "--json")
    assert result.returncode == 0, result.stderr
    values = json.loads(result.stdout)
    assert values["passed"]
    assert [layer["operator"] for layer in values["layers"]] == ["FusedConvTanh", "Flatten", "MatMul", "BiasAdd"]
    assert "FusedConvTanh" in Path("report.html").read_text()
    strict = run("--network", "mynet:build", "--input", "x.npy", "--tolerance", "1e-12")
    assert strict.returncode == 1
    assert "first jump: 0-ConvTanh/FusedConvTanh: its own error is beyond the standard" in strict.stdout
    for network, words in (
        ("mynet", "a .mindir file or module:function"),
        ("mynet:absent", "cannot find mynet:absent"),
        ("mynet:not_a_cell", "must return a mindspore.nn.Cell, got dict"),
    ):
        wrong = run("--network", network, "--input", "x.npy")
        assert wrong.returncode == 1
        assert words in wrong.stderr


def test_checkpoints(rng: np.random.Generator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parameters are those that run; one that does not fit is refused."""
    monkeypatch.syspath_prepend(tmp_path)
    Path("net_with_checkpoint.py").write_text(NETWORK)
    x = rng.uniform(-1, 1, (1, 2, 5, 5)).astype(np.float32)
    cell = nn.SequentialCell(ConvTanh(2, 3, 3, has_bias=True), nn.Flatten(), nn.Dense(75, 4))
    ms.save_checkpoint(cell, "mynet.ckpt")
    golden = cell(ms.Tensor(x)).asnumpy().astype(np.float64)
    network = "net_with_checkpoint:build"
    assert checker.check_network(network, [x], [golden], checkpoint="mynet.ckpt").passed
    assert not checker.check_network(network, [x], [golden]).passed
    ms.save_checkpoint(nn.Dense(2, 3), "other.ckpt")
    with pytest.raises(ValueError, match="other.ckpt must fit"):
        checker.check_network(network, [x], checkpoint="other.ckpt")
    with pytest.raises(FileNotFoundError, match="no checkpoint absent.ckpt"):
        checker.check_network(network, [x], checkpoint="absent.ckpt")


def test_references_refuse_what_they_do_not_know() -> None:
    for operator, attributes, inputs in (
        ("NoSuchOperator", {}, ()),
        ("BatchNorm", {}, (np.ones((1, 1, 1, 1)), *[np.ones(1)] * 4, True, 1e-5)),
        ("MatMul", {}, (np.ones((2, 3)), np.ones((2, 3)))),
    ):
        with pytest.raises(Unknown, match=operator):
            evaluate(operator, attributes, inputs)


def test_float16_and_bfloat16_layers(rng: np.random.Generator) -> None:
    """A bfloat16 input file works, and the threshold is that of each layer's dtype."""
    x = rng.uniform(-1, 1, (1, 2, 8, 8))
    for dtype, threshold in (("float16", ms.float16), ("bfloat16", ms.bfloat16)):
        cell = ConvTanh(2, 3, 3, has_bias=True).to_float(threshold)
        array = x.astype(np.float16 if dtype == "float16" else ml_dtypes.bfloat16)
        cell.set_train(False)
        given = ms.Tensor(array.astype(np.float32)).astype(threshold)
        ms.export(cell, given, file_name=dtype, file_format="MINDIR")
        result = checker.check_network(f"{dtype}.mindir", [array])
        assert all(layer.own is None or layer.own.passed for layer in result.layers)
        (fused,) = (layer for layer in result.layers if layer.operator == "FusedConvTanh")
        assert fused.own is not None
        assert fused.total is not None
        assert fused.own.dtype == dtype
        assert fused.total.mere > fused.own.mere  # by the rounded parameters
        assert fused.sources["rounding"] > 0
        assert fused.sources["approximation"] == fused.sources["saturation"] == 0
