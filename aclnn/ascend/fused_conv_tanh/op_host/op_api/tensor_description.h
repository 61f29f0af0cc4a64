// CANN's tensors and arrays as the shared checks of aclnn/src want them. Only public host calls are used.
#ifndef MS_CONVTANH_ACLNN_ASCEND_OP_API_TENSOR_DESCRIPTION_H_
#define MS_CONVTANH_ACLNN_ASCEND_OP_API_TENSOR_DESCRIPTION_H_

#include <memory>

#include "aclnn/acl_meta.h"
#include "aclnn/src/tensor_info.h"

namespace msct {
namespace ascend {

inline std::vector<int64_t> taken(int64_t* values, uint64_t count) {
  const std::unique_ptr<int64_t[]> owned(values);  // the host calls leave the array to their caller
  return std::vector<int64_t>(values, values + count);
}

inline TensorInfo describe(const aclTensor* tensor) {
  TensorInfo info = {};
  int64_t* values = nullptr;
  uint64_t count = 0;
  if (aclGetViewShape(tensor, &values, &count) == 0) info.shape = taken(values, count);
  if (aclGetViewStrides(tensor, &values, &count) == 0) info.strides = taken(values, count);
  if (aclGetStorageShape(tensor, &values, &count) == 0) info.storage_shape = taken(values, count);
  aclGetViewOffset(tensor, &info.offset);
  aclGetDataType(tensor, &info.dtype);
  aclGetFormat(tensor, &info.format);
  return info;
}

}  // namespace ascend
}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_ASCEND_OP_API_TENSOR_DESCRIPTION_H_
