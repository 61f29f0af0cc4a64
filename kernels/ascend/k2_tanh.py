"""K2, Vector: y = tanh(wsT), rounded once to y's dtype, half to even.

Every vector core takes every (2 * block_dim)-th tile of wsT, seen as [rows, columns] with gaps between the rows where x
was padded (conv_common.py), or as one long row where there are none:

    GM wsT  --MTE2-->  z  --V-->  tanh, float32  --V-->  y tile  --MTE3-->  GM y

TilingKey: TanhColumns is the width of the physical tile of 4096 elements; tile_rows and tile_columns of the tiling, not
above it, spread small problems over all cores.

UB: z 2 x 16 KB, two temporaries and a float32 result 3 x 16 KB, mask 4 KB, y 2 x 16 KB: 116 KB of 248 KB.
"""

import os
import sys

import pypto_pro.language as pl
from pypto_pro.runtime.tilingkey import TilingKeyField

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from conv_common import TANH_ELEMENTS, TanhTiling
from tile_stages import tanh_tile

Z = 0x0
SMALL = 0x8000
WORK = 0xC000
RESULT = 0x10000
MASK = 0x14000
Y = 0x15000


class TanhKey:
    TanhColumns = TilingKeyField(bits=3, values=[64, 128, 256, 512, 4096])


@pl.jit(auto_mutex=True, tiling_key=TanhKey, datatype={"y": "dt"})
def k2_tanh(
    wst: pl.Ptr[pl.DT_UINT8],
    y: pl.Ptr[pl.DT_UINT8],
    workspace: pl.Ptr[pl.DT_UINT8],
    tiling: TanhTiling,
):
    tile_shape = [TANH_ELEMENTS // TanhColumns, TanhColumns]
    float_type = pl.TileType(shape=tile_shape, dtype=pl.DT_FP32, valid_shape=[-1, -1])
    mask_type = pl.TileType(shape=tile_shape, dtype=pl.DT_UINT8, valid_shape=[-1, -1])
    y_type = pl.TileType(shape=tile_shape, dtype=dt, valid_shape=[-1, -1])
    zs = pl.make_tile_group(type=float_type, addrs=[Z, Z + 0x4000], mutex_ids=[0, 1])
    smalls = pl.make_tile_group(type=float_type, addrs=SMALL, mutex_ids=[2])
    works = pl.make_tile_group(type=float_type, addrs=WORK, mutex_ids=[3])
    results = pl.make_tile_group(type=float_type, addrs=RESULT, mutex_ids=[4])
    masks = pl.make_tile_group(type=mask_type, addrs=MASK, mutex_ids=[5])
    ys = pl.make_tile_group(type=y_type, addrs=[Y, Y + 0x4000], mutex_ids=[6, 7])

    with pl.section_vector():
        z_matrix = pl.make_tensor(wst, [tiling.rows, tiling.columns], [tiling.z_pitch, 1], dtype=pl.DT_FP32)
        y_matrix = pl.make_tensor(y, [tiling.rows, tiling.columns], dtype=dt)
        small = smalls.current()
        work = works.current()
        mask = masks.current()
        for tile in pl.range(pl.get_block_idx(), tiling.tiles, pl.get_block_num() * pl.get_subblock_num()):
            row = tile // tiling.tiles_columns * tiling.tile_rows
            column = tile % tiling.tiles_columns * tiling.tile_columns
            rows = pl.min(tiling.tile_rows, tiling.rows - row)
            columns = pl.min(tiling.tile_columns, tiling.columns - column)
            z = zs.next()
            y_tile = ys.next()
            pl.set_validshape(z, [rows, columns])
            pl.set_validshape(small, [rows, columns])
            pl.set_validshape(work, [rows, columns])
            pl.set_validshape(mask, [rows, columns])
            pl.set_validshape(y_tile, [rows, columns])
            pl.load(z, z_matrix, [row, column])
            if dt == pl.DT_FP32:
                # A cast from float32 to float32 would round to integers.
                tanh_tile(y_tile, z, small, work, mask)
            else:
                result = results.current()
                pl.set_validshape(result, [rows, columns])
                tanh_tile(result, z, small, work, mask)
                pl.cast(y_tile, result, mode=pl.RoundMode.CAST_RINT)
            pl.store(y_matrix, y_tile, [row, column])
