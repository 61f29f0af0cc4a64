#include "conv_tanh_kernels.h"

#include <algorithm>

#include "aclnn_kernels/common/op_error_check.h"
#include "opdev/make_op_executor.h"
#include "opdev/op_dfx.h"

namespace l0op {

OP_TYPE_REGISTER(ConvTanhPack);
OP_TYPE_REGISTER(ConvTanhConv);
OP_TYPE_REGISTER(ConvTanhTanh);
OP_TYPE_REGISTER(ConvTanhFused);

namespace {

op::DataType products(const ConvTanhCall& call) {
  switch (call.plan.compute_dtype) {
    case msct::DType::kFloat32: return op::DataType::DT_FLOAT;
    case msct::DType::kFloat16: return op::DataType::DT_FLOAT16;
    default: return op::DataType::DT_BF16;
  }
}

// In the workspace. One element at least: an operator has no output without memory.
const aclTensor* scratch(const ConvTanhCall& call, int64_t elements, op::DataType dtype) {
  return call.executor->AllocTensor(op::Shape{std::max<int64_t>(elements, 1)}, dtype);
}

const aclTensor* like(const ConvTanhCall& call, const aclTensor* y) {
  return call.executor->AllocTensor(y->GetViewShape(), y->GetDataType());
}

}  // namespace

Packed ConvTanhPack(const ConvTanhCall& call, const aclTensor* x, const aclTensor* filter, const aclTensor* bias) {
  aclOpExecutor* executor = call.executor;  // by this name the macros know it
  L0_DFX(ConvTanhPack, x, filter, bias, call.problem);
  const aclTensor* x_packed = scratch(call, call.plan.x_packed_elements, products(call));
  const aclTensor* filter_packed = scratch(call, call.plan.filter_packed_elements, products(call));
  OP_CHECK(x_packed != nullptr && filter_packed != nullptr,
           OP_LOGE(ACLNN_ERR_INNER_NULLPTR, "ConvTanhPack: no tensors for the packed x and filter"), return {});
  const auto status = ADD_TO_LAUNCHER_LIST_AICORE(ConvTanhPack, OP_INPUT(x, filter, bias),
                                                  OP_OUTPUT(x_packed, filter_packed), OP_ATTR(call.problem));
  OP_CHECK_ADD_TO_LAUNCHER_LIST_AICORE(status != ACLNN_SUCCESS, return {}, "ConvTanhPack could not be added.");
  return {call.plan.x_packed_elements > 0 ? x_packed : x, filter_packed};
}

const aclTensor* ConvTanhConv(const ConvTanhCall& call, const Packed& packed) {
  aclOpExecutor* executor = call.executor;
  L0_DFX(ConvTanhConv, packed.x, packed.filter, call.problem);
  const aclTensor* wst = scratch(call, call.plan.wst_elements, op::DataType::DT_FLOAT);
  OP_CHECK(wst != nullptr, OP_LOGE(ACLNN_ERR_INNER_NULLPTR, "ConvTanhConv: no tensor for wsT"), return nullptr);
  const auto status = ADD_TO_LAUNCHER_LIST_AICORE(ConvTanhConv, OP_INPUT(packed.x, packed.filter), OP_OUTPUT(wst),
                                                  OP_ATTR(call.problem));
  OP_CHECK_ADD_TO_LAUNCHER_LIST_AICORE(status != ACLNN_SUCCESS, return nullptr, "ConvTanhConv could not be added.");
  return wst;
}

const aclTensor* ConvTanhTanh(const ConvTanhCall& call, const aclTensor* wst, const aclTensor* y) {
  aclOpExecutor* executor = call.executor;
  L0_DFX(ConvTanhTanh, wst, call.problem);
  const aclTensor* result = like(call, y);
  OP_CHECK(result != nullptr, OP_LOGE(ACLNN_ERR_INNER_NULLPTR, "ConvTanhTanh: no tensor for y"), return nullptr);
  const auto status =
      ADD_TO_LAUNCHER_LIST_AICORE(ConvTanhTanh, OP_INPUT(wst), OP_OUTPUT(result), OP_ATTR(call.problem));
  OP_CHECK_ADD_TO_LAUNCHER_LIST_AICORE(status != ACLNN_SUCCESS, return nullptr, "ConvTanhTanh could not be added.");
  return result;
}

const aclTensor* ConvTanhFused(const ConvTanhCall& call, const Packed& packed, const aclTensor* y) {
  aclOpExecutor* executor = call.executor;
  L0_DFX(ConvTanhFused, packed.x, packed.filter, call.problem);
  const aclTensor* result = like(call, y);
  OP_CHECK(result != nullptr, OP_LOGE(ACLNN_ERR_INNER_NULLPTR, "ConvTanhFused: no tensor for y"), return nullptr);
  const auto status = ADD_TO_LAUNCHER_LIST_AICORE(ConvTanhFused, OP_INPUT(packed.x, packed.filter), OP_OUTPUT(result),
                                                  OP_ATTR(call.problem));
  OP_CHECK_ADD_TO_LAUNCHER_LIST_AICORE(status != ACLNN_SUCCESS, return nullptr, "ConvTanhFused could not be added.");
  return result;
}

}  // namespace l0op
