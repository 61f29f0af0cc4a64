"""MindSpore on an Ascend 950 with the operator package; skipped, with the reason, where that is not there.

The program that it runs is itself run on the CPU for one case.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mindspore", reason="MindSpore is not installed")

from problems import CASES

from ms_convtanh import _custom_ascend

PROGRAM = Path(__file__).with_name("mindspore_cases.py")


def run(*arguments: str, **environment: str) -> list[str]:
    command, variables = [sys.executable, PROGRAM, *arguments], {**os.environ, **environment}
    result = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return [line for line in result.stdout.splitlines() if line.endswith(" ok")]


@pytest.mark.parametrize("mode", ["graph", "pynative"])
def test_program_on_the_cpu(mode: str) -> None:
    assert run("CPU", mode, CASES[0]["name"]) == [f"CPU {mode} {CASES[0]['name']} ok"]


@pytest.mark.parametrize("fusion", ["half", "true"])
@pytest.mark.parametrize("mode", ["graph", "pynative"])
def test_cases_on_ascend(mode: str, fusion: str) -> None:
    try:
        _custom_ascend.check_ready()
    except RuntimeError as reason:
        pytest.skip(str(reason))
    assert run("Ascend", mode, MS_CONVTANH_FUSION=fusion) == [f"Ascend {mode} {case['name']} ok" for case in CASES]
