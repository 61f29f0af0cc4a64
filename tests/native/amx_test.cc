// What matrix tiles may get wrong where vectors do not: sums of bfloat16 terms, padding of K, the range of float32,
// denormals, and other users of the tiles. Whole problems on variant amx, against float64 and plain chains of float32.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

#include "kernels/cpu/range_check.h"
#include "tests/native/kernel_test_util.h"

namespace msct_test {
namespace {

// K1's sums, without tanh. float32.
std::vector<float> sums_of(const ConvTanhProblem& p, const ConvTanhTensors& tensors, int64_t candidate = 0) {
  DispatchOptions options = require_options("amx");
  options.k1_candidate = candidate;
  Plan plan = make_plan(options, p);
  CHECK_EQ(std::string(plan.k1->name), "amx");
  plan.linear = 1;
  std::vector<char> workspace(static_cast<size_t>(plan.workspace_bytes));
  std::vector<float> sums(static_cast<size_t>(p.n * p.co * p.ho * p.wo), NAN);
  ConvTanhTensors with_y = tensors;
  with_y.y = sums.data();
  execute(plan, with_y, workspace.data());
  return sums;
}

struct Errors {
  double mean, max;
};

// 1x1 convolutions: x [k, pixels], filter [co, k].
struct Gemm {
  int64_t k, co, pixels;
  std::vector<float> x, filter;

  Gemm(int64_t k_in, int64_t co_in, int64_t pixels_in) : k(k_in), co(co_in), pixels(pixels_in) {
    x.resize(static_cast<size_t>(k * pixels));
    filter.resize(static_cast<size_t>(co * k));
  }
  float weight(int64_t m, int64_t i) const { return filter[static_cast<size_t>(m * k + i)]; }
  float pixel(int64_t i, int64_t n) const { return x[static_cast<size_t>(i * pixels + n)]; }

  std::vector<double> exact() const {
    std::vector<double> sums;
    for (int64_t m = 0; m < co; ++m) {
      for (int64_t n = 0; n < pixels; ++n) {
        double sum = 0;
        for (int64_t i = 0; i < k; ++i) sum += static_cast<double>(weight(m, i)) * pixel(i, n);
        sums.push_back(sum);
      }
    }
    return sums;
  }
  std::vector<float> chain() const {
    std::vector<float> sums;
    for (int64_t m = 0; m < co; ++m) {
      for (int64_t n = 0; n < pixels; ++n) {
        float sum = 0;
        for (int64_t i = 0; i < k; ++i) sum = std::fma(weight(m, i), pixel(i, n), sum);
        sums.push_back(sum);
      }
    }
    return sums;
  }
  ConvTanhProblem problem() const {
    ConvTanhProblem p = make_problem(DType::kFloat32, 1, k, 1, pixels, co, 1, 1, 0, 1, 1);
    p.has_bias = 0;
    return p;
  }
  std::vector<float> on_tiles() const { return sums_of(problem(), {x.data(), filter.data(), nullptr, nullptr}); }

  Errors errors(const std::vector<float>& sums) const {
    const std::vector<double> expected = exact();
    Errors result = {0, 0};
    for (size_t i = 0; i < sums.size(); ++i) {
      const double error = std::fabs(sums[i] - expected[i]);
      result.mean += error / static_cast<double>(sums.size());
      result.max = std::max(result.max, error);
    }
    return result;
  }
};

enum Data { kUniform, kPositive, kCancelling, kWide, kHuge, kTiny, kDenormal, kDataKinds };
const char* const kDataNames[] = {"uniform", "positive", "cancelling", "wide", "huge", "tiny", "denormal"};

void fill(Gemm* g, Data data, Random* random) {
  const auto value = [&]() -> float {
    const float v = random->real(-1, 1);
    switch (data) {
      case kPositive: return std::fabs(v);
      case kWide: return std::ldexp(v, static_cast<int>(random->integer(-20, 20)));
      case kHuge: return std::ldexp(v, 55);
      case kTiny: return std::ldexp(v, -55);
      default: return v;
    }
  };
  for (float& v : g->x) v = value();
  for (float& v : g->filter) v = value();
  if (data == kDenormal) {
    for (size_t i = 0; i < g->x.size(); i += 7) g->x[i] = std::ldexp(g->x[i], -130);
    for (float& v : g->filter) v = std::ldexp(v, 100);
  }
  if (data != kCancelling) return;
  // The second half of K undoes the first, but for a thousandth.
  for (int64_t i = g->k / 2; i < g->k; ++i) {
    for (int64_t n = 0; n < g->pixels; ++n) {
      const float opposite = g->pixel(i - g->k / 2, n);
      g->x[static_cast<size_t>(i * g->pixels + n)] = -opposite * (1 + 1e-3f * random->real(-1, 1));
    }
    for (int64_t m = 0; m < g->co; ++m) {
      g->filter[static_cast<size_t>(m * g->k + i)] = g->weight(m, i - g->k / 2);
    }
  }
}

TEST(float32_is_as_accurate_as_a_chain) {
  require_options("amx");
  Random random(21);
  for (int64_t k : {64, 576, 4608}) {
    for (int data = 0; data < kDataKinds; ++data) {
      Gemm g(k, 17, 96);
      fill(&g, static_cast<Data>(data), &random);
      const Errors tiles = g.errors(g.on_tiles());
      const Errors chain = g.errors(g.chain());
      std::printf("     K %4lld %-10s mean %.3f, max %.3f of a chain's\n", static_cast<long long>(k), kDataNames[data],
                  tiles.mean / chain.mean, tiles.max / chain.max);
      CHECK(tiles.mean <= chain.mean);
      CHECK(tiles.max <= 1.1 * chain.max);
    }
  }
}

// At the edges of what the check lets through.
TEST(float32_is_accurate_up_to_the_edges_of_its_range) {
  require_options("amx");
  Random random(22);
  for (const auto& [x_exponent, filter_exponent] :
       {std::pair(-35, -35), {-102, 32}, {32, -102}, {126, -13}, {-3, 115}}) {
    Gemm g(64, 16, 32);
    const auto fill_normal = [&](std::vector<float>* values, int exponent) {
      for (float& v : *values) v = std::ldexp(random.real(1, 2), exponent) * (random.integer(0, 1) ? 1.0f : -1.0f);
    };
    fill_normal(&g.x, x_exponent);
    fill_normal(&g.filter, filter_exponent);
    const Plan plan = make_plan(require_options("amx"), g.problem());
    std::vector<int64_t> memory(static_cast<size_t>(range_check_bytes(plan.problem) / 8 + 1));
    const ConvTanhTensors tensors = {g.x.data(), g.filter.data(), nullptr, nullptr};
    CHECK_EQ(static_cast<int>(*find_images_out_of_range(plan, tensors, memory.data())), 0);
    const Errors tiles = g.errors(g.on_tiles()), chain = g.errors(g.chain());
    CHECK(tiles.mean <= chain.mean);
    CHECK(tiles.max <= 1.1 * chain.max);
  }
}

TEST(range_check_finds_every_fault) {
  require_options("amx");
  const auto is_out = [](float x, float filter, float bias = 0) {
    Gemm g(5, 3, 7);
    std::fill(g.x.begin(), g.x.end(), 1.0f);
    std::fill(g.filter.begin(), g.filter.end(), 1.0f);
    g.x[20] = x;
    g.filter[11] = filter;
    ConvTanhProblem p = g.problem();
    p.has_bias = 1;
    const float biases[3] = {1, bias, 1};
    const Plan plan = make_plan(require_options("amx"), p);
    std::vector<int64_t> memory(static_cast<size_t>(range_check_bytes(plan.problem) / 8 + 1));
    return *find_images_out_of_range(plan, {g.x.data(), g.filter.data(), biases, nullptr}, memory.data()) != 0;
  };
  for (float harmless : {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1.0f, 0x1p-70f, -0x1p-69f, 0x1p100f}) {
    CHECK(!is_out(harmless, 1));
    CHECK(!is_out(1, harmless));
    CHECK(!is_out(1, 1, harmless));
  }
  for (float fault : {0x1p-71f, 0x1p-149f, -0x1p-140f, 0x1p-103f, 0x1.fffffep127f, -0x1p127f}) {
    CHECK(is_out(fault, 1));
    CHECK(is_out(1, fault));
  }
  for (float fault : {0x1p-149f, -0x1p-103f, 0x1p127f}) CHECK(is_out(1, 1, fault));
  CHECK(is_out(0x1p-36f, 0x1p-35f));
  CHECK(is_out(0x1p70f, 0x1p70f));
}

// Images whose values are out of range take another path; the others come out as they do alone, bit for bit.
TEST(images_are_checked_one_by_one) {
  const DispatchOptions options = require_options("amx");
  Random random(23);
  ConvTanhProblem p = make_problem(DType::kFloat32, 4, 8, 9, 9, 6, 3, 1, 1, 1, 2);
  Tensors tensors(p, &random);
  float* x = reinterpret_cast<float*>(tensors.x.data());
  const int64_t image = 8 * 9 * 9, result = 6 * 9 * 9;
  x[1 * image + 5] = 1e-40f;
  x[2 * image + image - 1] = 3e38f;
  run(options, &tensors, 24);
  tensors.check("mixed batch");
  ConvTanhProblem single = p;
  single.n = 1;
  for (int64_t n = 0; n < 4; ++n) {
    Tensors alone(single, &random);
    std::copy_n(x + n * image, image, reinterpret_cast<float*>(alone.x.data()));
    std::memcpy(alone.filter.data(), tensors.filter.data(), static_cast<size_t>(alone.filter.size()));
    std::memcpy(alone.bias.data(), tensors.bias.data(), static_cast<size_t>(alone.bias.size()));
    run(options, &alone);
    CHECK(std::memcmp(alone.y.data(), tensors.y.data() + n * result * 4, static_cast<size_t>(result) * 4) == 0);
  }
}

// float16 in three products: what is left out is far below float16's own rounding of a sum of random terms, and bounded
// for any.
TEST(float16_keeps_what_its_rounding_shows) {
  require_options("amx");
  Random random(24);
  for (int64_t k : {64, 576, 4608}) {
    Gemm g(k, 16, 32);
    fill(&g, kUniform, &random);
    ConvTanhProblem p = g.problem();
    p.dtype = DType::kFloat16;
    std::vector<uint16_t> x, filter;
    for (float& v : g.x) v = float_from_f16(x.emplace_back(f16_from_float(v)));
    for (float& v : g.filter) v = float_from_f16(filter.emplace_back(f16_from_float(v)));
    DispatchOptions options = require_options("amx");
    Plan plan = make_plan(options, p);
    plan.linear = 1;
    std::vector<char> workspace(static_cast<size_t>(plan.workspace_bytes));
    std::vector<uint16_t> y(static_cast<size_t>(p.co * p.wo));
    execute(plan, {x.data(), filter.data(), nullptr, y.data()}, workspace.data());
    const std::vector<double> expected = g.exact();
    double left_out = 0, half_unit = 0;
    for (size_t i = 0; i < y.size(); ++i) {
      const double error = std::fabs(float_from_f16(y[i]) - expected[i]);
      const double rounding = std::fabs(float_from_f16(f16_from_float(static_cast<float>(expected[i]))) - expected[i]);
      CHECK(error <= rounding + static_cast<double>(k) * 0x1p-16);
      left_out += std::max(error - rounding, 0.0);
      half_unit += std::ldexp(1, std::ilogb(expected[i]) - 11);
    }
    std::printf("     K %4lld adds %.4f of half a unit\n", static_cast<long long>(k), left_out / half_unit);
    CHECK(left_out <= 0.01 * half_unit);
  }
}

// bfloat16 denormals count as zero; float16's are normal bfloat16 numbers, and float32's take the other path.
TEST(denormals) {
  const DispatchOptions options = require_options("amx");
  Random random(25);
  for (DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32}) {
    const ConvTanhProblem p = make_problem(dtype, 1, 2, 1, 16, 1, 1, 1, 0, 1, 1);
    Tensors tensors(p, &random);
    const float value = dtype == DType::kFloat16 ? 0x1p-24f : 0x1p-130f;
    for (int64_t i = 0; i < 32; ++i) from_float(tensors.x.data(), i, dtype, value);
    for (int64_t i = 0; i < 2; ++i) from_float(tensors.filter.data(), i, dtype, 1);
    from_float(tensors.bias.data(), 0, dtype, 0);
    run(options, &tensors);
    CHECK_EQ(to_float(tensors.y.data(), 0, dtype), dtype == DType::kBFloat16 ? 0.0f : 2 * value);
  }
}

// One NaN among the inputs of one pixel: that pixel and no other, for depths around every padding of K.
TEST(nan_does_not_leak_through_padded_rows) {
  DispatchOptions options = require_options("amx");
  Random random(26);
  for (DType dtype : {DType::kBFloat16, DType::kFloat16, DType::kFloat32}) {
    for (int64_t ci : {1, 2, 3, 11, 17, 31, 33, 47, 63, 65}) {
      for (int64_t kh : {1, 3}) {
        for (options.k1_candidate = 0; options.k1_candidate < 5; ++options.k1_candidate) {
          ConvTanhProblem p = make_problem(dtype, 1, ci, 5, 40, 3, 1, 1, 0, 1, 1);
          p.kh = kh;
          p.ho = 5 - kh + 1;
          set_contiguous(&p);
          Tensors tensors(p, &random);
          for (int64_t i = 0; i < ci * 200; ++i) from_float(tensors.x.data(), i, dtype, 0.01f);
          for (int64_t i = 0; i < 3 * ci * kh; ++i) from_float(tensors.filter.data(), i, dtype, 1.0f);
          const int64_t pixel = random.integer(0, 199);
          from_float(tensors.x.data(), random.integer(0, ci - 1) * 200 + pixel, dtype, NAN);
          run(options, &tensors);
          bool right = true;
          for (int64_t i = 0; i < 3 * p.ho * 40; ++i) {
            const int64_t row = i / 40 % p.ho;
            const bool reached = i % 40 == pixel % 40 && pixel / 40 >= row && pixel / 40 < row + kh;
            right &= std::isnan(to_float(tensors.y.data(), i, dtype)) == reached;
          }
          if (!right) fail(__FILE__, __LINE__, describe(p));
        }
      }
    }
  }
}

#if defined(MSCT_BUILD_AMX) && !defined(MSCT_SOFTWARE_TILES)

// Leaves tiles configured and full, as a library does that keeps its configuration.
void use_tiles_like_another_library() {
  static const struct alignas(64) {
    uint8_t palette, start_row, reserved[14];
    uint16_t row_bytes[16];
    uint8_t rows[16];
  } config = {1, 0, {}, {32, 64, 64, 4, 64, 16, 64, 64}, {3, 16, 8, 1, 16, 4, 16, 2}};
  std::vector<float> nan(16 * 16, NAN);
  __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory");
  __asm__ volatile("tileloadd (%0,%1,1), %%tmm0\n\ttileloadd (%0,%1,1), %%tmm6" ::"r"(nan.data()), "r"(int64_t{64})
                   : "memory");
}

TEST(other_users_of_tiles_do_not_matter) {
  const DispatchOptions options = require_options("amx");
  std::vector<char> expected[2];
  for (int round = 0; round < 100; ++round) {
    int64_t ci = 33, co = 17;
    for (std::vector<char>& first : expected) {
      Random random(27);
      Tensors tensors(make_problem(DType::kBFloat16, 1, ci, 8, 8, co, 3, 1, 1, 1, 1), &random);
      use_tiles_like_another_library();
      run(options, &tensors);
      const std::vector<char> y(tensors.y.data(), tensors.y.data() + tensors.y.size());
      if (first.empty()) first = y;
      CHECK(y == first);
      ci = co = 64;
    }
  }
}

// Linux refuses tiles to a process whose signal stack could not hold them. Detection happens once: in a new process.
TEST(without_the_systems_permission_there_is_no_amx) {
  constexpr char kChild[] = "MS_CONVTANH_TEST_CHILD";
  if (std::getenv(kChild)) {
    static char stack[8192];
    const stack_t small = {stack, 0, sizeof(stack)};
    CHECK_EQ(sigaltstack(&small, nullptr), 0);
    CHECK_EQ(detected_features(), static_cast<uint32_t>(kFeatureAvx2 | kFeatureAvx512));
    const ConvTanhProblem p = make_problem(DType::kBFloat16, 1, 64, 32, 32, 64, 3, 1, 1, 1, 1);
    CHECK_EQ(std::string(make_plan({detected_features(), Fusion::kAuto, 1}, p).k1->name), "avx512");
    return;
  }
  require_options("amx");
  const pid_t child = fork();
  if (child == 0) {
    setenv(kChild, "1", 1);
    execl("/proc/self/exe", "amx_test", "without_the_systems_permission_there_is_no_amx", static_cast<char*>(nullptr));
    _exit(99);
  }
  int status = -1;
  CHECK_EQ(waitpid(child, &status, 0), child);
  CHECK_EQ(status, 0);
}

#endif

}  // namespace
}  // namespace msct_test
