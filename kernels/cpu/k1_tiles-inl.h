// K1 on a matrix unit, over any Tiles and Simd; included inside a target region and an anonymous namespace by
// k1_conv_amx.cc (and by the tests, with tiles in software).
//
// Register tile: two tiles of 16 output channels x two of 16 pixels, or one x four. For each K entry:
//
//               pixels ->      16         16
//                         +---------+----------+
//       depth planes      |  b (6)  |  b (7)   |  rows `plane_stride` apart, at b + k_offset[k] + pixel;
//                         +---------+----------+  an element is two bfloat16 values, neighbours on K
//   16 channels |  a (4)  |  c (0)  |  c (1)   |  float32, NCHW as it stands: no transpose
//   16 channels |  a (5)  |  c (2)  |  c (3)   |
//
// Four tile loads for four multiplications, which take twice as long: the multiplier is the limit, also where rows of b
// cross cache lines. Four sums are in flight, which hides the latency of each.
//
// Packed filter: panels of 32 output channels, each [entry][tile][16 channels][16 elements], so that a tile is 1 KiB in
// a row. The last tile of channels has fewer rows; nothing behind them is read. Entries are [block of planes][kh][kw].
// Taps that are rows of M make channels of their own: (output channel, tap). Packed bias: 16 times each value, so that
// a tile of bias is loaded like any other.
//
// Order of the loops: a panel of a stays in L1 while all pixels stream past it; overlapping taps make b the smaller
// stream.
//
// Edges: a pixel is a column of b and c, and an output channel a row of a and c. Nothing that lies beside the block,
// NaN or not, reaches its sums. Rows of K that do not exist are zeros in a and in b.
//
// Rounding: products are exact; each tile adds its odd and its even rows of K in order, from zero, then both to c; all
// to nearest even, denormal inputs and results taken as zero.

#include "kernels/cpu/k1_load-inl.h"

#include "kernels/cpu/k1_terms-inl.h"

constexpr int64_t kPanel = 2 * kTileRows;
constexpr int64_t kRowChunk = 512;

void pack_bias(const void* source, DType dtype, int64_t stride, int64_t n, float* packed) {
  float chunk[kChunk] = {};
  for (int64_t start = 0; start < n; start += kChunk) {
    const int64_t size = n - start < kChunk ? n - start : kChunk;
    if (source) load_row(chunk, source, start * stride, stride, size, dtype);
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t c = 0; c < kTileColumns; ++c) *packed++ = chunk[i];
    }
  }
}

// Filter.

// One output channel at one tap in a packed filter: K's halves, in their places.
struct FilterRow {
  uint16_t* first;  // of the first entry
  int64_t entry_stride;  // between blocks of planes, in halves
  int64_t depth;  // of an entry, in halves

  // values[0..n) as rows `begin`... of K.
  MSCT_INLINE void put(int64_t begin, const float* values, int64_t n) {
    while (n > 0) {
      const int64_t place = begin % depth;
      const int64_t size = depth - place < n ? depth - place : n;
      uint16_t* to = first + begin / depth * entry_stride + place;
      for (int64_t i = 0; i < size; ++i) to[i] = static_cast<uint16_t>(bit_cast<uint32_t>(values[i]) >> 16);
      begin += size;
      values += size;
      n -= size;
    }
  }
};

constexpr int64_t kZeroHalves = 2 * kTileColumns;
constexpr float kZeros[kZeroHalves] = {};

// n values as rows `begin`... of each product.
MSCT_INLINE void put_terms(const K1Scheme& scheme, FilterRow* row, int64_t product_rows, int64_t begin,
                           const float* values, int64_t n) {
  if (scheme.products == 1) {
    row->put(begin, values, n);
    return;
  }
  const Product* products = products_of(scheme.products);
  float terms[4][kChunk];
  for (int64_t i = 0; i < n; i += Simd::kLanes) {
    const Terms split(Simd::load(values + i));
    for (int t = 0; t < 4; ++t) Simd::store(terms[t] + i, split.values[t]);
  }
  for (int64_t p = 0; p < scheme.products; ++p) row->put(p * product_rows + begin, terms[products[p].filter], n);
}

void pack_filter(const K1Filter& filter, float* packed) {
  const K1Scheme& scheme = filter.scheme;
  const int64_t tap_columns = scheme.tap_columns(filter.kw);
  const int64_t taps = scheme.tap_rows(filter.kh) * tap_columns;
  const int64_t k = scheme.blocks(filter.ci) * taps;
  const int64_t rows = filter.ci * scheme.folds();
  const int64_t product_rows = 2 * scheme.product_planes(filter.ci);
  const int64_t all_rows = 2 * scheme.planes(filter.ci);
  // Rows of K in runs that one load_row can take.
  Run run = {scheme.fold_w, filter.strides[3]};
  if (run.join(scheme.fold_h, filter.strides[2])) run.join(filter.ci, filter.strides[1]);
  float chunk[kChunk];
  const int64_t height = filter.m * scheme.spread_w;
  for (int64_t m = 0; m < height; ++m) {
    const int64_t m_offset = m / scheme.spread_w * filter.strides[0] + m % scheme.spread_w * filter.strides[3];
    const int64_t panel = m - m % kPanel;
    const int64_t tiles = height - panel > kTileRows ? 2 : 1;
    const int64_t tile = m % kPanel / kTileRows;
    float* panel_start = packed + panel * k * kTileColumns;
    for (int64_t tap = 0; tap < taps; ++tap) {
      float* start = panel_start + (tap * tiles + tile) * kTileElements + m % kTileRows * kTileColumns;
      FilterRow row = {reinterpret_cast<uint16_t*>(start), taps * tiles * kTileElements * 2, scheme.depth * 2};
      const int64_t tap_offset =
          m_offset + tap / tap_columns * filter.strides[2] + tap % tap_columns * filter.strides[3];
      for (int64_t first = 0; first < rows; first += run.n) {
        const int64_t fold = first % scheme.folds();
        const int64_t offset = tap_offset + first / scheme.folds() * filter.strides[1] +
                               fold / scheme.fold_w * filter.strides[2] + fold % scheme.fold_w * filter.strides[3];
        for (int64_t i = 0; i < run.n; i += kChunk) {
          const int64_t size = run.n - i < kChunk ? run.n - i : kChunk;
          load_row(chunk, filter.source, offset + i * run.step, run.step, size, filter.dtype);
          put_terms(scheme, &row, product_rows, first + i, chunk, size);
        }
      }
      if (rows < product_rows) put_terms(scheme, &row, product_rows, rows, kZeros, 1);
      row.put(scheme.products * product_rows, kZeros, all_rows - scheme.products * product_rows);
    }
  }
}

// Input.

// One of the two rows of K that share a plane.
struct PlaneRow {
  bool exists;
  int64_t ci, top, left;
  K1Input part;  // a part of the packed row
  Columns columns;

  PlaneRow(const K1Input& input, int64_t k_row) : part(input), columns() {
    const K1Scheme& scheme = input.scheme;
    const int64_t fold = k_row % scheme.folds();
    ci = k_row / scheme.folds();
    exists = ci < input.ci;
    top = input.top + fold / scheme.fold_w * input.h.dilation;
    left = input.left + fold % scheme.fold_w * input.w.dilation;
  }

  // To columns [first, first + n) of the packed rows of a phase.
  MSCT_INLINE void move_to(int64_t phase, int64_t first, int64_t n) {
    part.left = left + first * part.w.stride;
    part.pitch = n;
    columns = columns_inside(part, phase);
  }

  bool is_inside(int64_t down) const { return exists && top + down >= 0 && top + down < part.hi; }

  // Writes whole vectors.
  template <typename Element>
  MSCT_INLINE void load_row(int64_t down, float* to, Simd::Float (*load)(const Element*)) const {
    if (is_inside(down)) {
      pack_row(part, ci, top + down, columns, to, load);
    } else {
      fill_zeros(to, 0, part.pitch);
    }
  }

  // The element at columns.begin.
  template <typename Element>
  const Element* first(int64_t down) const {
    return static_cast<const Element*>(part.source) + ci * part.strides[0] + (top + down) * part.strides[1] +
           columns.first * part.strides[2];
  }
};

// Most rows of bfloat16: two neighbours that lie in memory as they do in the plane. Returns false for others.
MSCT_INLINE bool pair_rows(const PlaneRow& a, const PlaneRow& b, int64_t down, float* to) {
  const Columns& columns = a.columns;
  const int64_t n = columns.end - columns.begin;
  const bool same_columns = columns.begin == b.columns.begin && columns.end == b.columns.end;
  if (!same_columns || a.part.w.stride * a.part.strides[2] != 1 || n < Simd::kLanes) return false;
  if (a.part.gate || !a.is_inside(down) || !b.is_inside(down)) return false;
  const uint16_t* low = a.first<uint16_t>(down);
  const uint16_t* high = b.first<uint16_t>(down);
  fill_zeros(to, 0, columns.begin);
  fill_zeros(to, columns.end - columns.end % Simd::kLanes, a.part.pitch);
  fill_vectors(to + columns.begin, n,
               [&](int64_t i) { return Simd::pair_high_halves(Simd::load_bf16(low + i), Simd::load_bf16(high + i)); });
  return true;
}

// Pairs of values as elements of a plane; of one plane for each product, `product_stride` elements apart.
MSCT_INLINE void store_pairs(const K1Scheme& scheme, const float* low, const float* high, int64_t n,
                             int64_t product_stride, float* to) {
  if (scheme.products == 1) {
    for (int64_t i = 0; i < n; i += Simd::kLanes) {
      Simd::store(to + i, Simd::pair_high_halves(Simd::load(low + i), Simd::load(high + i)));
    }
    return;
  }
  const Product* products = products_of(scheme.products);
  for (int64_t i = 0; i < n; i += Simd::kLanes) {
    const Terms a(Simd::load(low + i)), b(Simd::load(high + i));
    Simd::Float pairs[4];
    for (int t = 0; t < 4; ++t) pairs[t] = Simd::pair_high_halves(a.values[t], b.values[t]);
    for (int64_t p = 0; p < scheme.products; ++p) Simd::store(to + p * product_stride + i, pairs[products[p].x]);
  }
}

template <typename Element>
MSCT_INLINE void pack_elements(const K1Input& input, float* packed, Simd::Float (*load)(const Element*)) {
  const K1Scheme& scheme = input.scheme;
  const int64_t planes = scheme.product_planes(input.ci);
  const int64_t product_stride = planes * input.plane_stride;
  const int64_t chunk = input.pitch < kRowChunk ? input.pitch : kRowChunk;
  float low[kRowChunk + kTileColumns], high[kRowChunk + kTileColumns];
  for (int64_t plane = 0; plane < planes; ++plane) {
    float* to = packed + plane * input.plane_stride;
    PlaneRow a(input, 2 * plane), b(input, 2 * plane + 1);
    for (int64_t p = 0; p < input.h.phases; ++p) {
      for (int64_t q = 0; q < input.w.phases; ++q) {
        for (int64_t r = 0; r < input.rows; ++r, to += input.pitch) {
          for (int64_t c = 0; c < input.pitch; c += chunk) {
            const int64_t n = input.pitch - c < chunk ? input.pitch - c : chunk;
            if (r == 0 || chunk < input.pitch) {
              a.move_to(q, c, n);
              b.move_to(q, c, n);
            }
            const int64_t down = input.h.first(p) + r * input.h.stride;
            if (input.dtype == DType::kBFloat16 && pair_rows(a, b, down, to + c)) continue;
            a.load_row(down, low, load);
            b.load_row(down, high, load);
            store_pairs(scheme, low, high, n, product_stride, to + c);
          }
        }
      }
    }
  }
  // Planes without a row.
  const int64_t rows = input.h.phases * input.w.phases * input.rows;
  for (int64_t plane = scheme.products * planes; plane < scheme.planes(input.ci); ++plane) {
    fill_zeros(packed + plane * input.plane_stride, 0, rows * input.pitch);
  }
}

void add_to_range(const float* values, int64_t stride, int64_t n, K1Range* range) {
  uint32_t below_smallest = range->below_smallest, largest = range->largest;
  const auto add = [&](float value) {
    const uint32_t magnitude = bit_cast<uint32_t>(value) & 0x7FFFFFFFu;
    below_smallest = magnitude - 1 < below_smallest ? magnitude - 1 : below_smallest;
    const uint32_t finite = magnitude < 0x7F800000u ? magnitude : 0;
    largest = finite > largest ? finite : largest;
  };
  if (stride == 1) {  // known at compile time: the compiler makes vectors of it
    for (int64_t i = 0; i < n; ++i) add(values[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) add(values[i * stride]);
  }
  *range = {below_smallest, largest};
}

// The GEMM.

constexpr int kA = 4;
constexpr int kB = 6;

// The number of the tile of c in a row of tiles and a column. A row has the same numbers however many are in use.
template <int kHeight>
constexpr int c_tile(int row, int column) {
  return row * (4 / kHeight) + column;
}

// Loads or stores the tiles of c from the kTile-th on.
template <int kTile, int kHeight, int kVectors, bool kStore>
MSCT_INLINE void move_c(const K1Block& block, int64_t m, float* const* c) {
  if constexpr (kTile < kHeight * kVectors) {
    constexpr int kNumber = c_tile<kHeight>(kTile / kVectors, kTile % kVectors);
    const int64_t row = m + kTile / kVectors * kTileRows;
    float* at = c[kTile % kVectors] + row * block.c_m_stride;
    if constexpr (kStore) {
      Tiles::store<kNumber>(at, block.c_m_stride);
    } else if (block.bias) {
      Tiles::load<kNumber>(block.bias + row * kTileColumns, kTileColumns);
    } else {
      Tiles::load<kNumber>(at, block.c_m_stride);
    }
    move_c<kTile + 1, kHeight, kVectors, kStore>(block, m, c);
  }
}

template <int kVector, int kHeight, int kVectors>
MSCT_INLINE void multiply_vectors(const K1Block& block, const float* const* b, int64_t offset) {
  if constexpr (kVector < kVectors) {
    Tiles::load<kB + kVector % 2>(b[kVector] + offset, block.plane_stride);
    Tiles::multiply<c_tile<kHeight>(0, kVector), kA, kB + kVector % 2>();
    if constexpr (kHeight == 2) Tiles::multiply<c_tile<kHeight>(1, kVector), kA + 1, kB + kVector % 2>();
    multiply_vectors<kVector + 1, kHeight, kVectors>(block, b, offset);
  }
}

template <int kHeight, int kVectors>
MSCT_INLINE void tile(const K1Block& block, const float* a, int64_t m, const float* const* b, float* const* c) {
  move_c<0, kHeight, kVectors, false>(block, m, c);
  for (int64_t k = 0; k < block.k; ++k, a += kHeight * kTileElements) {
    Tiles::load<kA>(a, kTileColumns);
    if constexpr (kHeight == 2) Tiles::load<kA + 1>(a + kTileElements, kTileColumns);
    multiply_vectors<0, kHeight, kVectors>(block, b, block.k_offset[k]);
  }
  move_c<0, kHeight, kVectors, true>(block, m, c);
}

// The next kVectors vectors of a block's pixels.
struct Cursor {
  int64_t row = 0, column = 0;

  template <int kVectors>
  MSCT_INLINE void take(const K1Block& block, const float** b, float** c) {
    for (int v = 0; v < kVectors; ++v) {
      b[v] = block.b + row * block.b_row_stride + column * kTileColumns;
      c[v] = block.c + row * block.c_row_stride + column * kTileColumns;
      if (++column == block.vectors) {
        column = 0;
        ++row;
      }
    }
  }
};

template <int kHeight, int kVectors>
MSCT_INLINE void next_tile(const K1Block& block, const float* a, int64_t m, Cursor* cursor) {
  const float* b[kVectors];
  float* c[kVectors];
  cursor->take<kVectors>(block, b, c);
  tile<kHeight, kVectors>(block, a, m, b, c);
}

// Fewer vectors than a full register tile has.
template <int kHeight, int kVectors>
void last_tile(const K1Block& block, const float* a, int64_t m, int64_t vectors, Cursor* cursor) {
  if constexpr (kVectors > 0) {
    if (vectors == kVectors) {
      next_tile<kHeight, kVectors>(block, a, m, cursor);
    } else {
      last_tile<kHeight, kVectors - 1>(block, a, m, vectors, cursor);
    }
  }
}

// All pixels, for panels of kHeight tiles that hold channels [m_begin, m_end); the last tile of each has `last_rows`
// rows.
template <int kHeight>
void sweep(const K1Block& block, int64_t m_begin, int64_t m_end, int64_t last_rows) {
  if (m_begin == m_end) return;
  constexpr int kVectors = 4 / kHeight;
  TileConfig config;
  for (int i = 0; i < kHeight; ++i) {
    const int64_t rows = i == kHeight - 1 ? last_rows : kTileRows;
    for (int v = 0; v < kVectors; ++v) config.set(c_tile<kHeight>(i, v), rows, kTileColumns);
    config.set(kA + i, rows, block.depth);
  }
  for (int i = 0; i < 2; ++i) config.set(kB + i, block.depth, kTileColumns);
  Tiles::configure(config);
  const int64_t vectors = block.rows * block.vectors;
  for (int64_t m = m_begin; m < m_end; m += kHeight * kTileRows) {
    const float* a = block.a + m * block.k * kTileColumns;
    Cursor cursor;
    int64_t rest = vectors;
    for (; rest >= kVectors; rest -= kVectors) next_tile<kHeight, kVectors>(block, a, m, &cursor);
    last_tile<kHeight, kVectors - 1>(block, a, m, rest, &cursor);
  }
}

void add_taps(const K1Taps& taps) {
  for (int64_t m = 0; m < taps.m; ++m) {
    const Simd::Float bias = Simd::load(taps.bias + m * kTileColumns);
    for (int64_t row = 0; row < taps.rows; ++row) {
      const float* from = taps.partial + m * taps.taps * taps.partial_m_stride + row * taps.partial_row_stride;
      float* to = taps.c + m * taps.c_m_stride + row * taps.c_row_stride;
      for (int64_t i = 0; i < taps.vectors * kTileColumns; i += Simd::kLanes) {
        Simd::Float sum = bias;
        for (int64_t tap = 0; tap < taps.taps; ++tap) {
          sum = Simd::add(sum, Simd::load(from + tap * (taps.partial_m_stride + taps.step) + i));
        }
        Simd::store(to + i, sum);
      }
    }
  }
}

// Tiles are configured and released in each call: other libraries use them on the same threads.
void run(const K1Block& block) {
  const int64_t rest = block.m % kPanel;
  const int64_t whole = block.m - rest;
  sweep<2>(block, 0, whole, kTileRows);
  if (rest > kTileRows) {
    sweep<2>(block, whole, block.m, rest - kTileRows);
  } else {
    sweep<1>(block, whole, block.m, rest);
  }
  Tiles::release();
}

constexpr K1Kernel kK1Tiles = {kTileColumns, kPanel,    2,          kTileRows, 2,        kTileRows,    kTileColumns,
                               pack_filter,  pack_bias, pack_input, run,       add_taps, add_to_range, nullptr};
