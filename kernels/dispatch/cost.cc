#include "kernels/dispatch/cost.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <numeric>

#include "kernels/cpu/layout.h"
#include "kernels/cpu/registry.h"
#include "kernels/dispatch/features.h"

namespace msct {

namespace {

// Elements of a packed filter panel, for each output channel, in a K step: a panel fits L1 beside the pixels. Panels of
// matrix kernels are four times as high.
constexpr int64_t kStepElements = 512;
constexpr int64_t kMatrixStepElements = 288;
// With few output channels there is one panel or two, and a shorter step costs little. It leaves room for more rows in
// a block, of which fewer are then packed twice.
constexpr int64_t kFewOutputs = 8;
constexpr int64_t kShortStepElements = 192;
constexpr int64_t kWinogradStepChannels = 64;

// Rates of one core. Only their ratios matter for the choice.
struct Rates {
  const char* k1;
  double multiplies;  // K1's multiply-adds per nanosecond, padding of register tiles included
  double check_element;  // ns for an element of float32 x whose range is checked
  double pack_element;  // ns for a packed element of x
  double pack_weight;  // ns for a packed element of the filter
  double c_element;  // ns to load and store an element of c in each K step
  double transform_element;  // ns for an element of Winograd's transformed x, or of its products
};
constexpr Rates kRates[] = {
    // An estimate, from the measured peak of two cores of a Xeon with AMX (5.8 TFLOP/s in bfloat16): half of it.
    {"amx", 725, 0.25, 0.25, 0.5, 0.1, 0},
    // An estimate, from the measured peak of the same cores (410 GFLOP/s in float32): three quarters of it.
    {"avx512", 77, 0, 0.1, 1.0, 0.1, 0.05},
    // Measured on an AMD EPYC (Zen 3, 2.45 GHz).
    {"avx2", 39, 0, 0.2, 1.0, 0.2, 0.1},
    // Estimated from AVX2: half the lanes, and multiplications and additions apart.
    {"portable", 10, 0, 0.8, 2.0, 0.4, 0.3},
};

const Rates& rates_of(const char* k1) {
  for (const Rates& rates : kRates) {
    if (std::strcmp(rates.k1, k1) == 0) return rates;
  }
  return *(std::end(kRates) - 1);  // what has no rates of its own is preferred to nothing
}

struct Folding {
  int64_t fold_h, fold_w, spread_w;
};

K1Scheme make_scheme(const ConvTanhProblem& p, const K1Kernel& kernel, int64_t products, const Folding& f) {
  K1Scheme scheme = {kernel.halves, products, f.fold_h, f.fold_w, f.spread_w, 1};
  // Entries of equal depth, so that few planes are there for padding alone.
  const int64_t planes = std::max<int64_t>(1, products * scheme.product_planes(step_channels(p, scheme)));
  scheme.depth = ceil_div(planes, ceil_div(planes, kernel.depth));
  return scheme;
}

constexpr int64_t kAllowFp32DownPrecision = 1, kUseHf32 = 3;  // of cubeMathType

// Input channels from which on an entry is full without folded taps, and output channels up to which taps may take the
// place of missing ones.
constexpr int64_t kFullEntry = 32;
constexpr int64_t kFewChannels = 16;

std::vector<K1Scheme> schemes(const Plan& plan, const K1Kernel& kernel) {
  const ConvTanhProblem& p = plan.problem;
  if (kernel.halves == 1) {
    std::vector<K1Scheme> result = {kVectorScheme};
    const bool fits = p.kh == 3 && p.kw == 3 && p.stride_h == 1 && p.stride_w == 1 && p.dilation_h == 1 &&
                      p.dilation_w == 1 && !plan.gated;
    if (kernel.winograd && fits) result.push_back(kWinogradScheme);
    return result;
  }
  // What K1 packs for gradX is a product of float32 values, which bfloat16 does not hold.
  if (plan.gated) return {};
  // float32 values are checked image by image (range_check.h): what a pixel gets would depend on those beside it.
  if (p.dtype == DType::kFloat32 && plan.images_are_pixels) return {};
  const bool may_lose = p.cube_math_type == kAllowFp32DownPrecision || p.cube_math_type == kUseHf32;
  const int64_t products = p.dtype == DType::kBFloat16 ? 1 : p.dtype == DType::kFloat16 || may_lose ? 3 : 6;

  std::vector<Folding> foldings = {{1, 1, 1}};
  const bool may_fold = p.ci / p.groups < kFullEntry;
  const bool may_spread = p.co / p.groups <= kFewChannels && p.stride_w == 1 && p.kw > 1 && p.kw <= kFewChannels;
  if (may_fold && p.kw > 1) foldings.push_back({1, p.kw, 1});
  if (may_fold && p.kh > 1) foldings.push_back({p.kh, p.kw, 1});
  if (may_spread) foldings.push_back({1, 1, p.kw});
  if (may_spread && may_fold && p.kh > 1) foldings.push_back({p.kh, 1, p.kw});
  std::vector<K1Scheme> result;
  for (const Folding& folding : foldings) result.push_back(make_scheme(p, kernel, products, folding));
  return result;
}

// Up to here, packing a weight takes longer than what it saves. Measured with 1x1 and 3x3 filters.
constexpr int64_t kFewPixels = 512;

// Whether the terms of an output channel, (ci, kh, kw), are neighbours in memory.
bool is_run_of_terms(const ConvTanhProblem& p) {
  if (p.dtype != DType::kFloat32 || p.filter_strides[0] <= 0) return false;
  const int64_t sizes[] = {p.ci / p.groups, p.kh, p.kw};
  int64_t step = 1;
  for (int axis = 2; axis >= 0; --axis) {
    if (sizes[axis] > 1 && p.filter_strides[axis + 1] != step) return false;
    step *= sizes[axis];
  }
  return true;
}

// What a row of pixels that are images counts for.
constexpr int64_t kBatch = 16;

constexpr double kMargin = 1.05;  // what tiles have to win by, since the estimate is not exact
constexpr double kShortSums = 1.2;  // what GEMMs with K = input channels take longer than those with all taps

double winograd_cost(const ConvTanhProblem& p, const K1Kernel& kernel, const Rates& rates) {
  const int64_t ci_group = p.ci / p.groups;
  const int64_t steps = std::max<int64_t>(1, ceil_div(ci_group, step_channels(p, kWinogradScheme)));
  const int64_t tiles = round_up(ceil_div(p.ho, 2) * ceil_div(p.wo, 2), kernel.lanes);
  const auto elements = [&](int64_t channels) { return static_cast<double>(kWinogradPositions * channels * tiles); };
  const double multiplies = elements(p.co) * static_cast<double>(ci_group) / rates.multiplies * kShortSums;
  // Inputs come from far, products from cache.
  const double transforms = (2 * elements(p.ci) + elements(p.co)) * rates.transform_element;
  const double c = elements(p.co) * static_cast<double>(steps) * rates.c_element;
  // Neighbouring tiles share half of their inputs in one direction.
  const double packed = elements(p.ci) / 2 * rates.pack_element;
  const double weights = static_cast<double>(kWinogradPositions * p.co * ci_group) * rates.pack_weight;
  return kMargin * (multiplies + transforms + c + packed + weights);
}

double cost(const ConvTanhProblem& p, const K1Variant& variant, const K1Scheme& scheme) {
  const K1Kernel& kernel = variant.kernel;
  const Rates& rates = rates_of(variant.name);
  if (scheme.winograd) return winograd_cost(p, kernel, rates);
  const auto real = [](int64_t n) { return static_cast<double>(n); };
  const int64_t ci_group = p.ci / p.groups;
  const int64_t step = step_channels(p, scheme);
  const double steps = real(std::max<int64_t>(1, ceil_div(ci_group, step)));
  const double entries = real(ceil_div(ci_group, step) * scheme.blocks(step)) * real(scheme.tap_rows(p.kh)) *
                         real(scheme.tap_columns(p.kw));
  const double channels = real(round_up(p.co / p.groups * scheme.spread_w, kernel.height)) * real(p.groups);
  const int64_t columns = p.wo + (scheme.spread_w - 1) * p.dilation_w;
  const double pixels = real(p.ho) * real(round_up(columns, kernel.lanes));
  const double rows_in_entry = real(kernel.depth * kernel.halves);
  const double multiplies = channels * pixels * entries * rows_in_entry / rates.multiplies;
  const double partial = scheme.spread_w > 1 ? real(p.co * scheme.spread_w) * pixels : 0;
  const double c = (channels * pixels * steps + partial) * rates.c_element;
  // Packed pixels: at least those of the output, and those of the input that unfolded taps share.
  const double shared_h = real(std::min(scheme.tap_rows(p.kh), p.stride_h));
  const double shared_w = real(std::min(scheme.tap_columns(p.kw), p.stride_w));
  const double planes = real(ceil_div(ci_group, step) * scheme.planes(step)) * real(p.groups);
  const double packed = planes * shared_h * shared_w * pixels * rates.pack_element;
  ConvTanhProblem one = p;
  one.n = 1;
  const double weights =
      reads_filter_in_place(one, scheme) ? 0 : channels * entries * real(kernel.depth) * rates.pack_weight;
  const double checked = p.dtype == DType::kFloat32 && kernel.add_to_range
                             ? real(p.ci) * real(p.hi) * real(p.wi) * rates.check_element
                             : 0;
  return multiplies + c + checked + packed + weights;
}

}  // namespace

bool reads_filter_in_place(const ConvTanhProblem& p, const K1Scheme& scheme) {
  return scheme.halves == 1 && !scheme.winograd && is_run_of_terms(p) && p.n * p.ho * p.wo <= kFewPixels;
}

int64_t step_channels(const ConvTanhProblem& p, const K1Scheme& scheme) {
  const int64_t ci_group = p.ci / p.groups;
  const int64_t taps = p.kh * p.kw / scheme.spread_w;
  if (scheme.winograd) return even_part(ci_group, kWinogradStepChannels);
  if (scheme.halves == 1) {
    const bool few = p.co / p.groups <= kFewOutputs;
    return even_part(ci_group, (few ? kShortStepElements : kStepElements) / taps);
  }
  const int64_t channels = even_part(ci_group, kMatrixStepElements * scheme.halves / scheme.products / taps);
  if (channels >= ci_group) return channels;
  // Whole entries: a multiple of 32 rows of K over all products.
  return std::min(ci_group, round_up(channels, kFullEntry / std::gcd(kFullEntry, scheme.products)));
}

std::vector<K1Candidate> k1_candidates(const DispatchOptions& options, const Plan& plan) {
  std::vector<K1Candidate> candidates;
  ConvTanhProblem image = plan.problem;
  if (plan.images_are_pixels) image.wi = image.wo = kBatch;
  const auto collect = [&](const char* name) {
    for (const K1Variant& variant : k1_variants()) {
      if ((variant.features & ~options.features) != 0 || (name && std::strcmp(name, variant.name) != 0)) continue;
      for (const K1Scheme& scheme : schemes(plan, variant.kernel)) {
        if (options.plain && (scheme.halves > 1 || scheme.winograd)) continue;
        // Matrix units are faster than any saving of products.
        if (scheme.winograd && !name && (options.features & kFeatureAmxBf16) != 0) continue;
        candidates.push_back({&variant, scheme, cost(image, variant, scheme)});
      }
    }
  };
  if (options.k1) collect(options.k1);
  if (candidates.empty()) collect(nullptr);
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const K1Candidate& a, const K1Candidate& b) { return a.nanoseconds < b.nanoseconds; });
  return candidates;
}

K1Candidate choose_k1(const DispatchOptions& options, const Plan& plan) {
  const std::vector<K1Candidate> candidates = k1_candidates(options, plan);
  return candidates[static_cast<size_t>(
      std::min<int64_t>(options.k1_candidate, static_cast<int64_t>(candidates.size()) - 1))];
}

}  // namespace msct
