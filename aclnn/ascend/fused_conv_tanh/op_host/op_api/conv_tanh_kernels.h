// The kernels as operators of the executor (level 0). Each adds one launch and returns its output, or null.
#ifndef MS_CONVTANH_ACLNN_ASCEND_OP_API_CONV_TANH_KERNELS_H_
#define MS_CONVTANH_ACLNN_ASCEND_OP_API_CONV_TANH_KERNELS_H_

#include "kernels/ascend/conv_tiling.h"
#include "opdev/op_executor.h"

namespace l0op {

// A convolution as all of them take it. Tensors are contiguous.
struct ConvTanhCall {
  const aclIntArray* problem;  // msct::ascend::problem_list
  const msct::ascend::Plan& plan;
  aclOpExecutor* executor;
};

struct Packed {
  const aclTensor* x;
  const aclTensor* filter;  // with the bias
};

// K0. x of the result is the given x where K1 needs no copy of it. bias may be null.
Packed ConvTanhPack(const ConvTanhCall& call, const aclTensor* x, const aclTensor* filter, const aclTensor* bias);

// K1: float32 wsT.
const aclTensor* ConvTanhConv(const ConvTanhCall& call, const Packed& packed);

// K2, to a tensor shaped like y.
const aclTensor* ConvTanhTanh(const ConvTanhCall& call, const aclTensor* wst, const aclTensor* y);

// K12: K1 and K2 in one.
const aclTensor* ConvTanhFused(const ConvTanhCall& call, const Packed& packed, const aclTensor* y);

}  // namespace l0op

#endif  // MS_CONVTANH_ACLNN_ASCEND_OP_API_CONV_TANH_KERNELS_H_
