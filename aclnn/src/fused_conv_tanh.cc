// aclnnFusedConvTanh: phase 1 checks and plans, phase 2 runs the plan.
#include "aclnnop/aclnn_fused_conv_tanh.h"

#include "aclnn/opdev/op_errno.h"
#include "aclnn/src/arguments.h"
#include "aclnn/src/error.h"
#include "aclnn/src/executor.h"
#include "aclnn/src/launch.h"
#include "aclnn/src/options.h"
#include "aclnn/src/plan_cache.h"
#include "aclnn/src/tensor.h"
#include "kernels/cpu/execute.h"
#include "kernels/cpu/registry.h"
#include "kernels/cpu/trace.h"
#include "kernels/dispatch/cost.h"
#include "ms_convtanh/ms_convtanh.h"

namespace msct {
namespace {

constexpr const char* kName = kFusedConvTanh.name;

Arguments make_arguments(const aclTensor* x, const aclTensor* filter, const aclTensor* bias, const aclIntArray* strides,
                         const aclIntArray* pads, const aclIntArray* dilations, int64_t groups, int64_t cube_math_type,
                         const aclTensor* y) {
  Arguments arguments = {kFusedConvTanh, {}, strides, pads, dilations, groups, cube_math_type};
  arguments.tensors[kX] = x;
  arguments.tensors[kFilter] = filter;
  arguments.tensors[kBias] = bias;
  arguments.tensors[kY] = y;
  return arguments;
}

int32_t check_pointers(const Arguments& arguments) {
  return check_not_null(ACLNN_ERR_PARAM_NULLPTR, kName,
                        {{"x", arguments.tensors[kX]},
                         {"filter", arguments.tensors[kFilter]},
                         {"strides", arguments.strides},
                         {"pads", arguments.pads},
                         {"dilations", arguments.dilations},
                         {"y", arguments.tensors[kY]}});
}

// Everything phase 1 does but the executor.
int32_t plan_call(const Arguments& arguments, CheckedArguments* checked, std::shared_ptr<const Plan>* plan) {
  if (int32_t status = check_arguments(arguments, checked)) return status;
  return find_plan(arguments, checked->problem, plan);
}

void run_plan(const Plan& plan, void* const* elements, void* workspace, FilterCache* filters) {
  execute(plan, {elements[kX], elements[kFilter], elements[kBias], elements[kY]}, workspace, nullptr, filters);
}

}  // namespace
}  // namespace msct

aclnnStatus aclnnFusedConvTanhGetWorkspaceSize(const aclTensor* x, const aclTensor* filter,
                                               const aclTensor* biasOptional, const aclIntArray* strides,
                                               const aclIntArray* pads, const aclIntArray* dilations, int64_t groups,
                                               int64_t cubeMathType, aclTensor* y, uint64_t* workspaceSize,
                                               aclOpExecutor** executor) {
  using namespace msct;
  const TraceMark mark(TracePhase::kPhase1);
  return guarded(ACLNN_ERR_INNER_CREATE_EXECUTOR, kName, [&]() -> int32_t {
    const Arguments arguments =
        make_arguments(x, filter, biasOptional, strides, pads, dilations, groups, cubeMathType, y);
    if (int32_t status = check_pointers(arguments)) return status;
    if (int32_t status = check_not_null(ACLNN_ERR_PARAM_NULLPTR, kName,
                                        {{"workspaceSize", workspaceSize}, {"executor", executor}})) {
      return status;
    }
    CheckedArguments checked;
    std::shared_ptr<const Plan> plan;
    if (int32_t status = plan_call(arguments, &checked, &plan)) return status;
    make_executor(arguments, checked, std::move(plan), run_plan, workspaceSize, executor);
    return ACLNN_SUCCESS;
  });
}

aclnnStatus aclnnFusedConvTanh(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {
  return msct::launch(msct::kFusedConvTanh, workspace, workspaceSize, executor, stream);
}

aclnnStatus msctExplainFusedConvTanh(const aclTensor* x, const aclTensor* filter, const aclTensor* biasOptional,
                                     const aclIntArray* strides, const aclIntArray* pads, const aclIntArray* dilations,
                                     int64_t groups, int64_t cubeMathType, const aclTensor* y, msctPlan* plan) {
  using namespace msct;
  return guarded(ACLNN_ERR_INNER, kName, [&]() -> int32_t {
    const Arguments arguments =
        make_arguments(x, filter, biasOptional, strides, pads, dilations, groups, cubeMathType, y);
    if (int32_t status = check_pointers(arguments)) return status;
    if (int32_t status = check_not_null(ACLNN_ERR_PARAM_NULLPTR, kName, {{"plan", plan}})) return status;
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
    DispatchOptions options;
    if (int32_t status = current_options(kName, &options)) return status;
    for (const K1Candidate& candidate : k1_candidates(options, *planned)) {
      if (plan->candidateCount == MSCT_MAX_CANDIDATES) break;
      plan->candidates[plan->candidateCount++] = {candidate.k1->name,        candidate.scheme.products,
                                                  candidate.scheme.folds(),  candidate.scheme.spread_w,
                                                  candidate.scheme.winograd, candidate.nanoseconds / 1000};
    }
    return ACLNN_SUCCESS;
  });
}
