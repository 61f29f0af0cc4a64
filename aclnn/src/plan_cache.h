// Plans of problems, those asked for before included.
#ifndef MS_CONVTANH_ACLNN_SRC_PLAN_CACHE_H_
#define MS_CONVTANH_ACLNN_SRC_PLAN_CACHE_H_

#include <memory>

#include "aclnn/src/arguments.h"
#include "kernels/dispatch/backward_plan.h"
#include "kernels/dispatch/plan.h"

namespace msct {

// The plan of a problem under the options in force. Fails with ACLNN_ERR_PARAM_INVALID if an environment variable has
// an unknown value, or if the plan cannot be executed because its workspace is beyond counting. Plans are kept, a
// bounded number of them. May be used from many threads.
int32_t find_plan(const Arguments& arguments, const ConvTanhProblem& problem, std::shared_ptr<const Plan>* plan);
int32_t find_plan(const Arguments& arguments, const BackwardProblem& problem,
                  std::shared_ptr<const BackwardPlan>* plan);

}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_SRC_PLAN_CACHE_H_
