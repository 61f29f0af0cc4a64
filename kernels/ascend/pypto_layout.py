"""The arrays of pypto_programs.py: conv_common's plan and packed layouts in the terms of tensor programs. NumPy only.

x is [N * groups * planes, plane_columns], filter is [groups * channels, k_total]. PyPTO 0.2.0 wants every view inside
its tensor and in multiples of 16, so planes and output channels are padded, and z is [N * groups * channels,
blocks * block_columns], of which conv_common's wsT is the used part.

The bias block of the filter lies behind its last tap. So that both are one matrix product, the block's rows of x, one
of ones and 15 of zeros, lie behind the planes of that tap.
"""

from __future__ import annotations

from dataclasses import dataclass

import conv_common
import ml_dtypes
import numpy as np
from conv_common import Plan, Problem, ceil_div, round_up

CUBE_CORES = 24  # of the A2/A3 that is simulated
DTYPES = {"float16": np.dtype(np.float16), "bfloat16": np.dtype(ml_dtypes.bfloat16), "float32": np.dtype(np.float32)}

# Of tile_stages.py, which cannot be imported here: it is written in PyPTO Pro.
TANH_SPLIT = 0.625
TANH_COEFFICIENTS = (
    -0.33333281941946774,
    0.13331442196818688,
    -0.05373971499530978,
    0.020639087003258755,
    -0.005704986769520491,
)


@dataclass(frozen=True)
class Grid:
    """What a program is compiled for: Problem and Plan in the terms of pypto_programs.py. Sizes in elements."""

    dtype: str  # of y
    compute_dtype: str  # of x and filter
    images: int
    groups: int
    channels: int  # output channels per group, padded to a multiple of 16
    planes: int  # rows of x per image and group, with those of the bias block
    plane_columns: int  # padded, so that no view of the last block leaves its plane
    k_channels: int
    taps: tuple[tuple[int, int], ...]  # (first plane, shift) of each
    bias_rows: int  # K of the bias block: 16, or 0 without a bias
    tile_m: int
    tile_n: int
    tile_k: int
    block_columns: int  # columns of z per loop iteration: about as many tiles as there are Cube cores
    blocks: int

    @property
    def x_shape(self) -> list[int]:
        return [self.images * self.groups * self.planes, self.plane_columns]

    @property
    def filter_shape(self) -> list[int]:
        return [self.groups * self.channels, len(self.taps) * self.k_channels + self.bias_rows]

    @property
    def z_shape(self) -> list[int]:
        return [self.images * self.groups * self.channels, self.blocks * self.block_columns]

    def products(self) -> list[tuple[int, int, int, int]]:
        """The matrix products of a block: (first plane, shift of the columns, first column of filter, K) of each."""
        products = [(*tap, index * self.k_channels, self.k_channels) for index, tap in enumerate(self.taps)]
        plane, shift, first, size = products[-1]
        return [*products[:-1], (plane, shift, first, size + self.bias_rows)]


def make_plan(problem: Problem) -> Plan:
    """The half-fusion plan on the simulated cores; all three programs follow it, so that they do the same work."""
    return conv_common.make_tiling(problem, CUBE_CORES)


def make_grid(problem: Problem) -> Grid:
    """The Grid of a problem."""
    plan = make_plan(problem)
    c = plan.conv
    channels = round_up(c.m, conv_common.K_BLOCK)
    taps: list[tuple[int, int]] = []
    for tap in range(c.taps):
        dh, dw = tap // c.taps_w * c.dilation_h, tap % c.taps_w * c.dilation_w
        phase = dh % c.stride_h * c.phases_w + dw % c.stride_w
        taps.append((phase * c.k_channels, dh // c.stride_h * c.pitch + dw // c.stride_w))
    bias_rows = conv_common.K_BLOCK if c.has_bias else 0
    ones = taps[-1][0] + c.k_channels
    taps = [(plane + bias_rows if plane >= ones else plane, shift) for plane, shift in taps]
    tile_m = min(plan.conv_key["TileM"], channels)
    tile_n = min(plan.conv_key["TileN"], round_up(c.p, 16))
    tiles_n = ceil_div(c.p, tile_n)
    blocks = ceil_div(tiles_n, max(1, CUBE_CORES // ceil_div(channels, tile_m)))
    block_columns = ceil_div(tiles_n, blocks) * tile_n
    return Grid(
        dtype=problem.dtype,
        compute_dtype=plan.compute_dtype,
        images=c.images,
        groups=c.groups,
        channels=channels,
        planes=c.planes + bias_rows,
        plane_columns=max(c.plane_size, round_up(blocks * block_columns + max(shift for _, shift in taps), 16)),
        k_channels=c.k_channels,
        taps=tuple(taps),
        bias_rows=bias_rows,
        tile_m=tile_m,
        tile_n=tile_n,
        tile_k=64 if plan.compute_dtype == "float32" else 128,
        block_columns=block_columns,
        blocks=blocks,
    )


def pack(
    problem: Problem, x: np.ndarray, conv_filter: np.ndarray, bias: np.ndarray | None
) -> tuple[Grid, np.ndarray, np.ndarray]:
    """The Grid, and x and filter as the programs take them: conv_common's packed arrays, padded.

    Raises ValueError, naming the argument, for an array whose shape is not the problem's.
    """
    _check_shapes(problem, x, conv_filter, bias)
    plan, grid = make_plan(problem), make_grid(problem)
    c, dtype = plan.conv, DTYPES[grid.compute_dtype]
    planes = conv_common.pack_input(x, plan, dtype).reshape(c.images * c.groups, c.planes, c.plane_size)
    packed_x = np.zeros((c.images * c.groups, grid.planes, grid.plane_columns), dtype)
    ones = grid.taps[-1][0] + grid.k_channels
    packed_x[:, :ones, : c.plane_size] = planes[:, :ones]
    packed_x[:, ones + grid.bias_rows :, : c.plane_size] = planes[:, ones:]
    if grid.bias_rows:
        packed_x[:, ones] = 1
    packed = conv_common.pack_filter(conv_filter, bias, plan, dtype)
    packed_filter = np.zeros((c.groups, grid.channels, c.k_total), dtype)
    packed_filter[:, : c.m] = packed[: problem.co * c.k_total].reshape(c.groups, c.m, c.k_total)
    return grid, packed_x.reshape(grid.x_shape), packed_filter.reshape(grid.filter_shape)


def _check_shapes(problem: Problem, x: np.ndarray, conv_filter: np.ndarray, bias: np.ndarray | None) -> None:
    q = problem
    for name, array, expected in (
        ("x", x, (q.n, q.ci, q.hi, q.wi)),
        ("filter", conv_filter, (q.co, q.ci // q.groups, q.kh, q.kw)),
        ("bias", bias, (q.co,) if q.has_bias else None),
    ):
        got = None if array is None else array.shape
        if got != expected:
            raise ValueError(f"conv_tanh: {name}.shape must be {expected}, got {got}")


def golden_z(grid: Grid, x: np.ndarray, conv_filter: np.ndarray) -> np.ndarray:
    """z as K1 lays it out, padding included, in float64."""
    planes = x.astype(np.float64).reshape(grid.images, grid.groups, grid.planes, -1)
    matrix = conv_filter.astype(np.float64).reshape(grid.groups, grid.channels, -1)
    columns = grid.z_shape[1]
    z = np.zeros((grid.images, grid.groups, grid.channels, columns))
    for plane, shift, first, size in grid.products():
        z += matrix[:, :, first : first + size] @ planes[:, :, plane : plane + size, shift : shift + columns]
    return z.reshape(grid.z_shape)


def pack_z(problem: Problem, z: np.ndarray) -> np.ndarray:
    """z [N, Co, Ho, Wo] as K1 lays it out; the padding is 0. Raises ValueError for another shape."""
    expected = (problem.n, problem.co, problem.ho, problem.wo)
    if z.shape != expected:
        raise ValueError(f"conv_tanh: z.shape must be {expected}, got {z.shape}")
    c, grid = make_plan(problem).conv, make_grid(problem)
    rows = np.zeros((problem.n, problem.co, problem.ho, c.pitch), z.dtype)
    rows[..., : problem.wo] = z
    packed = np.zeros((problem.n * problem.groups, grid.channels, grid.z_shape[1]), z.dtype)
    packed[:, : c.m, : c.p] = rows.reshape(-1, c.m, c.z_pitch)[..., : c.p]
    return packed.reshape(grid.z_shape)


def unpack(problem: Problem, result: np.ndarray) -> np.ndarray:
    """[N, Co, Ho, Wo] of what a program wrote: drops the padding of channels and of rows."""
    c, grid = make_plan(problem).conv, make_grid(problem)
    rows = np.zeros((problem.n * problem.groups, c.m, c.z_pitch), result.dtype)
    rows[..., : c.p] = result.reshape(-1, grid.channels, grid.z_shape[1])[:, : c.m, : c.p]
    return np.ascontiguousarray(rows.reshape(problem.n, problem.co, problem.ho, c.pitch)[..., : problem.wo])
