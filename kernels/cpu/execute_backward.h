// Phase 2 of the backward operator.
#ifndef MS_CONVTANH_KERNELS_CPU_EXECUTE_BACKWARD_H_
#define MS_CONVTANH_KERNELS_CPU_EXECUTE_BACKWARD_H_

#include "kernels/dispatch/backward_plan.h"

namespace msct {

// workspace: at least plan.workspace_bytes bytes of any alignment. Allocates nothing. May be called from many threads
// at once with different workspaces.
void execute_backward(const BackwardPlan& plan, const BackwardTensors& tensors, void* workspace);

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_CPU_EXECUTE_BACKWARD_H_
