// K1 alone, each variant: packing of filter and input, and the GEMM at all edges of its register tile.
#include "tests/native/kernel_test_util.h"

namespace msct_test {
namespace {

void check_gemm(const K1Kernel& kernel, int64_t m, int64_t k, int64_t rows, int64_t vectors, bool first,
                Random* random) {
  const int64_t width = vectors * kernel.lanes;
  const int64_t c_row_stride = width + random->integer(0, 3);
  const int64_t c_m_stride = rows * c_row_stride + random->integer(0, 5);
  const int64_t b_row_stride = width + 3;
  Guarded<float> filter(m * k), packed(m * k), bias(m), c((m - 1) * c_m_stride + (rows - 1) * c_row_stride + width, 4);
  Guarded<float> b((rows - 1) * b_row_stride + width + 40, 4);
  std::vector<int64_t> k_offset(static_cast<size_t>(k));
  for (int64_t i = 0; i < m * k; ++i) filter[i] = random->real(-1, 1);
  for (int64_t i = 0; i < m; ++i) bias[i] = random->real(-1, 1);
  for (int64_t i = 0; i < b.size(); ++i) b[i] = random->real(-1, 1);
  for (int64_t i = 0; i < c.size(); ++i) c[i] = random->real(-1, 1);
  for (int64_t& offset : k_offset) offset = random->integer(0, 40);
  const std::vector<float> before(c.data(), c.data() + c.size());

  kernel.pack_filter({filter.data(), DType::kFloat32, {k, 1, 1, 1}, m, k, 1, 1, kVectorScheme}, packed.data());
  K1Block block = {};
  block.m = m;
  block.k = k;
  block.a = filter.data();
  block.a_m_stride = k;
  block.b = b.data();
  block.k_offset = k_offset.data();
  block.rows = rows;
  block.vectors = vectors;
  block.b_row_stride = b_row_stride;
  block.c_row_stride = c_row_stride;
  block.c_m_stride = c_m_stride;
  block.c = c.data();
  block.bias = first ? bias.data() : nullptr;
  kernel.run(block);
  const std::vector<float> unpacked(c.data(), c.data() + c.size());
  std::copy(before.begin(), before.end(), c.data());

  block.a = packed.data();
  block.a_m_stride = 0;
  kernel.run(block);
  for (size_t i = 0; i < before.size(); ++i) CHECK_EQ(c[static_cast<int64_t>(i)], unpacked[i]);

  std::vector<bool> written(before.size(), false);
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t pixel = 0; pixel < width; ++pixel) {
        const int64_t at = i * c_m_stride + row * c_row_stride + pixel;
        written[static_cast<size_t>(at)] = true;
        double sum = first ? bias[i] : before[static_cast<size_t>(at)];
        for (int64_t j = 0; j < k; ++j) {
          const int64_t from = row * b_row_stride + pixel + k_offset[static_cast<size_t>(j)];
          sum += static_cast<double>(filter[i * k + j]) * b[from];
        }
        CHECK_NEAR(c[at], sum, 0x1p-23 * static_cast<double>(k + 1));
      }
    }
  }
  for (size_t i = 0; i < before.size(); ++i) {
    if (!written[i]) CHECK_EQ(c[static_cast<int64_t>(i)], before[i]);
  }
  CHECK(c.intact() && packed.intact() && b.intact());
}

void gemm(const K1Variant& variant) {
  const K1Kernel& kernel = variant.kernel;
  Random random(1);
  std::vector<int64_t> heights;
  for (int64_t m = 1; m <= kernel.panel; ++m) heights.push_back(m);
  for (int64_t m : {kernel.panel + 1, 2 * kernel.panel, 2 * kernel.panel + 1}) heights.push_back(m);
  for (int64_t m : heights) {
    for (int64_t k : {0, 1, 2, 17, 64}) {
      for (int64_t rows : {1, 2, 3}) {
        for (int64_t vectors = 1; vectors <= 9; vectors += rows == 1 ? 1 : 2) {
          check_gemm(kernel, m, k, rows, vectors, (m + k + vectors) % 2 == 0, &random);
        }
      }
    }
  }
}

// pack_filter reads any strides and dtype; the panels hold every weight once.
void filter(const K1Variant& variant) {
  Random random(2);
  const int64_t panel = variant.kernel.panel;
  for (int round = 0; round < 300; ++round) {
    K1Filter f = {};
    f.dtype = random.pick({DType::kFloat32, DType::kFloat16, DType::kBFloat16});
    f.m = random.integer(1, 2 * panel + 1);
    f.ci = random.pick<int64_t>({1, 2, 3, 300});
    f.kh = random.integer(1, 4);
    f.kw = random.integer(1, 4);
    const int64_t shape[4] = {f.m, f.ci, f.kh, f.kw};
    // Axes in any order of memory, with or without gaps, sometimes repeated.
    std::vector<int> order = {0, 1, 2, 3};
    for (int i = 3; i > 0; --i)
      std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(random.integer(0, i))]);
    if (random.integer(0, 1)) order = {3, 2, 1, 0};
    int64_t extent = 1;
    for (int axis : order) {
      f.strides[axis] = extent * random.pick<int64_t>({1, 1, 1, 2});
      if (random.integer(0, 9) == 0) f.strides[axis] = 0;
      extent = std::max(extent, f.strides[axis] * shape[axis]);
    }
    Guarded<char> source(extent * size_of(f.dtype), size_of(f.dtype));
    for (int64_t i = 0; i < extent; ++i) from_float(source.data(), i, f.dtype, random.real(-2, 2));
    f.source = source.data();
    const int64_t k = f.ci * f.kh * f.kw;
    Guarded<float> packed(f.m * k);
    variant.kernel.pack_filter(f, packed.data());
    CHECK(packed.intact());
    bool same = true;
    for (int64_t m = 0; m < f.m; ++m) {
      const int64_t first = m / panel * panel;
      const int64_t height = std::min(panel, f.m - first);
      for (int64_t j = 0; j < k; ++j) {
        const int64_t at = m * f.strides[0] + j / (f.kh * f.kw) * f.strides[1] + j / f.kw % f.kh * f.strides[2] +
                           j % f.kw * f.strides[3];
        same &= packed[first * k + j * height + m - first] == to_float(f.source, at, f.dtype);
      }
    }
    CHECK(same);
  }
}

// pack_input: every element of every phase is the padded input's, for windows that hang over any edge.
void input(const K1Variant& variant) {
  Random random(3);
  const int64_t lanes = variant.kernel.lanes;
  for (int round = 0; round < 500; ++round) {
    K1Input in = {};
    in.dtype = random.pick({DType::kFloat32, DType::kFloat16, DType::kBFloat16});
    in.ci = random.integer(1, 3);
    in.hi = random.integer(1, 9);
    in.wi = random.integer(1, 40);
    place_randomly(&in, &random);
    in.pitch = lanes * random.integer(1, 5);
    const int64_t plane = in.h.phases * in.w.phases * in.rows * in.pitch;
    in.plane_stride = plane + random.integer(0, 9);
    const int64_t extent = source_extent(in);
    Guarded<char> source(extent * size_of(in.dtype), size_of(in.dtype));
    for (int64_t i = 0; i < extent; ++i) from_float(source.data(), i, in.dtype, random.real(-2, 2));
    in.source = source.data();
    Guarded<float> packed((in.ci - 1) * in.plane_stride + plane);
    variant.kernel.pack_input(in, packed.data());
    CHECK(packed.intact());
    bool same = true;
    for (int64_t i = 0; i < in.ci * plane; ++i) {
      const int64_t ci = i / plane;
      const int64_t c = i % in.pitch;
      const int64_t r = i / in.pitch % in.rows;
      const int64_t q = i / in.pitch / in.rows % in.w.phases;
      const int64_t p = i / in.pitch / in.rows / in.w.phases % in.h.phases;
      const int64_t h = in.top + in.h.first(p) + r * in.h.stride;
      const int64_t w = in.left + in.w.first(q) + c * in.w.stride;
      const bool inside = h >= 0 && h < in.hi && w >= 0 && w < in.wi;
      const int64_t at = ci * in.strides[0] + h * in.strides[1] + w * in.strides[2];
      same &= packed[ci * in.plane_stride + i % plane] == (inside ? to_float(in.source, at, in.dtype) : 0.0f);
    }
    CHECK(same);
  }
}

#define MSCT_VARIANT(name, features)                                  \
  TEST(gemm_##name) { gemm(require(k1_variants(), #name)); }          \
  TEST(pack_filter_##name) { filter(require(k1_variants(), #name)); } \
  TEST(pack_input_##name) { input(require(k1_variants(), #name)); }
#include "kernels/cpu/kernels.inc"
#undef MSCT_VARIANT

}  // namespace
}  // namespace msct_test
