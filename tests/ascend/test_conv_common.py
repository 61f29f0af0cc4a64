"""The numbers that kernels and host agree on."""

import dataclasses
import itertools
from pathlib import Path
from typing import Any

import conv_common
import numpy as np
import pytest
from conv_common import (
    CONV_KEY,
    FUSED_KEY,
    K1_TILES,
    K12_TILES,
    K_BLOCK,
    L0_BYTES,
    L1_BYTES,
    PACK_KEY,
    TANH_KEY,
    Plan,
    Problem,
    make_tiling,
    pack_filter,
    pack_input,
    tiling_key,
    tiling_values,
)
from dispatcher import make_problem, route
from executor import load_kernel
from executor.types import MemorySpace
from problems import CASES, GEOMETRIES
from reference import DTYPES, conv2d

ATTRIBUTES = ("strides", "pads", "dilations", "groups")


def problems() -> list[Problem]:
    cases = [
        make_problem(case["x"], case["filter"], case["dtype"], True, **{name: case[name] for name in ATTRIBUTES})
        for case in CASES
    ]
    geometries = [
        make_problem(x, f, dtype, bias, **dict(zip(ATTRIBUTES, attributes, strict=True)))
        for (x, f, *attributes), dtype, bias in itertools.product(GEOMETRIES.values(), DTYPES, (True, False))
    ]
    return cases + geometries


def gemm(problem: Problem, plan: Plan, x: np.ndarray, conv_filter: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """What the kernels compute, as the docstring of conv_common.py says it, in float64."""
    t = plan.conv
    planes = pack_input(x, plan, np.dtype(np.float64)).reshape(t.images, t.groups, t.planes, t.plane_size)
    packed = pack_filter(conv_filter, bias, plan, np.dtype(np.float64))
    matrix = packed[: t.groups * t.m * t.k_total].reshape(t.groups, t.m, t.k_total)
    z = np.zeros((t.images, t.groups, t.m, t.z_pitch))
    p = np.arange(t.p)
    for tap in range(t.taps):
        y, x_shift = tap // t.taps_w * t.dilation_h, tap % t.taps_w * t.dilation_w
        phase = y % t.stride_h * t.phases_w + x_shift % t.stride_w
        shift = y // t.stride_h * t.pitch + x_shift // t.stride_w
        a = matrix[:, :, tap * t.k_channels : (tap + 1) * t.k_channels]
        b = planes[:, :, phase * t.k_channels : (phase + 1) * t.k_channels, p + shift]
        z[..., : t.p] += a @ b
    if t.has_bias:
        ones = packed[t.ones_offset :].reshape(K_BLOCK, -1)
        z[..., : t.p] += matrix[:, :, t.k_size :] @ ones[:, :1]
    return z.reshape(t.images, t.groups * t.m, -1, z.shape[-1] // problem.ho)[..., : problem.wo]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_layouts_give_the_convolution(name: str, fused: bool, rng: np.random.Generator) -> None:
    x_shape, filter_shape, *values = GEOMETRIES[name]
    attributes = dict(zip(ATTRIBUTES, values, strict=True))
    x, conv_filter, bias = (rng.normal(size=shape) for shape in (x_shape, filter_shape, filter_shape[:1]))
    problem = make_problem(x_shape, filter_shape, "float32", True, **attributes)
    z = gemm(problem, make_tiling(problem, 28, fused), x, conv_filter, bias)
    np.testing.assert_allclose(z, conv2d(x, conv_filter, bias, **attributes), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("cores", [1, 28, 32])
def test_plans_hold_together(cores: int, fused: bool) -> None:
    for problem in problems():
        plan = make_tiling(problem, cores, fused)
        conv, pack, tanh = plan.conv, plan.pack, plan.tanh
        assert conv.k_channels % K_BLOCK == 0
        assert conv.p <= conv.z_pitch == problem.ho * conv.pitch
        # The last pixel of the last tap is the last of its plane.
        last_h, last_w = (conv.taps // conv.taps_w - 1) * conv.dilation_h, (conv.taps_w - 1) * conv.dilation_w
        assert conv.p - 1 + last_h // conv.stride_h * conv.pitch + last_w // conv.stride_w < conv.plane_size
        assert 1 <= plan.conv_blocks <= min(cores, conv.tiles)
        assert 1 <= plan.pack_blocks <= cores
        assert 1 <= plan.tanh_blocks <= cores
        assert pack.tile_columns <= plan.pack_key["PackColumns"]
        assert tanh.tile_columns <= plan.tanh_key["TanhColumns"]
        assert tanh.tile_rows * plan.tanh_key["TanhColumns"] <= conv_common.TANH_ELEMENTS
        assert plan.workspace_bytes >= plan.x_packed_bytes + plan.filter_packed_bytes + plan.wst_bytes
        assert plan.filter_packed_offset % 512 == plan.wst_offset % 512 == 0
        if fused and conv.pitch > problem.wo:
            assert conv.pitch % K_BLOCK == 0


@pytest.mark.parametrize("element", [2, 4])
@pytest.mark.parametrize("tile", K1_TILES)
def test_k1_fits(tile: tuple[int, int], element: int) -> None:
    """The budget of k1_conv.py's docstring: two buffers of everything but the ones block."""
    m, n = tile
    assert 2 * (m + n) * L1_BYTES + (2 * m + n) * L0_BYTES <= MemorySpace.Mat.capacity
    assert 2 * m * L0_BYTES <= MemorySpace.Left.capacity
    assert 2 * n * L0_BYTES <= MemorySpace.Right.capacity
    assert 2 * m * n * 4 <= MemorySpace.Acc.capacity
    assert L0_BYTES // element % K_BLOCK == 0


@pytest.mark.parametrize("tile", K12_TILES)
def test_k12_fits(tile: tuple[int, int]) -> None:
    """The budget of k12_fused.py's docstring: z and y twice, three temporaries, a byte of mask per output."""
    outputs = tile[0] // 2 * tile[1]
    assert outputs * (2 * 4 + 3 * 4 + 1 + 2 * 4) <= MemorySpace.Vec.capacity
    assert tile in K1_TILES


def test_keys_are_those_of_the_kernels() -> None:
    folder = Path(conv_common.__file__).parent
    schemas = {"k0_pack": PACK_KEY, "k1_conv": CONV_KEY, "k2_tanh": TANH_KEY, "k12_fused": FUSED_KEY}
    for file, schema in schemas.items():
        declared = load_kernel(folder / f"{file}.py").key
        assert {name: (field.bits, field.values) for name, field in declared.items()} == schema
    for schema, tiles in ((CONV_KEY, K1_TILES), (FUSED_KEY, K12_TILES)):
        assert set(itertools.product(schema["TileM"][1], schema["TileN"][1])) == set(tiles)


def test_keys_are_encoded_by_index() -> None:
    assert tiling_key(CONV_KEY, {"TileM": 64, "TileN": 64}) == 0
    assert tiling_key(CONV_KEY, {"TileM": 128, "TileN": 256}) == 0b101
    assert tiling_key(PACK_KEY, {"PackColumns": 256, "ColumnStep": 2}) == 0b101
    assert tiling_key(TANH_KEY, {"TanhColumns": 4096}) == 4


def test_tiling_data_are_integers_in_field_order() -> None:
    plan = make_tiling(problems()[0])
    for tiling in (plan.pack, plan.conv, plan.tanh):
        values = tiling_values(tiling)
        assert all(type(value) is int for value in values)
        assert dict(zip([field.name for field in dataclasses.fields(tiling)], values, strict=True)) == vars(tiling)


def test_known_plan() -> None:
    """Case 10 by hand: 64 channels, 3 x 3, stride 2, 56 x 56 -> 28 x 28."""
    problem = make_problem((2, 64, 56, 56), (128, 64, 3, 3), "float16", True, (2, 2), (1, 1, 1, 1))
    way = route(problem)
    plan = way.plan
    assert (way.kernels, way.shape_class) == (("k0_pack", "k1_conv", "k2_tanh"), "packed")
    assert (plan.conv.pitch, plan.conv.planes, plan.conv.plane_size) == (29, 4 * 64, 29 * 29)
    assert (plan.conv.p, plan.conv.k_size, plan.conv.k_total) == (27 * 29 + 28, 576, 592)
    assert plan.conv_key == {"TileM": 64, "TileN": 128}
    assert plan.conv.tiles == 2 * 2 * 7 == plan.conv_blocks
    assert plan.x_packed_bytes == 2 * 256 * 841 * 2
    assert plan.wst_bytes == 2 * 128 * 28 * 29 * 4
    assert way.plan == make_tiling(problem)


def test_a_plane_beyond_32_bits_is_refused() -> None:
    with pytest.raises(ValueError, match="32-bit strides"):
        make_tiling(make_problem((1, 16, 50_000, 50_000), (16, 16, 1, 1), "float16"))


BAD: dict[str, tuple[Any, str]] = {
    "rank": (((1, 2), (3, 2)), "3-D or 4-D"),
    "ranks": (((1, 2, 3), (3, 2, 1, 1)), "3-D or 4-D"),
    "dtype": (((1, 2, 3, 3), (3, 2, 1, 1), "int8"), "dtype"),
    "groups": (((1, 4, 3, 3), (3, 2, 1, 1), "float16", True, (1, 1), (0,) * 4, (1, 1), 2), "groups"),
    "stride": (((1, 4, 3, 3), (3, 4, 1, 1), "float16", True, (0, 1)), "strides"),
    "pad": (((1, 4, 3, 3), (3, 4, 1, 1), "float16", True, (1, 1), (0, 0, 0, -1)), "pads"),
    "fit": (((1, 4, 3, 3), (3, 4, 4, 1)), "does not fit"),
    "math": (((1, 4, 3, 3), (3, 4, 1, 1), "float16", True, (1, 1), (0,) * 4, (1, 1), 1, 4), "cubeMathType"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_problems_are_refused(name: str) -> None:
    arguments, message = BAD[name]
    arguments = (*arguments, "float16")[: max(3, len(arguments))]
    with pytest.raises(ValueError, match=message):
        make_problem(*arguments)


def test_bad_fusion_is_refused() -> None:
    with pytest.raises(ValueError, match="half or true"):
        route(problems()[0], fusion="whole")
