#include "kernels/ascend/conv_tiling.h"

#include <algorithm>
#include <initializer_list>

#include "kernels/rounding.h"

namespace msct {
namespace ascend {
namespace {

// The constants of conv_common.py.
constexpr int64_t kKBlock = 16;
constexpr int64_t kOnesColumns = 256;
constexpr int64_t kTanhElements = 4096;
constexpr int64_t kPackSource = 8192;
constexpr int64_t kPackBlock = 16384;
constexpr int64_t kLimit = (int64_t{1} << 31) - 1;
constexpr int64_t kMaxElements = int64_t{1} << 60;

struct Tile {
  int64_t m, n;
};
constexpr Tile kK1Tiles[] = {{128, 256}, {64, 256}, {128, 128}, {64, 128}, {128, 64}, {64, 64}};
constexpr Tile kK12Tiles[] = {{128, 128}, {64, 128}, {128, 64}, {64, 64}};

// Of factors >= 0; INT64_MAX for what an int64_t cannot hold.
int64_t product(std::initializer_list<int64_t> factors) {
  int64_t result = 1;
  for (int64_t factor : factors) {
    if (__builtin_mul_overflow(result, factor, &result)) return INT64_MAX;
  }
  return result;
}

// TilingKeys hold the index of each field's value, lowest field first.
class Key {
 public:
  Key& field(int64_t value, int bits, std::initializer_list<int64_t> allowed) {
    const auto index = std::find(allowed.begin(), allowed.end(), value) - allowed.begin();
    key_ |= static_cast<uint64_t>(index) << offset_;
    offset_ += bits;
    return *this;
  }
  uint64_t value() const { return key_; }

 private:
  uint64_t key_ = 0;
  int offset_ = 0;
};

template <size_t count>
Tile best_tile(const Tile (&candidates)[count], int64_t m, int64_t p, int64_t repeats, int64_t cores, int64_t element) {
  Tile best = candidates[0];
  int64_t best_cost = -1;
  for (const Tile& tile : candidates) {
    const int64_t rows = round_up(std::min(m, tile.m), 16), columns = round_up(std::min(p, tile.n), 16);
    const int64_t cube = (rows / 16) * (columns / 16) * (element == 4 ? 4 : 1);
    const int64_t load = (rows + columns) * 16 * element / 64;
    const int64_t tiles = product({repeats, ceil_div(m, tile.m), ceil_div(p, tile.n)});
    const int64_t cost = product({ceil_div(tiles, cores), std::max(cube, load)});
    if (best_cost < 0 || cost < best_cost) {
      best = tile;
      best_cost = cost;
    }
  }
  return best;
}

// The size of a tile, at most `largest`, with which `workers` have equally many.
int64_t equal_share(int64_t total, int64_t workers, int64_t largest) {
  const int64_t share = ceil_div(total, workers);
  return ceil_div(share, ceil_div(share, largest));
}

Launch<TanhTiling> tanh_launch(int64_t rows, int64_t columns, int64_t pitch, int64_t cores) {
  const int64_t workers = cores * kSubBlocks;
  TanhTiling t;
  int64_t physical;
  if (pitch == columns) {
    columns = pitch = product({rows, columns});
    rows = t.tile_rows = 1;
    physical = kTanhElements;
    t.tile_columns = round_up(equal_share(columns, workers, kTanhElements), 64);
  } else {
    physical = 512;
    for (int64_t width : {256, 128, 64}) {
      if (columns <= width) physical = width;
    }
    t.tile_columns = physical;
    const int64_t parts = product({rows, ceil_div(columns, physical)});
    t.tile_rows = equal_share(parts, workers, kTanhElements / physical);
  }
  t.rows = rows;
  t.columns = columns;
  t.z_pitch = pitch;
  t.tiles_columns = ceil_div(columns, t.tile_columns);
  t.tiles = ceil_div(rows, t.tile_rows) * t.tiles_columns;
  const uint64_t key = Key().field(physical, 3, {64, 128, 256, 512, 4096}).value();
  return {t, key, std::min(cores, ceil_div(t.tiles, kSubBlocks))};
}

}  // namespace

bool make_tiling(const ConvTanhProblem& q, int64_t cores, bool fused, Plan* plan, std::string* error) {
  const int64_t channels = q.ci / q.groups;
  const int64_t taps = q.kh * q.kw;
  const int64_t padded_channels = round_up(channels, kKBlock);
  const DType compute = q.dtype == DType::kFloat32 && q.cube_math_type == 2 ? DType::kFloat16 : q.dtype;

  PackTiling pack = {};
  ConvTiling conv = {};
  const bool folded = 2 * round_up(taps * channels, kKBlock) <= taps * padded_channels;
  if (folded) {
    pack.channel_step = channels;
    pack.phases = taps;
    pack.phases_w = q.kw;
    pack.phase_step_h = q.dilation_h;
    pack.phase_step_w = q.dilation_w;
    pack.planes = round_up(taps * channels, kKBlock);
    pack.rows = q.ho;
    pack.pitch = q.wo;
    conv.k_channels = pack.planes;
    conv.taps = conv.taps_w = 1;
  } else {
    const int64_t phases_h = q.kh > 1 ? q.stride_h : 1;
    pack.phases_w = q.kw > 1 ? q.stride_w : 1;
    pack.channel_step = padded_channels;
    pack.phases = product({phases_h, pack.phases_w});
    pack.phase_step_h = pack.phase_step_w = 1;
    pack.planes = product({pack.phases, padded_channels});
    pack.rows = q.ho + (q.kh - 1) * q.dilation_h / q.stride_h;
    pack.pitch = q.wo + (q.kw - 1) * q.dilation_w / q.stride_w;
    if (fused && pack.pitch > q.wo) pack.pitch = round_up(pack.pitch, kKBlock);
    conv.k_channels = padded_channels;
    conv.taps = taps;
    conv.taps_w = q.kw;
  }
  const int64_t rows = pack.rows, pitch = pack.pitch;
  const bool padded = q.pad_top > 0 || q.pad_bottom > 0 || q.pad_left > 0 || q.pad_right > 0;
  const bool strided = q.stride_h > 1 || q.stride_w > 1;
  pack.pack_x = folded || padded || strided || channels != padded_channels || pitch != q.wi || compute != q.dtype;
  const int64_t plane_size = pack.pack_x ? product({rows, pitch}) : q.hi * q.wi;
  const int64_t images = product({q.n, q.groups});
  const int64_t packed = product({images, pack.planes, plane_size});
  if (plane_size > kLimit || product({q.stride_h, q.wi}) > kLimit || taps * channels > kLimit ||
      packed > kMaxElements || product({q.n, q.co, q.ho, pitch}) > kMaxElements) {
    *error = "a plane of " + std::to_string(rows) + " x " + std::to_string(pitch) +
             " pixels is beyond the 32-bit strides of Ascend's copies";
    return false;
  }

  const int64_t m = q.co / q.groups;
  conv.k_size = conv.taps * conv.k_channels;
  conv.k_total = conv.k_size + (q.has_bias ? kKBlock : 0);
  conv.ones_offset = round_up(q.co * conv.k_total, 256);

  const int64_t columns = q.wo <= 64 ? 64 : 256;
  const int64_t step = q.stride_w <= 2 ? q.stride_w : 0;
  pack.images = q.n;
  pack.groups = q.groups;
  pack.channels = channels;
  pack.height = q.hi;
  pack.width = q.wi;
  pack.stride_h = q.stride_h;
  pack.stride_w = q.stride_w;
  pack.pad_top = q.pad_top;
  pack.pad_left = q.pad_left;
  pack.tile_columns = step ? columns : std::min(columns, (kPackSource - 1) / q.stride_w + 1);
  pack.block_rows = std::min(rows, std::max<int64_t>(1, kPackBlock / pitch));
  pack.blocks = ceil_div(rows, pack.block_rows);
  pack.out_channels = q.co;
  pack.taps = taps;
  pack.k_size = conv.k_size;
  pack.k_total = conv.k_total;
  pack.has_bias = q.has_bias;
  pack.ones_offset = conv.ones_offset;
  pack.items = (pack.pack_x ? product({images, pack.planes, pack.blocks}) : 0) + q.co + q.has_bias;
  const uint64_t pack_key = Key().field(columns, 1, {64, 256}).field(step, 2, {0, 1, 2}).value();
  plan->pack = {pack, pack_key, std::min(cores, ceil_div(pack.items, kSubBlocks))};

  conv.images = q.n;
  conv.groups = q.groups;
  conv.m = m;
  conv.p = (q.ho - 1) * pitch + q.wo;
  conv.stride_h = q.stride_h;
  conv.stride_w = q.stride_w;
  conv.dilation_h = q.dilation_h;
  conv.dilation_w = q.dilation_w;
  conv.phases_w = pack.phases_w;
  conv.planes = pack.planes;
  conv.pitch = pitch;
  conv.plane_size = plane_size;
  conv.has_bias = q.has_bias;
  conv.z_pitch = q.ho * pitch;
  const int64_t element = size_of(compute);
  const Tile tile = fused ? best_tile(kK12Tiles, m, conv.p, images, cores, element)
                          : best_tile(kK1Tiles, m, conv.p, images, cores, element);
  conv.tiles_m = ceil_div(m, tile.m);
  conv.tiles_n = ceil_div(conv.p, tile.n);
  conv.tiles = product({images, conv.tiles_m, conv.tiles_n});
  const bool flat = pitch == q.wo;
  conv.out_rows = flat ? 1 : q.ho;
  conv.out_columns = flat ? conv.p : q.wo;
  conv.out_pitch = flat ? conv.p : pitch;
  Key conv_key = Key().field(tile.m, 1, {64, 128});
  if (fused) {
    conv_key.field(tile.n, 1, {64, 128});
  } else {
    conv_key.field(tile.n, 2, {64, 128, 256});
  }
  plan->conv = {conv, conv_key.value(), std::min(cores, conv.tiles)};

  plan->tanh = tanh_launch(product({q.n, q.co, q.ho}), q.wo, pitch, cores);
  plan->compute_dtype = compute;
  plan->x_packed_elements = pack.pack_x ? packed : 0;
  plan->filter_packed_elements = conv.ones_offset + (q.has_bias ? kKBlock * kOnesColumns : 0);
  plan->wst_elements = fused ? 0 : product({q.n, q.co, q.ho, pitch});
  return true;
}

std::vector<int64_t> problem_list(const ConvTanhProblem& p, bool fused) {
  return {static_cast<int64_t>(p.dtype),
          p.n,
          p.ci,
          p.hi,
          p.wi,
          p.co,
          p.kh,
          p.kw,
          p.ho,
          p.wo,
          p.stride_h,
          p.stride_w,
          p.pad_top,
          p.pad_bottom,
          p.pad_left,
          p.pad_right,
          p.dilation_h,
          p.dilation_w,
          p.groups,
          p.has_bias,
          p.cube_math_type,
          fused};
}

bool problem_of_list(const int64_t* values, size_t count, ConvTanhProblem* problem, bool* fused) {
  ConvTanhProblem p = {};
  int64_t* const fields[] = {&p.n,          &p.ci,         &p.hi,         &p.wi,       &p.co,
                             &p.kh,         &p.kw,         &p.ho,         &p.wo,       &p.stride_h,
                             &p.stride_w,   &p.pad_top,    &p.pad_bottom, &p.pad_left, &p.pad_right,
                             &p.dilation_h, &p.dilation_w, &p.groups,     &p.has_bias, &p.cube_math_type};
  constexpr size_t kFields = sizeof(fields) / sizeof(fields[0]);
  if (count != kFields + 2 || values[0] < 0 || values[0] > static_cast<int64_t>(DType::kBFloat16)) return false;
  p.dtype = static_cast<DType>(values[0]);
  for (size_t i = 0; i < kFields; ++i) *fields[i] = values[i + 1];
  *problem = p;
  *fused = values[kFields + 1] != 0;
  return true;
}

}  // namespace ascend
}  // namespace msct
