"""The tuner: what it searches, finds, stores, and what of it the library uses."""

import json
import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from click.testing import CliRunner

import ms_convtanh
from ms_convtanh import _library, _tuning, tuner
from ms_convtanh.cli import main

SHAPES = ((1, 8, 20, 20), (16, 8, 3, 3))
PROBLEM = tuner.Problem.of(*SHAPES)
PARAMETERS = "parameters: {fusion: [half, true], tile_elements: [512, 65536]}\n"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder that is read, for as long as a test runs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(_tuning.VARIABLE)
    yield tmp_path / "cache" / "ms_convtanh" / "tuning"
    assert _library.load().msctSetOption(b"tuning", b"off") == 0


def config_of(text: str, tmp_path: Path) -> tuner.Config:
    path = tmp_path / "config.yaml"
    path.write_text(text)
    return tuner.read_config(path)


def tuned(setting: tuner.Setting, problem: tuner.Problem = PROBLEM) -> tuner.Tuned:
    return tuner.Tuned(problem, setting, before=2.0, after=1.0, measured=3, plan=problem.plan())


# Configurations


def test_default_config() -> None:
    """All parameters, all 24 cases; what is searched is within what the library takes."""
    config = tuner.default_config()
    assert set(config.parameters) == set(tuner.PARAMETERS)
    assert len(set(config.problems)) == 24
    assert config.metric == "median"
    assert max(config.parameters["threads"]) <= ms_convtanh.features().threads


def test_config(tmp_path: Path) -> None:
    text = "problems:\n- {x: [1, 8, 20, 20], filter: [16, 8, 3, 3]}\n- {x: [2, 3, 50], filter: [4, 3, 5], pads: 2}\n"
    config = config_of(text + "iterations: 7\nmetric: p10\ncases: [k3_d2_64_64_32_float16]\n" + PARAMETERS, tmp_path)
    assert (config.iterations, config.metric) == (7, "p10")
    assert config.parameters == {"fusion": ("half", "true"), "tile_elements": (512, 65536)}
    case, plain, one_axis = config.problems
    assert (case.dtype, case.dilations, case.pads) == ("float16", (2, 2), (2, 2, 2, 2))
    assert plain == PROBLEM
    assert (one_axis.x, one_axis.filter) == ((2, 3, 1, 50), (4, 3, 1, 5))
    assert (one_axis.strides, one_axis.pads, one_axis.dilations) == ((1, 1), (0, 0, 2, 2), (1, 1))
    assert one_axis.plan() == ms_convtanh.explain((2, 3, 50), (4, 3, 5), pads=2)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", "must be a YAML file"),
        ("3", "its names must be of operator, "),
        ("unroll: 4", "its names must be of .* got \\['unroll'\\]"),
        ("operator: conv3d", "operator must be 'fused_conv_tanh'|operator must be fused_conv_tanh, got 'conv3d'"),
        ("metric: mean", "metric must be one of median, p10, got 'mean'"),
        ("iterations: 0", "iterations must be 1 or more, got 0"),
        ("iterations: true", "iterations must be 1 or more, got True"),
        ("cases: [k9]", "cases must be all, or a list of names"),
        ("problems: 3", "problems must be a list, got 3"),
        ("problems: [{x: [1, 1, 1, 1]}]", "problems: .*missing 1 required positional argument: 'filter'"),
        ("problems: [{x: [1, 1, 1, 1], filter: [1, 1, 1, 1], unroll: 2}]", "unexpected keyword argument 'unroll'"),
        ("problems: [{x: [1, 2, 1, 1], filter: [1, 1, 1, 1]}]", r"filter\.shape\[1\] must equal"),
        ("cases: []", "parameters must be names with lists of candidates, got None"),
        ("parameters: {unroll: [2]}", "a parameter must be one of fusion, threads, .* got 'unroll'"),
        ("parameters: {threads: 2}", "threads must be a list of candidates, got 2"),
        ("parameters: {threads: [0]}", "threads must be whole numbers from 1 to 2\\^24, got 0"),
        ("parameters: {block_channels: [1.5]}", "block_channels must be whole numbers from 1 to 2\\^24, got 1.5"),
        ("parameters: {fusion: [both]}", "fusion must be a list of half and true, got \\['both'\\]"),
    ],
)
def test_wrong_configs(text: str, words: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"(?s)^(tune|fused_conv_tanh): .*{words}"):
        config_of(text, tmp_path)


# The search


def test_search_takes_what_is_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With invented times: half fusion takes 8 instead of 10, and small tiles 5."""
    measured: list[tuple[tuner.Setting, tuner.Setting]] = []

    def cost(setting: tuner.Setting) -> float:
        return 10 - 2 * (setting.get("fusion") == "half") - 3 * (setting.get("tile_elements") == 512)

    def times(_: Any, one: tuner.Setting, other: tuner.Setting, seconds: float) -> tuple[float, float]:
        measured.append((one, other))
        return cost(one), cost(other)

    monkeypatch.setattr(tuner._Search, "_times", times)
    steps: list[int] = []
    config = tuner.Config((PROBLEM,), config_of(PARAMETERS, tmp_path).parameters, "median", 10)
    (found,) = tuner.tune(config, step=lambda: steps.append(1))
    assert found.setting == {"fusion": "half", "tile_elements": 512}
    assert (found.before, found.after, found.gain) == (10, 5, 2)
    assert found.measured == len(steps) == len(measured) - 1  # the last one compares with dispatch's own choice
    assert measured[-1] == ({}, found.setting)
    assert found.plan.fusion == "half"
    plans = [one for _, one in measured[:-1]]
    assert plans == [json.loads(text) for text in dict.fromkeys(map(json.dumps, plans))], "nothing is measured twice"

    (found,) = tuner.tune(tuner.Config((PROBLEM,), config.parameters, "median", 1))
    assert (found.setting, found.measured) == ({"fusion": "half"}, 1)
    monkeypatch.setattr(tuner._Search, "_times", lambda *_: (1.0, 0.995))
    (found,) = tuner.tune(config)
    assert (found.setting, found.gain) == ({}, 1.0)  # less than noise


def test_search_measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A real one; what was in force before is in force again."""
    monkeypatch.setattr(tuner, "_SECONDS", 0.01)
    monkeypatch.setattr(tuner, "_FINAL_SECONDS", 0.01)
    tuner.store([tuned({"fusion": "half"})])
    before = PROBLEM.plan()
    (found,) = tuner.tune(tuner.Config((PROBLEM,), config_of(PARAMETERS, tmp_path).parameters, "p10", 3))
    assert 1 <= found.measured <= 3
    assert found.before >= found.after > 0
    assert before.fusion == "half"
    assert PROBLEM.plan() == before


def test_search_refuses_settings_that_change_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter(range(1000))
    monkeypatch.setattr(tuner.Operator, "__call__", lambda _: np.array(next(calls)))
    with pytest.raises(RuntimeError, match="tune: float32 x .* changed the result"):
        tuner.tune(tuner.Config((PROBLEM,), config_of(PARAMETERS, tmp_path).parameters, "median", 3))


# The file


def test_store_and_use(cache: Path) -> None:
    """The file is YAML, lies where the CPU's file is looked for, and is in force at once and in a new process."""
    own = PROBLEM.plan()
    setting: tuner.Setting = {"fusion": "half", "tile_elements": 512, "threads": 1}
    path = tuner.store([tuned(setting), tuned({}, tuner.Problem.of((1, 1, 4, 4), (1, 1, 1, 1)))])
    assert path.parent == cache
    assert path == _tuning.cache_file(ms_convtanh.features().cpu)
    written = yaml.safe_load(path.read_text())
    assert written["library"] == ms_convtanh.__version__
    assert written["cpu"] == ms_convtanh.features().cpu
    (entry,) = written["entries"]
    assert {name: entry[name] for name in setting} == setting
    assert entry["gain"] == 2.0
    plan = PROBLEM.plan()
    assert (plan.fusion, plan.threads) == ("half", 1)
    assert plan.tile_rows < own.tile_rows
    assert ms_convtanh.features().tuning == str(path)
    program = f"import ms_convtanh; print(ms_convtanh.explain(*{SHAPES}).fusion, ms_convtanh.features().tuning)"
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert output.stdout == f"half {path}\n"
    assert output.stderr == ""


def test_entries_of_other_problems_stay(cache: Path) -> None:
    other = tuner.Problem.of((1, 8, 20, 20), (16, 8, 3, 3), "bfloat16")
    tuner.store([tuned({"fusion": "half"}), tuned({"fusion": "half"}, other)])
    path = tuner.store([tuned({"threads": 1})])
    entries = yaml.safe_load(path.read_text())["entries"]
    assert [(entry["dtype"], entry.get("fusion"), entry.get("threads")) for entry in entries] == [
        ("bfloat16", "half", None),
        ("float32", None, 1),
    ]
    tuner.store([tuned({})])  # dispatch's own is the best now
    assert len(yaml.safe_load(path.read_text())["entries"]) == 1
    assert list(cache.iterdir()) == [path]


def test_results_do_not_depend_on_tuning() -> None:
    x = np.random.default_rng(0).uniform(-1, 1, SHAPES[0]).astype(np.float32)
    w = np.random.default_rng(1).uniform(-0.1, 0.1, SHAPES[1]).astype(np.float32)
    own = ms_convtanh.native.fused_conv_tanh(x, w)
    settings = ({"fusion": "half", "block_channels": 1}, {"tile_elements": 1, "packed_elements": 1}, {"threads": 1})
    for setting in settings:
        tuner.store([tuned(setting)])
        np.testing.assert_array_equal(ms_convtanh.native.fused_conv_tanh(x, w), own)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda text: "", "format must be 1"),
        (lambda text: text.replace(ms_convtanh.__version__, "0.0.1"), 'library must be .*, got "0.0.1"; tune anew'),
        (lambda text: text.replace("cpu: ", "cpu: Other "), 'cpu must be .*, got "Other .*; tune anew'),
        (lambda text: text[: len(text) // 2], "must be"),
        (lambda text: "\0\1\2" + text, "line 1: unknown name"),
    ],
)
def test_stale_and_damaged_files_are_ignored(change: Any, reason: str, caplog: pytest.LogCaptureFixture) -> None:
    """With a warning, and no error; storing replaces them."""
    path = tuner.store([tuned({"fusion": "half"})])
    path.write_text(change(path.read_text()))
    library = _library.load()
    library.msctSetOption(b"tuning", b"off")
    with caplog.at_level(logging.WARNING, "ms_convtanh"):
        _tuning.use_tuning(library)
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.name == "ms_convtanh"
    assert str(path) in record.getMessage()
    assert re.search(reason, record.getMessage())
    assert ms_convtanh.features().tuning == ""
    assert PROBLEM.plan().fusion == "true"
    tuner.store([tuned({"fusion": "half"})])
    assert PROBLEM.plan().fusion == "half"


def test_environment(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is named stands above the cache; off stands above both; a missing one is ignored with a warning."""
    other = tmp_path / "other.yaml"
    tuner.store([tuned({"threads": 1})])
    tuner.store([tuned({"fusion": "half"})], other)
    library = _library.load()
    for value, fusion in ((str(other), "half"), ("off", "true"), (str(tmp_path / "none.yaml"), "true")):
        monkeypatch.setenv(_tuning.VARIABLE, value)
        library.msctSetOption(b"tuning", b"off")
        _tuning.use_tuning(library)
        assert PROBLEM.plan().fusion == fusion
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "it cannot be read" in caplog.text


def test_without_a_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> Path:
        raise RuntimeError("no home")

    monkeypatch.setenv("XDG_CACHE_HOME", "relative/is/ignored")
    monkeypatch.setattr(_tuning.Path, "home", fail)
    _tuning.use_tuning(_library.load())
    assert ms_convtanh.features().tuning == ""


# The command


def invoke(*arguments: str) -> Any:
    return CliRunner().invoke(main, ["tune", *arguments])


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuner, "_SECONDS", 0.01)
    monkeypatch.setattr(tuner, "_FINAL_SECONDS", 0.01)
    shapes = ("--x", "1,8,20,20", "--filter", "16,8,3,3", "--iterations", "2")
    result = invoke(*shapes, "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["file"] == str(_tuning.cache_file(ms_convtanh.features().cpu))
    assert Path(found["file"]).is_file()
    (one,) = found["results"]
    assert one["problem"]["x"] == [1, 8, 20, 20]
    assert 1 <= one["measured"] <= 2
    result = invoke(*shapes, "--output", str(tmp_path / "out.yaml"))
    assert result.exit_code == 0, result.output
    assert "gain" in result.stdout
    assert f"wrote {tmp_path / 'out.yaml'}" in result.stdout


def test_an_interrupted_search_keeps_what_is_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C in the second problem: the file has the first one's settings."""

    def search(config: tuner.Config, **_: Any) -> list[tuner.Tuned]:
        (problem,) = config.problems
        if problem.x != PROBLEM.x:
            raise KeyboardInterrupt
        return [tuned({"fusion": "half"})]

    monkeypatch.setattr(tuner, "tune", search)
    shapes = "problems:\n- {x: [1, 8, 20, 20], filter: [16, 8, 3, 3]}\n- {x: [2, 3, 50], filter: [4, 3, 5]}\n"
    (tmp_path / "config.yaml").write_text(shapes + PARAMETERS)
    result = invoke("--config", str(tmp_path / "config.yaml"), "--output", str(tmp_path / "out.yaml"))
    assert result.exit_code == 1
    assert (tmp_path / "out.yaml").read_text().count("fusion: half") == 1


def test_dry_run_of_the_command(cache: Path) -> None:
    result = invoke("--dry-run", "--case", "k3_d2")
    assert result.exit_code == 0
    assert result.stdout.count("filter [64, 64, 3, 3]") == 3
    assert f"would write {cache}" in result.stdout
    assert json.loads(invoke("--dry-run", "--json").stdout)["config"]["iterations"] == 40
    assert not cache.exists()


def test_wrong_use_of_the_command(tmp_path: Path) -> None:
    assert invoke("--x", "1,8,20,20").exit_code == 2
    assert invoke("--case", "k9").exit_code == 2
    assert invoke("--config", "missing.yaml").exit_code == 2
    (tmp_path / "none.yaml").write_text(PARAMETERS)
    result = invoke("--config", str(tmp_path / "none.yaml"))
    assert result.exit_code == 2
    assert "none.yaml names neither cases nor problems" in result.stderr
    (tmp_path / "bad.yaml").write_text("metric: mean")
    result = invoke("--config", str(tmp_path / "bad.yaml"))
    assert result.exit_code == 1
    assert "metric must be one of" in result.stderr
