// FusedConvTanh for graphs: y = tanh(conv2d(x, filter, bias)).
#ifndef MS_CONVTANH_ACLNN_ASCEND_FUSED_CONV_TANH_PROTO_H_
#define MS_CONVTANH_ACLNN_ASCEND_FUSED_CONV_TANH_PROTO_H_

#include "graph/operator_reg.h"

namespace ge {

// x [N, Cin, H, W] or [N, Cin, L], filter [Cout, Cin / groups, Kh, Kw] or [Cout, Cin / groups, K], bias [Cout]; one
// dtype for all. Attributes are those of aclnnFusedConvTanh.
REG_OP(FusedConvTanh)
    .INPUT(x, TensorType({DT_FLOAT16, DT_BF16, DT_FLOAT}))
    .INPUT(filter, TensorType({DT_FLOAT16, DT_BF16, DT_FLOAT}))
    .OPTIONAL_INPUT(bias, TensorType({DT_FLOAT16, DT_BF16, DT_FLOAT}))
    .OUTPUT(y, TensorType({DT_FLOAT16, DT_BF16, DT_FLOAT}))
    .REQUIRED_ATTR(strides, ListInt)
    .REQUIRED_ATTR(pads, ListInt)
    .REQUIRED_ATTR(dilations, ListInt)
    .ATTR(groups, Int, 1)
    .ATTR(cubeMathType, Int, 0)
    .OP_END_FACTORY_REG(FusedConvTanh)

}  // namespace ge

#endif  // MS_CONVTANH_ACLNN_ASCEND_FUSED_CONV_TANH_PROTO_H_
