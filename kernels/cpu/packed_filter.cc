#include "kernels/cpu/packed_filter.h"

#include <atomic>

#include "kernels/cpu/thread_pool.h"
#include "kernels/cpu/trace.h"

namespace msct {

namespace {

void keep_largest(uint32_t value, std::atomic<uint32_t>* largest) {
  uint32_t before = largest->load(std::memory_order_relaxed);
  while (before < value && !largest->compare_exchange_weak(before, value, std::memory_order_relaxed)) {
  }
}

}  // namespace

PackedFilter FilterPacking::pack(const void* filter, float* packed) const {
  std::atomic<uint32_t> largest{0};
  parallel_for(plan_.problem.groups * steps() * layout_.co_blocks, plan_.threads,
               [&](int64_t task, int64_t) { keep_largest(pack_part(filter, task, packed), &largest); });
  return {packed, largest};
}

uint32_t FilterPacking::pack_part(const void* filter, int64_t task, float* packed) const {
  const TraceMark mark(TracePhase::kPack);
  const ConvTanhProblem& p = plan_.problem;
  const int64_t co = task % layout_.co_blocks * plan_.tiling.co;
  const int64_t ci = task / layout_.co_blocks % steps() * plan_.tiling.ci;
  const int64_t group = task / layout_.co_blocks / steps();
  K1Filter part;
  part.source = static_cast<const char*>(filter) + source_offset(group, ci, co) * size_of(p.dtype);
  part.dtype = p.dtype;
  std::copy(p.filter_strides, p.filter_strides + 4, part.strides);
  part.m = std::min(plan_.tiling.co, layout_.co_group - co);
  part.ci = std::min(plan_.tiling.ci, layout_.ci_group - ci);
  part.kh = p.kh;
  part.kw = p.kw;
  part.scheme = plan_.scheme;
  const K1Kernel& k1 = plan_.k1->kernel;
  float* to = packed + offset(group, ci, co);
  if (plan_.scheme.winograd) return k1.winograd->pack_filter(part, layout_.filter_position, to);
  k1.pack_filter(part, to);
  return 0;
}

}  // namespace msct
