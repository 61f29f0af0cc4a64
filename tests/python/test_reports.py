"""features, explain and options."""

import dataclasses
import json
import os
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import ms_convtanh
from ms_convtanh import native

VARIANTS = ("amx", "avx512", "avx2", "portable")  # best first


def test_features() -> None:
    """Lists are subsets of each other in order of quality, and what is chosen is allowed."""
    features = ms_convtanh.features()
    assert features.built[-1] == features.detected[-1] == features.allowed[-1] == "portable"
    for names in (features.built, features.detected, features.allowed):
        assert list(names) == [name for name in VARIANTS if name in names]
    assert set(features.allowed) <= set(features.detected)
    assert features.k1 in features.allowed
    assert features.k2 in features.allowed
    assert features.threads >= 1
    assert Path(features.library).is_file()
    assert features.version == ms_convtanh.__version__
    assert features.numpy == np.__version__
    assert features.mindspore == metadata.version("mindspore")
    assert features.compiler
    with pytest.raises(dataclasses.FrozenInstanceError):
        features.k1 = "other"  # type: ignore[misc]


def test_ceiling_is_what_runs(ceiling: str) -> None:
    """A forced ceiling is the variant reported for a problem."""
    features = ms_convtanh.features()
    assert features.max_isa == ceiling
    k2 = "avx512" if ceiling == "amx" else ceiling  # the matrix unit has no tanh
    assert features.allowed[0] == ceiling
    assert features.k1 in (ceiling, k2)
    plan = ms_convtanh.explain((1, 64, 56, 56), (64, 64, 3, 3), "bfloat16")
    assert (plan.k1, plan.k2) == (ceiling, k2) == (plan.candidates[0].k1, features.k2)


def test_options_nest_and_end() -> None:
    """Each block restores what was in force before it, also after an error."""
    before = ms_convtanh.features()
    with ms_convtanh.options(max_isa="portable", num_threads=1):
        with ms_convtanh.options(fusion="half"):
            inner = ms_convtanh.features()
            assert (inner.max_isa, inner.threads, inner.fusion) == ("portable", 1, "half")
        assert ms_convtanh.features().fusion == before.fusion
        with pytest.raises(KeyError), ms_convtanh.options(max_isa="portable", fusion="true"):
            raise KeyError
        assert ms_convtanh.features().max_isa == "portable"
    assert ms_convtanh.features() == before


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [("max_isa", "sse9", "portable, avx2, avx512, amx"), ("fusion", "both", "auto, half"), ("num_threads", 0, "1")],
)
def test_unknown_option_values(name: str, value: object, words: str) -> None:
    """An unknown value names the option and what it may be; nothing changes."""
    before = ms_convtanh.features()
    with pytest.raises(ValueError, match=f"(?s){name}.*{words}.*{value}"), ms_convtanh.options(**{name: value}):
        pytest.fail("must not get here")
    assert ms_convtanh.features() == before


@pytest.mark.parametrize(
    ("name", "value", "kind"),
    [
        ("max_isa", 2, TypeError),
        ("max_isa", b"avx2", TypeError),
        ("max_isa", "portable\0", ValueError),
        ("fusion", "\udcff", ValueError),
        ("num_threads", "2", TypeError),
        ("num_threads", 1.5, TypeError),
        ("num_threads", True, TypeError),
        ("num_threads", 2**64, ValueError),
    ],
)
def test_option_values_of_the_wrong_kind(name: str, value: object, kind: type[Exception]) -> None:
    """They are refused by name before any option changes."""
    before = ms_convtanh.features()
    named = {"max_isa": "portable", "fusion": "half", name: value}
    with pytest.raises(kind, match=f"^options: {name} must"), ms_convtanh.options(**named):
        pytest.fail("must not get here")
    assert ms_convtanh.features() == before


@pytest.mark.parametrize("name", ["MS_CONVTANH_MAX_ISA", "MS_CONVTANH_FUSION", "MS_CONVTANH_NUM_THREADS"])
def test_unknown_environment_values(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong environment variable fails loudly at the first call, and not at import."""
    program = """
import ms_convtanh, numpy as np
try:
    ms_convtanh.native.fused_conv_tanh(np.ones((1, 1, 1, 1), np.float32), np.ones((1, 1, 1, 1), np.float32))
except ValueError as error:
    print(error)
"""
    monkeypatch.setenv(name, "bogus")
    output = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout
    assert name in output
    assert "bogus" in output


def test_reader_that_leaves_early() -> None:
    """A command whose output nobody reads any more ends without complaint."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", "ms_convtanh", "info", "--json"]
    process = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, text=True)
    os.close(write_end)
    assert process.returncode == 1
    assert process.stderr == ""
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert json.loads(printed)["version"] == ms_convtanh.__version__


def test_explain() -> None:
    """Fields are plain numbers and words; dtypes are accepted by name and as NumPy dtypes."""
    plan = ms_convtanh.explain((2, 64, 56, 56), (128, 64, 3, 3), "bfloat16", strides=2, pads=[1, 1, 1, 1])
    assert plan == ms_convtanh.explain((2, 64, 56, 56), (128, 64, 3, 3), ml_dtypes.bfloat16, True, [2, 2], 1)
    assert plan.fusion in ("half", "true")
    assert 1 <= plan.threads <= ms_convtanh.features().threads
    assert 1 <= plan.tile_rows <= 28
    assert 1 <= plan.tile_co <= 128
    assert plan.tile_ci >= 1
    assert plan.tile_cols >= 1
    assert isinstance(plan.direct, bool)
    assert plan.candidates[0].k1 == plan.k1
    assert {candidate.k1 for candidate in plan.candidates} == set(ms_convtanh.features().allowed)
    costs = [candidate.microseconds for candidate in plan.candidates]
    assert costs == sorted(costs)
    assert costs[0] > 0


def test_candidates_as_text() -> None:
    """Only what sets a candidate apart is named."""
    assert str(native.Candidate("avx2", 1, 1, 1, False, 203.25)) == "avx2 203 us"
    assert str(native.Candidate("avx2", 1, 1, 1, True, 120.5)) == "avx2 (Winograd) 120 us"
    assert str(native.Candidate("amx", 3, 7, 1, False, 0.5)) == "amx (3 products, 7 folded taps) 0.50 us"


def test_explain_workspace_of_half_fusion() -> None:
    """Half fusion needs the float32 sums of the whole output, true fusion less."""
    sizes = {}
    for fusion in ("half", "true"):
        with ms_convtanh.options(fusion=fusion):
            sizes[fusion] = ms_convtanh.explain((8, 16, 96, 96), (32, 16, 3, 3), pads=1).workspace_bytes
    whole = 4 * 8 * 32 * 96 * 96
    assert whole <= sizes["half"] <= whole + 8 * 2**20
    assert sizes["true"] < whole


def test_explain_errors() -> None:
    """explain refuses what the operator refuses."""
    with pytest.raises(ValueError, match=r"filter.shape\[1\] must equal"):
        ms_convtanh.explain((1, 3, 8, 8), (4, 2, 3, 3))
    with pytest.raises(TypeError, match=r"x\.dtype must be float32, float16 or bfloat16, got float64"):
        ms_convtanh.explain((1, 3, 8, 8), (4, 3, 3, 3), np.float64)
    for dtype in (None, 3, "f"):
        with pytest.raises(TypeError, match=r"^fused_conv_tanh: .*dtype must be"):
            ms_convtanh.explain((1, 3, 8, 8), (4, 3, 3, 3), dtype)
    with pytest.raises(TypeError, match="x_shape must be"):
        ms_convtanh.explain("1388", (4, 3, 3, 3))
    with pytest.raises(ValueError, match="must be 3- or 4-dimensional"):
        ms_convtanh.explain((1, 3, 8, 8), ())
    assert native.explain is ms_convtanh.explain
