// Plans of problems that were asked for before.
#ifndef MS_CONVTANH_ACLNN_SRC_PLAN_CACHE_H_
#define MS_CONVTANH_ACLNN_SRC_PLAN_CACHE_H_

#include <memory>

#include "kernels/dispatch/plan.h"

namespace msct {

// make_plan(options, problem), kept. The cache holds a bounded number of plans and may be used from many threads.
std::shared_ptr<const Plan> cached_plan(const DispatchOptions& options, const ConvTanhProblem& problem);

}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_SRC_PLAN_CACHE_H_
