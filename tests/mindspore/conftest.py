"""Both execution modes, for all MindSpore tests."""

from collections.abc import Iterator

import pytest

import mindspore as ms

MODES = {"graph": ms.GRAPH_MODE, "pynative": ms.PYNATIVE_MODE}


@pytest.fixture(params=MODES)
def mode(request: pytest.FixtureRequest) -> Iterator[str]:
    """Graph and PyNative mode in turn, in force during the test."""
    ms.set_context(mode=MODES[request.param])
    yield request.param
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.fixture
def pynative() -> None:
    ms.set_context(mode=ms.PYNATIVE_MODE)
