// aclTensor and the arrays of this library; in CANN's world they are CANN's.
#ifndef MS_CONVTANH_ACLNN_SRC_TENSOR_H_
#define MS_CONVTANH_ACLNN_SRC_TENSOR_H_

#include <vector>

#include "aclnn/acl_meta.h"
#include "aclnn/src/tensor_info.h"

struct aclTensor : msct::TensorInfo {};

struct aclIntArray : msct::IntList {};

struct aclBoolArray {
  std::vector<bool> values;
};

#endif  // MS_CONVTANH_ACLNN_SRC_TENSOR_H_
