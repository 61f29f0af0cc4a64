// What phase 1 leaves for phase 2, for both operators.
#ifndef MS_CONVTANH_ACLNN_SRC_EXECUTOR_H_
#define MS_CONVTANH_ACLNN_SRC_EXECUTOR_H_

#include <atomic>
#include <functional>
#include <memory>

#include "aclnn/src/arguments.h"
#include "aclnn/src/handles.h"
#include "aclnn/src/tensor.h"

namespace msct {

class FilterCache;

// Runs a plan. elements[i] is the address of element 0 of operand i, null if there is nothing to read or write.
// filters may be null.
using Run = std::function<void(void* const* elements, void* workspace, FilterCache* filters)>;

struct Executor {
  Executor(const Arguments& arguments, const CheckedArguments& checked, int64_t bytes_needed, Run plan_to_run);

  const Operator& op;
  const int64_t workspace_bytes;
  const Run run;
  bool exists[kOperands];                 // whether there is a tensor
  bool accessed[kOperands];               // whether phase 2 reads or writes its data
  View views[kOperands];                  // fixed by phase 1
  std::atomic<void*> storage[kOperands];  // the first byte of each storage, before the offset
  std::atomic<bool> repeatable{false};
  std::shared_ptr<FilterCache> filters;   // null: packed filters are not kept; for std::atomic_load and atomic_store
};

Handles<Executor>& executors();

// The end of phase 1.
template <typename AnyPlan>
void make_executor(const Arguments& arguments, const CheckedArguments& checked, std::shared_ptr<const AnyPlan> plan,
                   void (*run)(const AnyPlan& plan, void* const* elements, void* workspace, FilterCache* filters),
                   uint64_t* workspace_size, aclOpExecutor** executor) {
  const int64_t bytes = plan->workspace_bytes;
  Run run_plan = [plan = std::move(plan), run](void* const* elements, void* workspace, FilterCache* filters) {
    run(*plan, elements, workspace, filters);
  };
  auto made = std::make_shared<Executor>(arguments, checked, bytes, std::move(run_plan));
  *executor = static_cast<aclOpExecutor*>(executors().insert(std::move(made)));
  *workspace_size = static_cast<uint64_t>(bytes);
}

// Finds the executor of a handle. Fails with ACLNN_ERR_INNER_NULLPTR for null, with ACLNN_ERR_PARAM_INVALID for one
// that is not alive.
int32_t find_executor(const char* function, const aclOpExecutor* handle, std::shared_ptr<Executor>* executor);

// The failure of an executor that is not alive.
int32_t executor_is_dead(const char* function);

}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_SRC_EXECUTOR_H_
