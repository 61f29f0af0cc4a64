#include "aclnn/src/executor.h"

#include <algorithm>

#include "aclnn/opdev/op_errno.h"
#include "aclnn/src/error.h"

namespace msct {

namespace {

// An output that has elements needs all inputs, but x is needed for gradFilter and filter for gradX alone.
bool is_accessed(const Operator& op, const View (&views)[kOperands], Operand operand) {
  if (views[operand].count == 0) return false;  // there is no tensor, or an empty one
  if (std::find(op.first_output(), op.end(), operand) != op.end()) return true;
  if (views[kY].count == 0) return false;  // sums without terms
  if (&op == &kFusedConvTanh) return true;
  if (operand == kX) return views[kGradFilter].count > 0;
  if (operand == kFilter) return views[kGradX].count > 0;
  return std::any_of(op.first_output(), op.end(), [&](Operand output) { return views[output].count > 0; });
}

}  // namespace

Executor::Executor(const Arguments& arguments, const CheckedArguments& checked, int64_t bytes_needed, Run plan_to_run)
    : op(arguments.op), workspace_bytes(bytes_needed), run(std::move(plan_to_run)) {
  std::copy(checked.views, checked.views + kOperands, views);
  for (int i = 0; i < kOperands; ++i) {
    exists[i] = arguments.tensors[i] != nullptr;
    accessed[i] = is_accessed(op, views, Operand(i));
    storage[i] = exists[i] ? arguments.tensors[i]->data : nullptr;
  }
}

Handles<Executor>& executors() {
  static auto* all = new Handles<Executor>(/*survives_fork=*/true);
  return *all;
}

int32_t executor_is_dead(const char* function) {
  return fail(ACLNN_ERR_PARAM_INVALID, function,
              "executor must be alive, got one that was launched or destroyed already (a repeatable one is freed by "
              "aclDestroyAclOpExecutor alone)");
}

int32_t find_executor(const char* function, const aclOpExecutor* handle, std::shared_ptr<Executor>* executor) {
  if (int32_t status = check_not_null(ACLNN_ERR_INNER_NULLPTR, function, {{"executor", handle}})) return status;
  *executor = executors().find(handle);
  return *executor == nullptr ? executor_is_dead(function) : ACLNN_SUCCESS;
}

namespace {

enum class Counted { kAll, kInputs, kOutputs };

// index counts the operands of the prototype, those included that are not there.
aclnnStatus set_address(const char* function, aclOpExecutor* handle, Counted counted, size_t index, aclTensor* tensor,
                        void* addr) {
  if (int32_t status = check_not_null(ACLNN_ERR_INNER_NULLPTR, function, {{"tensor", tensor}})) return status;
  std::shared_ptr<Executor> executor;
  if (int32_t status = find_executor(function, handle, &executor)) return status;
  const Operand* first = counted == Counted::kOutputs ? executor->op.first_output() : executor->op.begin();
  const Operand* end = counted == Counted::kInputs ? executor->op.first_output() : executor->op.end();
  const size_t count = end - first;
  if (index >= count) {
    return fail(ACLNN_ERR_PARAM_INVALID, function, "index must be below %zu, got %zu", count, index);
  }
  const Operand operand = first[index];
  const char* name = kOperandNames[operand];
  if (!executor->exists[operand]) {
    return fail(ACLNN_ERR_PARAM_INVALID, function, "index must be that of a tensor, got %zu: there is no %s", index,
                name);
  }
  const size_t rank = tensor->shape.size();
  View view;
  if (rank == 1 || rank == 3 || rank == 4) {
    if (int32_t status = read_view(function, "tensor", *tensor, &view)) return status;
    if (view == executor->views[operand]) {
      executor->storage[operand] = addr;
      tensor->data = addr;
      return ACLNN_SUCCESS;
    }
  }
  return fail(ACLNN_ERR_PARAM_INVALID, function,
              "tensor must have the dtype, shape, strides and offset that %s had in phase 1, got %s, %s, %s and %lld",
              name, text_of(tensor->dtype).c_str(), text_of(tensor->shape).c_str(), text_of(tensor->strides).c_str(),
              number(tensor->offset));
}

}  // namespace
}  // namespace msct

aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor) {
  std::shared_ptr<msct::Executor> found;
  if (int32_t status = msct::find_executor(__func__, executor, &found)) return status;
  found->repeatable = true;
  return ACLNN_SUCCESS;
}

aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor) {
  if (int32_t status = msct::check_not_null(ACLNN_ERR_INNER_NULLPTR, __func__, {{"executor", executor}})) {
    return status;
  }
  return msct::executors().erase(executor) == nullptr ? msct::executor_is_dead(__func__) : ACLNN_SUCCESS;
}

aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
  return msct::set_address(__func__, executor, msct::Counted::kAll, index, tensor, addr);
}

aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
  return msct::set_address(__func__, executor, msct::Counted::kInputs, index, tensor, addr);
}

aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor, void* addr) {
  return msct::set_address(__func__, executor, msct::Counted::kOutputs, index, tensor, addr);
}
