// aclnnFusedConvTanh on Ascend: the checks of the CPU library, then launches of K0 and K1, K2 (half fusion) or K0 and
// K12 (true fusion), with what lies between them in the workspace.
#include "aclnnop/aclnn_fused_conv_tanh.h"

#include <array>
#include <cstdlib>
#include <cstring>

#include "aclnn/opdev/op_errno.h"
#include "aclnn/src/arguments.h"
#include "aclnn/src/error.h"
#include "aclnn_kernels/common/op_error_check.h"
#include "aclnn_kernels/contiguous.h"
#include "conv_tanh_kernels.h"
#include "opdev/make_op_executor.h"
#include "opdev/op_dfx.h"
#include "tensor_description.h"

namespace msct {
namespace ascend {
namespace {

constexpr const char* kName = kFusedConvTanh.name;

// MS_CONVTANH_FUSION as in the CPU library. auto is half: which is faster has to be measured on the NPU.
int32_t read_fusion(bool* fused) {
  const char* word = std::getenv("MS_CONVTANH_FUSION");
  *fused = word != nullptr && std::strcmp(word, "true") == 0;
  if (word == nullptr || *word == 0 || *fused) return ACLNN_SUCCESS;
  if (std::strcmp(word, "auto") == 0 || std::strcmp(word, "half") == 0) return ACLNN_SUCCESS;
  return fail(ACLNN_ERR_PARAM_INVALID, kName, "MS_CONVTANH_FUSION must be auto, half or true, got \"%s\"", word);
}

IntList list_of(const aclIntArray* array) {
  return {std::vector<int64_t>(array->GetData(), array->GetData() + array->Size())};
}

struct Tensors {
  const aclTensor *x, *filter, *bias;
  aclTensor* y;
};

int32_t add_launches(const Tensors& t, const ConvTanhProblem& problem, aclOpExecutor* executor) {
  bool fused = false;
  if (int32_t status = read_fusion(&fused)) return status;
  Plan plan;
  std::string error;
  if (!make_tiling(problem, /*cores=*/1, fused, &plan, &error)) {  // sizes do not depend on the cores
    return fail(ACLNN_ERR_PARAM_INVALID, kName, "x and y must fit the kernels, got %s", error.c_str());
  }
  const auto contiguous = [&](const aclTensor* tensor) { return l0op::Contiguous(tensor, executor); };
  const aclTensor* x = contiguous(t.x);
  const aclTensor* filter = contiguous(t.filter);
  const aclTensor* bias = t.bias == nullptr ? nullptr : contiguous(t.bias);
  CHECK_RET(x != nullptr && filter != nullptr && (bias != nullptr || t.bias == nullptr), ACLNN_ERR_INNER_NULLPTR);
  const std::vector<int64_t> list = problem_list(problem, fused);
  const l0op::ConvTanhCall call = {executor->AllocIntArray(list.data(), list.size()), plan, executor};
  CHECK_RET(call.problem != nullptr, ACLNN_ERR_INNER_NULLPTR);

  const l0op::Packed packed = l0op::ConvTanhPack(call, x, filter, bias);
  CHECK_RET(packed.x != nullptr && packed.filter != nullptr, ACLNN_ERR_INNER_NULLPTR);
  const aclTensor* y = nullptr;
  if (fused) {
    y = l0op::ConvTanhFused(call, packed, t.y);
  } else {
    const aclTensor* wst = l0op::ConvTanhConv(call, packed);
    CHECK_RET(wst != nullptr, ACLNN_ERR_INNER_NULLPTR);
    y = l0op::ConvTanhTanh(call, wst, t.y);
  }
  CHECK_RET(y != nullptr, ACLNN_ERR_INNER_NULLPTR);
  CHECK_RET(l0op::ViewCopy(y, t.y, executor) != nullptr, ACLNN_ERR_INNER_NULLPTR);
  return ACLNN_SUCCESS;
}

}  // namespace
}  // namespace ascend
}  // namespace msct

aclnnStatus aclnnFusedConvTanhGetWorkspaceSize(const aclTensor* x, const aclTensor* filter,
                                               const aclTensor* biasOptional, const aclIntArray* strides,
                                               const aclIntArray* pads, const aclIntArray* dilations, int64_t groups,
                                               int64_t cubeMathType, aclTensor* y, uint64_t* workspaceSize,
                                               aclOpExecutor** executor) {
  using namespace msct;
  L2_DFX_PHASE_1(aclnnFusedConvTanh, DFX_IN(x, filter, biasOptional, strides, pads, dilations, groups, cubeMathType),
                 DFX_OUT(y));
  if (int32_t status = check_not_null(ACLNN_ERR_PARAM_NULLPTR, ascend::kName,
                                      {{"x", x},
                                       {"filter", filter},
                                       {"strides", strides},
                                       {"pads", pads},
                                       {"dilations", dilations},
                                       {"y", y},
                                       {"workspaceSize", workspaceSize},
                                       {"executor", executor}})) {
    return status;
  }
  auto unique_executor = CREATE_EXECUTOR();
  CHECK_RET(unique_executor.get() != nullptr, ACLNN_ERR_INNER_CREATE_EXECUTOR);

  const IntList lists[] = {ascend::list_of(strides), ascend::list_of(pads), ascend::list_of(dilations)};
  Arguments arguments = {kFusedConvTanh, {}, &lists[0], &lists[1], &lists[2], groups, cubeMathType};
  std::array<TensorInfo, 4> infos;
  const aclTensor* const given[] = {x, filter, biasOptional, y};  // in the order of kX, kFilter, kBias, kY
  for (size_t i = 0; i < infos.size(); ++i) {
    if (given[i] == nullptr) continue;
    infos[i] = ascend::describe(given[i]);
    arguments.tensors[i] = &infos[i];
  }
  CheckedArguments checked;
  if (int32_t status = check_arguments(arguments, &checked)) return status;
  if (checked.views[kY].count > 0) {
    const ascend::Tensors tensors = {x, filter, biasOptional, y};
    if (int32_t status = ascend::add_launches(tensors, checked.problem, unique_executor.get())) return status;
  }
  *workspaceSize = unique_executor->GetWorkspaceSize();
  unique_executor.ReleaseTo(executor);
  return ACLNN_SUCCESS;
}

aclnnStatus aclnnFusedConvTanh(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {
  L2_DFX_PHASE_2(aclnnFusedConvTanh);
  return CommonOpExecutorRun(workspace, workspaceSize, executor, stream);
}
