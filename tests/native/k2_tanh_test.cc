// K2 alone, each variant: bit patterns against tanh in double, rounding to float16 and bfloat16, edges of a row.
#include "tests/native/kernel_test_util.h"

namespace msct_test {
namespace {

constexpr int64_t kRow = 4096;

// |got - tanh(z)| in units of the last place of the true value.
double ulps(float got, double z) {
  const double expected = std::tanh(z);
  if (got == expected) return 0;
  int exponent;
  std::frexp(expected, &exponent);
  const double ulp = std::ldexp(1.0, std::max(exponent - 24, -149));
  return std::fabs(got - expected) / ulp;
}

void check_value(float z, float got) {
  if (std::isnan(z)) {
    CHECK(std::isnan(got));
    return;
  }
  if (!(ulps(got, z) <= 4)) fail(__FILE__, __LINE__, "more than 4 ULP off at z = " + std::to_string(z));
  if (std::signbit(got) != std::signbit(z)) fail(__FILE__, __LINE__, "sign lost at z = " + std::to_string(z));
  if (std::fabs(z) >= 20 && std::fabs(got) != 1) fail(__FILE__, __LINE__, "not saturated at z = " + std::to_string(z));
}

// Float bit patterns, both signs, a prime step apart: 4 million of them, NaNs and subnormals too.
void sweep(const K2Variant& variant) {
  Guarded<float> z(kRow), y(kRow), mirrored(kRow);
  for (uint64_t first = 0; first < 0x80000000ull; first += kRow * 1031) {
    for (float sign : {1.0f, -1.0f}) {
      for (int64_t i = 0; i < kRow; ++i) {
        const uint32_t bits =
            static_cast<uint32_t>(std::min<uint64_t>(first + static_cast<uint64_t>(i) * 1031, 0x7FFFFFFF));
        z[i] = bit_cast<float>(sign < 0 ? bits | 0x80000000u : bits);
      }
      variant.kernel.row[0](z.data(), sign < 0 ? mirrored.data() : y.data(), kRow);
      for (int64_t i = 0; i < kRow; ++i) check_value(z[i], sign < 0 ? mirrored[i] : y[i]);
    }
    bool odd = true;
    for (int64_t i = 0; i < kRow; ++i) odd &= std::isnan(y[i]) || y[i] == -mirrored[i];
    CHECK(odd);
  }
}

void special(const K2Variant& variant) {
  const float infinity = INFINITY;
  Guarded<float> z(16), y(16);
  const float values[16] = {0.0f,    -0.0f, infinity, -infinity, NAN,      -NAN, 0x1p-149f, -0x1p-149f,
                            3.4e38f, 88.8f, -89.0f,   20.0f,     0x1p-30f, 9.0f, 9.1f,      1e-40f};
  std::copy(values, values + 16, z.data());
  variant.kernel.row[0](z.data(), y.data(), 16);
  for (int i = 0; i < 16; ++i) check_value(values[i], y[i]);
  CHECK_EQ(bit_cast<uint32_t>(y[0]), 0u);
  CHECK_EQ(bit_cast<uint32_t>(y[1]), 0x80000000u);
  CHECK_EQ(y[2], 1.0f);
  CHECK_EQ(y[3], -1.0f);
  CHECK_EQ(y[6], 0x1p-149f);
  CHECK_EQ(y[8], 1.0f);
}

// Every float16 and bfloat16 as z. The result is float32 tanh rounded to nearest even, and so nearly always the
// correctly rounded one, never further than its neighbour.
void narrow(const K2Variant& variant, DType dtype) {
  Guarded<float> z(65536), wide(65536);
  Guarded<uint16_t> y(65536, 2);
  for (int64_t i = 0; i < 65536; ++i) {
    const uint16_t bits = static_cast<uint16_t>(i);
    z[i] = dtype == DType::kFloat16 ? float_from_f16(bits) : float_from_bf16(bits);
  }
  variant.kernel.row[static_cast<int>(dtype)](z.data(), y.data(), 65536);
  variant.kernel.row[0](z.data(), wide.data(), 65536);
  CHECK(y.intact());
  int64_t wrong = 0;
  for (int64_t i = 0; i < 65536; ++i) {
    CHECK_EQ(y[i], narrowed(wide[i], dtype));
    if (std::isnan(z[i])) {
      CHECK(std::isnan(to_float(y.data(), i, dtype)));
      continue;
    }
    // tanh in double, rounded to odd in float: then one more rounding is exact.
    const double exact = std::tanh(static_cast<double>(z[i]));
    float odd = static_cast<float>(exact);
    if (std::fabs(odd) > std::fabs(exact)) odd = std::nextafter(odd, 0.0f);
    if (odd != exact) odd = bit_cast<float>(bit_cast<uint32_t>(odd) | 1u);
    const uint16_t nearest = narrowed(odd, dtype);
    wrong += nearest != y[i];
    CHECK(std::abs((nearest & 0x7FFF) - (y[i] & 0x7FFF)) <= 1 && (nearest & 0x8000) == (y[i] & 0x8000));
  }
  CHECK(wrong <= 65);  // 0.1 %
}

// Stores of any float32 round like the plain C++ conversions, which convert_test checks on their own.
void stores(const K2Variant& variant) {
  Random random(5);
  Guarded<float> z(kRow), wide(kRow);
  Guarded<uint16_t> y(kRow);
  for (int round = 0; round < 50; ++round) {
    for (int64_t i = 0; i < kRow; ++i) z[i] = std::ldexp(random.real(-1, 1), static_cast<int>(random.integer(-40, 3)));
    variant.kernel.row[0](z.data(), wide.data(), kRow);
    for (DType dtype : {DType::kFloat16, DType::kBFloat16}) {
      variant.kernel.row[static_cast<int>(dtype)](z.data(), y.data(), kRow);
      for (int64_t i = 0; i < kRow; ++i) CHECK_EQ(y[i], narrowed(wide[i], dtype));
    }
  }
}

void rows(const K2Variant& variant) {
  Random random(4);
  const int64_t lanes = variant.kernel.lanes;
  for (int64_t n = 0; n <= 3 * lanes + 1; ++n) {
    for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
      Guarded<float> z((n + lanes - 1) / lanes * lanes, 4);
      for (int64_t i = 0; i < z.size(); ++i) z[i] = random.real(-4, 4);
      Guarded<char> y(n * size_of(dtype), size_of(dtype));
      variant.kernel.row[static_cast<int>(dtype)](z.data(), y.data(), n);
      CHECK(y.intact());
      for (int64_t i = 0; i < n; ++i) CHECK_NEAR(to_float(y.data(), i, dtype), std::tanh(z[i]), 0x1p-8);
    }
  }
}

// All variants, bit for bit.
void agree(const K2Variant& variant) {
  const K2Kernel& portable = require(k2_variants(), "portable").kernel;
  Guarded<float> z(kRow), y(kRow), expected(kRow);
  for (uint64_t first = 0; first < 0x100000000ull; first += kRow * 8191) {
    for (int64_t i = 0; i < kRow; ++i)
      z[i] = bit_cast<float>(static_cast<uint32_t>(first + static_cast<uint64_t>(i) * 8191));
    variant.kernel.row[0](z.data(), y.data(), kRow);
    portable.row[0](z.data(), expected.data(), kRow);
    for (int64_t i = 0; i < kRow; ++i) {
      if (!std::isnan(z[i])) CHECK_EQ(bit_cast<uint32_t>(y[i]), bit_cast<uint32_t>(expected[i]));
    }
  }
}

#define MSCT_VARIANT(name, features)                                                 \
  TEST(sweep_##name) { sweep(require(k2_variants(), #name)); }                       \
  TEST(special_##name) { special(require(k2_variants(), #name)); }                   \
  TEST(float16_##name) { narrow(require(k2_variants(), #name), DType::kFloat16); }   \
  TEST(bfloat16_##name) { narrow(require(k2_variants(), #name), DType::kBFloat16); } \
  TEST(stores_##name) { stores(require(k2_variants(), #name)); }                     \
  TEST(rows_##name) { rows(require(k2_variants(), #name)); }                         \
  TEST(agrees_with_portable_##name) { agree(require(k2_variants(), #name)); }
#include "kernels/cpu/kernels.inc"
#undef MSCT_VARIANT

// The conversions that everything above trusts.
TEST(float16_round_trip) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const uint16_t bits = static_cast<uint16_t>(i);
    const float value = float_from_f16(bits);
    const int exponent = (bits >> 10) & 31;
    const double magnitude = exponent == 31  ? INFINITY
                             : exponent == 0 ? std::ldexp(bits & 1023, -24)
                                             : std::ldexp(1024 + (bits & 1023), exponent - 25);
    if (exponent == 31 && (bits & 1023) != 0) {
      CHECK(std::isnan(value));
      CHECK_EQ(f16_from_float(value), bits | 0x0200);
    } else {
      CHECK_EQ(static_cast<double>(value), bits & 0x8000 ? -magnitude : magnitude);
      CHECK_EQ(f16_from_float(value), bits);
    }
  }
}

// Each midpoint between neighbours goes to the even one, and the floats next to it to theirs.
template <typename Widen, typename Narrow>
void check_midpoints(uint16_t infinity, Widen widen, Narrow narrow) {
  for (uint16_t bits = 0; bits + 1 < infinity; ++bits) {
    const float low = widen(bits), high = widen(static_cast<uint16_t>(bits + 1));
    const float middle = static_cast<float>((static_cast<double>(low) + high) / 2);
    CHECK_EQ(narrow(middle), bits % 2 ? bits + 1 : bits);
    CHECK_EQ(narrow(std::nextafter(middle, 0.0f)), bits);
    CHECK_EQ(narrow(std::nextafter(middle, INFINITY)), bits + 1);
    CHECK_EQ(narrow(-middle), 0x8000 | (bits % 2 ? bits + 1 : bits));
  }
}

TEST(float16_ties_to_even) {
  check_midpoints(0x7C00, float_from_f16, f16_from_float);
  CHECK_EQ(f16_from_float(65519.996f), 0x7BFF);
  CHECK_EQ(f16_from_float(65520.0f), 0x7C00);
  CHECK_EQ(f16_from_float(INFINITY), 0x7C00);
}

TEST(bfloat16_ties_to_even) {
  for (uint16_t bits = 0x0080; bits + 1 < 0x7F80; ++bits) CHECK_EQ(bf16_from_float(float_from_bf16(bits)), bits);
  check_midpoints(0x7F80, float_from_bf16, bf16_from_float);
  CHECK_EQ(bf16_from_float(bit_cast<float>(0x7F7F8000u)), 0x7F80);
  CHECK_EQ(bf16_from_float(bit_cast<float>(0x7F800001u)), 0x7FC0);
  CHECK_EQ(bf16_from_float(bit_cast<float>(0xFFBF0001u)), 0xFFFF);
}

}  // namespace
}  // namespace msct_test
