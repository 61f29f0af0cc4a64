#include "kernels/cpu/range_check.h"

#include <algorithm>

#include "kernels/cpu/registry.h"
#include "kernels/cpu/thread_pool.h"

namespace msct {

namespace {

// The exponents of a range; whatever never matters if it is empty.
struct Exponents {
  explicit Exponents(const K1Range& range)
      : smallest(range.below_smallest >= kInfinity ? kNone : exponent(range.below_smallest + 1)),
        largest(range.largest == 0 ? -kNone : exponent(range.largest)) {}

  int64_t smallest, largest;

 private:
  static constexpr uint32_t kInfinity = 0x7F800000u;
  static constexpr int64_t kNone = 0;
  static int64_t exponent(uint32_t magnitude) { return static_cast<int64_t>(magnitude >> 23) - 127; }
};

bool is_in_range(const Exponents& v) { return v.smallest >= -102 && v.largest <= 126; }

int64_t log2_rounded_up(int64_t n) {
  int64_t result = 0;
  while (int64_t{1} << result < n) ++result;
  return result;
}

bool are_in_range(const Exponents& x, const Exponents& filter, int64_t terms) {
  const int64_t log_terms = log2_rounded_up(terms);
  return is_in_range(x) && is_in_range(filter) && x.smallest + filter.smallest >= -70 &&
         x.largest + filter.largest + log_terms < 124;
}

// [rows, columns] with their strides, in as few runs as they allow.
void add_plane(const K1Kernel& k1, const float* values, int64_t rows, int64_t columns, const int64_t* strides,
               K1Range* range) {
  if (columns == 1 || strides[0] == columns * strides[1]) {
    k1.add_to_range(values, columns == 1 ? strides[0] : strides[1], rows * columns, range);
    return;
  }
  for (int64_t row = 0; row < rows; ++row) k1.add_to_range(values + row * strides[0], strides[1], columns, range);
}

}  // namespace

bool winograd_is_accurate(uint32_t x, uint32_t filter, int64_t terms) {
  constexpr int64_t kLimit = 12, kLargest = 124, kSmallestTap = -100;
  const auto exponent = [](uint32_t bits) { return static_cast<int64_t>(bits >> 23) - 127; };
  const int64_t of_x = exponent(x), of_filter = exponent(filter);
  if (of_x > kLargest || of_filter > kLargest || (filter != 0 && of_filter < kSmallestTap)) return false;
  return of_x + of_filter + log2_rounded_up(terms) < kLimit;
}

int64_t range_check_bytes(const ConvTanhProblem& p) {
  return p.co * static_cast<int64_t>(sizeof(K1Range)) + p.n * p.ci + p.n;
}

const char* find_images_out_of_range(const Plan& plan, const ConvTanhTensors& tensors, void* memory) {
  const ConvTanhProblem& p = plan.problem;
  const K1Kernel& k1 = plan.k1->kernel;
  const int64_t ci_group = p.ci / p.groups;
  const int64_t co_group = p.co / p.groups;
  K1Range* ranges = static_cast<K1Range*>(memory);
  parallel_for(p.co, plan.threads, [&](int64_t co, int64_t) {
    const float* channel = static_cast<const float*>(tensors.filter) + co / co_group * plan.filter_group_stride +
                           co % co_group * p.filter_strides[0];
    ranges[co] = {};
    for (int64_t ci = 0; ci < ci_group; ++ci) {
      add_plane(k1, channel + ci * p.filter_strides[1], p.kh, p.kw, p.filter_strides + 2, &ranges[co]);
    }
  });
  K1Range all;
  for (int64_t co = 0; co < p.co; ++co) {
    all.below_smallest = std::min(all.below_smallest, ranges[co].below_smallest);
    all.largest = std::max(all.largest, ranges[co].largest);
  }
  const Exponents filter(all);
  K1Range bias;
  if (p.has_bias) k1.add_to_range(static_cast<const float*>(tensors.bias), p.bias_stride, p.co, &bias);
  const bool bias_is_in_range = is_in_range(Exponents(bias));

  // A flag for each channel, then for each image.
  char* channels = reinterpret_cast<char*>(ranges + p.co);
  char* images = channels + p.n * p.ci;
  parallel_for(p.n * p.ci, plan.threads, [&](int64_t task, int64_t) {
    const int64_t offset = task / p.ci * p.x_strides[0] + task % p.ci * p.x_strides[1];
    K1Range range;
    add_plane(k1, static_cast<const float*>(tensors.x) + offset, p.hi, p.wi, p.x_strides + 2, &range);
    const bool is_fine = bias_is_in_range && are_in_range(Exponents(range), filter, ci_group * p.kh * p.kw);
    channels[task] = is_fine ? 0 : 1;
  });
  for (int64_t n = 0; n < p.n; ++n) {
    const char* first = channels + n * p.ci;
    images[n] = std::find(first, first + p.ci, 1) == first + p.ci ? 0 : 1;
  }
  return images;
}

}  // namespace msct
