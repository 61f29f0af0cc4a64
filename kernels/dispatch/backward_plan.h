// Dispatch of the backward operator: pure functions, like plan.h.
#ifndef MS_CONVTANH_KERNELS_DISPATCH_BACKWARD_PLAN_H_
#define MS_CONVTANH_KERNELS_DISPATCH_BACKWARD_PLAN_H_

#include <cstdint>
#include <vector>

#include "kernels/dispatch/plan.h"

namespace msct {

struct GradFilterVariant;

// gradX by ordinary convolutions. With stride s, input rows fall into s phases, each reached by a part of the taps
// only: the gradient of a phase is a convolution of stride 1 of dz, by these taps in reverse. The other phases are 0.
struct GradInputPhase {
  Plan plan;  // linear and gated
  int64_t filter_offset;  // elements, to the last tap that is used
  int64_t grad_x_offset;  // elements, to the phase's first pixel
};

// gradFilter (and gradBias) as sums over pixels. Blocks of pixels are dealt out to chunks, whose number depends on the
// problem alone: results do not depend on the number of threads.
struct GradFilterPlan {
  const GradFilterVariant* kernel;
  Plan forward;  // its tiling and layout: how x is packed, and what a task covers; its workspace is not used
  int64_t reads_in_place;  // 1: x as it lies, without packing
  int64_t chunks;
  int64_t threads;
  // Workspace, in bytes from its aligned start.
  int64_t offsets;  // int64 [tiling.ci * taps]
  int64_t sums;  // float64 [chunks, co, ci / groups, kh, kw]
  int64_t bias_sums;  // float64 [chunks, co]
  int64_t scratch;  // per thread: packed x unless read in place, then packed dz
  int64_t scratch_dz;
  int64_t scratch_stride;
  int64_t dz_row_stride;  // elements
  int64_t workspace_bytes;
};

struct BackwardPlan {
  BackwardProblem problem;
  std::vector<GradInputPhase> grad_x;
  int64_t clears_grad_x;  // 1: some pixels belong to no phase
  GradFilterPlan grad_filter;
  int64_t threads;
  int64_t workspace_bytes;  // 0 if there is nothing to compute, INT64_MAX if it cannot be executed
};

// An upper bound for the phases of gradX; 0 if gradX is not wanted, or has no elements or nothing to sum. A plan keeps
// all phases: problems with more than kMaxGradInputPhases are not to be planned.
int64_t grad_input_phases(const BackwardProblem& problem);
constexpr int64_t kMaxGradInputPhases = int64_t{1} << 18;

BackwardPlan make_backward_plan(const DispatchOptions& options, const BackwardProblem& problem);

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_DISPATCH_BACKWARD_PLAN_H_
