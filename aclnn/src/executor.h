// What phase 1 leaves for phase 2.
#ifndef MS_CONVTANH_ACLNN_SRC_EXECUTOR_H_
#define MS_CONVTANH_ACLNN_SRC_EXECUTOR_H_

#include <atomic>
#include <memory>

#include "aclnn/src/arguments.h"
#include "aclnn/src/handles.h"
#include "kernels/dispatch/plan.h"

namespace msct {

struct Executor {
  Executor(const Arguments& arguments, const CheckedArguments& checked, std::shared_ptr<const Plan> plan_to_run);

  const std::shared_ptr<const Plan> plan;
  const bool has_bias;
  View views[kOperands];                 // fixed by phase 1
  std::atomic<void*> storage[kOperands];  // the first byte of each storage, before the offset
  std::atomic<bool> repeatable{false};
};

Handles<Executor>& executors();

// Finds the executor of a handle. Fails with ACLNN_ERR_INNER_NULLPTR for null, with ACLNN_ERR_PARAM_INVALID for one
// that is not alive.
int32_t find_executor(const char* function, const aclOpExecutor* handle, std::shared_ptr<Executor>* executor);

// The failure of an executor that is not alive.
int32_t executor_is_dead(const char* function);

}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_SRC_EXECUTOR_H_
