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

#define MSCT_VARIANT(name, features)                           \
  TEST(sizes_##name) { sizes(#name); }                         \
  TEST(same_however_cut_##name) { same_however_cut(#name); }   \
  TEST(unsuitable_images_##name) { unsuitable_images(#name); } \
  TEST(error_beside_the_plain_sum_##name) { error_beside_the_plain_sum(#name); }
#include "kernels/cpu/kernels.inc"
#undef MSCT_VARIANT

}  // namespace
}  // namespace msct_test
