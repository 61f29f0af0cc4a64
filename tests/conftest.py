"""What all Python tests share."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ms_convtanh

os.environ["MS_CONVTANH_TUNING"] = "off"  # what was tuned on this machine is no part of the tests

CEILINGS = ("portable", "avx2", "avx512", "amx")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(20)


@pytest.fixture(params=CEILINGS)
def ceiling(request: pytest.FixtureRequest) -> Iterator[str]:
    """Each ISA ceiling in turn, in force during the test."""
    features = ms_convtanh.features()
    if request.param not in features.built:
        pytest.skip(f"{request.param} is not built into the library")
    if request.param not in features.detected:
        pytest.skip(f"this CPU does not have {request.param}")
    with ms_convtanh.options(max_isa=request.param):
        yield request.param


@pytest.fixture(params=["half", "true"])
def fusion(request: pytest.FixtureRequest) -> Iterator[str]:
    """Both fusion modes in turn, in force during the test."""
    with ms_convtanh.options(fusion=request.param):
        yield request.param


@pytest.fixture(scope="session")
def session_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture
def plugin_cache(session_cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder, in which enable_auto_fusion finds what the first test that needs it compiles."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(session_cache))
    return session_cache


@pytest.fixture(autouse=True)
def working_folder(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests run in a folder of their own: MindSpore writes into the working directory."""
    monkeypatch.chdir(tmp_path)
