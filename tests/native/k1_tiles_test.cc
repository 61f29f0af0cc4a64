// K1 for matrix tiles alone: the tiles in software, packing, and the GEMM at all edges of its register tile. Where this
// CPU has AMX, it has to agree with the tiles in software bit for bit.
#include <cstdio>

#include "kernels/cpu/target.h"
#include "kernels/cpu/tiles.h"
#include "tests/native/kernel_test_util.h"

namespace msct {
namespace {

#include "kernels/cpu/simd_portable-inl.h"

#include "tests/native/software_tiles-inl.h"

#include "kernels/cpu/k1_tiles-inl.h"

}  // namespace
}  // namespace msct

namespace msct_test {
namespace {

// c = 0 * 0 + sum over pairs of a * b, in one element.
float product_of(const std::vector<float>& a, const std::vector<float>& b, float c) {
  alignas(64) float tile_a[16] = {}, tile_b[16] = {};
  const int64_t pairs = static_cast<int64_t>(a.size()) / 2;
  for (int64_t i = 0; i < pairs; ++i) {
    const auto pair = [i](const std::vector<float>& v) {
      const size_t at = static_cast<size_t>(2 * i);
      return bit_cast<float>(bf16_from_float(v[at]) | static_cast<uint32_t>(bf16_from_float(v[at + 1])) << 16);
    };
    tile_a[i] = pair(a);
    tile_b[i] = pair(b);
  }
  TileConfig config;
  config.set(0, 1, 1);
  config.set(1, 1, pairs);
  config.set(2, pairs, 1);
  Tiles::configure(config);
  Tiles::load<0>(&c, 1);
  Tiles::load<1>(tile_a, 16);
  Tiles::load<2>(tile_b, 1);
  Tiles::multiply<0, 1, 2>();
  Tiles::store<0>(&c, 1);
  Tiles::release();
  return c;
}

TEST(software_tiles_round_as_the_processor_does) {
  CHECK_EQ(product_of({1, 2, 3, 4}, {5, 6, 7, 8}, 0.5f), 70.5f);
  // Even and odd rows apart: 2^24 + 1 would be lost if 1 were added to it alone, twice.
  CHECK_EQ(product_of({0x1p12f, 1, 0, 1}, {0x1p12f, 1, 0, 1}, 0), 0x1p24f + 2);
  CHECK_EQ(product_of({0x1p12f, 1, 1, 0}, {0x1p12f, 0, 1, 0}, 0), 0x1p24f);  // a tie, to even
  CHECK_EQ(product_of({0x1p12f, 0, 3, 0}, {0x1p12f, 0, 1, 0}, 0), 0x1p24f + 4);  // a tie, to even
  // From zero, and only then to c.
  CHECK_EQ(product_of({1, 0, 1, 0}, {1, 0, 1, 0}, 0x1p24f), 0x1p24f + 2);
  // Denormal operands, products and sums are zero, c included; the sign stays.
  CHECK_EQ(product_of({0x1p-130f, 0}, {0x1p100f, 0}, 0), 0.0f);
  CHECK_EQ(product_of({0x1p-70f, 0}, {0x1p-70f, 0}, 0), 0.0f);
  CHECK_EQ(product_of({0, 0}, {0, 0}, 0x1p-140f), 0.0f);
  CHECK_EQ(product_of({0x1.8p-126f, 0, -0x1p-126f, 0}, {1, 0, 1, 0}, 0), 0.0f);
  // A product beyond float32 that the sum brings back.
  CHECK_EQ(product_of({-0x1p127f, 0, 0x1p64f, 0}, {1, 0, 0x1p64f, 0}, 0), 0x1p127f);
  CHECK(std::isnan(product_of({INFINITY, 0}, {0, 0}, 0)));
  CHECK_EQ(product_of({INFINITY, 0}, {-2, 0}, 0), -INFINITY);
}

// The terms of a float, by name.
float term_of(float v, Term term) {
  const float first = float_from_bf16(bf16_from_float(v));
  if (term == kFirst) return first;
  if (term == kFirstIfFinite) return std::isfinite(first) ? first : 0;
  const float rest = std::isfinite(v - first) ? v - first : 0;
  const float second = float_from_bf16(bf16_from_float(rest));
  return term == kSecond ? second : float_from_bf16(bf16_from_float(rest - second));
}

TEST(terms_add_up) {
  Random random(31);
  for (int round = 0; round < 10000; ++round) {
    float v = std::ldexp(random.real(-1, 1), static_cast<int>(random.integer(-90, 120)));
    const double sum = static_cast<double>(term_of(v, kFirst)) + term_of(v, kSecond) + term_of(v, kThird);
    CHECK_EQ(sum, static_cast<double>(v));
    v = float_from_f16(static_cast<uint16_t>(random.integer(0, 0x7BFF)));
    CHECK_EQ(term_of(v, kFirst) + term_of(v, kSecond), v);
  }
}

bool same_bits(float a, float b) { return bit_cast<uint32_t>(a) == bit_cast<uint32_t>(b) || (a != a && b != b); }

uint16_t high_half(float v) { return static_cast<uint16_t>(bit_cast<uint32_t>(v) >> 16); }

K1Scheme random_scheme(DType dtype, int64_t kh, int64_t kw, int64_t ci, Random* random) {
  K1Scheme scheme = {2, random->pick<int64_t>({3, 6}), 1, 1, 1, 1};
  if (dtype == DType::kBFloat16) scheme.products = 1;
  if (random->integer(0, 1)) scheme.fold_h = kh;
  switch (random->integer(0, 2)) {
    case 1: scheme.fold_w = kw; break;
    case 2: scheme.spread_w = kw; break;
  }
  const int64_t planes = scheme.products * scheme.product_planes(ci);
  scheme.depth = random->integer(1, std::max<int64_t>(1, std::min(planes, kTileRows)));
  return scheme;
}

float random_value(DType dtype, Random* random) {
  const float v = random->integer(0, 19) == 0 ? random->pick({INFINITY, NAN, 0.0f}) : random->real(-2, 2);
  if (dtype == DType::kFloat32) return v;
  return dtype == DType::kFloat16 ? float_from_f16(f16_from_float(v)) : float_from_bf16(bf16_from_float(v));
}

// What row `row` of K holds: a product's term of a (channel, folded tap), or nothing.
struct KRow {
  bool exists;
  int64_t ci, fold_h, fold_w;
  Product product;

  KRow(const K1Scheme& scheme, int64_t channels, int64_t row) {
    const int64_t product_rows = 2 * scheme.product_planes(channels);
    const int64_t p = row / product_rows, v = row % product_rows;
    exists = p < scheme.products && v < channels * scheme.folds();
    if (!exists) return;
    ci = v / scheme.folds();
    fold_h = v % scheme.folds() / scheme.fold_w;
    fold_w = v % scheme.fold_w;
    product = products_of(scheme.products)[p];
  }
};

TEST(pack_filter) {
  Random random(32);
  for (int round = 0; round < 300; ++round) {
    K1Filter f = {};
    f.dtype = random.pick({DType::kFloat32, DType::kFloat16, DType::kBFloat16});
    f.m = random.integer(1, 70);
    f.ci = random.pick<int64_t>({1, 2, 3, 16, 33});
    f.kh = random.integer(1, 3);
    f.kw = random.integer(1, 3);
    f.scheme = random_scheme(f.dtype, f.kh, f.kw, f.ci, &random);
    const int64_t gap = random.integer(1, 2);
    const int64_t strides[4] = {f.ci * f.kh * f.kw * gap, f.kh * f.kw * gap, f.kw * gap, gap};
    std::copy(strides, strides + 4, f.strides);
    Guarded<char> source(f.m * strides[0] * size_of(f.dtype), size_of(f.dtype));
    for (int64_t i = 0; i < f.m * strides[0]; ++i) {
      from_float(source.data(), i, f.dtype, random_value(f.dtype, &random));
    }
    f.source = source.data();
    const int64_t columns = f.scheme.tap_columns(f.kw), taps = f.scheme.tap_rows(f.kh) * columns;
    const int64_t height = f.m * f.scheme.spread_w, k = f.scheme.blocks(f.ci) * taps;
    Guarded<float> packed((height + 15) / 16 * 16 * k * kTileColumns);
    kK1Tiles.pack_filter(f, packed.data());
    bool same = packed.intact();
    for (int64_t m = 0; m < height; ++m) {
      const int64_t panel = m / 32 * 32, tiles = height - panel > 16 ? 2 : 1;
      for (int64_t entry = 0; entry < k; ++entry) {
        const float* row =
            packed.data() + panel * k * 16 + (entry * tiles + m % 32 / 16) * kTileElements + m % 16 * kTileColumns;
        for (int64_t half = 0; half < 2 * f.scheme.depth; ++half) {
          const KRow at(f.scheme, f.ci, entry / taps * 2 * f.scheme.depth + half);
          float expected = 0;
          if (at.exists) {
            const int64_t tap = entry % taps;
            const int64_t kh = f.scheme.fold_h > 1 ? at.fold_h : tap / columns;
            const int64_t kw = f.scheme.spread_w > 1 ? m % f.scheme.spread_w
                               : f.scheme.fold_w > 1 ? at.fold_w
                                                     : tap % columns;
            const int64_t from =
                m / f.scheme.spread_w * strides[0] + at.ci * strides[1] + kh * strides[2] + kw * strides[3];
            expected = term_of(to_float(f.source, from, f.dtype), at.product.filter);
          }
          uint16_t got;
          std::memcpy(&got, reinterpret_cast<const char*>(row) + half * 2, 2);
          same &= got == high_half(expected) || (expected != expected && float_from_bf16(got) != float_from_bf16(got));
        }
      }
    }
    CHECK(same);
  }
}

TEST(pack_input) {
  Random random(33);
  for (int round = 0; round < 500; ++round) {
    K1Input in = {};
    in.dtype = random.pick({DType::kFloat32, DType::kFloat16, DType::kBFloat16});
    in.ci = random.pick<int64_t>({1, 2, 3, 7});
    in.hi = random.integer(1, 9);
    in.wi = random.pick<int64_t>({1, 5, 16, 40, 1100});
    place_randomly(&in, &random);
    in.pitch = random.pick<int64_t>({7, 16, 33, 80, 1030});
    in.scheme = random_scheme(in.dtype, random.integer(1, 3), random.integer(1, 3), in.ci, &random);
    in.scheme.spread_w = 1;
    const int64_t plane = in.h.phases * in.w.phases * in.rows * in.pitch;
    in.plane_stride = plane + kTileColumns + random.integer(0, 9);
    const int64_t extent = source_extent(in);
    Guarded<char> source(extent * size_of(in.dtype), size_of(in.dtype));
    for (int64_t i = 0; i < extent; ++i) from_float(source.data(), i, in.dtype, random_value(in.dtype, &random));
    in.source = source.data();
    const int64_t planes = in.scheme.planes(in.ci);
    Guarded<float> packed(planes * in.plane_stride);
    kK1Tiles.pack_input(in, packed.data());
    bool same = packed.intact();
    for (int64_t i = 0; i < planes * plane; ++i) {
      const int64_t at = i % plane;
      const int64_t c = at % in.pitch, r = at / in.pitch % in.rows;
      const int64_t q = at / in.pitch / in.rows % in.w.phases, p = at / in.pitch / in.rows / in.w.phases;
      uint32_t expected = 0;
      for (int64_t half = 0; half < 2; ++half) {
        const KRow row(in.scheme, in.ci, i / plane * 2 + half);
        if (!row.exists) continue;
        const int64_t h = in.top + row.fold_h * in.h.dilation + in.h.first(p) + r * in.h.stride;
        const int64_t w = in.left + row.fold_w * in.w.dilation + in.w.first(q) + c * in.w.stride;
        if (h < 0 || h >= in.hi || w < 0 || w >= in.wi) continue;
        const float v = to_float(in.source, row.ci * in.strides[0] + h * in.strides[1] + w * in.strides[2], in.dtype);
        expected |= static_cast<uint32_t>(high_half(term_of(v, row.product.x))) << (16 * half);
      }
      same &= bit_cast<uint32_t>(packed[i / plane * in.plane_stride + at]) == expected;
    }
    CHECK(same);
  }
}

// Weights that pack_filter has packed as bfloat16 in one product, pixels as pairs. Compares with float64, and with
// another kernel bit for bit.
void check_gemm(int64_t m, int64_t depth, int64_t k, int64_t rows, int64_t vectors, bool first, bool denormals,
                const K1Kernel* other, Random* random) {
  const int64_t ci = 2 * depth * k, width = vectors * kTileColumns;
  const int64_t c_row_stride = width + random->integer(0, 3), c_m_stride = rows * c_row_stride + random->integer(0, 5);
  const int64_t b_row_stride = width + 3, plane_stride = rows * b_row_stride + 50;
  Guarded<uint16_t> filter(m * ci);
  Guarded<float> packed((m + 15) / 16 * 16 * k * kTileColumns), b(std::max<int64_t>(1, depth * k) * plane_stride, 4);
  Guarded<float> c((m - 1) * c_m_stride + (rows - 1) * c_row_stride + width, 4), bias(m * kTileColumns);
  const auto value = [&] {
    return bf16_from_float(std::ldexp(random->real(-1, 1), denormals ? static_cast<int>(random->integer(-100, 0)) : 0));
  };
  std::vector<float> bias_values(static_cast<size_t>(m));
  for (int64_t i = 0; i < filter.size(); ++i) filter[i] = value();
  for (int64_t i = 0; i < b.size(); ++i) b[i] = bit_cast<float>(value() | static_cast<uint32_t>(value()) << 16);
  for (int64_t i = 0; i < c.size(); ++i) c[i] = random->real(-1, 1);
  for (float& v : bias_values) v = random->real(-1, 1);
  kK1Tiles.pack_bias(bias_values.data(), DType::kFloat32, 1, m, bias.data());
  const K1Scheme scheme = {2, 1, 1, 1, 1, depth};
  kK1Tiles.pack_filter({filter.data(), DType::kBFloat16, {ci, 1, 1, 1}, m, ci, 1, 1, scheme}, packed.data());
  std::vector<int64_t> k_offset;
  for (int64_t i = 0; i < k; ++i) k_offset.push_back(i * depth * plane_stride + random->integer(0, 40));
  const std::vector<float> before(c.data(), c.data() + c.size());
  K1Block block = {};
  block.m = m;
  block.k = k;
  block.a = packed.data();
  block.b = b.data();
  block.k_offset = k_offset.data();
  block.depth = depth;
  block.plane_stride = plane_stride;
  block.rows = rows;
  block.vectors = vectors;
  block.b_row_stride = b_row_stride;
  block.c_row_stride = c_row_stride;
  block.c_m_stride = c_m_stride;
  block.c = c.data();
  block.bias = first ? bias.data() : nullptr;
  kK1Tiles.run(block);

  std::vector<bool> written(before.size(), false);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t pixel = 0; pixel < rows * width; ++pixel) {
      const int64_t row = pixel / width, column = pixel % width;
      const int64_t at = i * c_m_stride + row * c_row_stride + column;
      written[static_cast<size_t>(at)] = true;
      double sum = first ? bias_values[static_cast<size_t>(i)] : before[static_cast<size_t>(at)];
      for (int64_t j = 0; j < ci; ++j) {
        const int64_t entry = j / 2 / depth, plane = j / 2 % depth;
        const int64_t from = row * b_row_stride + column + k_offset[static_cast<size_t>(entry)] + plane * plane_stride;
        const uint32_t pair = bit_cast<uint32_t>(b[from]);
        sum += static_cast<double>(float_from_bf16(filter[i * ci + j])) *
               float_from_bf16(static_cast<uint16_t>(j % 2 == 0 ? pair : pair >> 16));
      }
      CHECK_NEAR(c[at], sum, 0x1p-23 * static_cast<double>(ci + 1));
    }
  }
  for (size_t i = 0; i < before.size(); ++i) {
    if (!written[i]) CHECK_EQ(c[static_cast<int64_t>(i)], before[i]);
  }
  CHECK(c.intact() && packed.intact() && b.intact() && bias.intact());
  if (!other) return;
  const std::vector<float> expected(c.data(), c.data() + c.size());
  std::copy(before.begin(), before.end(), c.data());
  other->run(block);
  bool same = c.intact();
  for (size_t i = 0; i < expected.size(); ++i) same &= same_bits(c[static_cast<int64_t>(i)], expected[i]);
  CHECK(same);
}

void sweep_gemms(const K1Kernel* other) {
  Random random(34);
  for (int64_t m : {1, 3, 15, 16, 17, 31, 32, 33, 48, 49, 65}) {
    for (int64_t depth : {1, 2, 9, 16}) {
      for (int64_t k : {0, 1, 3}) {
        for (int64_t rows : {1, 3}) {
          for (int64_t vectors : {1, 2, 3, 4, 5}) {
            const bool odd = (m + depth + k + vectors) % 2 != 0;
            check_gemm(m, depth, k, rows, vectors, odd, vectors > 3, other, &random);
          }
        }
      }
    }
  }
}

TEST(gemm) { sweep_gemms(nullptr); }

#define MSCT_VARIANT(name, features)
#define MSCT_MATRIX_VARIANT(name, features) \
  TEST(name##_agrees_with_software_bit_for_bit) { sweep_gemms(&require(k1_variants(), #name).kernel); }
#include "kernels/cpu/kernels.inc"
#undef MSCT_VARIANT

}  // namespace
}  // namespace msct_test
