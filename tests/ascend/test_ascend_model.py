"""benchmarks/ascend_model.py: its numbers against plain arithmetic, and its table in docs/ASCEND.md."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest
from problems import CASES

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def model() -> ModuleType:
    spec = importlib.util.spec_from_file_location("ascend_model", ROOT / "benchmarks/ascend_model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_case_by_hand(model: ModuleType) -> None:
    """64 -> 128 channels, 1 x 1, 4 x 28 x 28: 28 tiles of 128 x 128, one for each core, and K of 64 and the bias."""
    row = model.row(CASES[0])
    assert row["k1"].cycles == {
        "Cube": 8 * 8 * 5,
        "load L1": 2 * 128 * 80 * 2 / 100,
        "load L0": 128 * 80 * 2 / 256,
        "store": 128 * 128 * 4 / 100,
    }
    assert row["k12"].cycles["Vector"] == 64 * 128 * model.vector_instructions() / 32
    assert row["k12"].cycles["L0C to UB"] == 128 * 128 * 4 / 128
    assert row["k1_load"] == 28 * 2 * 128 * 80 * 2
    assert row["wst"] == 2 * 4 * 128 * 28 * 28 * 4
    assert (row["k1"].limit, row["k12"].limit) == ("store", "Vector")
    assert row["ratio"] == row["k12"].microseconds / (row["k1"].microseconds + row["k2"].microseconds)


def test_no_core_gets_less_than_its_share(model: ModuleType) -> None:
    """The busiest core has at least its share of all products, the busiest vector core of all vectors."""
    for case, row in zip([case for case in CASES if case["dtype"] == "float16"], model.rows(), strict=True):
        co, channels, kh, kw = case["filter"]
        n, _, height, width = case["x"]
        outputs = n * co * ((height - 1) // case["strides"][0] + 1) * ((width - 1) // case["strides"][1] + 1)
        outputs = min(outputs, row["wst"] // 8)
        for stage in ("k1", "k12"):
            assert row[stage].cycles["Cube"] * 28 * 16**3 >= outputs * channels * kh * kw
        for stage in ("k2", "k12"):
            assert row[stage].cycles["Vector"] * 56 * 32 >= 0.99 * outputs * model.vector_instructions()


def test_table_is_in_the_document(model: ModuleType) -> None:
    page = model.DOCUMENT.read_text()
    assert page.split(model.BEGIN)[1].split(model.END)[0].strip() == model.table(model.rows()).strip()
