"""K0, K1, K2 and K12 against float64."""

import dataclasses
from collections.abc import Callable
from typing import Any

import conv_common
import numpy as np
import pytest
from conv_common import make_tiling, pack_filter, pack_input
from dispatcher import make_problem, route
from problems import CASES, GEOMETRIES
from reference import DTYPES, assert_close, conv_tanh

Run = Callable[..., dict[str, Any]]
ATTRIBUTES = ("strides", "pads", "dilations", "groups")
SIDE = 40  # of the 24 cases' images here: several tiles, and tails


def inputs(
    x_shape: tuple[int, ...],
    filter_shape: tuple[int, ...],
    dtype: str,
    rng: np.random.Generator,
    scale: float = 0.1,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, conv_filter, bias = (
        rng.uniform(-limit, limit, shape).astype(DTYPES[dtype])
        for shape, limit in ((x_shape, 1), (filter_shape, scale), (filter_shape[:1], 0.5))
    )
    return x, conv_filter, bias


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_cases(case: dict[str, Any], run: Run, fusion: str, rng: np.random.Generator) -> None:
    """The 24 cases with all their channels, on images of at most SIDE x SIDE."""
    x_shape = (*case["x"][:2], min(case["x"][2], SIDE), min(case["x"][3], SIDE))
    attributes = {name: case[name] for name in ATTRIBUTES}
    x, conv_filter, bias = inputs(x_shape, tuple(case["filter"]), case["dtype"], rng)
    problem = make_problem(x_shape, case["filter"], case["dtype"], True, **attributes)
    y = run(problem, route(problem, fusion=fusion), x, conv_filter, bias)["y"]
    assert_close(y, conv_tanh(x, conv_filter, bias, **attributes), case["dtype"])


EDGES = {
    **{name: (*geometry, True) for name, geometry in GEOMETRIES.items()},
    "no_bias": ((1, 16, 9, 9), (5, 16, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1, False),
    "no_bias_one_step": ((1, 16, 5, 5), (3, 16, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1, False),
    "no_bias_k_steps": ((1, 320, 5, 5), (3, 320, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1, False),
    "direct_valid": ((2, 32, 12, 16), (20, 32, 3, 1), (1, 1), (0, 0, 0, 0), (2, 1), 1, True),
    "direct_wide_kernel": ((1, 16, 6, 32), (20, 16, 2, 3), (1, 1), (0, 0, 0, 0), (1, 1), 1, True),
    "channels_80": ((1, 80, 7, 9), (130, 80, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1, True),
    "channels_576": ((1, 576, 3, 3), (9, 576, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1, True),
    "groups_of_24": ((2, 48, 9, 8), (10, 24, 3, 3), (2, 2), (1, 0, 1, 0), (1, 1), 2, True),
    "stride_2_even": ((1, 16, 16, 16), (8, 16, 2, 2), (2, 2), (0, 0, 0, 0), (1, 1), 1, True),
    "stride_2_dilation_3": ((1, 16, 19, 21), (8, 16, 3, 3), (2, 2), (2, 3, 1, 4), (3, 3), 1, True),
    "stride_5": ((1, 16, 23, 26), (8, 16, 2, 3), (5, 5), (1, 0, 2, 0), (1, 1), 1, True),
    "stride_3_by_2": ((1, 16, 17, 40), (8, 16, 3, 3), (3, 2), (1, 1, 1, 1), (1, 1), 1, True),
    "strided_one_by_one": ((1, 32, 11, 300), (8, 32, 1, 1), (2, 2), (0, 0, 0, 0), (1, 1), 1, True),
    "long_row": ((1, 16, 1, 700), (4, 16, 1, 3), (1, 1), (0, 0, 1, 1), (1, 1), 1, True),
    "many_images": ((30, 16, 3, 3), (4, 16, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1, True),
    "large_filter": ((1, 3, 20, 20), (4, 3, 13, 11), (1, 1), (6, 6, 5, 5), (1, 1), 1, True),
    "pads_only": ((1, 16, 2, 2), (3, 16, 1, 1), (1, 1), (3, 2, 4, 1), (1, 1), 1, True),
    "one_output_channel": ((1, 16, 9, 9), (1, 16, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1), 1, True),
    "odd_output_channels": ((1, 16, 9, 9), (129, 16, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1), 1, True),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", EDGES)
def test_edges(name: str, dtype: str, run: Run, fusion: str, rng: np.random.Generator) -> None:
    """Tails, strides, dilations, pads, groups; what K0 packs is what NumPy packs, bit for bit."""
    x_shape, filter_shape, *attribute_values, has_bias = EDGES[name]
    attributes = dict(zip(ATTRIBUTES, attribute_values, strict=True))
    x, conv_filter, bias = inputs(x_shape, filter_shape, dtype, rng, scale=1 / np.sqrt(np.prod(filter_shape[1:])))
    used_bias = bias if has_bias else None
    problem = make_problem(x_shape, filter_shape, dtype, has_bias, **attributes)
    way = route(problem, fusion=fusion)
    results = run(problem, way, x, conv_filter, used_bias)
    assert_close(results["y"], conv_tanh(x, conv_filter, used_bias, **attributes), dtype)
    if way.plan.pack.pack_x:
        packed = pack_input(x, way.plan, DTYPES[dtype])
        np.testing.assert_array_equal(results["x_packed"].view(np.uint8), packed.view(np.uint8))
    written = way.plan.pack.out_channels * way.plan.pack.k_total
    packed = pack_filter(conv_filter, used_bias, way.plan, DTYPES[dtype])
    np.testing.assert_array_equal(results["filter_packed"][:written].view(np.uint8), packed[:written].view(np.uint8))


@pytest.mark.parametrize("cores", [1, 3, 32])
def test_any_number_of_cores(cores: int, run: Run, fusion: str, rng: np.random.Generator) -> None:
    shapes = (2, 16, 24, 24), (70, 16, 3, 3)
    x, conv_filter, bias = inputs(*shapes, "float32", rng)
    problem = make_problem(*shapes, "float32", pads=(1, 1, 1, 1))
    y = run(problem, route(problem, cores, fusion), x, conv_filter, bias)["y"]
    assert_close(y, conv_tanh(x, conv_filter, bias, pads=(1, 1, 1, 1)), "float32")


TILES = [(fusion, tile) for fusion, tiles in (("half", 6), ("true", 4)) for tile in range(tiles)]


@pytest.mark.parametrize(("fused", "index"), TILES)
def test_every_tile_size(fused: str, index: int, run: Run, rng: np.random.Generator, monkeypatch: Any) -> None:
    """Each (TileM, TileN), with full tiles and tails in both directions."""
    name = "K12_TILES" if fused == "true" else "K1_TILES"
    monkeypatch.setattr(conv_common, name, (getattr(conv_common, name)[index],))
    shapes = (1, 32, 17, 19), (150, 32, 1, 2)
    x, conv_filter, bias = inputs(*shapes, "float16", rng)
    problem = make_problem(*shapes, "float16", pads=(0, 0, 0, 1))
    plan = make_tiling(problem, 4, fused == "true")
    way = dataclasses.replace(route(problem, 4, fused), plan=plan)
    y = run(problem, way, x, conv_filter, bias)["y"]
    assert_close(y, conv_tanh(x, conv_filter, bias, pads=(0, 0, 0, 1)), "float16")


def test_1d(run: Run, fusion: str, rng: np.random.Generator) -> None:
    x, conv_filter, bias = inputs((2, 16, 50), (6, 16, 3), "float16", rng)
    problem = make_problem(x.shape, conv_filter.shape, "float16", True, (2,), (1,), (1,))
    y = run(problem, route(problem, fusion=fusion), x[:, :, None], conv_filter[:, :, None], bias)["y"]
    attributes = {"strides": (1, 2), "pads": (0, 0, 1, 1)}
    assert_close(y, conv_tanh(x[:, :, None], conv_filter[:, :, None], bias, **attributes), "float16")


def test_use_fp16(run: Run, fusion: str, rng: np.random.Generator) -> None:
    """cubeMathType 2: float32 in and out, float16 products."""
    shapes = (1, 16, 12, 13), (20, 16, 3, 3)
    x, conv_filter, bias = inputs(*shapes, "float32", rng)
    problem = make_problem(*shapes, "float32", pads=(1, 1, 1, 1), strides=(2, 2), cube_math_type=2)
    y = run(problem, route(problem, fusion=fusion), x, conv_filter, bias)["y"]
    assert y.dtype == np.float32
    halves = (array.astype(np.float16) for array in (x, conv_filter, bias))
    golden = conv_tanh(*halves, pads=(1, 1, 1, 1), strides=(2, 2))
    assert_close(y, golden, "float32")


def test_infinities_and_nan(run: Run, fusion: str, rng: np.random.Generator) -> None:
    """They reach the outputs whose windows hold them, and no others, although tiles compute across rows."""
    shapes = (1, 16, 8, 8), (3, 16, 3, 3)
    x, conv_filter, bias = inputs(*shapes, "float32", rng)
    clean = x.copy()
    x[0, 3, 0, 7], x[0, 5, 7, 0] = np.inf, np.nan
    problem = make_problem(*shapes, "float32", pads=(1, 1, 1, 1))
    way = route(problem, fusion=fusion)
    y, y_clean = (run(problem, way, array, conv_filter, bias)["y"] for array in (x, clean))
    reached = np.zeros((8, 8), bool)
    reached[0:2, 6:8] = reached[6:8, 0:2] = True
    assert np.isnan(y[..., 6:8, 0:2]).all()
    assert (np.abs(y[..., 0:2, 6:8]) == 1).all()
    np.testing.assert_array_equal(y[..., ~reached], y_clean[..., ~reached])


def test_saturation(run: Run, fusion: str) -> None:
    """|z| far beyond 88, where exp overflows."""
    x = np.full((1, 16, 2, 2), 1000, np.float32)
    conv_filter = np.ones((2, 16, 1, 1), np.float32)
    conv_filter[1] = -1
    problem = make_problem(x.shape, conv_filter.shape, "float32")
    y = run(problem, route(problem, fusion=fusion), x, conv_filter, np.zeros(2, np.float32))["y"]
    np.testing.assert_array_equal(y, np.stack([np.ones((1, 2, 2)), -np.ones((1, 2, 2))], 1))


def test_the_shape_classes_are_all_tested() -> None:
    found = {
        route(make_problem(x, f, "float16", True, **dict(zip(ATTRIBUTES, attributes, strict=True)))).shape_class
        for x, f, *attributes, _ in EDGES.values()
    }
    assert found == {"direct", "packed", "folded"}
