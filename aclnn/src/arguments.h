// Phase 1's checks: from the arguments of aclnnFusedConvTanhGetWorkspaceSize to a problem.
#ifndef MS_CONVTANH_ACLNN_SRC_ARGUMENTS_H_
#define MS_CONVTANH_ACLNN_SRC_ARGUMENTS_H_

#include <cstdint>

#include "aclnn/src/view.h"
#include "kernels/problem.h"

namespace msct {

// The operator's name in every message.
constexpr char kFusedConvTanh[] = "aclnnFusedConvTanh";

struct Arguments {
  const aclTensor* x;
  const aclTensor* filter;
  const aclTensor* bias;  // may be null
  const aclIntArray* strides;
  const aclIntArray* pads;
  const aclIntArray* dilations;
  int64_t groups;
  int64_t cube_math_type;
  const aclTensor* y;
};

// The tensors in the order of the prototype.
enum Operand { kX, kFilter, kBias, kY, kOperands };
constexpr const char* kOperandNames[kOperands] = {"x", "filter", "bias", "y"};

struct CheckedArguments {
  ConvTanhProblem problem;
  View views[kOperands];  // views[kBias] is all 0 without a bias
};

// Fails with ACLNN_ERR_PARAM_NULLPTR if a pointer is null that may not be.
int32_t check_pointers(const Arguments& arguments);

// Checks in the order of the aclnn operators: dtype, format, shape, attributes, output shape, empty tensors. Fails with
// ACLNN_ERR_PARAM_INVALID. The pointers have been checked.
int32_t check_arguments(const Arguments& arguments, CheckedArguments* checked);

}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_SRC_ARGUMENTS_H_
