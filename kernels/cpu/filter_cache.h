// Packed filters, kept from one call to the next: an opt-in for inference.
#ifndef MS_CONVTANH_KERNELS_CPU_FILTER_CACHE_H_
#define MS_CONVTANH_KERNELS_CPU_FILTER_CACHE_H_

#include <memory>
#include <mutex>
#include <vector>

#include "kernels/cpu/packed_filter.h"
#include "kernels/dispatch/plan.h"

namespace msct {

// A filter as it was packed. Never changes.
class KeptFilter;

// May be used from many threads at once. Keeps the last kMostFilters.
class FilterCache {
 public:
  static constexpr size_t kMostFilters = 64;

  // The packed filter of the plan. Packs, and allocates, unless there is one that was packed for such a plan from the
  // same bytes: those are compared each time, so it does not matter what lay at an address before, who wrote there, or
  // when.
  // Null for what is not kept: filters that K1 reads in place, those with gaps between their elements, or all while
  // memory is short.
  std::shared_ptr<const KeptFilter> find(const Plan& plan, const void* filter);

 private:
  std::mutex mutex_;  // held for look-ups; only tried, so that it cannot block a child of fork()
  std::vector<std::shared_ptr<const KeptFilter>> kept_;  // the last one used at the end
};

// Valid as long as the filter is kept.
PackedFilter packed_filter_of(const KeptFilter& filter);

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_CPU_FILTER_CACHE_H_
