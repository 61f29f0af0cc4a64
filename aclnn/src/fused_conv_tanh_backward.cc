// aclnnFusedConvTanhBackward: phase 1 checks and plans, phase 2 runs the plan.
#include "aclnnop/aclnn_fused_conv_tanh_backward.h"

#include <algorithm>

#include "aclnn/opdev/op_errno.h"
#include "aclnn/src/arguments.h"
#include "aclnn/src/error.h"
#include "aclnn/src/executor.h"
#include "aclnn/src/launch.h"
#include "aclnn/src/plan_cache.h"
#include "aclnn/src/tensor.h"
#include "kernels/cpu/execute_backward.h"
#include "kernels/cpu/trace.h"

namespace msct {
namespace {

constexpr const char* kName = kFusedConvTanhBackward.name;
constexpr size_t kGradients = 3;

// Drops the gradients that outputMask does not choose; the others must be there.
int32_t apply_mask(const aclBoolArray& mask, const TensorInfo* (&tensors)[kOperands]) {
  if (mask.values.size() != kGradients) {
    return fail(ACLNN_ERR_PARAM_INVALID, kName, "outputMask must be [gradX, gradFilter, gradBias], got %zu entries",
                mask.values.size());
  }
  for (size_t i = 0; i < kGradients; ++i) {
    const Operand gradient = kFusedConvTanhBackward.first_output()[i];
    if (!mask.values[i]) {
      tensors[gradient] = nullptr;
    } else if (int32_t status =
                   check_not_null(ACLNN_ERR_PARAM_NULLPTR, kName, {{kOperandNames[gradient], tensors[gradient]}})) {
      return status;
    }
  }
  return ACLNN_SUCCESS;
}

BackwardProblem make_problem(const CheckedArguments& checked, const TensorInfo* const (&tensors)[kOperands]) {
  const View(&views)[kOperands] = checked.views;
  BackwardProblem problem = {};
  problem.forward = checked.problem;
  problem.wants_x = tensors[kGradX] != nullptr;
  problem.wants_filter = tensors[kGradFilter] != nullptr;
  problem.wants_bias = tensors[kGradBias] != nullptr;
  std::copy_n(views[kGradY].strides, 4, problem.grad_y_strides);
  std::copy_n(views[kGradX].strides, 4, problem.grad_x_strides);
  std::copy_n(views[kGradFilter].strides, 4, problem.grad_filter_strides);
  problem.grad_bias_stride = views[kGradBias].strides[0];
  return problem;
}

int32_t check_phases(const Arguments& arguments, const BackwardProblem& problem) {
  if (grad_input_phases(problem) <= kMaxGradInputPhases) return ACLNN_SUCCESS;
  return fail(ACLNN_ERR_PARAM_INVALID, kName,
              "strides and filter must split gradX into at most %lld convolutions, got strides %s and filter.shape %s",
              number(kMaxGradInputPhases), text_of(arguments.strides->values).c_str(),
              text_of(arguments.tensors[kFilter]->shape).c_str());
}

void run_plan(const BackwardPlan& plan, void* const* elements, void* workspace, FilterCache* /*filters*/) {
  execute_backward(plan,
                   {elements[kGradY], elements[kY], elements[kX], elements[kFilter], elements[kGradX],
                    elements[kGradFilter], elements[kGradBias]},
                   workspace);
}

}  // namespace
}  // namespace msct

aclnnStatus aclnnFusedConvTanhBackwardGetWorkspaceSize(const aclTensor* gradY, const aclTensor* y, const aclTensor* x,
                                                       const aclTensor* filter, const aclIntArray* strides,
                                                       const aclIntArray* pads, const aclIntArray* dilations,
                                                       int64_t groups, int64_t cubeMathType,
                                                       const aclBoolArray* outputMask, aclTensor* gradX,
                                                       aclTensor* gradFilter, aclTensor* gradBias,
                                                       uint64_t* workspaceSize, aclOpExecutor** executor) {
  using namespace msct;
  const TraceMark mark(TracePhase::kPhase1);
  return guarded(ACLNN_ERR_INNER_CREATE_EXECUTOR, kName, [&]() -> int32_t {
    if (int32_t status = check_not_null(ACLNN_ERR_PARAM_NULLPTR, kName,
                                        {{"gradY", gradY},
                                         {"y", y},
                                         {"x", x},
                                         {"filter", filter},
                                         {"strides", strides},
                                         {"pads", pads},
                                         {"dilations", dilations},
                                         {"outputMask", outputMask},
                                         {"workspaceSize", workspaceSize},
                                         {"executor", executor}})) {
      return status;
    }
    Arguments arguments = {kFusedConvTanhBackward, {}, strides, pads, dilations, groups, cubeMathType};
    arguments.tensors[kX] = x;
    arguments.tensors[kFilter] = filter;
    arguments.tensors[kY] = y;
    arguments.tensors[kGradX] = gradX;
    arguments.tensors[kGradFilter] = gradFilter;
    arguments.tensors[kGradBias] = gradBias;
    arguments.tensors[kGradY] = gradY;
    if (int32_t status = apply_mask(*outputMask, arguments.tensors)) return status;
    CheckedArguments checked;
    if (int32_t status = check_arguments(arguments, &checked)) return status;
    const BackwardProblem problem = make_problem(checked, arguments.tensors);
    if (int32_t status = check_phases(arguments, problem)) return status;
    std::shared_ptr<const BackwardPlan> plan;
    if (int32_t status = find_plan(arguments, problem, &plan)) return status;
    make_executor(arguments, checked, std::move(plan), run_plan, workspaceSize, executor);
    return ACLNN_SUCCESS;
  });
}

aclnnStatus aclnnFusedConvTanhBackward(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor,
                                       aclrtStream stream) {
  return msct::launch(msct::kFusedConvTanhBackward, workspace, workspaceSize, executor, stream);
}
