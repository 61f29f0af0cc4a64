// What the definitions of the four kernels' operators share. They are operators of this package's own aclnn function:
// their attribute `problem` is the list that kernels/ascend/conv_tiling.h makes of a convolution.
//
// CANN's build compiles the definitions on their own, so that they include this file by a path relative to theirs; and
// it looks for the text of AddConfig in each of them.
#ifndef MS_CONVTANH_ACLNN_ASCEND_COMMON_OP_DEFINITION_H_
#define MS_CONVTANH_ACLNN_ASCEND_COMMON_OP_DEFINITION_H_

#include <vector>

#include "register/op_def_registry.h"

namespace ops {

// A tensor that has these dtypes in turn, beside those of the other tensors at the same place of their lists.
inline void describe(OpParamDef& tensor, Option presence, const std::vector<ge::DataType>& dtypes) {
  const std::vector<ge::Format> formats(dtypes.size(), ge::FORMAT_ND);
  tensor.ParamType(presence).DataType(dtypes).Format(formats).UnknownShapeFormat(formats);
}

// kernel: the file op_kernel/<kernel>.py and the function in it.
inline OpAICoreConfig config_of(const char* kernel) {
  OpAICoreConfig config;
  config.DynamicCompileStaticFlag(true)
      .DynamicFormatFlag(false)
      .DynamicRankSupportFlag(true)
      .DynamicShapeSupportFlag(true)
      .NeedCheckSupportFlag(false)
      .PrecisionReduceFlag(false)
      .ExtendCfgInfo("opFile.value", kernel);
  return config;
}

}  // namespace ops

#endif  // MS_CONVTANH_ACLNN_ASCEND_COMMON_OP_DEFINITION_H_
