"""benchmarks/ascend_fusion.py, with the executor and a clock of ours in the place of the NPU."""

import importlib.util
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from executor.run import run
from problems import CASES

PROGRAM = Path(__file__).resolve().parents[2] / "benchmarks/ascend_fusion.py"
SMALL = {**CASES[0], "x": [1, 16, 4, 4], "filter": [16, 16, 1, 1], "bias": [16]}


class Call:
    """Runs in the executor when it is launched. A launch takes 2 ms with half, 1 ms with true fusion."""

    clock = 0.0
    wrong = False

    def __init__(self, problem: Any, route: Any, *operands: Any) -> None:
        self._run = problem, route, *operands
        self._time = 1 if route.plan.fused else 2

    def launch(self) -> None:
        Call.clock += self._time

    def results(self) -> dict[str, np.ndarray]:
        results = run(*self._run)
        return {**results, "y": results["y"] * 2} if Call.wrong else results


class Event:
    host_is_slow = False

    def __init__(self, enable_timing: bool) -> None:
        assert enable_timing

    def record(self) -> None:
        self.time = Call.clock

    def query(self) -> bool:
        return Event.host_is_slow

    def elapsed_time(self, end: "Event") -> float:
        return end.time - self.time


def matmul(*operands: Any) -> None:
    Call.clock += 100  # before the first event: in no time that is reported


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    spec = importlib.util.spec_from_file_location("ascend_fusion", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    npu = SimpleNamespace(Event=Event, synchronize=lambda: None)
    torch = SimpleNamespace(npu=npu, matmul=matmul, ones=lambda *_, **__: None, float16=None)
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setattr(module, "CASES", [SMALL])
    monkeypatch.setattr(module.launcher, "Call", Call)
    monkeypatch.setattr(module.launcher, "missing", lambda: "")
    monkeypatch.setattr(module.launcher, "cores", lambda: 28)
    return module


def test_times_both_ways(program: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    result = CliRunner().invoke(program.main, ["--repeats", "3", "--json", str(path)])
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[1].split() == [SMALL["name"], "2000.0", "1000.0", "0.50"]
    (row,) = json.loads(path.read_text())["cases"]
    assert (row["half_us"], row["true_us"], row["half_host_ahead"]) == (2000, 1000, True)


def test_times_of_a_slow_host_are_marked(program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Event, "host_is_slow", True)
    assert "2000.0*" in CliRunner().invoke(program.main, []).output


def test_no_times_of_wrong_results(program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Call, "wrong", True)
    result = CliRunner().invoke(program.main, [])
    assert isinstance(result.exception, AssertionError)
    assert SMALL["name"] not in result.output


def test_unknown_cases_are_refused(program: ModuleType) -> None:
    result = CliRunner().invoke(program.main, ["--case", SMALL["name"], "--case", "k9"])
    assert result.exit_code == 2
    assert "got k9" in result.output


def test_says_what_is_missing(program: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program.launcher, "missing", lambda: "torch_npu finds no NPU")
    result = CliRunner().invoke(program.main, [])
    assert result.exit_code == 1
    assert "on an Ascend 950: torch_npu finds no NPU" in result.output
