"""K12, Cube and Vector: y = tanh(conv) in one kernel, the tile of z handed over on chip (true fusion).

The Cube of every core takes every block_dim-th tile, as K1 does, and moves it from L0C into the UBs of its two vector
cores, half of the rows each (DualModeSplitM). They take tanh, round to y's dtype and store the pixels that y has:

    Cube    M --> L0C --FIX--> z in UB 0 and UB 1      waits for FREE, sets READY
    Vector  z --V--> tanh --V--> y tile --MTE3--> GM   waits for READY, sets FREE

z is double-buffered with one pair of events per buffer, so that the Cube works on the next tile meanwhile; a buffer
starts out free. wsT never exists: 4 bytes per output less to write and 4 less to read. In exchange a tile of z, its
temporaries and y have to fit into UB, so a tile has at most 128 x 128 outputs (K1: 128 x 256), and the two vector cores
of a core serve that core's tiles alone.

Where z has gaps (conv_common.py) a tile's columns are several pieces of rows of y. Their pitch is a multiple of 16
(make_tiling), so that every piece starts at a multiple of 32 bytes in UB.

UB at 128 x 128: z 2 x 32 KB, two temporaries and a float32 result 3 x 32 KB, mask 8 KB, y 2 x 32 KB: 232 KB of 248 KB.
L1, L0A, L0B as K1 at the same tile; L0C 2 x 64 KB of 256 KB.
"""

import os
import sys

import pypto_pro.language as pl
from pypto_pro.runtime.tilingkey import TilingKeyField

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from conv_common import K_BLOCK, L0_BYTES, L1_BYTES, ONES_COLUMNS, ConvTiling
from tile_stages import multiply_tile, tanh_tile

READY = 0  # event of z's buffer 0; 1 of buffer 1
FREE = 2


class FusedKey:
    TileM = TilingKeyField(bits=1, values=[64, 128])
    TileN = TilingKeyField(bits=1, values=[64, 128])


@pl.jit(auto_mutex=True, tiling_key=FusedKey, datatype={"x_packed": "dt", "y": "y_dt"})
def k12_fused(
    x_packed: pl.Ptr[pl.DT_UINT8],
    filter_packed: pl.Ptr[pl.DT_UINT8],
    y: pl.Ptr[pl.DT_UINT8],
    workspace: pl.Ptr[pl.DT_UINT8],
    tiling: ConvTiling,
):
    if dt == pl.DT_FP32:
        k_l1 = L1_BYTES // 4
        k_l0 = L0_BYTES // 4
    else:
        k_l1 = L1_BYTES // 2
        k_l0 = L0_BYTES // 2
    half_rows = TileM // 2
    half_bytes = half_rows * TileN * 4

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
    float_type = pl.TileType(shape=[half_rows, TileN], dtype=pl.DT_FP32, valid_shape=[-1, -1])
    mask_type = pl.TileType(shape=[half_rows, TileN], dtype=pl.DT_UINT8, valid_shape=[-1, -1])
    y_type = pl.TileType(shape=[half_rows, TileN], dtype=y_dt, valid_shape=[-1, -1])

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
    zs = pl.make_tile_group(type=float_type, addrs=0, mutex_ids=[13, 14])
    smalls = pl.make_tile_group(type=float_type, addrs=2 * half_bytes, mutex_ids=[15])
    works = pl.make_tile_group(type=float_type, addrs=3 * half_bytes, mutex_ids=[16])
    results = pl.make_tile_group(type=float_type, addrs=4 * half_bytes, mutex_ids=[17])
    masks = pl.make_tile_group(type=mask_type, addrs=5 * half_bytes, mutex_ids=[18])
    ys = pl.make_tile_group(
        type=y_type,
        addrs=[5 * half_bytes + half_bytes // 4, 6 * half_bytes + half_bytes // 4],
        mutex_ids=[19, 20],
    )

    with pl.section_cube():
        x_matrix = pl.make_tensor(
            x_packed, [tiling.images * tiling.groups * tiling.planes, tiling.plane_size], dtype=dt
        )
        filter_matrix = pl.make_tensor(filter_packed, [tiling.groups * tiling.m, tiling.k_total], dtype=dt)

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

        turn = 0
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
                0,
                tiling,
            )
            z = zs.next()
            pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=FREE + turn)
            pl.move(z, acc, acc_to_vec_mode=pl.AccToVecMode.DualModeSplitM)
            pl.system.set_cross_core(pipe=pl.PipeType.FIX, event_id=READY + turn)
            turn = 1 - turn
        # Take back what the vector cores hand out last, so that no event stays set.
        pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=FREE)
        pl.system.wait_cross_core(pipe=pl.PipeType.FIX, event_id=FREE + 1)
        pl.system.set_mm_layout_transform(enabled=False)

    with pl.section_vector():
        y_matrix = pl.make_tensor(
            y,
            [tiling.images * tiling.groups * tiling.m, tiling.out_rows * tiling.out_columns],
            dtype=y_dt,
        )
        half = pl.get_subblock_idx()
        small = smalls.current()
        work = works.current()
        mask = masks.current()
        pl.system.set_cross_core(pipe=pl.PipeType.V, event_id=FREE)
        pl.system.set_cross_core(pipe=pl.PipeType.V, event_id=FREE + 1)
        turn = 0
        for tile in pl.range(
            pl.get_block_idx() // pl.get_subblock_num(), tiling.tiles, pl.get_block_num()
        ):
            position = tile % tiling.tiles_n * TileN
            rest = tile // tiling.tiles_n
            first = rest % tiling.tiles_m * TileM
            image_group = rest // tiling.tiles_m
            m = pl.min(TileM, tiling.m - first)
            n = pl.min(TileN, tiling.p - position)
            # The first vector core has the larger half of an odd number of rows, the second perhaps none.
            start = half * ((m + 1) // 2)
            rows = pl.min((m + 1) // 2, m - start)
            z = zs.next()
            y_tile = ys.next()
            pl.system.wait_cross_core(pipe=pl.PipeType.V, event_id=READY + turn)
            if rows > 0:
                pl.set_validshape(z, [rows, n])
                pl.set_validshape(small, [rows, n])
                pl.set_validshape(work, [rows, n])
                pl.set_validshape(mask, [rows, n])
                pl.set_validshape(y_tile, [rows, n])
                if y_dt == pl.DT_FP32:
                    tanh_tile(y_tile, z, small, work, mask)
                else:
                    result = results.current()
                    pl.set_validshape(result, [rows, n])
                    tanh_tile(result, z, small, work, mask)
                    pl.cast(y_tile, result, mode=pl.RoundMode.CAST_RINT)
            pl.system.set_cross_core(pipe=pl.PipeType.V, event_id=FREE + turn)
            if rows > 0:
                channel = image_group * tiling.m + first + start
                stop = position + n
                for row in pl.range(position // tiling.out_pitch, (stop - 1) // tiling.out_pitch + 1):
                    row_position = row * tiling.out_pitch
                    left = pl.max(position, row_position)
                    right = pl.min(stop, row_position + tiling.out_columns)
                    if right > left:
                        piece = y_tile[0:rows, left - position : right - position]
                        pl.store(y_matrix, piece, [channel, row * tiling.out_columns + left - row_position])
            turn = 1 - turn
