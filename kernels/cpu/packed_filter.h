// The filter in the form that K1 reads: K steps of each group, one behind the other, as pack_filter leaves them.
#ifndef MS_CONVTANH_KERNELS_CPU_PACKED_FILTER_H_
#define MS_CONVTANH_KERNELS_CPU_PACKED_FILTER_H_

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/layout.h"
#include "kernels/cpu/registry.h"
#include "kernels/dispatch/plan.h"

namespace msct {

struct PackedFilter {
  const float* data;
  uint32_t largest;  // Winograd's tiles: the largest magnitude of an element, as K1Winograd::pack_filter counts it
};

// For one plan that does not read the filter in place, which must outlive it. Channels ci are the first of a K step, co
// the first of a block, both counted within the group.
class FilterPacking {
 public:
  FilterPacking(const Plan& plan, const Layout& layout) : plan_(plan), layout_(layout) {}

  int64_t elements() const { return plan_.problem.groups * steps() * layout_.filter_step; }

  // Entries of the K step.
  int64_t entries(int64_t ci) const {
    return plan_.scheme.blocks(std::min(plan_.tiling.ci, layout_.ci_group - ci)) * layout_.taps;
  }

  // Of a part, in elements of the packed filter and of the filter itself.
  int64_t offset(int64_t group, int64_t ci, int64_t co) const {
    const int64_t step = group * steps() + ci / plan_.tiling.ci;
    const int64_t within = plan_.scheme.winograd ? co / plan_.tiling.co * kWinogradPositions * layout_.filter_position
                                                 : co * entries(ci) * plan_.k1->kernel.depth;
    return step * layout_.filter_step + within;
  }
  int64_t source_offset(int64_t group, int64_t ci, int64_t co) const {
    const int64_t* strides = plan_.problem.filter_strides;
    return group * plan_.filter_group_stride + co * strides[0] + ci * strides[1];
  }

  // On the plan's threads. packed: kAlignment-aligned.
  PackedFilter pack(const void* filter, float* packed) const;

 private:
  int64_t steps() const { return ceil_div(layout_.ci_group, plan_.tiling.ci); }
  uint32_t pack_part(const void* filter, int64_t task, float* packed) const;

  const Plan& plan_;
  const Layout& layout_;
};

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_CPU_PACKED_FILTER_H_
