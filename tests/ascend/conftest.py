"""Where the Ascend kernels run in these tests: on an Ascend 950 through PyPTO Pro if there is one, else here."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "kernels/ascend"))

import executor.run
import launcher

BACKENDS = {"executor": executor.run, "ascend950": launcher}
BACKEND = "executor" if launcher.missing() else "ascend950"


def pytest_report_header() -> str:
    reason = launcher.missing()
    return f"Ascend kernels: {BACKEND}" + (f" ({reason})" if reason else "")


@pytest.fixture(params=[BACKEND])
def run(request: pytest.FixtureRequest) -> Callable[..., dict[str, Any]]:
    """run(problem, route, x, filter, bias) -> {"y", "x_packed", "filter_packed", "wst"}; the test id says where."""
    return BACKENDS[request.param].run


@pytest.fixture(params=["half", "true"])
def fusion(request: pytest.FixtureRequest) -> str:
    """Both ways from z to y: K1 and K2, and K12."""
    return request.param
