/*
 * Operands of the two-phase operators: tensors, arrays and executors. Names and arguments are CANN's. Codes are in
 * aclnn/opdev/op_errno.h.
 */
#ifndef MS_CONVTANH_ACLNN_ACL_META_H_
#define MS_CONVTANH_ACLNN_ACL_META_H_

#include <stdint.h>
#ifndef __cplusplus
#include <stdbool.h>
#endif

#include "acl/acl_base.h"

#ifdef __cplusplus
extern "C" {
#endif

#ifndef ACLNN_META
#define ACLNN_META
typedef struct aclOpExecutor aclOpExecutor;
typedef struct aclTensor aclTensor;
typedef struct aclIntArray aclIntArray;
typedef struct aclBoolArray aclBoolArray;

typedef int32_t aclnnStatus;
#ifdef __cplusplus
constexpr aclnnStatus OK = 0;
#endif
#endif

/*
 * A view of memory: element [i, j, ...] lies at tensorData + (offset + i * stride[0] + j * stride[1] + ...) elements.
 *   viewDims, viewDimsNum        the shape; 0 dims make a scalar
 *   stride                       viewDimsNum distances in elements, or null for a contiguous view
 *   offset                       of the first element, in elements
 *   storageDims, storageDimsNum  the shape of the memory that the view lies in
 *   tensorData                   its first byte; may be null until the operator is launched
 * Shape and strides are checked by the operator, not here. Returns null if viewDims or storageDims is null although its
 * count is not 0, or if memory runs out. The data stays the caller's.
 */
ACL_FUNC_VISIBILITY aclTensor* aclCreateTensor(const int64_t* viewDims, uint64_t viewDimsNum, aclDataType dataType,
                                               const int64_t* stride, int64_t offset, aclFormat format,
                                               const int64_t* storageDims, uint64_t storageDimsNum, void* tensorData);
/* Destroying null does nothing, here and for the arrays below. */
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyTensor(const aclTensor* tensor);

/* These return arrays made by new int64_t[]: the caller frees them with delete[]. */
ACL_FUNC_VISIBILITY aclnnStatus aclGetViewShape(const aclTensor* tensor, int64_t** viewDims, uint64_t* viewDimsNum);
ACL_FUNC_VISIBILITY aclnnStatus aclGetStorageShape(const aclTensor* tensor, int64_t** storageDims,
                                                   uint64_t* storageDimsNum);
ACL_FUNC_VISIBILITY aclnnStatus aclGetViewStrides(const aclTensor* tensor, int64_t** stridesValue,
                                                  uint64_t* stridesNum);
ACL_FUNC_VISIBILITY aclnnStatus aclGetViewOffset(const aclTensor* tensor, int64_t* offset);
ACL_FUNC_VISIBILITY aclnnStatus aclGetFormat(const aclTensor* tensor, aclFormat* format);
ACL_FUNC_VISIBILITY aclnnStatus aclGetDataType(const aclTensor* tensor, aclDataType* dataType);

/* tensorData: the storage's first byte, before the offset. Changing it does not touch executors that exist already. */
ACL_FUNC_VISIBILITY aclnnStatus aclGetRawTensorAddr(const aclTensor* tensor, void** addr);
ACL_FUNC_VISIBILITY aclnnStatus aclSetRawTensorAddr(aclTensor* tensor, void* addr);

/* Arrays copy their values. */
ACL_FUNC_VISIBILITY aclIntArray* aclCreateIntArray(const int64_t* value, uint64_t size);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyIntArray(const aclIntArray* array);
ACL_FUNC_VISIBILITY aclnnStatus aclGetIntArraySize(const aclIntArray* array, uint64_t* size);
ACL_FUNC_VISIBILITY aclBoolArray* aclCreateBoolArray(const bool* value, uint64_t size);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyBoolArray(const aclBoolArray* array);
ACL_FUNC_VISIBILITY aclnnStatus aclGetBoolArraySize(const aclBoolArray* array, uint64_t* size);

/*
 * Executors are made by phase 1 and freed by phase 2. A repeatable one is not: phase 2 may be called on it any number
 * of times, also from several threads, and aclDestroyAclOpExecutor frees it, as it frees one that was never launched.
 * Work already launched goes on. A null executor returns ACLNN_ERR_INNER_NULLPTR, one that is not alive
 * ACLNN_ERR_PARAM_INVALID.
 */
ACL_FUNC_VISIBILITY aclnnStatus aclSetAclOpExecutorRepeatable(aclOpExecutor* executor);
ACL_FUNC_VISIBILITY aclnnStatus aclDestroyAclOpExecutor(aclOpExecutor* executor);

/*
 * Re-points one operand of later launches, and the tensor itself, to addr.
 *   index   aclSetTensorAddr: position among all tensors of the operator's prototype, absent ones counted, for example
 *           x 0, filter 1, bias 2, y 3; aclSetInputTensorAddr: among the inputs; aclSetOutputTensorAddr: among the
 *           outputs
 *   tensor  the one given to phase 1, or another of the same dtype, shape, strides and offset
 *   addr    the new storage's first byte, before the offset
 */
ACL_FUNC_VISIBILITY aclnnStatus aclSetTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                                 void* addr);
ACL_FUNC_VISIBILITY aclnnStatus aclSetInputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                                      void* addr);
ACL_FUNC_VISIBILITY aclnnStatus aclSetOutputTensorAddr(aclOpExecutor* executor, const size_t index, aclTensor* tensor,
                                                       void* addr);

#ifdef __cplusplus
}
#endif

#endif  /* MS_CONVTANH_ACLNN_ACL_META_H_ */
