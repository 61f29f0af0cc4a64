"""The benchmark: its cases and networks, the turns, what follows from the numbers, and the command."""

import csv
import json
import math
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from click.testing import CliRunner

from ms_convtanh import benchmark
from ms_convtanh._trace import Peaks
from ms_convtanh.benchmark import models, results
from ms_convtanh.benchmark.measure import Budget, PeerRates, max_ulp, measure_model
from ms_convtanh.benchmark.models import AveragePool, ConvTanhLayer, Dense, Flatten, Model, PixelShuffle
from ms_convtanh.benchmark.peers import PEERS, Peer, Prepared
from ms_convtanh.benchmark.timing import Side, Timing, take_turns
from ms_convtanh.cli import main
from tests import reference
from tests.problems import CASES

ROOT = Path(__file__).parents[2]
PEAKS = Peaks(flops=1e11, bytes=1e10, threads=2)
BRIEF = Budget(0.01, explains=False)


def small_model(dtype: str = "float32", pads: tuple[int, int, int, int] = (1, 0, 2, 1)) -> Model:
    random = np.random.default_rng(4)
    x, w, bias = (
        random.uniform(-1, 1, shape).astype(reference.DTYPES[dtype]) for shape in ((2, 4, 9, 8), (6, 2, 3, 2), (6,))
    )
    return Model("small", dtype, x, (ConvTanhLayer(w, bias, (2, 1), pads, (1, 2), 2),))


# Models


def test_cases_are_the_24() -> None:
    """Names, order, shapes, attributes, dtypes and ranges are those of the acceptance file."""
    assert models.case_names() == [case["name"] for case in CASES]
    for case in CASES:
        model = models.make(case["name"])
        (layer,) = model.layers
        assert model.dtype == case["dtype"]
        for name, array in (("x", model.x), ("filter", layer.conv_filter), ("bias", layer.bias)):
            assert array.dtype == reference.DTYPES[case["dtype"]]
            assert list(array.shape) == case[name]
            low, high = case[f"{name}_range"]
            rounding = 1 + 2.0**-8  # of the last place of bfloat16
            assert low == -high
            assert 0.4 * high < np.abs(array).max() <= high * rounding
        assert {name: case[name] for name in ("strides", "pads", "dilations")} == {
            name: list(layer.attributes[name]) for name in ("strides", "pads", "dilations")
        }
        assert layer.groups == case["groups"]


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_golden_of_a_layer(dtype: str) -> None:
    model = small_model(dtype)
    (layer,) = model.layers
    golden = reference.conv_tanh(model.x, layer.conv_filter, layer.bias, **layer.attributes)
    np.testing.assert_allclose(model.golden, golden, rtol=1e-13, atol=1e-15)
    assert model.flops == 2 * golden.size * 2 * 3 * 2
    assert model.bytes == (model.x.size + layer.conv_filter.size + 6 + golden.size) * model.x.itemsize


def test_golden_of_other_layers() -> None:
    x = np.arange(32.0).reshape(1, 4, 2, 4)
    np.testing.assert_array_equal(AveragePool().golden(x)[0, 1], [[(8 + 9 + 12 + 13) / 4, (10 + 11 + 14 + 15) / 4]])
    shuffled = PixelShuffle(2).golden(x)
    assert shuffled.shape == (1, 1, 4, 8)
    np.testing.assert_array_equal(shuffled[0, 0, :2, :2], [[0, 8], [16, 24]])
    weight, bias = np.ones((3, 2), np.float32), np.array([0, 1, 2], np.float32)
    np.testing.assert_allclose(Dense(weight, bias, True).golden(np.array([[1.0, 2.0]])), np.tanh([[3, 4, 5]]))
    assert Flatten().golden(np.zeros((2, 3, 1, 1))).shape == (2, 3)


def test_networks_have_the_samples_shapes() -> None:
    for name, shape in (
        ("espcn_256", (1, 1, 512, 512)),
        ("lenet5_b64", (64, 10)),
        ("depth_tail_256", (1, 3, 256, 256)),
    ):
        model = models.make(name)
        assert not model.is_case
        assert model.golden.shape == shape
        assert all(isinstance(layer, ConvTanhLayer) for layer in model.layers[:1])
        # Sums are neither lost in saturation nor so small that tanh is a line.
        assert 0.05 < np.abs(model.golden).mean() < 0.9


# Peers


@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.name)
@pytest.mark.parametrize("kind", ["asymmetric", "network"])
def test_peers_compute_the_model(peer: Peer, kind: str) -> None:
    """Each peer that is installed, on a layer with all attributes and on a network of all layers."""
    for package in peer.packages:
        pytest.importorskip(package)
    if peer.name == "torch_compile":
        pytest.skip("compiles for many seconds; ms-convtanh bench checks its results")
    model = small_model() if kind == "asymmetric" else _tiny_network()
    with benchmark.graph_mode() if peer.name == "mindspore" else benchmark.nullcontext():
        prepared = peer.prepare(model, 1)
        y = prepared.output(prepared.run())
    # MindSpore's own tanh errs by up to 1e-4.
    np.testing.assert_allclose(y, model.golden, atol=2e-4 if peer.name == "mindspore" else 2e-6)


def _tiny_network() -> Model:
    random = np.random.default_rng(2)

    def weights(*shape: int) -> tuple[np.ndarray, np.ndarray]:
        values = random.uniform(-0.5, 0.5, shape).astype(np.float32), random.uniform(-0.5, 0.5, shape[0])
        return values[0], values[1].astype(np.float32)

    first, shuffled = ConvTanhLayer(*weights(4, 1, 3, 3)), ConvTanhLayer(*weights(5, 1, 6, 6))
    head = (Flatten(), Dense(*weights(7, 5), tanh=True), Dense(*weights(3, 7), tanh=False))
    x = random.uniform(-1, 1, (3, 1, 8, 8)).astype(np.float32)
    return Model("tiny", "float32", x, (first, PixelShuffle(2), AveragePool(), shuffled, *head))


def fake_peer(name: str, prepare: Callable[[Model, int], Prepared], module: str = "numpy") -> Peer:
    return Peer(name, name.title(), (module,), prepare)


def golden_peer(model: Model, threads: int) -> Prepared:
    assert threads == PEAKS.threads
    return Prepared(lambda: model.golden.astype(model.x.dtype), lambda y: y)


def refusing(model: Model, threads: int) -> Prepared:
    raise OSError("-----\n- Heading\nno such kernel\nmore")


def wrong(model: Model, threads: int) -> Prepared:
    return Prepared(lambda: model.golden * 0.5, lambda y: y.astype(np.float32))


def misshapen(model: Model, threads: int) -> Prepared:
    return Prepared(lambda: model.golden[:1], lambda y: y.astype(np.float32))


def test_peers_that_fail_are_named_with_the_reason() -> None:
    peers = [fake_peer(f.__name__, f) for f in (golden_peer, refusing, wrong, misshapen)]
    record = measure_model(small_model(), peers, None, PEAKS, BRIEF, PeerRates())
    sides = record["sides"]
    assert sides["golden_peer"]["accuracy"]["passed"]
    assert sides["golden_peer"]["median"] > 0
    assert sides["refusing"]["absent"] == "OSError: no such kernel"
    assert re.match("its result is wrong: .*MERE = 0.5 .*, largest error 0.5$", sides["wrong"]["absent"])
    assert sides["misshapen"]["absent"] == "its result has shape [1, 6, 4, 9] instead of [2, 6, 4, 9]"
    assert results.best_peer(record) == "golden_peer"
    assert {"ours", "half", "true", "frozen"} <= {name for name, side in sides.items() if "median" in side}
    assert record["plan"]["k1"] in ("portable", "avx2", "avx512", "amx")
    json.dumps(record)  # plain data


def test_peers_that_would_take_too_long_are_left_out() -> None:
    rates, model = PeerRates(), small_model()
    rates.note("golden_peer", model, 1000.0)
    assert rates.foreseen("golden_peer", model) == pytest.approx(1000)
    assert rates.foreseen("golden_peer", small_model("float16")) == 0
    record = measure_model(model, [fake_peer("golden_peer", golden_peer)], None, PEAKS, BRIEF, rates)
    assert record["sides"]["golden_peer"] == {"absent": "one call would take 1000 s"}
    assert results.best_peer(record) is None
    assert math.isnan(results.speedup(record))


def test_our_wrong_result_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Model, "golden", property(lambda model: np.full((2, 6, 4, 9), 0.123)))
    monkeypatch.setattr(Model, "flops", 1)
    with pytest.raises(RuntimeError, match="bench: small: our result is wrong: MERE"):
        measure_model(small_model(), [], None, PEAKS, BRIEF, PeerRates())


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_max_ulp(dtype: str) -> None:
    golden = np.array([1.0, 0.5, 1e-3])
    unit = {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]
    exact = golden.astype(reference.DTYPES[dtype])
    assert max_ulp(exact[:2], golden[:2]) == 0
    moved = (golden + np.array([2 * unit, unit / 2, 1])).astype(reference.DTYPES[dtype])
    assert max_ulp(moved, golden) == 2  # 0.5 is off by one, and 1e-3 counts as cancelled
    assert ml_dtypes.finfo(reference.DTYPES[dtype]).eps == unit


# Timing


def test_sides_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each turn is inside the side's context and begins with a call that is not counted."""
    monkeypatch.setattr("ms_convtanh.benchmark.timing.PAUSE", 0)
    log: list[str] = []

    class Context:
        def __enter__(self) -> None:
            log.append("(")

        def __exit__(self, *_: object) -> None:
            log.append(")")

    sides = {"a": Side(lambda: log.append("a"), Context), "b": Side(lambda: log.append("b"))}
    timings = take_turns(sides, 0.05)
    text = "".join(log)
    turns = re.findall(r"\((a+)\)(b+)", text)
    assert "".join(f"({a}){b}" for a, b in turns) == text
    assert timings["a"].samples == sum(len(a) - 1 for a, _ in turns) >= 15
    for timing in timings.values():
        assert 0 <= timing.p10 <= timing.median <= timing.p90


def test_slow_sides_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that is slower than its budget is called once; the clock is a counter here."""
    clock = [0.0]
    monkeypatch.setattr("ms_convtanh.benchmark.timing.time.perf_counter", lambda: clock[0])
    calls = {"slow": 0, "fast": 0}

    def run(name: str, seconds: float) -> Callable[[], None]:
        def call() -> None:
            calls[name] += 1
            clock[0] += seconds * (1 + calls[name] % 7)

        return call

    timings = take_turns({"slow": Side(run("slow", 1.0)), "fast": Side(run("fast", 0.001))}, 0.5)
    assert calls["slow"] == timings["slow"].samples == 1
    assert calls["fast"] > 30
    assert timings["slow"].median == 2.0


def test_settled() -> None:
    assert not Side(lambda: None, samples=[1.0] * 14).settled()
    assert Side(lambda: None, samples=[1.0] * 15).settled()
    assert not Side(lambda: None, samples=[1.0, 2.0] * 15).settled()
    assert Timing.of([3.0, 1.0, 2.0]) == Timing(2.0, 1.2, 2.8, 3)


# Results


def record_of(ours: float, peers: dict[str, float], bound: float = 0.0, passed: bool = True, **more: Any) -> Any:
    sides = {"ours": {"median": ours, "p10": ours * 0.9, "p90": ours * 1.1, "accuracy": {"passed": passed}}}
    sides |= {name: {"median": time} for name, time in peers.items()}
    plain = {"name": "one", "kind": "case", "dtype": "float32", "ours": "ours", "flops": 1, "bytes": 1}
    return plain | {"sides": sides, "compute_bound": bound, "memory_bound": 0.0} | more


def test_score() -> None:
    """By hand from the formula of the acceptance."""
    record = record_of(2.0, {"slow": 9.0, "best": 5.0, "half": 0.1}, bound=1.0)
    assert results.best_peer(record) == "best"
    assert results.speedup(record) == 2.5
    assert results.speedup(record, "slow") == 4.5
    assert results.hap(record) == pytest.approx(4 / (1 + 4))
    assert results.score([record]) == pytest.approx(100 * (0.2 + 0.3 + 0.5 * 0.8))
    wrong_one = record_of(2.0, {"best": 5.0}, bound=1.0, passed=False)
    assert results.score([record, wrong_one]) == pytest.approx(100 * (0.2 + 0.7 / 2))


def test_hap_where_caches_beat_the_bound() -> None:
    assert results.hap(record_of(1.0, {"best": 3.0}, bound=2.0)) == 1.0
    assert results.hap(record_of(3.0, {"best": 1.0}, bound=2.0)) == 0.0
    assert results.hap(record_of(1.0, {"best": 1.0}, bound=2.0)) == 0.5
    assert math.isnan(results.hap(record_of(1.0, {}, bound=2.0)))


def run_of(*records: Any) -> dict[str, Any]:
    return {"format": results.FORMAT, "records": list(records), "peers": {}}


def test_summary() -> None:
    run = run_of(
        record_of(1.0, {"p": 4.0}, name="a"),
        record_of(1.0, {"p": 1.0, "q": 2.0}, name="b", dtype="float16"),
        record_of(1.0, {"p": 0.1}, name="n", kind="network"),
    )
    found = results.summary(run)
    assert (found.cases, found.accurate) == (2, 2)
    assert found.geometric_mean == pytest.approx(2)
    assert found.by_dtype == pytest.approx({"float32": 4.0, "float16": 1.0})
    assert found.by_peer == pytest.approx({"p": 2.0, "q": 2.0})
    assert (found.worst, found.worst_case) == (1.0, "b")
    alone = results.summary(run_of(record_of(1.0, {})))
    assert math.isnan(alone.geometric_mean)
    assert math.isnan(alone.score)


def test_changes() -> None:
    """A regression is slower by more than 10 % and outside of both spreads."""
    old = run_of(record_of(1.0, {}, name="a"), record_of(1.0, {}, name="b"), record_of(1.0, {}, name="c"))
    new = run_of(record_of(1.3, {}, name="a"), record_of(1.15, {}, name="b"), record_of(0.5, {}, name="d"))
    found = results.changes(old, new)
    assert [(change.name, change.ratio, change.regressed) for change in found] == [("a", 1.3, True), ("b", 1.15, False)]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": 99}', "\x00"])
def test_files_that_are_no_run(text: str, tmp_path: Path) -> None:
    path = tmp_path / "old.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"^bench: .*old\.json must be a JSON file of ms-convtanh bench"):
        results.read(path)


def test_unknown_names() -> None:
    with pytest.raises(ValueError, match="bench: case must be one of k1_64.*, got 'k9'"):
        benchmark.run(["k9"])
    with pytest.raises(ValueError, match="bench: peer must be one of mindspore, .*, got 'x'"):
        benchmark.run(["k1_64_128_28_float32"], ["x"])
    with pytest.raises(ValueError, match="espcn_train_step, got 'lenet5_b64'"):
        benchmark.run(["lenet5_b64"], of_training=True)


# The command


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-m", "ms_convtanh", "bench", *arguments]
    return subprocess.run(program, capture_output=True, text=True, cwd=cwd)


@pytest.fixture(scope="module")
def run_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A quick run of a case and a network beside MindSpore, in files."""
    pytest.importorskip("mindspore")
    folder = tmp_path_factory.mktemp("bench")
    arguments = ("--quick", "--case", "k1_64_128_28_float32", "--case", "lenet5", "--peers", "mindspore")
    result = command(*arguments, "--output", "out/run", cwd=folder)
    assert result.returncode == 0, result.stderr
    assert "Cases: 1 of 1 accurate" in result.stdout
    return folder / "out" / "run"


def test_files_of_a_run(run_files: Path) -> None:
    run = results.read(run_files.with_suffix(".json"))
    case, network = run["records"]
    assert (case["name"], network["name"]) == ("k1_64_128_28_float32", "lenet5_b64")
    assert set(case["sides"]) == {"ours", "half", "true", "frozen", "cell", "mindspore"}
    assert network["ours"] == "cell"
    for record in run["records"]:
        assert all(
            side["median"] > 0 and side["accuracy"]["passed"]
            for name, side in record["sides"].items()
            if name not in ("half", "true", "frozen")
        )
    assert run["machine"]["cpu"]
    assert run["peaks"]["flops"] > 1e9
    assert 0 < run["overhead"] < 1e-3
    with open(run_files.with_suffix(".csv"), newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["name"] for row in rows] == ["k1_64_128_28_float32", "lenet5_b64"]
    assert float(rows[0]["us"]) == pytest.approx(case["sides"]["ours"]["median"] * 1e6, rel=1e-3)
    assert float(rows[0]["speedup"]) == pytest.approx(results.speedup(case), rel=1e-3)
    page = run_files.with_suffix(".html").read_text()
    assert page.count("<svg") >= 6
    assert not re.search(r"(?:src|href)=\"(?!#)", re.sub(r"xlink:href=\"#", "", page)), "it must load nothing"
    for text in ("lenet5_b64", "MindSpore", run["machine"]["cpu"], "score"):
        assert text in page


def test_an_interrupted_run_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the second case: the file has the first one, whole."""

    def interrupted(names: list[str]) -> Iterator[str]:
        yield names[0]
        raise KeyboardInterrupt

    monkeypatch.setattr("ms_convtanh._cli_bench._progress", interrupted)
    arguments = ["bench", "--quick", "--case", "k1_64_128_28", "--peers", "none", "--output", str(tmp_path / "new/run")]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 1
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["run.json"]
    (record,) = results.read(tmp_path / "new/run.json")["records"]
    assert record["name"] == "k1_64_128_28_float16"


def test_documents(run_files: Path, tmp_path: Path) -> None:
    """The reports are made from stored runs, and from the costs on Ascend."""
    stored, documents = tmp_path / "results", tmp_path / "docs"
    stored.mkdir()
    documents.mkdir()
    run = results.read(run_files.with_suffix(".json"))
    for name, date in (("first", "2020-01-01 10:00 UTC"), ("second", "2020-01-02 10:00 UTC")):
        run["machine"]["date"] = date
        run["records"][0]["sides"]["ours"]["median"] *= 0.5
        (stored / f"{name}.json").write_text(json.dumps(run))
    command = [sys.executable, ROOT / "benchmarks/report.py", "--results", stored, "--output", documents]
    subprocess.run(command, check=True)
    texts = {path.name: path.read_text() for path in documents.iterdir()}
    assert set(texts) == {"FINAL_REPORT.md", "ANALYSIS.md", "ITER_REPORT.html"}
    case = run["records"][0]
    us = f"{results.our_time(case) * 1e6:.3g}"
    for name in ("FINAL_REPORT.md", "ANALYSIS.md"):
        assert us in re.search(r"\| k1_64_128_28_float32 \|.*", texts[name])[0]
    assert f"| {results.speedup(case):.2f} |" in texts["FINAL_REPORT.md"]
    assert run["machine"]["cpu"] in texts["FINAL_REPORT.md"]
    movement = f"| {2 * 4 * 4 * 128 * 28 * 28 / 1e6:.2f} |"
    assert len(re.findall(re.escape(movement), texts["ANALYSIS.md"])) >= 2  # on this machine and on Ascend
    assert "first" in texts["ITER_REPORT.html"]
    assert texts["ITER_REPORT.html"].count("<svg") == 1
    assert ">2.00<" in texts["ITER_REPORT.html"]  # first / last


@pytest.mark.parametrize(("factor", "status"), [(1000.0, 0), (0.001, 1)])
def test_comparison_of_runs(
    factor: float, status: int, run_files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit status 1 on a regression, 0 without; --json prints the new run alone."""
    run = results.read(run_files.with_suffix(".json"))
    monkeypatch.setattr(benchmark, "run", lambda *_, **__: run)
    old = json.loads(json.dumps(run))
    for name in ("median", "p10", "p90"):
        old["records"][0]["sides"]["ours"][name] *= factor
    (tmp_path / "old.json").write_text(json.dumps(old))
    result = CliRunner().invoke(main, ["bench", "--compare", str(tmp_path / "old.json"), "--json"])
    assert result.exit_code == status
    assert json.loads(result.stdout) == run
    assert ("slower" in result.stderr) == (status == 1)
    table = CliRunner().invoke(main, ["bench", "--compare", str(tmp_path / "old.json")])
    assert table.exit_code == status
    assert ("slower" in table.stdout) == (status == 1)


def test_wrong_use_of_the_command(tmp_path: Path) -> None:
    result = CliRunner().invoke(main, ["bench", "--case", "no such"])
    assert result.exit_code == 2
    assert "no case fits" in result.stderr
    listed = json.loads(CliRunner().invoke(main, ["bench", "--list", "--json"]).stdout)
    assert listed == {"cases": list(benchmark.NAMES), "peers": list(benchmark.PEER_NAMES)}
    result = CliRunner().invoke(main, ["bench", "--case", "k1_64", "--peers", "abacus"])
    assert result.exit_code == 1
    assert "peer must be one of" in result.stderr


def test_absent_peers_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for package in ("torch", "onnxruntime", "mindspore"):
        monkeypatch.setitem(sys.modules, package, None)
    run = benchmark.run(["k1_64_128_28_float32"], ["torch", "onnxruntime"], quick=True)
    assert {name for name, peer in run["peers"].items() if "absent" in peer} == {
        "torch",
        "onnxruntime",
        "cell",
    }
    from ms_convtanh.benchmark import report

    assert any(line.startswith("PyTorch: ") for line in report.absences(run))
    assert any(line.startswith("ConvTanh in MindSpore: ") for line in report.absences(run))
    with pytest.raises(RuntimeError, match=r"bench: networks need MindSpore, pip install 'ms_convtanh\[mindspore\]'"):
        benchmark.run(["lenet5_b64"])


def test_bounds_rest_on_the_highest_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    """A measurement that another program disturbed is replaced by a better one, and never the other way round."""
    record = {"dtype": "float32", "compute_bound": 4.0, "memory_bound": 4.0}
    run = {"records": [record]}
    peaks = Peaks(100.0, 10.0, 2)
    for measured, bounds in ((Peaks(200.0, 10.0, 2), (2.0, 4.0)), (Peaks(50.0, 40.0, 2), (2.0, 1.0))):
        monkeypatch.setattr(benchmark, "measure_peaks", lambda measured=measured: measured)
        peaks = benchmark._raise_peaks(run, peaks)
        assert (record["compute_bound"], record["memory_bound"]) == bounds
    assert run["peaks"] == {"flops": 200.0, "bytes": 40.0, "threads": 2, "bfloat16": 0.0}
