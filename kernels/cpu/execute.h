// Phase 2: runs a plan on this CPU.
#ifndef MS_CONVTANH_KERNELS_CPU_EXECUTE_H_
#define MS_CONVTANH_KERNELS_CPU_EXECUTE_H_

#include "kernels/dispatch/plan.h"

namespace msct {

class FilterCache;

// workspace: at least plan.workspace_bytes bytes of any alignment. May be called from many threads at once with
// different workspaces.
// gate: y of the forward operator if plan.gated.
// filters: where packed filters are kept; nothing is allocated without.
void execute(const Plan& plan, const ConvTanhTensors& tensors, void* workspace, const void* gate = nullptr,
             FilterCache* filters = nullptr);

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_CPU_EXECUTE_H_
