// Phase 1's checks, for both operators: from the arguments of a GetWorkspaceSize function to a problem.
#ifndef MS_CONVTANH_ACLNN_SRC_ARGUMENTS_H_
#define MS_CONVTANH_ACLNN_SRC_ARGUMENTS_H_

#include <cstddef>
#include <cstdint>

#include "aclnn/src/view.h"
#include "kernels/problem.h"

namespace msct {

// The tensors of both operators. A gradient is shaped like the tensor that it is the gradient of.
enum Operand { kX, kFilter, kBias, kY, kGradX, kGradFilter, kGradBias, kGradY, kOperands };
constexpr const char* kOperandNames[kOperands] = {"x",     "filter",     "bias",     "y",
                                                  "gradX", "gradFilter", "gradBias", "gradY"};
constexpr Operand shaped_like(Operand operand) { return operand < kGradX ? operand : Operand(operand - kGradX); }

constexpr size_t kMaxOperands = 7;  // of one operator

struct Operator {
  const char* name;                // in every message
  Operand operands[kMaxOperands];  // in the order of the prototype: inputs, then outputs
  size_t inputs;
  size_t count;

  const Operand* begin() const { return operands; }
  const Operand* first_output() const { return operands + inputs; }
  const Operand* end() const { return operands + count; }
};

inline constexpr Operator kFusedConvTanh = {"aclnnFusedConvTanh", {kX, kFilter, kBias, kY}, 3, 4};
inline constexpr Operator kFusedConvTanhBackward = {
    "aclnnFusedConvTanhBackward", {kGradY, kY, kX, kFilter, kGradX, kGradFilter, kGradBias}, 4, 7};

struct Arguments {
  const Operator& op;
  const TensorInfo* tensors[kOperands];  // null where there is none
  const IntList* strides;
  const IntList* pads;
  const IntList* dilations;
  int64_t groups;
  int64_t cube_math_type;
};

struct CheckedArguments {
  ConvTanhProblem problem;  // of the forward operator
  View views[kOperands];    // all 0 where there is no tensor
};

// Checks in the order of the aclnn operators: dtype, format, shape, attributes, output shape, empty tensors. Fails with
// ACLNN_ERR_PARAM_INVALID. The caller has checked that x, filter, y and the arrays are there.
int32_t check_arguments(const Arguments& arguments, CheckedArguments* checked);

}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_SRC_ARGUMENTS_H_
