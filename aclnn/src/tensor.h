// aclTensor and the arrays, and how messages write what they hold.
#ifndef MS_CONVTANH_ACLNN_SRC_TENSOR_H_
#define MS_CONVTANH_ACLNN_SRC_TENSOR_H_

#include <cstdint>
#include <string>
#include <vector>

#include "aclnn/acl_meta.h"

struct aclTensor {
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in elements, as many as shape has
  int64_t offset;                // in elements
  std::vector<int64_t> storage_shape;
  aclDataType dtype;
  aclFormat format;
  void* data;  // first byte of the storage, before the offset
};

struct aclIntArray {
  std::vector<int64_t> values;
};

struct aclBoolArray {
  std::vector<bool> values;
};

namespace msct {

std::string text_of(const std::vector<int64_t>& values);  // "[2, 3, 4]"
std::string text_of(aclDataType dtype);                   // "ACL_FLOAT"; "27" for a value without a name here
std::string text_of(aclFormat format);                    // "ACL_FORMAT_NCHW"

}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_SRC_TENSOR_H_
