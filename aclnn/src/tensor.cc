#include "aclnn/src/tensor.h"

#include <algorithm>
#include <memory>
#include <new>

#include "aclnn/opdev/op_errno.h"
#include "aclnn/src/error.h"

namespace msct {
namespace {

// Row-major strides. A product beyond int64_t becomes INT64_MAX: the operator refuses such a shape, or it is empty and
// nothing is ever read.
std::vector<int64_t> contiguous_strides(const std::vector<int64_t>& shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) {
    const int64_t size = std::max<int64_t>(shape[i], 1);
    if (__builtin_mul_overflow(strides[i], size, &strides[i - 1])) strides[i - 1] = INT64_MAX;
  }
  return strides;
}

aclnnStatus copy_out(const char* function, const std::vector<int64_t>& values, int64_t** array, uint64_t* count) {
  int64_t* copy = new (std::nothrow) int64_t[values.size()];
  if (copy == nullptr) return fail(ACLNN_ERR_INNER_NULLPTR, function, "out of memory");
  std::copy(values.begin(), values.end(), copy);
  *array = copy;
  *count = values.size();
  return ACLNN_SUCCESS;
}

template <typename Array, typename Value>
Array* create_array(const char* function, const Value* value, uint64_t size) {
  Array* array = nullptr;
  guarded(ACLNN_ERR_INNER, function, [&] {
    if (value == nullptr && size > 0) {
      return fail(ACLNN_ERR_PARAM_NULLPTR, function, "value must not be null for a size of %lld", number(size));
    }
    auto made = std::make_unique<Array>();
    if (size > 0) made->values.assign(value, value + size);
    array = made.release();
    return ACLNN_SUCCESS;
  });
  return array;
}

template <typename Array>
aclnnStatus array_size(const char* function, const Array* array, uint64_t* size) {
  if (int32_t status = check_not_null(ACLNN_ERR_PARAM_NULLPTR, function, {{"array", array}, {"size", size}})) {
    return status;
  }
  *size = array->values.size();
  return ACLNN_SUCCESS;
}

}  // namespace
}  // namespace msct

using msct::check_not_null;

aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType, const int64_t* stride,
                           int64_t offset, aclFormat format, const int64_t* storageDims, uint64_t storageDimsNum,
                           void* tensorData) {
  aclTensor* tensor = nullptr;
  msct::guarded(ACLNN_ERR_INNER, "aclCreateTensor", [&] {
    if (viewDims == nullptr && viewDimsNum > 0) {
      return msct::fail(ACLNN_ERR_PARAM_NULLPTR, "aclCreateTensor", "viewDims must not be null for %lld dimensions",
                        msct::number(viewDimsNum));
    }
    if (storageDims == nullptr && storageDimsNum > 0) {
      return msct::fail(ACLNN_ERR_PARAM_NULLPTR, "aclCreateTensor", "storageDims must not be null for %lld dimensions",
                        msct::number(storageDimsNum));
    }
    auto made = std::make_unique<aclTensor>();
    made->shape.assign(viewDims, viewDims + viewDimsNum);
    if (stride != nullptr) {
      made->strides.assign(stride, stride + viewDimsNum);
    } else {
      made->strides = msct::contiguous_strides(made->shape);
    }
    made->offset = offset;
    made->storage_shape.assign(storageDims, storageDims + storageDimsNum);
    made->dtype = dataType;
    made->format = format;
    made->data = tensorData;
    tensor = made.release();
    return ACLNN_SUCCESS;
  });
  return tensor;
}

aclnnStatus aclDestroyTensor(const aclTensor* tensor) {
  delete tensor;
  return ACLNN_SUCCESS;
}

aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum) {
  if (int32_t status = check_not_null(ACLNN_ERR_PARAM_NULLPTR, __func__,
                                      {{"tensor", tensor}, {"viewDims", viewDims}, {"viewDimsNum", viewDimsNum}})) {
    return status;
  }
  return msct::copy_out(__func__, tensor->shape, viewDims, viewDimsNum);
}

aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims, uint64_t* storageDimsNum) {
  if (int32_t status =
          check_not_null(ACLNN_ERR_PARAM_NULLPTR, __func__,
                         {{"tensor", tensor}, {"storageDims", storageDims}, {"storageDimsNum", storageDimsNum}})) {
    return status;
  }
  return msct::copy_out(__func__, tensor->storage_shape, storageDims, storageDimsNum);
}

aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue, uint64_t* stridesNum) {
  if (int32_t status =
          check_not_null(ACLNN_ERR_PARAM_NULLPTR, __func__,
                         {{"tensor", tensor}, {"stridesValue", stridesValue}, {"stridesNum", stridesNum}})) {
    return status;
  }
  return msct::copy_out(__func__, tensor->strides, stridesValue, stridesNum);
}

aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset) {
  if (int32_t status = check_not_null(ACLNN_ERR_PARAM_NULLPTR, __func__, {{"tensor", tensor}, {"offset", offset}})) {
    return status;
  }
  *offset = tensor->offset;
  return ACLNN_SUCCESS;
}

aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format) {
  if (int32_t status = check_not_null(ACLNN_ERR_PARAM_NULLPTR, __func__, {{"tensor", tensor}, {"format", format}})) {
    return status;
  }
  *format = tensor->format;
  return ACLNN_SUCCESS;
}

aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType) {
  if (int32_t status =
          check_not_null(ACLNN_ERR_PARAM_NULLPTR, __func__, {{"tensor", tensor}, {"dataType", dataType}})) {
    return status;
  }
  *dataType = tensor->dtype;
  return ACLNN_SUCCESS;
}

aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr) {
  if (int32_t status = check_not_null(ACLNN_ERR_PARAM_NULLPTR, __func__, {{"tensor", tensor}, {"addr", addr}})) {
    return status;
  }
  *addr = tensor->data;
  return ACLNN_SUCCESS;
}

aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr) {
  if (int32_t status = check_not_null(ACLNN_ERR_PARAM_NULLPTR, __func__, {{"tensor", tensor}})) return status;
  tensor->data = addr;
  return ACLNN_SUCCESS;
}

aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size) {
  return msct::create_array<aclIntArray>(__func__, value, size);
}

aclnnStatus aclDestroyIntArray(const aclIntArray* array) {
  delete array;
  return ACLNN_SUCCESS;
}

aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size) {
  return msct::array_size(__func__, array, size);
}

aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size) {
  return msct::create_array<aclBoolArray>(__func__, value, size);
}

aclnnStatus aclDestroyBoolArray(const aclBoolArray* array) {
  delete array;
  return ACLNN_SUCCESS;
}

aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size) {
  return msct::array_size(__func__, array, size);
}
