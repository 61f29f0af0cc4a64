"""The executor catches what hardware would get wrong: each kernel here is a real one with one mistake put in."""

import shutil
from pathlib import Path
from typing import Any

import executor.run
import numpy as np
import pytest
from conv_common import pack_input
from dispatcher import make_problem, route
from executor import ExecutorError, GlobalBuffer, load_kernel
from executor.rounding import round_to
from executor.types import DataType, MemorySpace, RoundMode, TileType, Unsigned
from reference import DTYPES

KERNELS = Path(executor.__file__).parents[1]
K1_STORE = "pl.store(z_matrix, acc, [image_group * tiling.m + first, position], phase=pl.STPhase.Final)"
K1_TILES = "pl.range(pl.get_block_idx(), tiling.tiles, pl.get_block_num()):"
CAST = "pl.cast(y_tile, result, mode=pl.RoundMode.CAST_RINT)"

# name: (file, the right text, the wrong text, what the executor says)
MISTAKES = {
    "outside_of_l1": ("k1_conv", "ones_address = bias", "ones_address = 0x78000 + bias", "does not fit into Mat"),
    "outside_of_ub": ("k2_tanh", "Y = 0x15000", "Y = 0x3C000", "does not fit into Vec"),
    "outside_of_l0c": (
        "k1_conv",
        "accs = pl.make_tile_group(type=acc_type, addrs=0",
        "accs = pl.make_tile_group(type=acc_type, addrs=0x30000",
        "does not fit into Acc",
    ),
    "misaligned_ub": ("k2_tanh", "WORK = 0xC000", "WORK = 0xC010", "no multiple of 32"),
    "misaligned_l0a": ("k1_conv", "type=left_type, addrs=0", "type=left_type, addrs=64", "no multiple of 512"),
    "l1_tiles_overlap": (
        "k1_conv",
        "ones_address = bias",
        "ones_address = b_address + 0 * bias",
        "written while .* may be read",
    ),
    "live_tiles_overlap": ("k2_tanh", "WORK = 0xC000", "WORK = 0x9000", "live tiles overlap"),
    "never_written": (
        "tile_stages",
        "pl.load(bias_l1, filter_matrix, [out_channel, tiling.k_size])",
        "pass",
        "never written",
    ),
    "accumulates_onto_nothing": (
        "tile_stages",
        "pl.matmul(acc, bias_left, bias_right, phase=",
        "pl.matmul_acc(acc, acc, bias_left, bias_right, phase=",
        "never written",
    ),
    "reused_while_read": (
        "k1_conv",
        "type=left_type, addrs=0",
        "type=left_type, addrs=[0, 0]",
        "written while .* may be read",
    ),
    "z_reused_while_read": (
        "k12_fused",
        "pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=FREE + turn)",
        "pass",
        "may be (read|written)",
    ),
    "z_read_too_early": (
        "k12_fused",
        "pl.system.wait_cross_core(pipe=pl.PipeType.V, event_id=READY + turn)",
        "pass",
        "never written|may be written",
    ),
    "waits_on_the_wrong_pipe": (
        "k12_fused",
        "wait_cross_core(pipe=pl.PipeType.V, event_id=READY",
        "wait_cross_core(pipe=pl.PipeType.MTE3, event_id=READY",
        "read while it may be written",
    ),
    "signals_on_the_wrong_pipe": (
        "k12_fused",
        "set_cross_core(pipe=pl.PipeType.V, event_id=FREE + turn",
        "set_cross_core(pipe=pl.PipeType.MTE2, event_id=FREE + turn",
        "may be (read|written)",
    ),
    "nobody_signals": (
        "k12_fused",
        "pl.system.set_cross_core(pipe=pl.PipeType.V, event_id=FREE + turn)",
        "pass",
        "deadlock",
    ),
    "event_left_over": (
        "k12_fused",
        "pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=FREE + 1)",
        "pass",
        "still set",
    ),
    "loaded_twice": (
        "tile_stages",
        "pl.load(a_l1,",
        "pl.load(a_l1, filter_matrix, [out_channel, 0])\n        pl.load(a_l1,",
        "bar_mte2",
    ),
    "stored_twice": ("k0_pack", "pl.system.bar_mte3()", "pass", "stored twice"),
    "two_cores_one_output": ("k1_conv", K1_TILES, "pl.range(0, tiling.tiles, 1):", "another core has written"),
    "z_missing": (
        "k1_conv",
        K1_TILES,
        K1_TILES.replace("tiling.tiles", "tiling.tiles - 1"),
        "read where nothing was written",
    ),
    "y_missing": (
        "k2_tanh",
        "tiling.tiles, pl.get_block_num()",
        "tiling.tiles - 1, pl.get_block_num()",
        "not written by any core",
    ),
    "y_missing_when_fused": ("k12_fused", "if right > left:", "if right > left + 24:", "not written by any core"),
    "no_final": (
        "tile_stages",
        "pl.matmul_acc(acc, acc, left, right, phase=pl.AccPhase.Final)",
        "pl.matmul_acc(acc, acc, left, right, phase=pl.AccPhase.Partial)",
        "without a Final matmul would hang",
    ),
    "final_too_early": (
        "tile_stages",
        "pl.matmul(acc, bias_left, bias_right, phase=pl.AccPhase.Partial)",
        "pl.matmul(acc, bias_left, bias_right, phase=pl.AccPhase.Final)",
        "would hang",
    ),
    "store_partial": ("k1_conv", K1_STORE, K1_STORE.replace("Final", "Partial"), "would hang|is not stored"),
    "store_without_phase": (
        "k1_conv",
        K1_STORE,
        K1_STORE.replace(", phase=pl.STPhase.Final", ""),
        "read while it may be written",
    ),
    "matmul_without_phase": (
        "tile_stages",
        "pl.matmul_acc(acc, acc, left, right, phase=pl.AccPhase.Final)",
        "pl.matmul_acc(acc, acc, left, right)",
        "would hang|may be",
    ),
    "outside_of_gm": ("tile_stages", "position + shift]", "position + shift + 1]", "out of bounds"),
    "store_outside_of_gm": ("k1_conv", "first, position], phase", "first, position + 3], phase", "out of bounds"),
    "negative_unsigned": (
        "k0_pack",
        "row * tiling.stride_h + base_y - tiling.pad_top",
        "row * tiling.stride_h + base_y - tiling.pad_top - 1 + 1",
        "is negative",
    ),
    "padding_by_signed_compare": ("k0_pack", "pl.max(first_row, top)", "first_row - top", "is negative"),
    "no_compact_left": (
        "k1_conv",
        "target_memory=pl.MemorySpace.Left, valid_shape=[-1, -1], compact=1",
        "target_memory=pl.MemorySpace.Left, valid_shape=[-1, -1]",
        "needs compact=1",
    ),
    "no_compact_right": (
        "k1_conv",
        "target_memory=pl.MemorySpace.Right, valid_shape=[-1, -1], compact=1",
        "target_memory=pl.MemorySpace.Right, valid_shape=[-1, -1]",
        "needs compact=1",
    ),
    "no_compact_acc": ("k1_conv", "fractal=1024,\n        compact=1,", "fractal=1024,", "needs compact=1"),
    "k_not_full": (
        "tile_stages",
        "width = pl.min(k_l0, depth - offset)",
        "width = pl.min(k_l0, depth - offset) - 1",
        "no whole number of fractals",
    ),
    "valid_shape_forgotten": ("tile_stages", "pl.set_validshape(right, [width, n])", "pass", "does not give"),
    "insert_instead_of_extract": (
        "k1_conv",
        "shape=[k_l0, TileN], dtype=dt, target_memory=pl.MemorySpace.Mat",
        "shape=[16, TileN], dtype=dt, target_memory=pl.MemorySpace.Mat",
        "would insert",
    ),
    "cast_to_itself": ("k2_tanh", "if dt == pl.DT_FP32:", "if dt == pl.DT_INT32:", "rounds to integers"),
    "slice_misaligned": ("k12_fused", "left - position :", "left - position + 1 :", "no multiple of 32"),
    "vector_work_on_the_cube": ("k2_tanh", "pl.section_vector()", "pl.section_cube()", "is in Vec"),
}


def with_mistake(folder: Path, file: str, right: str, wrong: str) -> None:
    """A copy of the kernels in which one text is replaced."""
    for name in ("k0_pack", "k1_conv", "k2_tanh", "k12_fused", "tile_stages"):
        shutil.copy(KERNELS / f"{name}.py", folder)
    path = folder / f"{file}.py"
    source = path.read_text()
    assert right in source, f"{file}.py does not contain: {right}"
    path.write_text(source.replace(right, wrong))


def run_copy(folder: Path, monkeypatch: pytest.MonkeyPatch, problem: Any, way: Any, arrays: Any) -> dict[str, Any]:
    kernels = {name: load_kernel(folder / f"{name}.py") for name in ("k0_pack", "k1_conv", "k2_tanh", "k12_fused")}
    monkeypatch.setattr(executor.run, "kernels", lambda: kernels)
    return executor.run.run(problem, way, *arrays)


def arrays_of(problem: Any, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    q = problem
    shapes = (q.n, q.ci, q.hi, q.wi), (q.co, q.ci // q.groups, q.kh, q.kw), (q.co,)
    x, conv_filter, bias = (rng.uniform(-1, 1, shape).astype(DTYPES[q.dtype]) for shape in shapes)
    return x, conv_filter, bias


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_caught(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    file, right, wrong, message = MISTAKES[name]
    with_mistake(tmp_path, file, right, wrong)
    # Two K steps, several tiles per core, tails in all directions; float32 shows a cast that should not be there.
    dtype = "float32" if name == "cast_to_itself" else "float16"
    problem = make_problem((1, 96, 20, 24), (70, 96, 3, 3), dtype, pads=(1, 1, 1, 1))
    way = route(problem, cores=1 if file == "k12_fused" else 3, fusion="true" if file == "k12_fused" else "half")
    with pytest.raises(ExecutorError, match=message):
        run_copy(tmp_path, monkeypatch, problem, way, arrays_of(problem, rng))


def test_the_copies_are_right_without_a_mistake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fusion: str, rng: np.random.Generator
) -> None:
    with_mistake(tmp_path, "k0_pack", "import os", "import os")
    problem = make_problem((1, 96, 20, 24), (70, 96, 3, 3), "float16", pads=(1, 1, 1, 1))
    run_copy(tmp_path, monkeypatch, problem, route(problem, cores=3, fusion=fusion), arrays_of(problem, rng))


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("for row in pl.range(", "for row in range("),
        ("pl.expands(zero, 0.0)", "return"),
        ("with pl.section_vector():", "with open():"),
    ],
)
def test_what_the_dsl_does_not_have_is_refused(right: str, wrong: str, tmp_path: Path) -> None:
    with_mistake(tmp_path, "k0_pack", right, wrong)
    with pytest.raises(ExecutorError, match="line"):
        load_kernel(tmp_path / "k0_pack.py")


def test_rounding_half_away_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """CAST_ROUND in place of CAST_RINT: ties go another way."""
    problem = make_problem((1, 16, 4, 4), (3, 16, 1, 1), "float32", pads=(1, 1, 1, 1), cube_math_type=2)
    way = route(problem)
    x, conv_filter, bias = arrays_of(problem, rng)
    x[0, 0] = 1 + np.float32(2) ** -11
    expected = pack_input(x, way.plan, DTYPES["float16"])
    for mode, same in (("CAST_RINT", True), ("CAST_ROUND", False)):
        with_mistake(tmp_path, "k0_pack", "CAST_RINT", mode)
        packed = run_copy(tmp_path, monkeypatch, problem, way, (x, conv_filter, bias))["x_packed"]
        assert np.array_equal(packed, expected) is same


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_round_modes(dtype: str) -> None:
    """All ties between neighbours of a binade, both signs."""
    numpy_dtype = DTYPES[dtype]
    values = (np.arange(0x3C00, 0x3E00) if dtype == "float16" else np.arange(0x3F80, 0x4000)).astype(np.uint16)
    low, high = (bits.view(numpy_dtype).astype(np.float32) for bits in (values, values + np.uint16(1)))
    ties = (low + high) / 2
    for sign in (np.float32(1), np.float32(-1)):
        away = round_to(sign * ties, numpy_dtype, RoundMode.CAST_ROUND)
        np.testing.assert_array_equal(away.astype(np.float32), sign * high)
        even = round_to(sign * ties, numpy_dtype, RoundMode.CAST_RINT)
        np.testing.assert_array_equal(even.view(np.uint16) % 2, 0)
    off_ties = np.nextafter(ties, np.float32(0))
    for mode in (RoundMode.CAST_RINT, RoundMode.CAST_ROUND):
        np.testing.assert_array_equal(round_to(off_ties, numpy_dtype, mode).astype(np.float32), low)
    special = np.array([np.nan, np.inf, -np.inf, 0, -0.0], np.float32)
    np.testing.assert_array_equal(round_to(special, numpy_dtype, RoundMode.CAST_ROUND).astype(np.float32), special)


def test_loop_variables_are_unsigned() -> None:
    i = Unsigned(3)
    assert (i * 2 - 6, 10 - i, i // 2, 7 % i) == (0, 7, 1, 1)
    for wrong in (lambda: i - 4, lambda: 2 - i, lambda: i + -1, lambda: i * 2 - 7, lambda: i > -1):
        with pytest.raises(ExecutorError, match="unsigned"):
            wrong()


def test_memory_of_a_950() -> None:
    sizes = {space.buffer: space.capacity // 1024 for space in MemorySpace}
    assert sizes == {"L1": 512, "L0A": 64, "L0B": 64, "L0C": 256, "UB": 248}
    with pytest.raises(ExecutorError, match="32 bytes"):
        TileType([4, 9], DataType("DT_FP16", np.dtype(np.float16)))
    with pytest.raises(ExecutorError, match="16 x 16"):
        TileType([8, 64], DataType("DT_FP16", np.dtype(np.float16)), MemorySpace.Left)


def test_launch_arguments() -> None:
    kernel = executor.run.kernels()["k2_tanh"]
    half = executor.run.DATATYPES["float16"]
    with pytest.raises(ExecutorError, match="no TilingKey"):
        kernel[None, 1, {"TanhColumns": 65}, {"y": half}]
    with pytest.raises(ExecutorError, match="datatypes"):
        kernel[None, 1, {"TanhColumns": 64}, {}]
    with pytest.raises(ExecutorError, match="4 arguments"):
        kernel[None, 1, {"TanhColumns": 64}, {"y": half}](None)
    with pytest.raises(ExecutorError, match="contiguous"):
        GlobalBuffer("x", np.zeros((4, 4))[:, ::2], written=True)
