"""K0, Vector: x -> x_packed, filter and bias -> filter_packed. The layouts are those of conv_common.py.

One work item is a block of rows of one packed plane, one row of filter_packed, or the ones block; items are dealt out to
all vector cores in turn. A plane is zeroed where it has a border, then its pixels are copied:

    GM x [rows, columns]  --MTE2-->  source  --V-->  target  --MTE3-->  GM x_packed

V takes every stride_w-th column (a gather; nothing at stride 1) and casts where the products use another dtype.
A row of filter_packed is transposed from [channels, taps] to [taps, channels] in UB.

TilingKey: PackColumns is the width of the target tile, ColumnStep the source columns per target column, 0 for any:
then the tile is one row, because a tile's row pitch is fixed when the kernel is compiled.

UB: source 2 x 32 KB, cast 32 KB, target 2 x 16 KB, index and its temporary 2 x 16 KB, zeros 16 KB, one 32 B bias
element: 177 KB of 248 KB.
"""

import os
import sys

import pypto_pro.language as pl
from pypto_pro.runtime.tilingkey import TilingKeyField

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

from conv_common import K_BLOCK, ONES_COLUMNS, PACK_ELEMENTS, PACK_SOURCE, PackTiling

TAPS_TILE = 64  # the filter is transposed in tiles of 64 channels x 64 taps
ONE_ELEMENT = 16  # elements of the smallest tile row: 32 bytes at least

SOURCE = 0x0
CAST = 0x10000
TARGET = 0x18000
INDEX = 0x20000
GATHER_TMP = 0x24000
ZERO = 0x28000
BIAS = 0x2C000
BIAS_CAST = 0x2C040


class PackKey:
    PackColumns = TilingKeyField(bits=1, values=[64, 256])
    ColumnStep = TilingKeyField(bits=2, values=[0, 1, 2])


@pl.jit(auto_mutex=True, tiling_key=PackKey, datatype={"x": "x_dt", "x_packed": "dt"})
def k0_pack(
    x: pl.Ptr[pl.DT_UINT8],
    filter: pl.Ptr[pl.DT_UINT8],
    bias: pl.Ptr[pl.DT_UINT8],
    x_packed: pl.Ptr[pl.DT_UINT8],
    filter_packed: pl.Ptr[pl.DT_UINT8],
    workspace: pl.Ptr[pl.DT_UINT8],
    tiling: PackTiling,
):
    if ColumnStep == 0:
        tile_rows = 1
        source_columns = PACK_SOURCE
    else:
        tile_rows = PACK_ELEMENTS // PackColumns
        source_columns = PackColumns * ColumnStep

    source_type = pl.TileType(shape=[tile_rows, source_columns], dtype=x_dt, valid_shape=[-1, -1])
    cast_type = pl.TileType(shape=[tile_rows, source_columns], dtype=dt, valid_shape=[-1, -1])
    target_type = pl.TileType(shape=[tile_rows, PackColumns], dtype=dt, valid_shape=[-1, -1])
    index_type = pl.TileType(shape=[tile_rows, PackColumns], dtype=pl.DT_INT32, valid_shape=[-1, -1])
    sequence_type = pl.TileType(shape=[1, tile_rows * PackColumns], dtype=pl.DT_INT32)
    line_source_type = pl.TileType(shape=[1, PACK_ELEMENTS], dtype=x_dt, valid_shape=[-1, -1])
    line_type = pl.TileType(shape=[1, PACK_ELEMENTS], dtype=dt, valid_shape=[-1, -1])
    block_source_type = pl.TileType(shape=[TAPS_TILE, TAPS_TILE], dtype=x_dt, valid_shape=[-1, -1])
    block_type = pl.TileType(shape=[TAPS_TILE, TAPS_TILE], dtype=dt, valid_shape=[-1, -1])
    element_source_type = pl.TileType(shape=[1, ONE_ELEMENT], dtype=x_dt, valid_shape=[-1, -1])
    element_type = pl.TileType(shape=[1, ONE_ELEMENT], dtype=dt, valid_shape=[-1, -1])

    sources = pl.make_tile_group(type=source_type, addrs=[SOURCE, SOURCE + 0x8000], mutex_ids=[0, 1])
    casts = pl.make_tile_group(type=cast_type, addrs=CAST, mutex_ids=[2])
    targets = pl.make_tile_group(type=target_type, addrs=[TARGET, TARGET + 0x4000], mutex_ids=[3, 4])
    indices = pl.make_tile_group(type=index_type, addrs=INDEX, mutex_ids=[5])
    sequences = pl.make_tile_group(type=sequence_type, addrs=INDEX, mutex_ids=[5])
    gather_tmps = pl.make_tile_group(type=index_type, addrs=GATHER_TMP, mutex_ids=[6])
    zeros = pl.make_tile_group(type=line_type, addrs=ZERO, mutex_ids=[7])
    # The filter's tiles take the memory and the mutexes of the pixels'.
    line_sources = pl.make_tile_group(type=line_source_type, addrs=[SOURCE, SOURCE + 0x8000], mutex_ids=[0, 1])
    line_casts = pl.make_tile_group(type=line_type, addrs=CAST, mutex_ids=[2])
    block_sources = pl.make_tile_group(type=block_source_type, addrs=[SOURCE, SOURCE + 0x8000], mutex_ids=[0, 1])
    block_casts = pl.make_tile_group(type=block_type, addrs=CAST, mutex_ids=[2])
    blocks = pl.make_tile_group(type=block_type, addrs=[TARGET, TARGET + 0x4000], mutex_ids=[3, 4])
    bias_sources = pl.make_tile_group(type=element_source_type, addrs=BIAS, mutex_ids=[8])
    bias_casts = pl.make_tile_group(type=element_type, addrs=BIAS_CAST, mutex_ids=[9])
    ones = pl.make_tile_group(type=line_type, addrs=[TARGET], mutex_ids=[3])

    with pl.section_vector():
        # x by phase: row i of phase r is row i * stride_h + r of the image.
        phase_rows = (tiling.height + tiling.stride_h - 1) // tiling.stride_h
        image = pl.make_tensor(
            x,
            [tiling.images * tiling.groups * tiling.channels, tiling.stride_h, phase_rows, tiling.width],
            [tiling.height * tiling.width, tiling.width, tiling.stride_h * tiling.width, 1],
            dtype=x_dt,
        )
        planes = tiling.images * tiling.groups * tiling.planes
        plane_size = tiling.rows * tiling.pitch
        packed = pl.make_tensor(x_packed, [planes * tiling.rows, tiling.pitch], dtype=dt)
        packed_planes = pl.make_tensor(x_packed, [planes, plane_size], dtype=dt)

        filter_taps = pl.make_tensor(filter, [tiling.out_channels, tiling.channels, tiling.taps], dtype=x_dt)
        filter_lines = pl.make_tensor(filter, [tiling.out_channels, tiling.channels * tiling.taps], dtype=x_dt)
        packed_lines = pl.make_tensor(filter_packed, [tiling.out_channels, tiling.k_total], dtype=dt)
        packed_taps = pl.make_tensor(
            filter_packed,
            [tiling.out_channels, tiling.taps, tiling.channel_step],
            [tiling.k_total, tiling.channel_step, 1],
            dtype=dt,
        )
        packed_ones = pl.make_tensor(filter_packed, [1, tiling.ones_offset + K_BLOCK * ONES_COLUMNS], dtype=dt)
        bias_line = pl.make_tensor(bias, [1, tiling.out_channels], dtype=x_dt)

        zero = zeros.current()
        pl.set_validshape(zero, [1, PACK_ELEMENTS])
        pl.expands(zero, 0.0)
        if ColumnStep != 1:
            sequence = sequences.current()
            pl.fill_index(sequence, 0)
            pl.mul(sequence, sequence, tiling.stride_w)

        plane_items = planes * tiling.blocks * tiling.pack_x
        for item in pl.range(pl.get_block_idx(), tiling.items, pl.get_block_num() * pl.get_subblock_num()):
            if item < plane_items:
                index = item // tiling.blocks
                first_row = item % tiling.blocks * tiling.block_rows
                last_row = pl.min(first_row + tiling.block_rows, tiling.rows)
                plane = index % tiling.planes
                phase = plane // tiling.channel_step
                channel = plane % tiling.channel_step
                base_y = phase // tiling.phases_w * tiling.phase_step_h
                base_x = phase % tiling.phases_w * tiling.phase_step_w
                # A plane that only fills up the K step has no rows of x.
                height = tiling.height
                if phase >= tiling.phases:
                    height = 0
                if channel >= tiling.channels:
                    height = 0
                # The rows and columns with pixels of x. No term may become negative: item is unsigned.
                top = (pl.max(tiling.pad_top, base_y) - base_y + tiling.stride_h - 1) // tiling.stride_h
                bottom = (pl.max(tiling.pad_top + height, base_y) - base_y + tiling.stride_h - 1) // tiling.stride_h
                left = (pl.max(tiling.pad_left, base_x) - base_x + tiling.stride_w - 1) // tiling.stride_w
                right = (
                    pl.max(tiling.pad_left + tiling.width, base_x) - base_x + tiling.stride_w - 1
                ) // tiling.stride_w
                row_start = pl.max(first_row, top)
                row_stop = pl.max(pl.min(last_row, bottom), row_start)
                column_start = pl.min(left, tiling.pitch)
                column_stop = pl.max(pl.min(right, tiling.pitch), column_start)
                if (row_stop - row_start) * (column_stop - column_start) < (last_row - first_row) * tiling.pitch:
                    start = first_row * tiling.pitch
                    stop = last_row * tiling.pitch
                    for position in pl.range(start, stop, PACK_ELEMENTS):
                        pl.set_validshape(zero, [1, pl.min(PACK_ELEMENTS, stop - position)])
                        pl.store(packed_planes, zero, [index, position])
                    pl.system.bar_mte3()
                x_channel = index // tiling.planes * tiling.channels + channel
                for row in pl.range(row_start, row_stop, tile_rows):
                    rows = pl.min(tile_rows, row_stop - row)
                    y = row * tiling.stride_h + base_y - tiling.pad_top
                    for column in pl.range(column_start, column_stop, tiling.tile_columns):
                        columns = pl.min(tiling.tile_columns, column_stop - column)
                        span = (columns - 1) * tiling.stride_w + 1
                        source = sources.next()
                        pl.set_validshape(source, [rows, span])
                        pl.load(
                            source,
                            image,
                            [
                                x_channel,
                                y % tiling.stride_h,
                                y // tiling.stride_h,
                                column * tiling.stride_w + base_x - tiling.pad_left,
                            ],
                        )
                        pixels = source
                        if x_dt != dt:
                            pixels = casts.current()
                            pl.set_validshape(pixels, [rows, span])
                            pl.cast(pixels, source, mode=pl.RoundMode.CAST_RINT)
                        if ColumnStep != 1:
                            target = targets.next()
                            index_tile = indices.current()
                            gather_tmp = gather_tmps.current()
                            pl.set_validshape(target, [rows, columns])
                            pl.set_validshape(index_tile, [rows, columns])
                            pl.set_validshape(gather_tmp, [rows, columns])
                            pl.gather(target, pixels, index_tile, gather_tmp)
                            pl.store(packed, target, [index * tiling.rows + row, column])
                        else:
                            pl.store(packed, pixels, [index * tiling.rows + row, column])
            else:
                out_channel = item - plane_items
                if out_channel < tiling.out_channels:
                    for position in pl.range(0, tiling.k_total, PACK_ELEMENTS):
                        pl.set_validshape(zero, [1, pl.min(PACK_ELEMENTS, tiling.k_total - position)])
                        pl.store(packed_lines, zero, [out_channel, position])
                    pl.system.bar_mte3()
                    if tiling.taps == 1:
                        for channel in pl.range(0, tiling.channels, PACK_ELEMENTS):
                            columns = pl.min(PACK_ELEMENTS, tiling.channels - channel)
                            line = line_sources.next()
                            pl.set_validshape(line, [1, columns])
                            pl.load(line, filter_lines, [out_channel, channel])
                            weights = line
                            if x_dt != dt:
                                weights = line_casts.current()
                                pl.set_validshape(weights, [1, columns])
                                pl.cast(weights, line, mode=pl.RoundMode.CAST_RINT)
                            pl.store(packed_lines, weights, [out_channel, channel])
                    else:
                        for channel in pl.range(0, tiling.channels, TAPS_TILE):
                            rows = pl.min(TAPS_TILE, tiling.channels - channel)
                            for tap in pl.range(0, tiling.taps, TAPS_TILE):
                                columns = pl.min(TAPS_TILE, tiling.taps - tap)
                                by_channel = block_sources.next()
                                pl.set_validshape(by_channel, [rows, columns])
                                pl.load(by_channel, filter_taps, [out_channel, channel, tap])
                                weights = by_channel
                                if x_dt != dt:
                                    weights = block_casts.current()
                                    pl.set_validshape(weights, [rows, columns])
                                    pl.cast(weights, by_channel, mode=pl.RoundMode.CAST_RINT)
                                by_tap = blocks.next()
                                pl.set_validshape(by_tap, [columns, rows])
                                pl.transpose(by_tap, weights)
                                pl.store(packed_taps, by_tap, [out_channel, tap, channel])
                    if tiling.has_bias == 1:
                        element = bias_sources.current()
                        pl.set_validshape(element, [1, 1])
                        pl.load(element, bias_line, [0, out_channel])
                        value = element
                        if x_dt != dt:
                            value = bias_casts.current()
                            pl.set_validshape(value, [1, 1])
                            pl.cast(value, element, mode=pl.RoundMode.CAST_RINT)
                        pl.store(packed_lines, value, [out_channel, tiling.k_size])
                else:
                    # The ones block, [K_BLOCK, ONES_COLUMNS]: a row of ones above rows of zeros.
                    pl.set_validshape(zero, [1, K_BLOCK * ONES_COLUMNS])
                    pl.store(packed_ones, zero, [0, tiling.ones_offset])
                    pl.system.bar_mte3()
                    one = ones.current()
                    pl.set_validshape(one, [1, ONES_COLUMNS])
                    pl.expands(one, 1.0)
                    pl.store(packed_ones, one, [0, tiling.ones_offset])
