// What the tests of the kernels share: variants, guarded buffers, random problems and their float64 reference.
#ifndef MS_CONVTANH_TESTS_NATIVE_KERNEL_TEST_UTIL_H_
#define MS_CONVTANH_TESTS_NATIVE_KERNEL_TEST_UTIL_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/execute.h"
#include "kernels/cpu/registry.h"
#include "kernels/dispatch/features.h"
#include "tests/native/test.h"

namespace msct_test {

using namespace msct;

// What can run in this program: a build with tiles in software has AMX everywhere, and tests it alone.
#ifdef MSCT_SOFTWARE_TILES
constexpr uint32_t kSoftwareFeatures = kFeatureAmxBf16;
#else
constexpr uint32_t kSoftwareFeatures = 0;
#endif
inline uint32_t runnable_features() { return detected_features() | kSoftwareFeatures; }

inline bool is_tested_elsewhere(uint32_t features) { return kSoftwareFeatures != 0 && features != kSoftwareFeatures; }

// The variant of that name; skips the test if this CPU can't run it.
template <typename Variant>
const Variant& require(VariantList<Variant> variants, const char* name) {
  for (const Variant& variant : variants) {
    if (std::string(name) != variant.name) continue;
    if (is_tested_elsewhere(variant.features)) SKIP("this program tests tiles in software");
    if ((variant.features & ~runnable_features()) != 0) SKIP("this CPU lacks the features of " + std::string(name));
    return variant;
  }
  SKIP("the compiler could not build " + std::string(name));
}

inline uint32_t require_ceiling(const char* name) {
  require(k1_variants(), name);
  uint32_t mask = 0;
  CHECK(ceiling_mask(name, &mask));
  return mask & runnable_features();
}

// Options under which a variant computes whatever it can.
inline DispatchOptions require_options(const char* name) { return {require_ceiling(name), Fusion::kAuto, 2, name}; }

// n elements with guard bytes on both sides, `misalign` bytes off a 64-byte boundary.
template <typename T>
class Guarded {
 public:
  explicit Guarded(int64_t n, int64_t misalign = 0) : n_(n), bytes_(static_cast<size_t>(n) * sizeof(T)) {
    storage_.assign(bytes_ + 2 * kGuard + 64 + static_cast<size_t>(misalign), kByte);
    const uintptr_t start = reinterpret_cast<uintptr_t>(storage_.data()) + kGuard;
    data_ = reinterpret_cast<T*>((start + 63) / 64 * 64 + static_cast<uintptr_t>(misalign));
  }
  T* data() { return data_; }
  T& operator[](int64_t i) { return data_[i]; }
  int64_t size() const { return n_; }
  bool intact() const {
    const char* begin = reinterpret_cast<const char*>(data_);
    return std::all_of(storage_.data(), begin, is_guard) &&
           std::all_of(begin + bytes_, storage_.data() + storage_.size(), is_guard);
  }

 private:
  static constexpr size_t kGuard = 128;
  static constexpr char kByte = '\xA5';
  static bool is_guard(char c) { return c == kByte; }
  int64_t n_;
  size_t bytes_;
  std::vector<char> storage_;
  T* data_;
};

class Random {
 public:
  explicit Random(uint32_t seed) : engine_(seed) {}
  int64_t integer(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine_); }
  float real(float low, float high) { return std::uniform_real_distribution<float>(low, high)(engine_); }
  template <typename T>
  T pick(std::initializer_list<T> values) {
    return values.begin()[integer(0, static_cast<int64_t>(values.size()) - 1)];
  }

 private:
  std::mt19937 engine_;
};

inline float to_float(const void* data, int64_t index, DType dtype) {
  if (dtype == DType::kFloat32) return static_cast<const float*>(data)[index];
  const uint16_t bits = static_cast<const uint16_t*>(data)[index];
  return dtype == DType::kFloat16 ? float_from_f16(bits) : float_from_bf16(bits);
}

inline uint16_t narrowed(float value, DType dtype) {
  return dtype == DType::kFloat16 ? f16_from_float(value) : bf16_from_float(value);
}

inline void from_float(void* data, int64_t index, DType dtype, float value) {
  if (dtype == DType::kFloat32) {
    static_cast<float*>(data)[index] = value;
  } else {
    static_cast<uint16_t*>(data)[index] = narrowed(value, dtype);
  }
}

inline const char* name_of(DType dtype) {
  return dtype == DType::kFloat32 ? "float32" : dtype == DType::kFloat16 ? "float16" : "bfloat16";
}

inline int64_t output_size(int64_t size, int64_t before, int64_t after, int64_t kernel, int64_t stride,
                           int64_t dilation) {
  return (size + before + after - dilation * (kernel - 1) - 1) / stride + 1;
}

inline void set_contiguous(ConvTanhProblem* p) {
  const auto fill = [](int64_t* strides, int64_t c, int64_t h, int64_t w) {
    strides[3] = 1;
    strides[2] = w;
    strides[1] = h * w;
    strides[0] = c * h * w;
  };
  fill(p->x_strides, p->ci, p->hi, p->wi);
  fill(p->filter_strides, p->ci / p->groups, p->kh, p->kw);
  fill(p->y_strides, p->co, p->ho, p->wo);
  p->bias_stride = 1;
}

// A problem with contiguous tensors: square kernel, stride, pad and dilation.
inline ConvTanhProblem make_problem(DType dtype, int64_t n, int64_t ci, int64_t hi, int64_t wi, int64_t co, int64_t k,
                                    int64_t stride, int64_t pad, int64_t dilation, int64_t groups) {
  ConvTanhProblem p = {};
  p.dtype = dtype;
  p.n = n;
  p.ci = ci;
  p.hi = hi;
  p.wi = wi;
  p.co = co;
  p.kh = p.kw = k;
  p.stride_h = p.stride_w = stride;
  p.pad_top = p.pad_bottom = p.pad_left = p.pad_right = pad;
  p.dilation_h = p.dilation_w = dilation;
  p.groups = groups;
  p.has_bias = 1;
  p.ho = output_size(hi, pad, pad, k, stride, dilation);
  p.wo = output_size(wi, pad, pad, k, stride, dilation);
  set_contiguous(&p);
  return p;
}

// Tensors of a problem in guarded buffers, filled at random, and the plain formula in float64.
struct Tensors {
  Tensors(const ConvTanhProblem& problem, Random* random, int64_t misalign = 0)
      : p(problem),
        x(extent({p.n, p.ci, p.hi, p.wi}, p.x_strides) * size_of(p.dtype), misalign),
        filter(extent({p.co, p.ci / p.groups, p.kh, p.kw}, p.filter_strides) * size_of(p.dtype), misalign),
        bias((p.co > 0 ? (p.co - 1) * p.bias_stride + 1 : 0) * size_of(p.dtype), misalign),
        y(extent({p.n, p.co, p.ho, p.wo}, p.y_strides) * size_of(p.dtype), misalign) {
    fill(&x, random, 1.0f);
    // Sums of about one, where tanh is neither a line nor a constant.
    const float terms = static_cast<float>(p.ci / p.groups * p.kh * p.kw);
    fill(&filter, random, 2.0f / std::sqrt(std::max(terms, 1.0f)));
    fill(&bias, random, 0.5f);
  }

  float x_at(int64_t n, int64_t c, int64_t h, int64_t w) { return at(&x, p.x_strides, n, c, h, w); }
  float y_at(int64_t n, int64_t c, int64_t h, int64_t w) { return at(&y, p.y_strides, n, c, h, w); }
  bool intact() const { return x.intact() && filter.intact() && bias.intact() && y.intact(); }

  // The sum before tanh, in float64. Padding is zeros that take part: Inf * 0 is NaN.
  double golden_sum(int64_t n, int64_t co, int64_t oy, int64_t ox) {
    const int64_t ci_group = p.ci / p.groups;
    const int64_t first = co / (p.co / p.groups) * ci_group;
    double sum = p.has_bias ? to_float(bias.data(), co * p.bias_stride, p.dtype) : 0.0;
    for (int64_t ci = 0; ci < ci_group; ++ci) {
      for (int64_t kh = 0; kh < p.kh; ++kh) {
        for (int64_t kw = 0; kw < p.kw; ++kw) {
          const int64_t h = oy * p.stride_h + kh * p.dilation_h - p.pad_top;
          const int64_t w = ox * p.stride_w + kw * p.dilation_w - p.pad_left;
          const bool inside = h >= 0 && h < p.hi && w >= 0 && w < p.wi;
          sum += (inside ? static_cast<double>(x_at(n, first + ci, h, w)) : 0.0) *
                 at(&filter, p.filter_strides, co, ci, kh, kw);
        }
      }
    }
    return sum;
  }

  ConvTanhTensors addresses() { return {x.data(), filter.data(), p.has_bias ? bias.data() : nullptr, y.data()}; }

  // What an output may be off by: rounding of the sum (k terms of about 2/sqrt(k)), tanh's 4 ULP, the last rounding.
  double tolerance() const {
    const double terms = static_cast<double>(p.ci / p.groups * p.kh * p.kw) + 1;
    const double last = p.dtype == DType::kFloat32 ? 0 : p.dtype == DType::kFloat16 ? 0x1p-11 : 0x1p-8;
    return 0x1p-24 * (2 * terms * 2 / std::sqrt(terms) + 8) + last;
  }

  // Checks all outputs, or a sample of a large one.
  void check(const std::string& what) {
    const double allowed = tolerance();
    const int64_t total = p.n * p.co * p.ho * p.wo;
    const int64_t step = std::max<int64_t>(1, total * (p.ci / p.groups * p.kh * p.kw) / 4000000);
    double worst = 0;
    std::string where;
    for (int64_t i = 0; i < total; i += step) {
      const int64_t ox = i % p.wo, oy = i / p.wo % p.ho, co = i / p.wo / p.ho % p.co, n = i / p.wo / p.ho / p.co;
      const double expected = std::tanh(golden_sum(n, co, oy, ox));
      const double got = y_at(n, co, oy, ox);
      const bool same = std::isnan(expected) ? std::isnan(got) : std::fabs(got - expected) <= allowed;
      if (!same && where.empty()) {
        where = " first at [" + std::to_string(n) + ", " + std::to_string(co) + ", " + std::to_string(oy) + ", " +
                std::to_string(ox) + "]: got " + std::to_string(got) + ", expected " + std::to_string(expected);
      }
      if (std::isfinite(expected)) worst = std::max(worst, std::fabs(got - expected));
    }
    if (!where.empty()) fail(__FILE__, __LINE__, what + where + ", worst error " + std::to_string(worst));
    if (!intact()) fail(__FILE__, __LINE__, what + ": wrote outside a tensor");
  }

  ConvTanhProblem p;
  Guarded<char> x, filter, bias, y;

 private:
  static int64_t extent(std::initializer_list<int64_t> shape, const int64_t* strides) {
    int64_t last = 0;
    for (int64_t size : shape) {
      if (size == 0) return 0;
      last += (size - 1) * *strides++;
    }
    return last + 1;
  }
  void fill(Guarded<char>* buffer, Random* random, float range) {
    for (int64_t i = 0; i < buffer->size() / size_of(p.dtype); ++i) {
      from_float(buffer->data(), i, p.dtype, random->real(-range, range));
    }
  }
  float at(Guarded<char>* buffer, const int64_t* s, int64_t a, int64_t b, int64_t c, int64_t d) {
    return to_float(buffer->data(), a * s[0] + b * s[1] + c * s[2] + d * s[3], p.dtype);
  }
};

// Plans and runs, with a workspace of exactly the size that the plan asks for.
inline Plan run(const DispatchOptions& options, Tensors* tensors, int64_t workspace_misalign = 0) {
  const Plan plan = make_plan(options, tensors->p);
  Guarded<char> workspace(plan.workspace_bytes, workspace_misalign);
  execute(plan, tensors->addresses(), workspace.data());
  CHECK(workspace.intact());
  return plan;
}

inline std::string describe(const ConvTanhProblem& p) {
  std::ostringstream text;
  text << name_of(p.dtype) << " x [" << p.n << ", " << p.ci << ", " << p.hi << ", " << p.wi << "] filter [" << p.co
       << ", " << p.ci / p.groups << ", " << p.kh << ", " << p.kw << "] strides [" << p.stride_h << ", " << p.stride_w
       << "] pads [" << p.pad_top << ", " << p.pad_bottom << ", " << p.pad_left << ", " << p.pad_right
       << "] dilations [" << p.dilation_h << ", " << p.dilation_w << "] groups " << p.groups << " bias " << p.has_bias;
  return text.str();
}

// A small problem of any kind: odd sizes, all pads apart, spread or repeated tensors.
inline ConvTanhProblem random_problem(Random* random) {
  ConvTanhProblem p = {};
  do {
    p.dtype = random->pick({DType::kFloat32, DType::kFloat16, DType::kBFloat16});
    p.n = random->integer(1, 3);
    p.groups = random->pick<int64_t>({1, 1, 1, 2, 3, 8});
    p.ci = p.groups * random->pick<int64_t>({1, 1, 2, 3, 5, 16, 33});
    p.co = p.groups * random->pick<int64_t>({1, 2, 3, 4, 5, 7, 8, 9, 17});
    p.hi = random->integer(1, 20);
    p.wi = random->pick<int64_t>({1, 2, 5, 7, 8, 9, 15, 16, 17, 24, 25, 33, 50});
    p.kh = random->integer(1, 5);
    p.kw = random->integer(1, 5);
    p.stride_h = random->integer(1, 4);
    p.stride_w = random->integer(1, 4);
    p.dilation_h = random->integer(1, 4);
    p.dilation_w = random->integer(1, 4);
    p.pad_top = random->integer(0, 4);
    p.pad_bottom = random->integer(0, 4);
    p.pad_left = random->integer(0, 4);
    p.pad_right = random->integer(0, 4);
  } while (p.hi + p.pad_top + p.pad_bottom < p.dilation_h * (p.kh - 1) + 1 ||
           p.wi + p.pad_left + p.pad_right < p.dilation_w * (p.kw - 1) + 1);
  p.has_bias = random->integer(0, 1);
  p.ho = output_size(p.hi, p.pad_top, p.pad_bottom, p.kh, p.stride_h, p.dilation_h);
  p.wo = output_size(p.wi, p.pad_left, p.pad_right, p.kw, p.stride_w, p.dilation_w);
  set_contiguous(&p);
  const auto spread = [&](int64_t* strides, int64_t c, int64_t h, int64_t w) {
    strides[3] = random->integer(1, 3);
    strides[2] = w * strides[3] + random->integer(0, 9);
    strides[1] = h * strides[2] + random->integer(0, 9);
    strides[0] = c * strides[1] + random->integer(0, 9);
  };
  const int64_t layout = random->integer(0, 3);
  if (layout == 1) {
    spread(p.x_strides, p.ci, p.hi, p.wi);
    spread(p.filter_strides, p.ci / p.groups, p.kh, p.kw);
    spread(p.y_strides, p.co, p.ho, p.wo);
    p.bias_stride = random->integer(1, 3);
  } else if (layout == 2) {  // NHWC in memory
    const auto last = [](int64_t* strides, int64_t c, int64_t h, int64_t w) {
      strides[1] = 1;
      strides[3] = c;
      strides[2] = w * c;
      strides[0] = h * w * c;
    };
    last(p.x_strides, p.ci, p.hi, p.wi);
    last(p.filter_strides, p.ci / p.groups, p.kh, p.kw);
    last(p.y_strides, p.co, p.ho, p.wo);
  } else if (layout == 3) {  // inputs repeat
    p.x_strides[random->integer(0, 3)] = 0;
    p.filter_strides[random->integer(0, 3)] = 0;
    p.bias_stride = 0;
  }
  return p;
}

// Strides, place and phases of a part of x whose ci, hi and wi are set.
inline void place_randomly(K1Input* in, Random* random) {
  const int64_t step = random->pick<int64_t>({1, 1, 2, 3, 0});
  in->strides[2] = step;
  in->strides[1] = in->wi * step + random->integer(0, 2);
  in->strides[0] = in->hi * in->strides[1] + random->integer(0, 2);
  in->top = random->integer(-12, 12);
  in->left = random->integer(-50, 50);
  const auto axis = [&] {
    const int64_t stride = random->integer(1, 3);
    const bool shared = random->integer(0, 1) == 1;
    return K1Axis{stride, random->integer(1, 3), shared ? stride : INT64_MAX, random->integer(1, 3)};
  };
  in->h = axis();
  in->w = axis();
  in->rows = random->integer(1, 4);
}

// Elements from the first to the last one of its source.
inline int64_t source_extent(const K1Input& in) {
  return (in.ci - 1) * in.strides[0] + (in.hi - 1) * in.strides[1] + (in.wi - 1) * in.strides[2] + 1;
}

}  // namespace msct_test

#endif  // MS_CONVTANH_TESTS_NATIVE_KERNEL_TEST_UTIL_H_
