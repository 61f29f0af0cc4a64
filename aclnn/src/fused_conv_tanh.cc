// aclnnFusedConvTanh: phase 1 checks and plans, phase 2 runs the plan.
#include "aclnnop/aclnn_fused_conv_tanh.h"

#include "aclnn/opdev/op_errno.h"
#include "aclnn/src/arguments.h"
#include "aclnn/src/error.h"
#include "aclnn/src/executor.h"
#include "aclnn/src/options.h"
#include "aclnn/src/plan_cache.h"
#include "aclnn/src/stream.h"
#include "kernels/cpu/execute.h"
#include "kernels/cpu/registry.h"
#include "ms_convtanh/ms_convtanh.h"

namespace msct {
namespace {

// Everything phase 1 does but the executor.
int32_t plan_call(const Arguments& arguments, CheckedArguments* checked, std::shared_ptr<const Plan>* plan) {
  if (int32_t status = check_arguments(arguments, checked)) return status;
  DispatchOptions options;
  if (int32_t status = current_options(kFusedConvTanh, &options)) return status;
  *plan = cached_plan(options, checked->problem);
  if ((*plan)->workspace_bytes == INT64_MAX) {
    return fail(ACLNN_ERR_PARAM_INVALID, kFusedConvTanh,
                "x, filter and y must need a workspace of at most 2^60 bytes, got filter.shape %s and y.shape %s",
                text_of(arguments.filter->shape).c_str(), text_of(arguments.y->shape).c_str());
  }
  return ACLNN_SUCCESS;
}

// The bytes from the first to the last element.
struct Range {
  uintptr_t begin;
  uintptr_t end;
  bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
};

// The addresses of one launch: a repeatable executor's may change for the next.
struct Addresses {
  const char* elements[kOperands];  // element 0 of each view
  Range ranges[kOperands];
};

int32_t read_addresses(const Executor& executor, Addresses* addresses) {
  const int64_t size = size_of(executor.plan->problem.dtype);
  for (int i = 0; i < kOperands; ++i) {
    const View& view = executor.views[i];
    addresses->elements[i] = nullptr;
    addresses->ranges[i] = {0, 0};
    if (view.count == 0) continue;  // empty, or an absent bias
    const char* storage = static_cast<const char*>(executor.storage[i].load());
    if (storage == nullptr) {
      return fail(ACLNN_ERR_PARAM_NULLPTR, kFusedConvTanh, "the data of %s must not be null", kOperandNames[i]);
    }
    const auto begin = reinterpret_cast<uintptr_t>(storage + view.offset * size);
    if (begin % size != 0) {
      return fail(ACLNN_ERR_PARAM_INVALID, kFusedConvTanh, "the data of %s must be aligned to %lld bytes, got %p",
                  kOperandNames[i], number(size), static_cast<const void*>(storage));
    }
    addresses->elements[i] = storage + view.offset * size;
    addresses->ranges[i] = {begin, begin + view.span * size};
  }
  return ACLNN_SUCCESS;
}

// Refuses what certainly shares memory. Views with gaps may lie between each other's elements and are let through.
int32_t check_overlaps(const Executor& executor, const Addresses& addresses, const void* workspace) {
  for (const Operand i : {kX, kFilter, kBias}) {
    if (executor.views[i].has_gaps || executor.views[kY].has_gaps) continue;
    if (addresses.ranges[i].overlaps(addresses.ranges[kY])) {
      return fail(ACLNN_ERR_PARAM_INVALID, kFusedConvTanh, "y must not share memory with %s", kOperandNames[i]);
    }
  }
  const auto begin = reinterpret_cast<uintptr_t>(workspace);
  const Range scratch = {begin, begin + executor.plan->workspace_bytes};
  for (int i = 0; i < kOperands; ++i) {
    if (addresses.ranges[i].overlaps(scratch)) {
      return fail(ACLNN_ERR_PARAM_INVALID, kFusedConvTanh, "workspace must not share memory with %s", kOperandNames[i]);
    }
  }
  return ACLNN_SUCCESS;
}

int32_t check_workspace(const Plan& plan, const void* workspace, uint64_t size) {
  const auto needed = static_cast<uint64_t>(plan.workspace_bytes);
  if (needed == 0) return ACLNN_SUCCESS;
  if (int32_t status = check_not_null(ACLNN_ERR_PARAM_NULLPTR, kFusedConvTanh, {{"workspace", workspace}})) {
    return status;
  }
  if (size >= needed) return ACLNN_SUCCESS;
  return fail(ACLNN_ERR_PARAM_INVALID, kFusedConvTanh, "workspaceSize must be at least %lld, got %lld", number(needed),
              number(size));
}

int32_t launch(void* workspace, uint64_t workspace_size, aclOpExecutor* handle, aclrtStream stream_handle) {
  std::shared_ptr<Executor> executor;
  if (int32_t status = find_executor(kFusedConvTanh, handle, &executor)) return status;
  const std::shared_ptr<const Plan>& plan = executor->plan;
  if (int32_t status = check_workspace(*plan, workspace, workspace_size)) return status;
  Addresses addresses = {};
  const bool empty = executor->views[kY].count == 0;
  if (!empty) {
    if (int32_t status = read_addresses(*executor, &addresses)) return status;
    if (int32_t status = check_overlaps(*executor, addresses, workspace)) return status;
  }
  std::shared_ptr<Stream> stream;
  if (stream_handle != nullptr && find_stream(kFusedConvTanh, stream_handle, &stream) != 0) {
    return ACLNN_ERR_RUNTIME_ERROR;
  }
  // All is well: from here on the executor is used up.
  if (!executor->repeatable && executors().erase(handle) == nullptr) return executor_is_dead(kFusedConvTanh);
  if (empty) return ACLNN_SUCCESS;

  const ConvTanhTensors tensors = {addresses.elements[kX], addresses.elements[kFilter], addresses.elements[kBias],
                                   const_cast<char*>(addresses.elements[kY])};
  if (stream == nullptr) {
    execute(*plan, tensors, workspace);
  } else {
    stream->enqueue([plan = plan, tensors, workspace]() -> int32_t {
      execute(*plan, tensors, workspace);
      return ACLNN_SUCCESS;
    });
  }
  return ACLNN_SUCCESS;
}

}  // namespace
}  // namespace msct

aclnnStatus aclnnFusedConvTanhGetWorkspaceSize(const aclTensor* x, const aclTensor* filter,
                                               const aclTensor* biasOptional, const aclIntArray* strides,
                                               const aclIntArray* pads, const aclIntArray* dilations, int64_t groups,
                                               int64_t cubeMathType, aclTensor* y, uint64_t* workspaceSize,
                                               aclOpExecutor** executor) {
  using namespace msct;
  return guarded(ACLNN_ERR_INNER_CREATE_EXECUTOR, kFusedConvTanh, [&]() -> int32_t {
    const Arguments arguments = {x, filter, biasOptional, strides, pads, dilations, groups, cubeMathType, y};
    if (int32_t status = check_pointers(arguments)) return status;
    if (int32_t status = check_not_null(ACLNN_ERR_PARAM_NULLPTR, kFusedConvTanh,
                                        {{"workspaceSize", workspaceSize}, {"executor", executor}})) {
      return status;
    }
    CheckedArguments checked;
    std::shared_ptr<const Plan> plan;
    if (int32_t status = plan_call(arguments, &checked, &plan)) return status;
    *workspaceSize = static_cast<uint64_t>(plan->workspace_bytes);
    auto made = std::make_shared<Executor>(arguments, checked, std::move(plan));
    *executor = static_cast<aclOpExecutor*>(executors().insert(std::move(made)));
    return ACLNN_SUCCESS;
  });
}

aclnnStatus aclnnFusedConvTanh(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {
  using namespace msct;
  return guarded(ACLNN_ERR_RUNTIME_ERROR, kFusedConvTanh,
                 [&] { return launch(workspace, workspaceSize, executor, stream); });
}

aclnnStatus msctExplainFusedConvTanh(const aclTensor* x, const aclTensor* filter, const aclTensor* biasOptional,
                                     const aclIntArray* strides, const aclIntArray* pads, const aclIntArray* dilations,
                                     int64_t groups, int64_t cubeMathType, const aclTensor* y, msctPlan* plan) {
  using namespace msct;
  return guarded(ACLNN_ERR_INNER, kFusedConvTanh, [&]() -> int32_t {
    const Arguments arguments = {x, filter, biasOptional, strides, pads, dilations, groups, cubeMathType, y};
    if (int32_t status = check_pointers(arguments)) return status;
    if (int32_t status = check_not_null(ACLNN_ERR_PARAM_NULLPTR, kFusedConvTanh, {{"plan", plan}})) return status;
    CheckedArguments checked;
    std::shared_ptr<const Plan> planned;
    if (int32_t status = plan_call(arguments, &checked, &planned)) return status;
    *plan = {};
    plan->k1 = planned->k1->name;
    plan->k2 = planned->k2->name;
    plan->fusion = planned->fusion == Fusion::kHalf ? "half" : "true";
    plan->direct = planned->direct;
    plan->tileRows = planned->tiling.rows;
    plan->tileCols = planned->tiling.cols;
    plan->tileCo = planned->tiling.co;
    plan->tileCi = planned->tiling.ci;
    plan->threads = planned->threads;
    plan->workspaceSize = static_cast<uint64_t>(planned->workspace_bytes);
    return ACLNN_SUCCESS;
  });
}
