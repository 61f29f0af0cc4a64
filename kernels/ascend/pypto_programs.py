"""K1, K2 and both as tensor programs for PyPTO 0.2.0, the tensor-level framework on PyPI.

The operator's algorithm as in conv_common.py, written one level above the kernels: PyPTO's own compiler cuts tensors
into tiles, places them in buffers and schedules them. Per image, group and block of columns p:

    z[m, p]  = sum over taps of filter[m, tap] @ x[plane of tap, p + shift of tap]
    y[m, p]  = tanh(z[m, p])

A tap is one matrix product of a slice of the packed filter with a shifted view of the packed input; the last one has
the bias block as 16 more of K, a column of the filter times a row of ones. K1 writes z, K2 reads it; K12 keeps a
block's z inside the program.

The programs return nothing: they fill their last argument. pypto_layout.py describes the Grid; pypto_sim.py runs the
programs through pypto_worker.py, the only one that imports this module and with it PyPTO. PyPTO reads the annotations
of a program's arguments as objects, so there is no `from __future__ import annotations` here.
"""

from typing import Any

import pypto
from pypto_layout import TANH_COEFFICIENTS, TANH_SPLIT, Grid

DTYPES = {"float16": pypto.DT_FP16, "bfloat16": pypto.DT_BF16, "float32": pypto.DT_FP32}
VECTOR_TILE = (32, 256)  # float32 elements of one tile of K2: 32 KB of UB


def set_tiles(g: Grid) -> None:
    """Tile sizes of both units; the two equal numbers are those of L0 and of L1."""
    pypto.set_cube_tile_shapes([g.tile_m] * 2, [g.tile_k] * 2, [g.tile_n] * 2)
    pypto.set_vec_tile_shapes(min(VECTOR_TILE[0], g.channels), min(VECTOR_TILE[1], g.tile_n))


def conv_block(g: Grid, x: Any, conv_filter: Any, image: Any, group: int, block: Any) -> Any:
    """z of one block, float32 [channels, block_columns]."""
    planes = (image * g.groups + group) * g.planes
    z = None
    for plane, shift, first, size in g.products():
        a = pypto.view(conv_filter, [g.channels, size], [group * g.channels, first])
        b = pypto.view(x, [size, g.block_columns], [planes + plane, block * g.block_columns + shift])
        product = pypto.matmul(a, b, pypto.DT_FP32)
        z = product if z is None else pypto.add(z, product)
    return z


def tanh_chain(g: Grid, z: Any) -> Any:
    """tanh(z) in float32 by the two forms of tile_stages.py, then rounded to nearest even in y's dtype.

    |z| <  0.625: z * (1 + s * P(s)), s = z^2
    |z| >= 0.625: (1 - e) / (1 + e), e = exp(-2 |z|), with the sign of z
    """
    magnitude = pypto.abs(z)
    e = pypto.exp(pypto.mul(magnitude, -2.0))
    large = pypto.div(pypto.add(pypto.mul(e, -1.0), 1.0), pypto.add(e, 1.0))
    large = pypto.where(pypto.lt(z, 0.0), pypto.mul(large, -1.0), large)
    s = pypto.mul(z, z)
    polynomial = pypto.mul(s, TANH_COEFFICIENTS[-1])
    for coefficient in TANH_COEFFICIENTS[-2::-1]:
        polynomial = pypto.mul(pypto.add(polynomial, coefficient), s)
    small = pypto.mul(pypto.add(polynomial, 1.0), z)
    y = pypto.where(pypto.lt(magnitude, TANH_SPLIT), small, large)
    return y if g.dtype == "float32" else pypto.cast(y, DTYPES[g.dtype], pypto.CastMode.CAST_RINT)


def make_k1(g: Grid, options: dict[str, Any]) -> Any:
    """K1 as a compiled program of (x, filter, z)."""
    dtype = DTYPES[g.compute_dtype]

    @pypto.frontend.jit(**options)
    def k1_conv(
        x: pypto.Tensor(g.x_shape, dtype),
        conv_filter: pypto.Tensor(g.filter_shape, dtype),
        z: pypto.Tensor(g.z_shape, pypto.DT_FP32),
    ):
        set_tiles(g)
        for image in pypto.loop(g.images):
            for group in range(g.groups):
                for block in pypto.loop(g.blocks):
                    block_z = conv_block(g, x, conv_filter, image, group, block)
                    rows = (image * g.groups + group) * g.channels
                    pypto.assemble(block_z, [rows, block * g.block_columns], z)

    return k1_conv


def make_k2(g: Grid, options: dict[str, Any]) -> Any:
    """K2 as a compiled program of (z, y)."""
    dtype = DTYPES[g.dtype]

    @pypto.frontend.jit(**options)
    def k2_tanh(z: pypto.Tensor(g.z_shape, pypto.DT_FP32), y: pypto.Tensor(g.z_shape, dtype)):
        set_tiles(g)
        for image in pypto.loop(g.images):
            for group in range(g.groups):
                for block in pypto.loop(g.blocks):
                    rows = (image * g.groups + group) * g.channels
                    offsets = [rows, block * g.block_columns]
                    block_z = pypto.view(z, [g.channels, g.block_columns], offsets)
                    pypto.assemble(tanh_chain(g, block_z), offsets, y)

    return k2_tanh


def make_k12(g: Grid, options: dict[str, Any]) -> Any:
    """K1 and K2 as one compiled program of (x, filter, y)."""
    dtype, y_dtype = DTYPES[g.compute_dtype], DTYPES[g.dtype]

    @pypto.frontend.jit(**options)
    def k12_fused(
        x: pypto.Tensor(g.x_shape, dtype),
        conv_filter: pypto.Tensor(g.filter_shape, dtype),
        y: pypto.Tensor(g.z_shape, y_dtype),
    ):
        set_tiles(g)
        for image in pypto.loop(g.images):
            for group in range(g.groups):
                for block in pypto.loop(g.blocks):
                    block_z = conv_block(g, x, conv_filter, image, group, block)
                    rows = (image * g.groups + group) * g.channels
                    pypto.assemble(tanh_chain(g, block_z), [rows, block * g.block_columns], y)

    return k12_fused


PROGRAMS = {"k1": make_k1, "k2": make_k2, "k12": make_k12}
