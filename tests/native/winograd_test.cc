// Winograd's tiles: which images they compute, and that those come out the same however a problem is cut.
#include "kernels/cpu/range_check.h"
#include "kernels/dispatch/cost.h"
#include "tests/native/kernel_test_util.h"

namespace msct_test {
namespace {

const DType kDTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};

// Options under which the problem is computed by tiles, or plainly.
DispatchOptions options_for(const char* isa, const ConvTanhProblem& p, bool winograd) {
  DispatchOptions options = require_options(isa);
  Plan plan = {};
  plan.problem = p;
  const std::vector<K1Candidate> candidates = k1_candidates(options, plan);
  for (size_t i = 0; i < candidates.size(); ++i) {
    if ((candidates[i].scheme.winograd != 0) == winograd) options.k1_candidate = static_cast<int64_t>(i);
  }
  CHECK_EQ(make_plan(options, p).scheme.winograd, winograd ? 1 : 0);
  return options;
}

std::string output(const DispatchOptions& options, Tensors* tensors) {
  run(options, tensors);
  return std::string(tensors->y.data(), tensors->y.data() + tensors->y.size());
}

ConvTanhProblem padded(DType dtype, int64_t n, int64_t ci, int64_t hi, int64_t wi, int64_t co) {
  return make_problem(dtype, n, ci, hi, wi, co, 3, 1, 1, 1, 1);
}

// Sizes around tiles, vectors of tiles and register tiles; both K steps around their limit.
void sizes(const char* isa) {
  Random random(1);
  for (DType dtype : kDTypes) {
    for (int64_t h : {1, 2, 3, 4, 5}) {
      for (int64_t w : {1, 2, 3, 6, 7, 8, 9, 15, 16, 17, 31, 32, 33, 49, 64}) {
        ConvTanhProblem p = padded(dtype, random.integer(1, 2), random.integer(1, 5), h, w, random.integer(1, 9));
        p.pad_left = random.integer(0, 3);
        p.pad_right = random.integer(2, 3);
        p.pad_top = random.integer(2, 3);
        p.wo = output_size(p.wi, p.pad_left, p.pad_right, 3, 1, 1);
        p.ho = output_size(p.hi, p.pad_top, p.pad_bottom, 3, 1, 1);
        set_contiguous(&p);
        for (Fusion fusion : {Fusion::kHalf, Fusion::kTrue}) {
          DispatchOptions options = options_for(isa, p, true);
          options.fusion = fusion;
          Tensors tensors(p, &random);
          run(options, &tensors);
          tensors.check(describe(p));
        }
      }
    }
    for (int64_t ci : {31, 127, 128, 129, 257}) {
      const ConvTanhProblem p = padded(dtype, 1, ci, 9, 19, 130);
      Tensors tensors(p, &random);
      run(options_for(isa, p, true), &tensors);
      tensors.check(describe(p));
    }
  }
}

// Channels around panels and K steps, pads of all kinds, groups, several blocks on each axis.
void channels_and_pads(const char* isa) {
  Random random(5);
  const auto check = [&](const ConvTanhProblem& p) {
    DispatchOptions options = options_for(isa, p, true);
    options.fusion = random.pick({Fusion::kHalf, Fusion::kTrue});
    options.threads = random.integer(1, 3);
    Tensors tensors(p, &random, size_of(p.dtype));
    run(options, &tensors, random.integer(0, 63));
    tensors.check(describe(p));
  };
  for (int64_t ci : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 27, 28, 29, 31, 32, 33, 63, 64, 65, 129}) {
    for (int64_t co : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33}) {
      check(padded(DType::kFloat32, 1, ci, 5, 7, co));
    }
  }
  for (int64_t top : {0, 1, 2, 5}) {
    for (int64_t bottom : {0, 1, 4}) {
      for (int64_t left : {0, 1, 3, 20}) {
        for (int64_t right : {0, 2, 17}) {
          ConvTanhProblem p = padded(DType::kFloat32, 2, 2, 4, 11, 3);
          p.pad_top = top;
          p.pad_bottom = bottom;
          p.pad_left = left;
          p.pad_right = right;
          p.ho = output_size(p.hi, top, bottom, 3, 1, 1);
          p.wo = output_size(p.wi, left, right, 3, 1, 1);
          set_contiguous(&p);
          check(p);
        }
      }
    }
  }
  check(make_problem(DType::kFloat32, 2, 12, 9, 17, 18, 3, 1, 1, 1, 3));
  check(padded(DType::kFloat32, 1, 70, 40, 301, 140));
}

// Spread and repeated inputs, channels last, columns far apart.
void strides(const char* isa) {
  Random random(6);
  for (int problems = 0; problems < 150;) {
    ConvTanhProblem p = random_problem(&random);
    if (p.kh < 3 || p.kw < 3) continue;  // strides of the filter hold for a smaller one
    p.kh = p.kw = 3;
    p.stride_h = p.stride_w = p.dilation_h = p.dilation_w = 1;
    p.ho = output_size(p.hi, p.pad_top, p.pad_bottom, 3, 1, 1);
    p.wo = output_size(p.wi, p.pad_left, p.pad_right, 3, 1, 1);
    const bool channels_last = p.y_strides[1] == 1;
    const int64_t step = channels_last ? p.co : p.y_strides[3];
    p.y_strides[3] = step;
    p.y_strides[2] = p.wo * step;
    p.y_strides[1] = channels_last ? 1 : p.ho * p.wo * step;
    p.y_strides[0] = p.co * p.ho * p.wo * step;
    Tensors tensors(p, &random);
    run(options_for(isa, p, true), &tensors);
    tensors.check(describe(p));
    ++problems;
  }
}

// Very small and very large values whose products are of one magnitude, denormals among them.
void magnitudes(const char* isa) {
  Random random(7);
  const ConvTanhProblem p = padded(DType::kFloat32, 1, 6, 9, 17, 5);
  const DispatchOptions options = options_for(isa, p, true);
  for (int exponent : {-145, -140, -130, -126, -110, -100, -60, 60, 90, 100, 120, 127}) {
    for (bool of_x : {false, true}) {
      Tensors tensors(p, &random);
      const auto scale = [](Guarded<char>* buffer, int by) {
        float* values = reinterpret_cast<float*>(buffer->data());
        for (int64_t i = 0; i < buffer->size() / 4; ++i) values[i] = std::ldexp(values[i], by);
      };
      scale(&tensors.x, of_x ? exponent : std::min(-exponent, 120));
      scale(&tensors.filter, of_x ? std::min(-exponent, 120) : exponent);
      run(options, &tensors);
      tensors.check(describe(p) + (of_x ? " x" : " filter") + " times 2^" + std::to_string(exponent));
    }
  }
}

// A pixel just within what tiles suit, so large that its own outputs saturate: those beside it, that do not cover it,
// stay within 2^-13, the standard of float32.
void largest_leak(const char* isa) {
  Random random(8);
  const ConvTanhProblem p = padded(DType::kFloat32, 1, 64, 8, 24, 8);
  Tensors tensors(p, &random);
  float* x = reinterpret_cast<float*>(tensors.x.data());
  float* filter = reinterpret_cast<float*>(tensors.filter.data());
  for (int64_t i = 0; i < tensors.filter.size() / 4; ++i) filter[i] = random.real(0.01f, 0x1.fp-7f);
  for (int64_t i = 0; i < tensors.x.size() / 4; ++i) {
    x[i] = i % (p.hi * p.wi) == 101 ? 0x1.fp8f : random.real(-0.1f, 0.1f);  // exponents 8 and -7, 2^10 terms
  }
  const std::string plain = output(options_for(isa, p, false), &tensors);
  CHECK(output(options_for(isa, p, true), &tensors) != plain);  // computed by tiles
  for (int64_t co = 0; co < p.co; ++co) {
    for (int64_t i = 0; i < p.ho * p.wo; ++i) {
      const double golden = std::tanh(tensors.golden_sum(0, co, i / p.wo, i % p.wo));
      CHECK_NEAR(tensors.y_at(0, co, i / p.wo, i % p.wo), golden, 0x1p-13);
    }
  }
}

// The mean and the largest error of the sum: no more than twice the plain one's, also where channels cancel in pairs.
void error_of_cancelling_sums(const char* isa) {
  Random random(9);
  for (int64_t ci : {16, 64, 256}) {
    const ConvTanhProblem p = padded(DType::kFloat32, 1, ci, 12, 20, 16);
    Tensors tensors(p, &random);
    float* x = reinterpret_cast<float*>(tensors.x.data());
    float* filter = reinterpret_cast<float*>(tensors.filter.data());
    const int64_t plane = p.hi * p.wi;
    for (int64_t c = 1; c < ci; c += 2) {
      for (int64_t i = 0; i < plane; ++i) x[c * plane + i] = x[(c - 1) * plane + i] * (1 + random.real(-1, 1) / 1024);
      for (int64_t i = 0; i < p.co * 9; ++i) {
        filter[(i / 9 * ci + c) * 9 + i % 9] = -filter[(i / 9 * ci + c - 1) * 9 + i % 9];
      }
    }
    double mean[2] = {}, largest[2] = {};
    for (int winograd = 0; winograd < 2; ++winograd) {
      run(options_for(isa, p, winograd == 1), &tensors);
      for (int64_t co = 0; co < p.co; ++co) {
        for (int64_t i = 0; i < plane; ++i) {
          const double z = tensors.golden_sum(0, co, i / p.wo, i % p.wo);
          if (std::fabs(z) > 1) continue;
          // What tanh makes of an error, it makes by its slope.
          const double error =
              std::fabs(tensors.y_at(0, co, i / p.wo, i % p.wo) - std::tanh(z)) * std::cosh(z) * std::cosh(z);
          mean[winograd] += error;
          largest[winograd] = std::max(largest[winograd], error);
        }
      }
    }
    CHECK(mean[1] > 0 && mean[1] <= 2 * mean[0]);
    CHECK(largest[1] <= 2 * largest[0]);
  }
}

void same_however_cut(const char* isa) {
  Random random(2);
  for (DType dtype : kDTypes) {
    const ConvTanhProblem p = padded(dtype, 3, 20, 37, 70, 24);
    DispatchOptions options = options_for(isa, p, true);
    Tensors tensors(p, &random);
    const std::string expected = output(options, &tensors);
    for (Fusion fusion : {Fusion::kHalf, Fusion::kTrue}) {
      for (int64_t threads : {1, 3}) {
        for (int64_t size : {0, 1, 3000, 1 << 20}) {
          options.fusion = fusion;
          options.threads = threads;
          options.tuning.packed_elements = size;
          options.tuning.block_channels = size % 7;
          CHECK(output(options, &tensors) == expected);
        }
      }
    }
    // One image alone.
    const size_t image = expected.size() / 3;
    Tensors one(padded(dtype, 1, 20, 37, 70, 24), &random);
    std::copy(tensors.filter.data(), tensors.filter.data() + tensors.filter.size(), one.filter.data());
    std::copy(tensors.bias.data(), tensors.bias.data() + tensors.bias.size(), one.bias.data());
    std::copy(tensors.x.data() + one.x.size(), tensors.x.data() + 2 * one.x.size(), one.x.data());
    CHECK(output(options_for(isa, one.p, true), &one) == expected.substr(image, image));
  }
}

// One value that tiles do not suit makes its image what the plain sum gives, to the bit, and no other one.
void unsuitable_images(const char* isa) {
  Random random(3);
  const float inf = std::numeric_limits<float>::infinity();
  for (DType dtype : kDTypes) {
    const ConvTanhProblem p = padded(dtype, 3, 6, 11, 21, 5);
    const DispatchOptions tiles = options_for(isa, p, true), plain = options_for(isa, p, false);
    for (float value : {inf, -inf, std::nanf(""), 3e4f}) {
      Tensors tensors(p, &random);
      const std::string all_tiles = output(tiles, &tensors), all_plain = output(plain, &tensors);
      CHECK(all_tiles != all_plain || dtype != DType::kFloat32);
      const int64_t image = tensors.x.size() / size_of(dtype) / 3;
      from_float(tensors.x.data(), image + random.integer(0, image - 1), dtype, value);
      const std::string got = output(tiles, &tensors);
      tensors.check(describe(p) + " with " + std::to_string(value));
      const std::string expected = output(plain, &tensors);
      const size_t bytes = got.size() / 3;
      CHECK(got.substr(bytes, bytes) == expected.substr(bytes, bytes));
      CHECK(got.substr(0, bytes) == all_tiles.substr(0, bytes));
      CHECK(got.substr(2 * bytes) == all_tiles.substr(2 * bytes));
    }
    for (float value : {inf, std::nanf(""), 3e4f}) {  // in the filter: all images
      Tensors tensors(p, &random);
      from_float(tensors.filter.data(), random.integer(0, tensors.filter.size() / size_of(dtype) - 1), dtype, value);
      const std::string got = output(tiles, &tensors);
      CHECK(got == output(plain, &tensors));
    }
  }
}

uint32_t bits(float value) {
  uint32_t result;
  std::memcpy(&result, &value, sizeof(result));
  return result;
}

TEST(what_tiles_suit) {
  const auto accurate = [](float x, float filter, int64_t terms) {
    return winograd_is_accurate(bits(x), bits(filter), terms);
  };
  CHECK(accurate(1.0f, 1.0f, 2048));
  CHECK(!accurate(1.0f, 1.0f, 2049));
  CHECK(accurate(0x1p11f, 1.0f, 1));
  CHECK(!accurate(0x1p12f, 1.0f, 1));
  CHECK(!accurate(0x1p6f, 0x1p6f, 1));
  CHECK(accurate(0.0f, 1.0f, 9));
  CHECK(accurate(1.0f, 0.0f, 9));
  CHECK(!accurate(std::numeric_limits<float>::infinity(), 0.0f, 9));
  CHECK(!accurate(std::nanf(""), 0.0f, 9));
  CHECK(!accurate(0.0f, std::nanf(""), 9));
  CHECK(!accurate(0x1p126f, 0x1p-126f, 1));  // B^T d B may overflow
  CHECK(!accurate(1.0f, 0x1p-101f, 1));      // G g G^T may be denormal
}

// Tiles may be less exact than the plain sum, but stay within the same few units: the largest error in units of
// 2^-24 * sqrt(terms), with values of one magnitude and with values that mostly cancel.
void error_beside_the_plain_sum(const char* isa) {
  Random random(4);
  for (float mean : {0.0f, 1.0f}) {
    const ConvTanhProblem p = padded(DType::kFloat32, 1, 64, 16, 16, 8);
    Tensors tensors(p, &random);
    float* x = reinterpret_cast<float*>(tensors.x.data());
    for (int64_t i = 0; i < tensors.x.size() / 4; ++i) x[i] += mean;
    double worst[2] = {0, 0};
    for (int winograd = 0; winograd < 2; ++winograd) {
      run(options_for(isa, p, winograd == 1), &tensors);
      for (int64_t co = 0; co < p.co; ++co) {
        for (int64_t i = 0; i < p.ho * p.wo; ++i) {
          const double golden = std::tanh(tensors.golden_sum(0, co, i / p.wo, i % p.wo));
          worst[winograd] = std::max(worst[winograd], std::fabs(tensors.y_at(0, co, i / p.wo, i % p.wo) - golden));
        }
      }
    }
    CHECK(worst[1] <= 4 * std::max(worst[0], 0x1p-23));
  }
}

#define MSCT_VARIANT(name, features)                                         \
  TEST(sizes_##name) { sizes(#name); }                                       \
  TEST(channels_and_pads_##name) { channels_and_pads(#name); }               \
  TEST(strides_##name) { strides(#name); }                                   \
  TEST(magnitudes_##name) { magnitudes(#name); }                             \
  TEST(largest_leak_##name) { largest_leak(#name); }                         \
  TEST(error_of_cancelling_sums_##name) { error_of_cancelling_sums(#name); } \
  TEST(same_however_cut_##name) { same_however_cut(#name); }                 \
  TEST(unsuitable_images_##name) { unsuitable_images(#name); }               \
  TEST(error_beside_the_plain_sum_##name) { error_beside_the_plain_sum(#name); }
#include "kernels/cpu/kernels.inc"
#undef MSCT_VARIANT

}  // namespace
}  // namespace msct_test
