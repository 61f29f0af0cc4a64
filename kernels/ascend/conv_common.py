"""What the Ascend kernels agree on: tiling, TilingKeys, packed layouts, workspace. Integers and NumPy only.

The operator runs as K0 pack, K1 conv, K2 tanh (half fusion), or as K0 pack, K12 (true fusion):

    x, filter, bias --K0--> x_packed, filter_packed --K1--> wsT --K2--> y
                                                    --K12-------------> y

Implicit GEMM. For one image and one group, z[m, p] = sum over k of A[m, k] * B[k, p], with A = filter_packed and
B = rows of x_packed, so that z is [Cout, spatial] = NCHW and nothing is transposed afterwards.

x_packed is [N, groups, planes, rows * pitch]. A plane is one channel, padded, at one phase of the strides: pixel
(row, column) of plane (by, bx, c) is x[c, row * stride_h + by - pad_top, column * stride_w + bx - pad_left], or 0
outside of x. For stride 2 the phases are the odd/even split of rows and columns. Output pixel (oy, ox) has flat index
p = oy * pitch + ox, and tap (kh, kw) reads plane (kh * dilation_h % stride_h, kw * dilation_w % stride_w, c) at
p + (kh * dilation_h // stride_h) * pitch + kw * dilation_w // stride_w: a constant shift, so a tile of any length
is one strided copy. The price is that columns wo..pitch of z are computed and not used.

Few channels would leave most of a K step empty. There all taps are folded into the channels instead: the planes are
(kh, kw, c), rows x pitch is ho x wo, and K1 sees a 1 x 1 convolution.

filter_packed is [Cout, k_total] with k = (kh * KW + kw) * k_channels' + c, channels padded with zeros to a multiple
of 16, then one bias block of 16 columns (bias, 0, ..., 0), and behind the rows the matching block of B,
[16, 256]: a row of ones and 15 rows of zeros. The convolution then adds the bias as one more K block.

wsT is [N, Cout, ho * pitch] in float32.

The C++ host tiling computes the same numbers; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

CUBE_CORES = 28  # AIC cores of Ascend 957x; 958x has 32
SUB_BLOCKS = 2  # vector cores (AIV) per AIC

K_BLOCK = 16  # channels are padded to multiples of this: a whole fractal for every dtype
ONES_COLUMNS = 256  # width of the all-ones block: the largest TileN
TANH_ELEMENTS = 4096  # float32 elements of one K2 tile, 16 KB of UB
PACK_ELEMENTS = 4096  # elements of one K0 destination tile
PACK_SOURCE = 8192  # elements of one K0 source tile
PACK_BLOCK = 16384  # about as many packed elements per K0 work item

L1_BYTES = 512  # along K, of one copy GM -> L1
L0_BYTES = 128  # along K, of one copy L1 -> L0: 64 channels of 16 bits, 32 of float32

# (TileM, TileN) of K1 and of K12, largest first; K12's z, its temporaries and y have to fit into UB.
K1_TILES = ((128, 256), (64, 256), (128, 128), (64, 128), (128, 64), (64, 64))
K12_TILES = ((128, 128), (64, 128), (128, 64), (64, 64))
TANH_COLUMNS = (64, 128, 256, 512, 4096)
PACK_COLUMNS = (64, 256)

_LIMIT = 2**31 - 1  # strides are passed to the copy engines as 32-bit integers


@dataclass(frozen=True)
class Problem:
    """One convolution, with the names of ConvTanhProblem in kernels/problem.h; 1-D: kh = hi = ho = 1.

    dtype and the sizes describe contiguous NCHW tensors. All sizes are positive: an empty y launches nothing.
    """

    dtype: str  # float16, bfloat16 or float32
    n: int
    ci: int
    hi: int
    wi: int
    co: int
    kh: int
    kw: int
    ho: int
    wo: int
    stride_h: int = 1
    stride_w: int = 1
    pad_top: int = 0
    pad_bottom: int = 0
    pad_left: int = 0
    pad_right: int = 0
    dilation_h: int = 1
    dilation_w: int = 1
    groups: int = 1
    has_bias: int = 1
    cube_math_type: int = 0

    @property
    def compute_dtype(self) -> str:
        """The dtype of the products: float16 for float32 under cubeMathType 2 (USE_FP16), else the tensors' own.

        cubeMathType 1 and 3 allow less than float32 for float32; the Cube's own float32 mode is used all the same.
        """
        return "float16" if self.dtype == "float32" and self.cube_math_type == 2 else self.dtype


@dataclass
class PackTiling:
    """TilingData of K0. Sizes in elements."""

    pack_x: int  # 0: K1 reads x itself, only the filter is packed
    images: int
    groups: int
    channels: int  # of x, per group
    channel_step: int  # planes per phase
    planes: int  # per image and group; a multiple of 16
    phases: int
    phases_w: int  # phase = phase row * phases_w + phase column
    phase_step_h: int  # distance of neighbouring phases in x: 1, or the dilation where taps are folded
    phase_step_w: int
    height: int  # of x
    width: int
    rows: int  # of a plane
    pitch: int
    stride_h: int
    stride_w: int
    pad_top: int
    pad_left: int
    tile_columns: int  # destination columns per copy
    block_rows: int  # rows of a plane per work item
    blocks: int  # work items per plane
    out_channels: int
    taps: int  # kh * kw
    k_size: int  # columns of filter_packed without the bias block
    k_total: int  # with it
    has_bias: int
    ones_offset: int  # of the ones block in filter_packed
    items: int  # work items in all


@dataclass
class ConvTiling:
    """TilingData of K1 and K12. Sizes in elements."""

    images: int
    groups: int
    m: int  # output channels per group
    p: int  # flat output pixels per image: (ho - 1) * pitch + wo
    k_channels: int  # channels per tap, padded
    taps: int
    taps_w: int
    stride_h: int
    stride_w: int
    dilation_h: int
    dilation_w: int
    phases_w: int
    planes: int
    pitch: int
    plane_size: int
    k_size: int
    k_total: int
    has_bias: int
    ones_offset: int
    z_pitch: int  # floats between neighbouring channels of wsT: ho * pitch
    tiles_m: int
    tiles_n: int
    tiles: int  # images * groups * tiles_m * tiles_n
    out_rows: int  # y per channel as [out_rows, out_columns], whose rows lie out_pitch apart in z
    out_columns: int
    out_pitch: int


@dataclass
class TanhTiling:
    """TilingData of K2. wsT as [rows, columns] with z_pitch floats between rows; y is contiguous."""

    rows: int
    columns: int
    z_pitch: int
    tile_rows: int
    tile_columns: int
    tiles_columns: int
    tiles: int


@dataclass(frozen=True)
class Plan:
    """One launch sequence. Keys are TilingKey dictionaries, blocks are block_dim values, sizes are in bytes."""

    fused: bool
    compute_dtype: str
    pack: PackTiling
    pack_key: dict[str, int]
    pack_blocks: int
    conv: ConvTiling
    conv_key: dict[str, int]
    conv_blocks: int
    tanh: TanhTiling
    tanh_key: dict[str, int]
    tanh_blocks: int
    x_packed_bytes: int  # 0 if K1 reads x itself
    filter_packed_bytes: int
    wst_bytes: int  # 0 with true fusion
    filter_packed_offset: int  # in the workspace, which starts with x_packed
    wst_offset: int
    workspace_bytes: int


def ceil_div(a: int, b: int) -> int:
    return (a + b - 1) // b


def round_up(a: int, b: int) -> int:
    return ceil_div(a, b) * b


def size_of(dtype: str) -> int:
    """Bytes of an element."""
    return 4 if dtype == "float32" else 2


def make_tiling(problem: Problem, cores: int = CUBE_CORES, fused: bool = False) -> Plan:
    """The plan for a problem on `cores` AIC cores (twice as many vector cores); fused: K12 instead of K1 and K2.

    Raises ValueError for a problem whose planes are beyond the copy engines' 32-bit strides.
    """
    q = problem
    channels = q.ci // q.groups
    taps = q.kh * q.kw
    padded_channels = round_up(channels, K_BLOCK)
    # Fold where it at least halves the K steps.
    folded = 2 * round_up(taps * channels, K_BLOCK) <= taps * padded_channels
    if folded:
        channel_step, phases, phases_w = channels, taps, q.kw
        phase_step_h, phase_step_w = q.dilation_h, q.dilation_w
        planes = round_up(taps * channels, K_BLOCK)
        rows, pitch = q.ho, q.wo
        k_channels, conv_taps, conv_taps_w = planes, 1, 1
    else:
        phases_h = q.stride_h if q.kh > 1 else 1
        phases_w = q.stride_w if q.kw > 1 else 1
        channel_step, phases = padded_channels, phases_h * phases_w
        phase_step_h = phase_step_w = 1
        planes = phases * padded_channels
        rows = q.ho + (q.kh - 1) * q.dilation_h // q.stride_h
        pitch = q.wo + (q.kw - 1) * q.dilation_w // q.stride_w
        if fused and pitch > q.wo:
            pitch = round_up(pitch, K_BLOCK)  # K12 stores rows of y from UB, where they have to start at 32 bytes
        k_channels, conv_taps, conv_taps_w = padded_channels, taps, q.kw
    plane_size = rows * pitch
    padded = q.pad_top + q.pad_bottom + q.pad_left + q.pad_right > 0
    strided = q.stride_h > 1 or q.stride_w > 1
    pack_x = int(
        folded or padded or strided or channels != padded_channels or pitch != q.wi or q.compute_dtype != q.dtype
    )
    if not pack_x:
        plane_size = q.hi * q.wi
    if plane_size > _LIMIT or q.stride_h * q.wi > _LIMIT or taps * channels > _LIMIT:
        raise ValueError(
            f"conv_tanh: a plane of {rows} x {pitch} pixels is beyond the 32-bit strides of Ascend's copies"
        )

    m = q.co // q.groups
    k_size = conv_taps * k_channels
    k_total = k_size + (K_BLOCK if q.has_bias else 0)
    ones_offset = round_up(q.co * k_total, 256)  # 512 bytes at least
    p = (q.ho - 1) * pitch + q.wo
    groups_in_all = q.n * q.groups

    columns = PACK_COLUMNS[0] if q.wo <= PACK_COLUMNS[0] else PACK_COLUMNS[1]
    step = q.stride_w if q.stride_w <= 2 else 0
    tile_columns = columns if step else min(columns, (PACK_SOURCE - 1) // q.stride_w + 1)
    block_rows = min(rows, max(1, PACK_BLOCK // pitch))
    blocks = ceil_div(rows, block_rows)
    items = (groups_in_all * planes * blocks if pack_x else 0) + q.co + q.has_bias
    pack = PackTiling(
        pack_x=pack_x,
        images=q.n,
        groups=q.groups,
        channels=channels,
        channel_step=channel_step,
        planes=planes,
        phases=phases,
        phases_w=phases_w,
        phase_step_h=phase_step_h,
        phase_step_w=phase_step_w,
        height=q.hi,
        width=q.wi,
        rows=rows,
        pitch=pitch,
        stride_h=q.stride_h,
        stride_w=q.stride_w,
        pad_top=q.pad_top,
        pad_left=q.pad_left,
        tile_columns=tile_columns,
        block_rows=block_rows,
        blocks=blocks,
        out_channels=q.co,
        taps=taps,
        k_size=k_size,
        k_total=k_total,
        has_bias=q.has_bias,
        ones_offset=ones_offset,
        items=items,
    )

    tile_m, tile_n = _best_tile(K12_TILES if fused else K1_TILES, m, p, groups_in_all, cores, size_of(q.compute_dtype))
    tiles_m, tiles_n = ceil_div(m, tile_m), ceil_div(p, tile_n)
    tiles = groups_in_all * tiles_m * tiles_n
    flat = pitch == q.wo
    conv = ConvTiling(
        images=q.n,
        groups=q.groups,
        m=m,
        p=p,
        k_channels=k_channels,
        taps=conv_taps,
        taps_w=conv_taps_w,
        stride_h=q.stride_h,
        stride_w=q.stride_w,
        dilation_h=q.dilation_h,
        dilation_w=q.dilation_w,
        phases_w=phases_w,
        planes=planes,
        pitch=pitch,
        plane_size=plane_size,
        k_size=k_size,
        k_total=k_total,
        has_bias=q.has_bias,
        ones_offset=ones_offset,
        z_pitch=q.ho * pitch,
        tiles_m=tiles_m,
        tiles_n=tiles_n,
        tiles=tiles,
        out_rows=1 if flat else q.ho,
        out_columns=p if flat else q.wo,
        out_pitch=p if flat else pitch,
    )

    tanh, tanh_columns = _tanh_tiling(q.n * q.co * q.ho, q.wo, pitch, cores * SUB_BLOCKS)
    x_packed_bytes = groups_in_all * planes * plane_size * size_of(q.compute_dtype) if pack_x else 0
    filter_elements = ones_offset + (K_BLOCK * ONES_COLUMNS if q.has_bias else 0)
    filter_packed_bytes = filter_elements * size_of(q.compute_dtype)
    wst_bytes = 0 if fused else q.n * q.co * q.ho * pitch * 4
    filter_packed_offset = round_up(x_packed_bytes, 512)
    wst_offset = filter_packed_offset + round_up(filter_packed_bytes, 512)
    return Plan(
        fused=fused,
        compute_dtype=q.compute_dtype,
        pack=pack,
        pack_key={"PackColumns": columns, "ColumnStep": step},
        pack_blocks=min(cores, ceil_div(items, SUB_BLOCKS)),
        conv=conv,
        conv_key={"TileM": tile_m, "TileN": tile_n},
        conv_blocks=min(cores, tiles),
        tanh=tanh,
        tanh_key={"TanhColumns": tanh_columns},
        tanh_blocks=min(cores, ceil_div(tanh.tiles, SUB_BLOCKS)),
        x_packed_bytes=x_packed_bytes,
        filter_packed_bytes=filter_packed_bytes,
        wst_bytes=wst_bytes,
        filter_packed_offset=filter_packed_offset,
        wst_offset=wst_offset,
        workspace_bytes=wst_offset + round_up(wst_bytes, 512),
    )


def _best_tile(
    candidates: tuple[tuple[int, int], ...], m: int, p: int, repeats: int, cores: int, element: int
) -> tuple[int, int]:
    """The tile with the shortest makespan of the busiest core; the first of equals.

    Per 16 of K a tile costs the larger of its Cube cycles, one per 16 x 16 x 16 products of 16 bits (float32: four),
    and the cycles of loading its operands into L1 at 64 bytes each. A model for choosing, not a prediction.
    """
    best, best_cost = candidates[0], -1
    for tile_m, tile_n in candidates:
        rows, columns = round_up(min(m, tile_m), 16), round_up(min(p, tile_n), 16)
        cube = (rows // 16) * (columns // 16) * (4 if element == 4 else 1)
        load = (rows + columns) * 16 * element // 64
        tiles = repeats * ceil_div(m, tile_m) * ceil_div(p, tile_n)
        cost = ceil_div(tiles, cores) * max(cube, load)
        if best_cost < 0 or cost < best_cost:
            best, best_cost = (tile_m, tile_n), cost
    return best


def _equal_share(total: int, workers: int, largest: int) -> int:
    """The size of a tile, at most `largest`, with which `workers` have equally many."""
    share = ceil_div(total, workers)
    return ceil_div(share, ceil_div(share, largest))


def _tanh_tiling(rows: int, columns: int, pitch: int, workers: int) -> tuple[TanhTiling, int]:
    """K2's tiling and TanhColumns, the physical tile width: one long row where wsT has no gaps, else rows of y."""
    if pitch == columns:
        rows, columns, pitch, physical = 1, rows * columns, rows * columns, TANH_ELEMENTS
        tile_rows, tile_columns = 1, round_up(_equal_share(columns, workers, TANH_ELEMENTS), 64)
    else:
        physical = next((width for width in TANH_COLUMNS[:-1] if columns <= width), TANH_COLUMNS[-2])
        tile_columns = physical
        tiles_columns = ceil_div(columns, physical)
        tile_rows = _equal_share(rows * tiles_columns, workers, TANH_ELEMENTS // physical)
    tiles_columns = ceil_div(columns, tile_columns)
    tiling = TanhTiling(
        rows=rows,
        columns=columns,
        z_pitch=pitch,
        tile_rows=tile_rows,
        tile_columns=tile_columns,
        tiles_columns=tiles_columns,
        tiles=ceil_div(rows, tile_rows) * tiles_columns,
    )
    return tiling, physical


def encode_key(values: tuple[tuple[int, int, tuple[int, ...]], ...]) -> int:
    """The 64-bit TilingKey of (value, bits, allowed values) per field: each field holds the value's index."""
    key = offset = 0
    for value, bits, allowed in values:
        key |= allowed.index(value) << offset
        offset += bits
    return key


# Bits and allowed values of the TilingKey fields, in order; the kernels declare the same.
PACK_KEY = {"PackColumns": (1, PACK_COLUMNS), "ColumnStep": (2, (0, 1, 2))}
CONV_KEY = {"TileM": (1, (64, 128)), "TileN": (2, (64, 128, 256))}
FUSED_KEY = {"TileM": (1, (64, 128)), "TileN": (1, (64, 128))}
TANH_KEY = {"TanhColumns": (3, TANH_COLUMNS)}


def tiling_key(schema: dict[str, tuple[int, tuple[int, ...]]], key: dict[str, int]) -> int:
    """The 64-bit TilingKey of a key dictionary of a Plan under PACK_KEY, CONV_KEY, FUSED_KEY or TANH_KEY."""
    return encode_key(tuple((key[name], bits, allowed) for name, (bits, allowed) in schema.items()))


def tiling_values(tiling: PackTiling | ConvTiling | TanhTiling) -> list[int]:
    """The TilingData as int64 values in the order of its fields: what the host writes for the device."""
    return [getattr(tiling, field.name) for field in fields(tiling)]


def pack_input(x: np.ndarray, plan: Plan, dtype: np.dtype) -> np.ndarray:
    """x_packed, flat, as `dtype` (the compute dtype), of a contiguous x [N, Ci, Hi, Wi]. What K0 computes."""
    t = plan.pack
    if not t.pack_x:
        return np.ascontiguousarray(x).reshape(-1)
    packed = np.zeros((t.images, t.groups, t.planes, t.rows, t.pitch), dtype)
    source = x.reshape(t.images, t.groups, t.channels, t.height, t.width)
    for phase in range(t.phases):
        by, bx = phase // t.phases_w * t.phase_step_h, phase % t.phases_w * t.phase_step_w
        rows = np.arange(t.rows) * t.stride_h + by - t.pad_top
        columns = np.arange(t.pitch) * t.stride_w + bx - t.pad_left
        inside_rows = np.flatnonzero((rows >= 0) & (rows < t.height))
        inside_columns = np.flatnonzero((columns >= 0) & (columns < t.width))
        pixels = source[..., rows[inside_rows, None], columns[inside_columns]].astype(dtype)
        first = phase * t.channel_step
        planes = packed[:, :, first : first + t.channels]
        planes[..., inside_rows[:, None], inside_columns] = pixels
    return packed.reshape(-1)


def pack_filter(conv_filter: np.ndarray, bias: np.ndarray | None, plan: Plan, dtype: np.dtype) -> np.ndarray:
    """filter_packed, flat, as `dtype`, of filter [Co, Ci / groups, Kh, Kw] and bias [Co]. What K0 computes."""
    t = plan.pack
    packed = np.zeros(t.ones_offset + (K_BLOCK * ONES_COLUMNS if t.has_bias else 0), dtype)
    matrix = packed[: t.out_channels * t.k_total].reshape(t.out_channels, t.k_total)
    taps = conv_filter.reshape(t.out_channels, t.channels, t.taps).astype(dtype)
    for tap in range(t.taps):
        first = tap * t.channel_step
        matrix[:, first : first + t.channels] = taps[:, :, tap]
    if bias is not None:
        matrix[:, t.k_size] = bias.astype(dtype)
        packed[t.ones_offset : t.ones_offset + ONES_COLUMNS] = 1
    return packed
