"""K1, K2 and K12 as PyPTO tensor programs: their arrays, and, where PyPTO is installed, how its compiler takes them."""

import ast
import dataclasses
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pypto_sim
import pytest
from conv_common import Problem
from dispatcher import make_problem
from problems import CASES, GEOMETRIES, attributes_of
from pypto_layout import TANH_COEFFICIENTS, TANH_SPLIT, Grid, golden_z, make_grid, pack, pack_z, unpack
from pypto_sim import STAGES, Cost, Request, Simulation, Simulator, Verdict
from reference import DTYPES, assert_close, conv2d, random_problem

ROOT = Path(__file__).parents[2]
DTYPE_NAMES = tuple(DTYPES)


def problem_of(geometry: tuple[Any, ...], dtype: str, bias: bool = True) -> Problem:
    return make_problem(*geometry[:2], dtype, bias, **attributes_of(geometry))


def case_problem(case: dict[str, Any]) -> Problem:
    attributes = {name: case[name] for name in ("strides", "pads", "dilations", "groups")}
    return make_problem(case["x"], case["filter"], case["dtype"], True, **attributes)


# --- without PyPTO -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_layout_gives_the_convolution(name: str, bias: bool, rng: np.random.Generator) -> None:
    geometry = GEOMETRIES[name]
    problem = problem_of(geometry, "float32", bias)
    operands = random_problem(rng, *geometry[:2], "float32", bias)
    grid, x, conv_filter = pack(problem, *operands)
    assert [list(x.shape), list(conv_filter.shape)] == [grid.x_shape, grid.filter_shape]
    z = unpack(problem, golden_z(grid, x, conv_filter))
    np.testing.assert_allclose(z, conv2d(*operands, **attributes_of(geometry)), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", GEOMETRIES)
def test_z_keeps_its_values(name: str, rng: np.random.Generator) -> None:
    problem = problem_of(GEOMETRIES[name], "float16")
    z = rng.normal(size=(problem.n, problem.co, problem.ho, problem.wo)).astype(np.float32)
    np.testing.assert_array_equal(unpack(problem, pack_z(problem, z)), z)


def test_views_lie_inside_and_are_aligned() -> None:
    geometries = itertools.product(GEOMETRIES.values(), DTYPE_NAMES, (True, False))
    for problem in [*map(case_problem, CASES), *(problem_of(*arguments) for arguments in geometries)]:
        g = make_grid(problem)
        for plane, shift, first, size in g.products():
            assert plane + size <= g.planes
            assert shift + g.blocks * g.block_columns <= g.plane_columns
            assert first + size <= g.filter_shape[1]
            assert size % 16 == 0
        assert g.channels % g.tile_m == g.block_columns % g.tile_n == g.tile_m % 16 == g.tile_n % 16 == 0
        # L0A, L0B and L0C of an A2/A3, in bytes.
        element = DTYPES[g.compute_dtype].itemsize
        assert max(g.tile_m, g.tile_n) * g.tile_k * element <= 65536
        assert g.tile_m * g.tile_n * 4 <= 131072


def test_tanh_is_that_of_the_kernels() -> None:
    stages = ast.parse((ROOT / "kernels/ascend/tile_stages.py").read_text())
    named = {
        statement.targets[0].id: ast.literal_eval(statement.value)
        for statement in stages.body
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name)
    }
    coefficients = [named[f"TANH_C{degree}"] for degree in range(5)]
    assert (named["TANH_SPLIT"], coefficients) == (TANH_SPLIT, list(TANH_COEFFICIENTS))


def test_missing_pypto_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pypto_sim.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"needs pypto, torch, sympy: pip install 'ms_convtanh\[pypto\]'"):
        Simulator()


@pytest.mark.parametrize("wrong", ["x", "filter", "bias", "z"])
def test_wrong_shapes_are_refused(wrong: str) -> None:
    problem = make_problem((1, 2, 5, 6), (4, 2, 3, 3), "float32", has_bias=False)
    shapes = {"x": (1, 2, 5, 6), "filter": (4, 2, 3, 3), "z": (1, 4, 3, 4)}
    arrays = {name: np.zeros((*shape, 1) if name == wrong else shape, np.float32) for name, shape in shapes.items()}

    def pack_all() -> None:
        pack_z(problem, arrays["z"])
        pack(problem, arrays["x"], arrays["filter"], np.zeros(4) if wrong == "bias" else None)

    with pytest.raises(ValueError, match=rf"conv_tanh: {wrong}\.shape must be .*, got "):
        pack_all()


def test_failures_are_found() -> None:
    verdicts = tuple(Verdict(stage, "loop_idx_0=0", "PASS", 0.0) for stage in STAGES)
    good = Simulation(np.zeros(1), 1, verdicts, (), Cost(1.0, 0.5, 1))
    assert good.failures() == []
    failed = dataclasses.replace(verdicts[2], result="FAILED")
    for changed in (
        {"verdicts": verdicts[:-1]},
        {"verdicts": (*verdicts[:2], failed, *verdicts[3:])},
        {"exceptions": ("[VERIFY] Pass_14_SplitK, EXPM1",)},
        {"iterations": 2},
    ):
        assert dataclasses.replace(good, **changed).failures() != []


def test_the_document_shows_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import pypto_costs

    results = json.loads(pypto_costs.RESULTS.read_text())
    assert [(row["id"], row["name"]) for row in results] == [(case["id"], case["name"]) for case in CASES]
    document = pypto_costs.DOCUMENT.read_text()
    assert document == pypto_costs.with_table(document, results)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_reduced_cases_fit(case: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The verified cut of a case is a problem of its own, with all of the case but its height."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import pypto_costs

    problem = case_problem(case)
    small = pypto_costs.reduced(problem)
    assert small.ho >= 7
    attributes = {name: case[name] for name in ("strides", "pads", "dilations", "groups")}
    assert small == make_problem((*case["x"][:2], small.hi, small.wi), case["filter"], case["dtype"], **attributes)


# --- in PyPTO ------------------------------------------------------------------------------------------------------

# strides, pads, dilations, groups and several images; taps folded into channels; five loop iterations; direct.
RUNS = {
    "all_different": (((2, 8, 9, 12), (6, 4, 3, 2), (2, 3), (1, 2, 3, 0), (2, 1), 2), "float32", True),
    "three_by_three": (((1, 16, 12, 17), (20, 16, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1), "float16", True),
    "folded": (((1, 3, 14, 15), (16, 3, 7, 7), (2, 2), (3, 3, 3, 3), (1, 1), 1), "bfloat16", True),
    "five_blocks": (((1, 16, 80, 80), (16, 16, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1), "float16", True),
    "no_bias": (((1, 32, 6, 16), (24, 32, 1, 3), (1, 1), (0, 0, 1, 1), (1, 1), 1), "float32", False),
}


@pytest.fixture(scope="module")
def simulator() -> Iterator[Simulator]:
    try:
        pypto_sim.require_pypto()
    except ImportError as error:
        pytest.skip(str(error))
    with Simulator() as simulator:
        yield simulator


@pytest.mark.parametrize("name", RUNS)
def test_k12_is_verified(name: str, simulator: Simulator, rng: np.random.Generator, tmp_path: Path) -> None:
    geometry, dtype, bias = RUNS[name]
    problem = problem_of(geometry, dtype, bias)
    operands = random_problem(rng, *geometry[:2], dtype, bias)
    run = simulator.run_k12(problem, *operands)
    assert run.failures() == []
    assert run.iterations == {"five_blocks": 5, "all_different": 4}.get(name, 1)
    assert_close(run.output, np.tanh(conv2d(*operands, **attributes_of(geometry))), dtype)
    assert list(tmp_path.iterdir()) == []  # the working folder


@pytest.mark.parametrize("name", ["all_different", "folded"])
def test_k1_is_verified(name: str, simulator: Simulator, rng: np.random.Generator) -> None:
    geometry, dtype, bias = RUNS[name]
    operands = random_problem(rng, *geometry[:2], dtype, bias)
    run = simulator.run_k1(problem_of(geometry, dtype, bias), *operands)
    assert run.failures() == []
    assert run.output.dtype == np.float32
    np.testing.assert_allclose(run.output, conv2d(*operands, **attributes_of(geometry)), rtol=1e-5, atol=1e-5)


def test_k1_in_float16_for_float32(simulator: Simulator, rng: np.random.Generator) -> None:
    geometry = RUNS["three_by_three"][0]
    problem = make_problem(*geometry[:2], "float32", True, **attributes_of(geometry), cube_math_type=2)
    operands = random_problem(rng, *geometry[:2], "float32")
    run = simulator.run_k1(problem, *operands)
    assert run.failures() == []
    rounded = [operand.astype(np.float16) for operand in operands if operand is not None]
    np.testing.assert_allclose(run.output, conv2d(*rounded, **attributes_of(geometry)), rtol=1e-5, atol=1e-5)


def test_k2_in_float32(simulator: Simulator, rng: np.random.Generator) -> None:
    """Within 4 ULP, with the sign of zero, at any size of z; NaN stays NaN."""
    special = [np.nan, 0.0, -0.0, 1e-38, -1e-30, 1e-6, -1e-3, 0.5, 9.02, 88.0, -89.0, 1e4, -3e38, np.inf, -np.inf]
    count = 1024 - len(special)
    z = np.concatenate([special, rng.normal(size=count) * 10.0 ** rng.uniform(-30, 2, count)])
    problem = make_problem((1, 16, 8, 8), (16, 16, 1, 1), "float32")
    run = simulator.run_k2(problem, z.astype(np.float32).reshape(1, 16, 8, 8))
    assert run.failures() == []
    y, golden = run.output.reshape(-1), np.tanh(z.astype(np.float32).astype(np.float64))
    assert np.isnan(y[0])
    y, golden = y[1:], golden[1:]
    assert np.all(np.abs(y - golden) <= 4 * np.spacing(np.abs(golden).astype(np.float32)))
    np.testing.assert_array_equal(np.signbit(y), np.signbit(golden))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_k2_rounds_to_nearest_even(dtype: str, simulator: Simulator, rng: np.random.Generator) -> None:
    z = (rng.normal(size=(1, 16, 32, 32)) * 3).astype(np.float32)
    run = simulator.run_k2(make_problem(z.shape, (16, 16, 1, 1), dtype), z)
    assert run.failures() == []
    golden = np.tanh(z.astype(np.float64)).astype(DTYPES[dtype])
    assert np.mean(run.output.view(np.uint16) == golden.view(np.uint16)) >= 0.999


def test_a_wrong_result_fails(simulator: Simulator, rng: np.random.Generator) -> None:
    """The golden of another filter: what the verification is worth."""
    geometry = RUNS["three_by_three"][0]
    problem = problem_of(geometry, "float32")
    x, conv_filter, bias = random_problem(rng, *geometry[:2], "float32")
    grid, *arguments = pack(problem, x, conv_filter, bias)
    conv_filter[0, 0, 0, 0] += 0.01
    _, *others = pack(problem, x, conv_filter, bias)
    golden = golden_z(grid, *others).astype(np.float32)
    request = Request("k1", grid, tuple(arguments), golden, pypto_sim.TOLERANCES["float32"])
    (failure,) = simulator.verify(problem, request).failures()
    assert failure.startswith("tensor_graph ")
    assert failure.endswith(": FAILED")


def test_cost_is_what_pypto_prints(simulator: Simulator, tmp_path: Path) -> None:
    problem = problem_of(RUNS["folded"][0], "float16")
    g: Grid = make_grid(problem)
    z, y = np.zeros(g.z_shape, np.float32), np.zeros(g.z_shape, np.float16)
    printed = simulator.work(Request("k2", g, (z,), y, None), tmp_path)
    cost = pypto_sim.read_cost(tmp_path)
    summary = re.search(r"End-to-End Time: ([\d.]+)\s+AICore Utilization:\s+([\d.]+)%", printed)
    assert summary is not None, printed
    assert float(summary[1]) == pytest.approx(cost.time_us, abs=0.006)
    assert float(summary[2]) == pytest.approx(100 * cost.utilisation, abs=0.006)
    assert simulator.cost("k2", problem) == cost


def test_an_error_of_pypto_is_shown(simulator: Simulator) -> None:
    problem = problem_of(RUNS["folded"][0], "float16")
    grid, *arguments = pack(problem, np.zeros((1, 3, 14, 15)), np.zeros((16, 3, 7, 7)), np.zeros(16))
    z = np.zeros(grid.z_shape, np.float32)
    request = Request("k1", dataclasses.replace(grid, tile_k=8), tuple(arguments), z, None)
    with pytest.raises(RuntimeError, match=r"pypto_worker.py request.pickle ended with 1:\n(.|\n)*RuntimeError"):
        simulator.verify(problem, request)
