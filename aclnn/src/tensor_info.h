// What the checks need to know of tensors and arrays, whoever owns them: this library or CANN.
#ifndef MS_CONVTANH_ACLNN_SRC_TENSOR_INFO_H_
#define MS_CONVTANH_ACLNN_SRC_TENSOR_INFO_H_

#include <cstdint>
#include <string>
#include <vector>

#include "acl/acl_base.h"

namespace msct {

struct TensorInfo {
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;  // in elements, as many as shape has
  int64_t offset;                // in elements
  std::vector<int64_t> storage_shape;
  aclDataType dtype;
  aclFormat format;
  void* data;  // first byte of the storage, before the offset
};

struct IntList {
  std::vector<int64_t> values;
};

// How messages write them.
std::string text_of(const std::vector<int64_t>& values);  // "[2, 3, 4]"
std::string text_of(aclDataType dtype);                   // "ACL_FLOAT"; "27" for a value without a name here
std::string text_of(aclFormat format);                    // "ACL_FORMAT_NCHW"

}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_SRC_TENSOR_INFO_H_
