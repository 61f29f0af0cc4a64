#include "kernels/cpu/filter_cache.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <new>

#include "kernels/cpu/layout.h"
#include "kernels/cpu/registry.h"
#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/trace.h"

namespace msct {

namespace {

// All that the packed form depends on, besides the filter's elements.
struct Form {
  explicit Form(const Plan& plan) : k1(plan.k1) {
    const ConvTanhProblem& p = plan.problem;
    const K1Scheme& s = plan.scheme;
    numbers = {static_cast<int64_t>(p.dtype),
               p.groups,
               p.co,
               p.ci,
               p.kh,
               p.kw,
               plan.tiling.co,
               plan.tiling.ci,
               s.halves,
               s.products,
               s.fold_h,
               s.fold_w,
               s.spread_w,
               s.depth,
               s.winograd};
  }
  bool operator==(const Form& other) const { return k1 == other.k1 && numbers == other.numbers; }

  const K1Variant* k1;
  std::array<int64_t, 15> numbers;
};

int64_t filter_bytes(const ConvTanhProblem& p) {
  return p.groups == 0 ? 0 : p.co * (p.ci / p.groups) * p.kh * p.kw * size_of(p.dtype);
}

bool is_dense(const Plan& plan) {
  const ConvTanhProblem& p = plan.problem;
  const int64_t sizes[] = {p.co / p.groups, p.ci / p.groups, p.kh, p.kw};
  int64_t stride = 1;
  for (int axis = 3; axis >= 0; --axis) {
    if (sizes[axis] > 1 && p.filter_strides[axis] != stride) return false;
    stride *= sizes[axis];
  }
  return p.groups == 1 || plan.filter_group_stride == stride;
}

bool is_equal(const char* one, const char* other, int64_t bytes, int64_t threads) {
  constexpr int64_t kPart = int64_t{1} << 16;  // well worth waking a thread for
  std::atomic<bool> equal{true};
  parallel_for(ceil_div(bytes, kPart), threads, [&](int64_t task, int64_t) {
    const TraceMark mark(TracePhase::kPack);
    const int64_t start = task * kPart;
    if (equal && std::memcmp(one + start, other + start, std::min(kPart, bytes - start)) != 0) equal = false;
  });
  return equal;
}

}  // namespace

class KeptFilter {
 public:
  KeptFilter(const Plan& plan, const void* filter)
      : form_(plan),
        address_(filter),
        source_(static_cast<const char*>(filter), static_cast<const char*>(filter) + filter_bytes(plan.problem)) {
    const Layout layout = make_layout(plan);
    const FilterPacking packing(plan, layout);
    memory_ = std::make_unique<char[]>(packing.elements() * sizeof(float) + kAlignment);
    // From the copy: then the two belong together even if someone writes to the filter now.
    packed_ = packing.pack(source_.data(), reinterpret_cast<float*>(aligned(memory_.get())));
  }

  // Whether it was made for such a plan and filter. Filters of one shape are told apart by their addresses; whether it
  // still is the same filter, is_current says.
  bool belongs_to(const Form& form, const void* filter) const { return address_ == filter && form_ == form; }
  bool is_current(const void* filter, int64_t threads) const {
    return is_equal(source_.data(), static_cast<const char*>(filter), static_cast<int64_t>(source_.size()), threads);
  }

  const PackedFilter& packed() const { return packed_; }

 private:
  const Form form_;
  const void* const address_;
  const std::vector<char> source_;
  std::unique_ptr<char[]> memory_;
  PackedFilter packed_;
};

PackedFilter packed_filter_of(const KeptFilter& filter) { return filter.packed(); }

std::shared_ptr<const KeptFilter> FilterCache::find(const Plan& plan, const void* filter) try {
  if (plan.filter_in_place || filter_bytes(plan.problem) == 0 || !is_dense(plan)) return nullptr;
  const Form form(plan);
  const auto belongs = [&](const std::shared_ptr<const KeptFilter>& kept) { return kept->belongs_to(form, filter); };
  std::shared_ptr<const KeptFilter> found;
  {
    const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
    if (!lock) return nullptr;
    const auto place = std::find_if(kept_.begin(), kept_.end(), belongs);
    if (place != kept_.end()) {
      found = *place;
      std::rotate(place, place + 1, kept_.end());
    }
  }
  if (found != nullptr && found->is_current(filter, plan.threads)) return found;
  found = std::make_shared<const KeptFilter>(plan, filter);
  const std::unique_lock<std::mutex> lock(mutex_, std::try_to_lock);
  if (!lock) return found;
  kept_.erase(std::remove_if(kept_.begin(), kept_.end(), belongs), kept_.end());
  if (kept_.size() == kMostFilters) kept_.erase(kept_.begin());
  kept_.push_back(found);
  return found;
} catch (const std::bad_alloc&) {
  return nullptr;
}

}  // namespace msct
