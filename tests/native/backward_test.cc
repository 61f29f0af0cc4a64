// Gradients through dispatch and execution, each variant, against float64.
#include "kernels/cpu/execute_backward.h"

#include "kernels/cpu/thread_pool.h"
#include "tests/native/kernel_test_util.h"

namespace msct_test {
namespace {

constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};

int64_t extent(const int64_t* shape, const int64_t* strides) {
  int64_t last = 0;
  for (int axis = 0; axis < 4; ++axis) {
    if (shape[axis] == 0) return 0;
    last += (shape[axis] - 1) * strides[axis];
  }
  return last + 1;
}

// A tensor in a guarded buffer. Inputs are random, outputs start as NaN: what is not written shows.
struct Tensor {
  Tensor(DType type, std::vector<int64_t> sizes, const int64_t* steps, Random* random, float range)
      : dtype(type),
        shape(std::move(sizes)),
        strides(steps, steps + 4),
        buffer(extent(shape.data(), steps) * size_of(type), size_of(type)) {
    for (int64_t i = 0; i < buffer.size() / size_of(dtype); ++i) {
      from_float(buffer.data(), i, dtype, random ? random->real(-range, range) : NAN);
    }
  }
  int64_t at(int64_t a, int64_t b, int64_t c, int64_t d) const {
    return a * strides[0] + b * strides[1] + c * strides[2] + d * strides[3];
  }
  double get(int64_t a, int64_t b, int64_t c, int64_t d) { return to_float(buffer.data(), at(a, b, c, d), dtype); }
  void set(int64_t a, int64_t b, int64_t c, int64_t d, float v) { from_float(buffer.data(), at(a, b, c, d), dtype, v); }

  DType dtype;
  std::vector<int64_t> shape, strides;
  Guarded<char> buffer;
};

BackwardProblem backward_of(const ConvTanhProblem& p) {
  BackwardProblem b = {};
  b.forward = p;
  b.wants_x = b.wants_filter = b.wants_bias = 1;
  std::copy(p.y_strides, p.y_strides + 4, b.grad_y_strides);
  ConvTanhProblem contiguous = p;
  set_contiguous(&contiguous);
  std::copy(contiguous.x_strides, contiguous.x_strides + 4, b.grad_x_strides);
  std::copy(contiguous.filter_strides, contiguous.filter_strides + 4, b.grad_filter_strides);
  b.grad_bias_stride = 1;
  return b;
}

struct Gradients {
  Gradients(const BackwardProblem& problem, Random* random)
      : b(problem),
        p(b.forward),
        grad_y(p.dtype, y_shape(), b.grad_y_strides, random, 1),
        y(p.dtype, y_shape(), p.y_strides, random, 1),
        x(p.dtype, x_shape(), p.x_strides, random, 1),
        filter(p.dtype, filter_shape(), p.filter_strides, random, 0.5f),
        grad_x(p.dtype, x_shape(), b.grad_x_strides, nullptr, 0),
        grad_filter(p.dtype, filter_shape(), b.grad_filter_strides, nullptr, 0),
        grad_bias(p.dtype, {p.co, 1, 1, 1}, bias_strides().data(), nullptr, 0) {}

  std::vector<int64_t> y_shape() const { return {p.n, p.co, p.ho, p.wo}; }
  std::vector<int64_t> x_shape() const { return {p.n, p.ci, p.hi, p.wi}; }
  std::vector<int64_t> filter_shape() const { return {p.co, p.ci / p.groups, p.kh, p.kw}; }
  std::vector<int64_t> bias_strides() const { return {b.grad_bias_stride, 1, 1, 1}; }

  void run(const DispatchOptions& options) {
    const BackwardPlan plan = make_backward_plan(options, b);
    CHECK(static_cast<int64_t>(plan.grad_x.size()) <= grad_input_phases(b));
    Guarded<char> workspace(plan.workspace_bytes, 7);
    execute_backward(plan,
                     {grad_y.buffer.data(), y.buffer.data(), x.buffer.data(), filter.buffer.data(),
                      b.wants_x ? grad_x.buffer.data() : nullptr, b.wants_filter ? grad_filter.buffer.data() : nullptr,
                      b.wants_bias ? grad_bias.buffer.data() : nullptr},
                     workspace.data());
    CHECK(workspace.intact());
    for (Tensor* tensor : {&grad_y, &y, &x, &filter, &grad_x, &grad_filter, &grad_bias}) CHECK(tensor->buffer.intact());
  }

  struct Golden {
    std::vector<double> x, filter, bias;
  };

  // The definitions in problem.h, contiguous. Padding takes part in gradFilter as zeros.
  Golden golden() {
    Golden g;
    const int64_t ci_group = p.ci / p.groups, co_group = p.co / p.groups;
    g.x.assign(static_cast<size_t>(p.n * p.ci * p.hi * p.wi), 0);
    g.filter.assign(static_cast<size_t>(p.co * ci_group * p.kh * p.kw), 0);
    g.bias.assign(static_cast<size_t>(p.co), 0);
    for (int64_t n = 0; n < p.n; ++n) {
      for (int64_t co = 0; co < p.co; ++co) {
        for (int64_t i = 0; i < p.ho * p.wo; ++i) {
          const int64_t oy = i / p.wo, ox = i % p.wo;
          const double value = y.get(n, co, oy, ox);
          const double dz = grad_y.get(n, co, oy, ox) * (1 - value * value);
          g.bias[static_cast<size_t>(co)] += dz;
          for (int64_t j = 0; j < ci_group * p.kh * p.kw; ++j) {
            const int64_t kw = j % p.kw, kh = j / p.kw % p.kh, c = j / p.kw / p.kh;
            const int64_t ci = co / co_group * ci_group + c;
            const int64_t h = oy * p.stride_h + kh * p.dilation_h - p.pad_top;
            const int64_t w = ox * p.stride_w + kw * p.dilation_w - p.pad_left;
            if (h < 0 || h >= p.hi || w < 0 || w >= p.wi) continue;
            g.x[static_cast<size_t>(((n * p.ci + ci) * p.hi + h) * p.wi + w)] += dz * filter.get(co, c, kh, kw);
            g.filter[static_cast<size_t>(co * ci_group * p.kh * p.kw + j)] += dz * x.get(n, ci, h, w);
          }
        }
      }
    }
    return g;
  }

  void check(const std::string& what) {
    const Golden g = golden();
    if (b.wants_x) check_tensor(what + " gradX", &grad_x, g.x);
    if (b.wants_filter) check_tensor(what + " gradFilter", &grad_filter, g.filter);
    if (b.wants_bias) check_tensor(what + " gradBias", &grad_bias, g.bias);
  }

  // Relative to the largest element, or to 1, the size of a term: float32 sums, then one rounding.
  void check_tensor(const std::string& what, Tensor* tensor, const std::vector<double>& expected) {
    double norm = 0;
    for (double value : expected) norm = std::max(norm, std::fabs(value));
    const double last = p.dtype == DType::kFloat32 ? 0x1p-20 : p.dtype == DType::kFloat16 ? 0x1p-11 : 0x1p-8;
    const std::vector<int64_t>& s = tensor->shape;
    size_t i = 0;
    for (int64_t a = 0; a < s[0]; ++a) {
      for (int64_t c = 0; c < s[1]; ++c) {
        for (int64_t h = 0; h < s[2]; ++h) {
          for (int64_t w = 0; w < s[3]; ++w, ++i) {
            const double got = tensor->get(a, c, h, w);
            if (std::fabs(got - expected[i]) <= last * std::max(norm, 1.0)) continue;
            fail(__FILE__, __LINE__,
                 what + " at element " + std::to_string(i) + ": got " + std::to_string(got) + ", expected " +
                     std::to_string(expected[i]));
            return;
          }
        }
      }
    }
  }

  const BackwardProblem b;
  const ConvTanhProblem& p;
  Tensor grad_y, y, x, filter, grad_x, grad_filter, grad_bias;
};

void check_problem(uint32_t features, const BackwardProblem& problem, Random* random) {
  Gradients gradients(problem, random);
  gradients.run({features, random->pick({Fusion::kHalf, Fusion::kTrue}), 2});
  gradients.check(describe(problem.forward));
}

void geometries(const char* isa) {
  const uint32_t features = require_ceiling(isa);
  Random random(21);
  for (DType dtype : kDTypes) {
    for (int64_t k : {1, 2, 3, 5}) {
      for (int64_t stride : {1, 2, 3, 7}) {
        for (int64_t dilation : {1, 2, 3, 6}) {
          for (int64_t groups : {1, 3}) {
            check_problem(
                features,
                backward_of(make_problem(dtype, 2, 6, 15, 21, 9, k, stride, k / 2 * dilation, dilation, groups)),
                &random);
          }
        }
      }
    }
    check_problem(features, backward_of(make_problem(dtype, 2, 24, 9, 11, 24, 3, 1, 1, 1, 24)), &random);
    check_problem(features, backward_of(make_problem(dtype, 1, 3, 1, 3000, 5, 1, 1, 0, 1, 1)), &random);
    check_problem(features, backward_of(make_problem(dtype, 3, 40, 5, 5, 70, 3, 1, 1, 1, 1)), &random);
    check_problem(features, backward_of(make_problem(dtype, 1, 3, 32, 32, 4, 8, 8, 0, 1, 1)), &random);
    check_problem(features, backward_of(make_problem(dtype, 3, 4, 9, 9, 8, 9, 1, 0, 1, 1)), &random);
    check_problem(features, backward_of(make_problem(dtype, 37, 6, 5, 5, 14, 5, 2, 0, 1, 2)), &random);
  }
}

void random_problems(const char* isa) {
  const uint32_t features = require_ceiling(isa);
  Random random(22);
  for (int round = 0; round < 300; ++round) {
    const ConvTanhProblem p = random_problem(&random);
    BackwardProblem b = backward_of(p);
    if (random.integer(0, 1)) {  // outputs with gaps, gradY laid out unlike y
      for (int64_t* strides : {b.grad_x_strides, b.grad_filter_strides}) {
        for (int axis = 0; axis < 4; ++axis) strides[axis] *= 2;
      }
      b.grad_bias_stride = 3;
      b.grad_y_strides[0] = 0;
    }
    b.wants_x = random.integer(0, 1);
    b.wants_filter = random.integer(0, 1);
    b.wants_bias = random.integer(0, 1);
    check_problem(features, b, &random);
  }
}

// Nothing to sum: gradients of what exists are 0.
void empty(const char* isa) {
  const uint32_t features = require_ceiling(isa);
  Random random(23);
  for (DType dtype : kDTypes) {
    check_problem(features, backward_of(make_problem(dtype, 0, 4, 5, 5, 6, 3, 1, 1, 1, 1)), &random);
    check_problem(features, backward_of(make_problem(dtype, 2, 4, 5, 5, 0, 3, 1, 1, 1, 1)), &random);
    check_problem(features, backward_of(make_problem(dtype, 2, 0, 5, 5, 6, 3, 1, 1, 1, 1)), &random);
    ConvTanhProblem flat = make_problem(dtype, 2, 4, 5, 0, 6, 1, 1, 0, 1, 1);
    check_problem(features, backward_of(flat), &random);
  }
}

// Where the unit is saturated the gradient is 0, whatever its sign and however large gradY.
void saturated(const char* isa) {
  const uint32_t features = require_ceiling(isa);
  Random random(24);
  for (DType dtype : kDTypes) {
    Gradients g(backward_of(make_problem(dtype, 1, 3, 6, 9, 5, 3, 1, 1, 1, 1)), &random);
    for (int64_t i = 0; i < g.y.buffer.size() / size_of(dtype); ++i) {
      from_float(g.y.buffer.data(), i, dtype, i % 2 ? 1.0f : -1.0f);
      from_float(g.grad_y.buffer.data(), i, dtype, 60000.0f);
    }
    g.run({features, Fusion::kAuto, 2});
    for (Tensor* tensor : {&g.grad_x, &g.grad_filter, &g.grad_bias}) {
      for (int64_t i = 0; i < tensor->buffer.size() / size_of(dtype); ++i) {
        CHECK_EQ(to_float(tensor->buffer.data(), i, dtype), 0.0f);
      }
    }
  }
}

// A NaN pixel that no output reads reaches no gradient; one in dz reaches just what reads it.
void nan_stays_where_it_belongs(const char* isa) {
  const uint32_t features = require_ceiling(isa);
  Random random(25);
  for (DType dtype : kDTypes) {
    for (int64_t w : {3, 8, 9, 16, 17, 33}) {
      Gradients unread(backward_of(make_problem(dtype, 1, 2, 2 * w, 2 * w, 3, 1, 2, 0, 1, 1)), &random);
      unread.x.set(0, 1, 1, 1, NAN);
      unread.x.set(0, 1, 2 * w - 1, 2 * w - 1, NAN);
      unread.run({features, Fusion::kAuto, 2});
      for (int64_t i = 0; i < 6; ++i) CHECK(std::isfinite(to_float(unread.grad_filter.buffer.data(), i, dtype)));

      Gradients one(backward_of(make_problem(dtype, 1, 2, w, w, 3, 3, 1, 1, 1, 1)), &random);
      one.grad_y.set(0, 1, 0, w - 1, NAN);
      one.run({features, Fusion::kAuto, 2});
      for (int64_t co = 0; co < 3; ++co) CHECK_EQ(std::isnan(one.grad_bias.get(co, 0, 0, 0)), co == 1);
      for (int64_t h = 0; h < w; ++h) {
        for (int64_t column = 0; column < w; ++column) {
          CHECK_EQ(std::isnan(one.grad_x.get(0, 0, h, column)), h <= 1 && column >= w - 2);
        }
      }
    }
  }
}

void deterministic(const char* isa) {
  const uint32_t features = require_ceiling(isa);
  for (DType dtype : kDTypes) {
    for (int64_t stride : {1, 2}) {
      std::vector<char> expected;
      for (int64_t threads : {1, 2, 5}) {
        Random random(26);
        Gradients g(backward_of(make_problem(dtype, 3, 20, 30, 33, 34, 3, stride, 1, 1, 1)), &random);
        g.run({features, Fusion::kAuto, threads});
        std::vector<char> got;
        for (Tensor* tensor : {&g.grad_x, &g.grad_filter, &g.grad_bias}) {
          got.insert(got.end(), tensor->buffer.data(), tensor->buffer.data() + tensor->buffer.size());
        }
        if (expected.empty()) expected = got;
        CHECK(got == expected);
      }
    }
  }
}

// The sum over many pixels: much closer to float64 than a chain of float32 additions.
void long_sums(const char* isa) {
  const uint32_t features = require_ceiling(isa);
  Random random(27);
  Gradients g(backward_of(make_problem(DType::kFloat32, 4, 1, 200, 300, 2, 1, 1, 0, 1, 1)), &random);
  g.run({features, Fusion::kAuto, 2});
  const Gradients::Golden golden = g.golden();
  for (int64_t co = 0; co < 2; ++co) {
    float chain = 0;
    double magnitude = 0;
    for (int64_t n = 0; n < 4; ++n) {
      for (int64_t i = 0; i < 200 * 300; ++i) {
        const double y = g.y.get(n, co, i / 300, i % 300);
        const float dz = static_cast<float>(g.grad_y.get(n, co, i / 300, i % 300) * (1 - y * y));
        chain += dz;
        magnitude += std::fabs(dz);
      }
    }
    const double expected = golden.bias[static_cast<size_t>(co)];
    CHECK_NEAR(g.grad_bias.get(co, 0, 0, 0), expected, magnitude * 0x1p-26);
    CHECK_NEAR(g.grad_filter.get(co, 0, 0, 0), golden.filter[static_cast<size_t>(co)], magnitude * 0x1p-26);
    CHECK(std::fabs(g.grad_bias.get(co, 0, 0, 0) - expected) <= std::fabs(chain - expected));
  }
}

#define MSCT_VARIANT(name, features)                                             \
  TEST(geometries_##name) { geometries(#name); }                                 \
  TEST(random_problems_##name) { random_problems(#name); }                       \
  TEST(empty_##name) { empty(#name); }                                           \
  TEST(saturated_##name) { saturated(#name); }                                   \
  TEST(nan_stays_where_it_belongs_##name) { nan_stays_where_it_belongs(#name); } \
  TEST(deterministic_##name) { deterministic(#name); }                           \
  TEST(long_sums_##name) { long_sums(#name); }
#include "kernels/cpu/kernels.inc"
#undef MSCT_VARIANT

}  // namespace
}  // namespace msct_test
