"""K1, Cube: wsT = filter_packed x x_packed, the convolution with its bias, in float32.

Every core takes every block_dim-th of the tiles (image, group, tile_m, tile_n) and writes [TileM, TileN] of wsT. The
pipeline of one tile is drawn in tile_stages.py; M and FIX meet through the unit flag (Partial ... Final), so that the next
tile's products start in the other half of L0C while this one is stored.

TilingKey: TileM and TileN, from conv_common.K1_TILES. For 128 x 256, the largest:

    L1   A 2 x 64 KB, B 2 x 128 KB, bias block 2 x 16 KB, ones block 32 KB    448 KB of 512 KB
    L0A  2 x 16 KB     32 KB of 64 KB
    L0B  2 x 32 KB     64 KB of 64 KB
    L0C  2 x 128 KB   256 KB of 256 KB
"""

import os
import sys

import pypto_pro.language as pl
from pypto_pro.runtime.tilingkey import TilingKeyField

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from conv_common import K_BLOCK, L0_BYTES, L1_BYTES, ONES_COLUMNS, ConvTiling
from tile_stages import multiply_tile


class ConvKey:
    TileM = TilingKeyField(bits=1, values=[64, 128])
    TileN = TilingKeyField(bits=2, values=[64, 128, 256])


@pl.jit(auto_mutex=True, tiling_key=ConvKey, datatype={"x_packed": "dt"})
def k1_conv(
    x_packed: pl.Ptr[pl.DT_UINT8],
    filter_packed: pl.Ptr[pl.DT_UINT8],
    wst: pl.Ptr[pl.DT_UINT8],
    workspace: pl.Ptr[pl.DT_UINT8],
    tiling: ConvTiling,
):
    if dt == pl.DT_FP32:
        k_l1 = L1_BYTES // 4
        k_l0 = L0_BYTES // 4
    else:
        k_l1 = L1_BYTES // 2
        k_l0 = L0_BYTES // 2

    a_type = pl.TileType(shape=[TileM, k_l1], dtype=dt, target_memory=pl.MemorySpace.Mat, valid_shape=[-1, -1])
    b_type = pl.TileType(shape=[k_l1, TileN], dtype=dt, target_memory=pl.MemorySpace.Mat, valid_shape=[-1, -1])
    bias_type = pl.TileType(shape=[TileM, k_l0], dtype=dt, target_memory=pl.MemorySpace.Mat, valid_shape=[-1, -1])
    ones_type = pl.TileType(shape=[k_l0, TileN], dtype=dt, target_memory=pl.MemorySpace.Mat, valid_shape=[-1, -1])
    left_type = pl.TileType(
        shape=[TileM, k_l0], dtype=dt, target_memory=pl.MemorySpace.Left, valid_shape=[-1, -1], compact=1
    )
    right_type = pl.TileType(
        shape=[k_l0, TileN], dtype=dt, target_memory=pl.MemorySpace.Right, valid_shape=[-1, -1], compact=1
    )
    acc_type = pl.TileType(
        shape=[TileM, TileN],
        dtype=pl.DT_FP32,
        target_memory=pl.MemorySpace.Acc,
        valid_shape=[-1, -1],
        fractal=1024,
        compact=1,
    )

    b_address = 2 * TileM * L1_BYTES
    bias_address = b_address + 2 * TileN * L1_BYTES
    ones_address = bias_address + 2 * TileM * L0_BYTES
    a_l1s = pl.make_tile_group(type=a_type, addrs=0, mutex_ids=[0, 1])
    b_l1s = pl.make_tile_group(type=b_type, addrs=b_address, mutex_ids=[2, 3])
    bias_l1s = pl.make_tile_group(type=bias_type, addrs=bias_address, mutex_ids=[4, 5])
    ones_l1s = pl.make_tile_group(type=ones_type, addrs=ones_address, mutex_ids=[6])
    lefts = pl.make_tile_group(type=left_type, addrs=0, mutex_ids=[7, 8])
    rights = pl.make_tile_group(type=right_type, addrs=0, mutex_ids=[9, 10])
    accs = pl.make_tile_group(type=acc_type, addrs=0, mutex_ids=[11, 12])

    with pl.section_cube():
        channels = tiling.images * tiling.groups * tiling.m
        x_matrix = pl.make_tensor(
            x_packed, [tiling.images * tiling.groups * tiling.planes, tiling.plane_size], dtype=dt
        )
        filter_matrix = pl.make_tensor(filter_packed, [tiling.groups * tiling.m, tiling.k_total], dtype=dt)
        z_matrix = pl.make_tensor(wst, [channels, tiling.z_pitch], dtype=pl.DT_FP32)

        pl.system.set_mm_layout_transform(enabled=True)
        ones = ones_l1s.current()
        if tiling.has_bias == 1:
            ones_matrix = pl.make_tensor(
                filter_packed,
                [tiling.ones_offset // ONES_COLUMNS + K_BLOCK, ONES_COLUMNS],
                dtype=dt,
            )
            pl.set_validshape(ones, [K_BLOCK, TileN])
            pl.load(ones, ones_matrix, [tiling.ones_offset // ONES_COLUMNS, 0])

        for tile in pl.range(pl.get_block_idx(), tiling.tiles, pl.get_block_num()):
            position = tile % tiling.tiles_n * TileN
            rest = tile // tiling.tiles_n
            first = rest % tiling.tiles_m * TileM
            image_group = rest // tiling.tiles_m
            group = image_group % tiling.groups
            m = pl.min(TileM, tiling.m - first)
            n = pl.min(TileN, tiling.p - position)
            acc = accs.next()
            multiply_tile(
                acc,
                a_l1s,
                b_l1s,
                bias_l1s,
                ones,
                lefts,
                rights,
                filter_matrix,
                x_matrix,
                group * tiling.m + first,
                image_group * tiling.planes,
                position,
                m,
                n,
                k_l1,
                k_l0,
                1,
                tiling,
            )
            pl.store(z_matrix, acc, [image_group * tiling.m + first, position], phase=pl.STPhase.Final)
        pl.system.set_mm_layout_transform(enabled=False)
