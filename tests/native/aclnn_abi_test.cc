// Names and numbers that must equal CANN's, so that one object file links with either library: compared as literals
// that were read from CANN's public headers (hicann/runtime include/external/acl, hicann/opbase include/nnopbase).
#include <type_traits>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "aclnn/opdev/op_errno.h"
#include "aclnnop/aclnn_fused_conv_tanh.h"
#include "tests/native/test.h"

// The declared type of each function, written out once more.
#define SIGNATURE(function, ...) static_assert(std::is_same<decltype(&function), __VA_ARGS__>::value, #function)

SIGNATURE(aclInit, int (*)(const char*));
SIGNATURE(aclFinalize, int (*)());
SIGNATURE(aclGetRecentErrMsg, const char* (*)());
SIGNATURE(aclrtSetDevice, int (*)(int32_t));
SIGNATURE(aclrtResetDevice, int (*)(int32_t));
SIGNATURE(aclrtResetDeviceForce, int (*)(int32_t));
SIGNATURE(aclrtGetDevice, int (*)(int32_t*));
SIGNATURE(aclrtGetDeviceCount, int (*)(uint32_t*));
SIGNATURE(aclrtGetRunMode, int (*)(aclrtRunMode*));
SIGNATURE(aclrtSynchronizeDevice, int (*)());
SIGNATURE(aclrtCreateContext, int (*)(void**, int32_t));
SIGNATURE(aclrtDestroyContext, int (*)(void*));
SIGNATURE(aclrtSetCurrentContext, int (*)(void*));
SIGNATURE(aclrtGetCurrentContext, int (*)(void**));
SIGNATURE(aclrtMalloc, int (*)(void**, size_t, aclrtMemMallocPolicy));
SIGNATURE(aclrtFree, int (*)(void*));
SIGNATURE(aclrtMallocHost, int (*)(void**, size_t));
SIGNATURE(aclrtFreeHost, int (*)(void*));
SIGNATURE(aclrtMemcpy, int (*)(void*, size_t, const void*, size_t, aclrtMemcpyKind));
SIGNATURE(aclrtMemcpyAsync, int (*)(void*, size_t, const void*, size_t, aclrtMemcpyKind, void*));
SIGNATURE(aclrtMemset, int (*)(void*, size_t, int32_t, size_t));
SIGNATURE(aclrtMemsetAsync, int (*)(void*, size_t, int32_t, size_t, void*));
SIGNATURE(aclrtCreateStream, int (*)(void**));
SIGNATURE(aclrtCreateStreamWithConfig, int (*)(void**, uint32_t, uint32_t));
SIGNATURE(aclrtDestroyStream, int (*)(void*));
SIGNATURE(aclrtDestroyStreamForce, int (*)(void*));
SIGNATURE(aclrtSynchronizeStream, int (*)(void*));
SIGNATURE(aclrtSynchronizeStreamWithTimeout, int (*)(void*, int32_t));
SIGNATURE(aclrtStreamQuery, int (*)(void*, aclrtStreamStatus*));
SIGNATURE(aclrtStreamWaitEvent, int (*)(void*, void*));
SIGNATURE(aclrtCreateEvent, int (*)(void**));
SIGNATURE(aclrtCreateEventWithFlag, int (*)(void**, uint32_t));
SIGNATURE(aclrtCreateEventExWithFlag, int (*)(void**, uint32_t));
SIGNATURE(aclrtDestroyEvent, int (*)(void*));
SIGNATURE(aclrtRecordEvent, int (*)(void*, void*));
SIGNATURE(aclrtQueryEvent, int (*)(void*, aclrtEventStatus*));
SIGNATURE(aclrtQueryEventStatus, int (*)(void*, aclrtEventRecordedStatus*));
SIGNATURE(aclrtSynchronizeEvent, int (*)(void*));
SIGNATURE(aclrtSynchronizeEventWithTimeout, int (*)(void*, int32_t));
SIGNATURE(aclrtEventElapsedTime, int (*)(float*, void*, void*));
SIGNATURE(aclDataTypeSize, size_t (*)(aclDataType));
SIGNATURE(aclFloat16ToFloat, float (*)(uint16_t));
SIGNATURE(aclFloatToFloat16, uint16_t (*)(float));
SIGNATURE(aclnnInit, int32_t (*)(const char*));
SIGNATURE(aclnnFinalize, int32_t (*)());
SIGNATURE(aclCreateTensor, aclTensor* (*)(const int64_t*, uint64_t, aclDataType, const int64_t*, int64_t, aclFormat,
                                          const int64_t*, uint64_t, void*));
SIGNATURE(aclDestroyTensor, int32_t (*)(const aclTensor*));
SIGNATURE(aclGetViewShape, int32_t (*)(const aclTensor*, int64_t**, uint64_t*));
SIGNATURE(aclGetStorageShape, int32_t (*)(const aclTensor*, int64_t**, uint64_t*));
SIGNATURE(aclGetViewStrides, int32_t (*)(const aclTensor*, int64_t**, uint64_t*));
SIGNATURE(aclGetViewOffset, int32_t (*)(const aclTensor*, int64_t*));
SIGNATURE(aclGetFormat, int32_t (*)(const aclTensor*, aclFormat*));
SIGNATURE(aclGetDataType, int32_t (*)(const aclTensor*, aclDataType*));
SIGNATURE(aclGetRawTensorAddr, int32_t (*)(const aclTensor*, void**));
SIGNATURE(aclSetRawTensorAddr, int32_t (*)(aclTensor*, void*));
SIGNATURE(aclCreateIntArray, aclIntArray* (*)(const int64_t*, uint64_t));
SIGNATURE(aclDestroyIntArray, int32_t (*)(const aclIntArray*));
SIGNATURE(aclGetIntArraySize, int32_t (*)(const aclIntArray*, uint64_t*));
SIGNATURE(aclCreateBoolArray, aclBoolArray* (*)(const bool*, uint64_t));
SIGNATURE(aclDestroyBoolArray, int32_t (*)(const aclBoolArray*));
SIGNATURE(aclGetBoolArraySize, int32_t (*)(const aclBoolArray*, uint64_t*));
SIGNATURE(aclSetAclOpExecutorRepeatable, int32_t (*)(aclOpExecutor*));
SIGNATURE(aclDestroyAclOpExecutor, int32_t (*)(aclOpExecutor*));
SIGNATURE(aclSetTensorAddr, int32_t (*)(aclOpExecutor*, size_t, aclTensor*, void*));
SIGNATURE(aclSetInputTensorAddr, int32_t (*)(aclOpExecutor*, size_t, aclTensor*, void*));
SIGNATURE(aclSetOutputTensorAddr, int32_t (*)(aclOpExecutor*, size_t, aclTensor*, void*));
SIGNATURE(aclnnFusedConvTanhGetWorkspaceSize,
          int32_t (*)(const aclTensor*, const aclTensor*, const aclTensor*, const aclIntArray*, const aclIntArray*,
                      const aclIntArray*, int64_t, int64_t, aclTensor*, uint64_t*, aclOpExecutor**));
SIGNATURE(aclnnFusedConvTanh, int32_t (*)(void*, uint64_t, aclOpExecutor*, void*));

TEST(data_types) {
  CHECK_EQ(ACL_DT_UNDEFINED, -1);
  CHECK_EQ(ACL_FLOAT, 0);
  CHECK_EQ(ACL_FLOAT16, 1);
  CHECK_EQ(ACL_INT8, 2);
  CHECK_EQ(ACL_INT32, 3);
  CHECK_EQ(ACL_UINT8, 4);
  CHECK_EQ(ACL_INT16, 6);
  CHECK_EQ(ACL_UINT16, 7);
  CHECK_EQ(ACL_UINT32, 8);
  CHECK_EQ(ACL_INT64, 9);
  CHECK_EQ(ACL_UINT64, 10);
  CHECK_EQ(ACL_DOUBLE, 11);
  CHECK_EQ(ACL_BOOL, 12);
  CHECK_EQ(ACL_STRING, 13);
  CHECK_EQ(ACL_COMPLEX64, 16);
  CHECK_EQ(ACL_COMPLEX128, 17);
  CHECK_EQ(ACL_BF16, 27);
  CHECK_EQ(ACL_INT4, 29);
  CHECK_EQ(ACL_UINT1, 30);
  CHECK_EQ(ACL_COMPLEX32, 33);
  CHECK_EQ(ACL_HIFLOAT8, 34);
  CHECK_EQ(ACL_FLOAT8_E5M2, 35);
  CHECK_EQ(ACL_FLOAT8_E4M3FN, 36);
  CHECK_EQ(ACL_FLOAT8_E8M0, 37);
  CHECK_EQ(ACL_FLOAT6_E3M2, 38);
  CHECK_EQ(ACL_FLOAT6_E2M3, 39);
  CHECK_EQ(ACL_FLOAT4_E2M1, 40);
  CHECK_EQ(ACL_FLOAT4_E1M2, 41);
}

TEST(formats) {
  CHECK_EQ(ACL_FORMAT_UNDEFINED, -1);
  CHECK_EQ(ACL_FORMAT_NCHW, 0);
  CHECK_EQ(ACL_FORMAT_NHWC, 1);
  CHECK_EQ(ACL_FORMAT_ND, 2);
  CHECK_EQ(ACL_FORMAT_NC1HWC0, 3);
  CHECK_EQ(ACL_FORMAT_FRACTAL_Z, 4);
  CHECK_EQ(ACL_FORMAT_NC1HWC0_C04, 12);
  CHECK_EQ(ACL_FORMAT_HWCN, 16);
  CHECK_EQ(ACL_FORMAT_NDHWC, 27);
  CHECK_EQ(ACL_FORMAT_FRACTAL_NZ, 29);
  CHECK_EQ(ACL_FORMAT_NCDHW, 30);
  CHECK_EQ(ACL_FORMAT_NDC1HWC0, 32);
  CHECK_EQ(ACL_FRACTAL_Z_3D, 33);
  CHECK_EQ(ACL_FORMAT_NC, 35);
  CHECK_EQ(ACL_FORMAT_NCL, 47);
}

TEST(runtime_enumerations) {
  CHECK_EQ(ACL_DEVICE, 0);
  CHECK_EQ(ACL_HOST, 1);
  CHECK_EQ(ACL_EVENT_STATUS_COMPLETE, 0);
  CHECK_EQ(ACL_EVENT_STATUS_NOT_READY, 1);
  CHECK_EQ(ACL_EVENT_STATUS_RESERVED, 2);
  CHECK_EQ(ACL_EVENT_RECORDED_STATUS_NOT_READY, 0);
  CHECK_EQ(ACL_EVENT_RECORDED_STATUS_COMPLETE, 1);
  CHECK_EQ(ACL_STREAM_STATUS_COMPLETE, 0);
  CHECK_EQ(ACL_STREAM_STATUS_NOT_READY, 1);
  CHECK_EQ(ACL_STREAM_STATUS_RESERVED, 0xffff);
  CHECK_EQ(ACL_MEMCPY_HOST_TO_HOST, 0);
  CHECK_EQ(ACL_MEMCPY_HOST_TO_DEVICE, 1);
  CHECK_EQ(ACL_MEMCPY_DEVICE_TO_HOST, 2);
  CHECK_EQ(ACL_MEMCPY_DEVICE_TO_DEVICE, 3);
  CHECK_EQ(ACL_MEMCPY_DEFAULT, 4);
  CHECK_EQ(ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE, 5);
  CHECK_EQ(ACL_MEMCPY_INNER_DEVICE_TO_DEVICE, 6);
  CHECK_EQ(ACL_MEMCPY_INTER_DEVICE_TO_DEVICE, 7);
  CHECK_EQ(ACL_MEM_MALLOC_HUGE_FIRST, 0);
  CHECK_EQ(ACL_MEM_MALLOC_HUGE_ONLY, 1);
  CHECK_EQ(ACL_MEM_MALLOC_NORMAL_ONLY, 2);
  CHECK_EQ(ACL_MEM_MALLOC_HUGE_FIRST_P2P, 3);
  CHECK_EQ(ACL_MEM_MALLOC_HUGE_ONLY_P2P, 4);
  CHECK_EQ(ACL_MEM_MALLOC_NORMAL_ONLY_P2P, 5);
  CHECK_EQ(ACL_MEM_MALLOC_HUGE1G_ONLY, 6);
  CHECK_EQ(ACL_MEM_MALLOC_HUGE1G_ONLY_P2P, 7);
  CHECK_EQ(ACL_MEM_TYPE_LOW_BAND_WIDTH, 0x100);
  CHECK_EQ(ACL_MEM_TYPE_HIGH_BAND_WIDTH, 0x1000);
  CHECK_EQ(ACL_MEM_ACCESS_USER_SPACE_READONLY, 0x100000);
  CHECK_EQ(ACL_EVENT_SYNC, 1u);
  CHECK_EQ(ACL_EVENT_CAPTURE_STREAM_PROGRESS, 2u);
  CHECK_EQ(ACL_EVENT_TIME_LINE, 8u);
  CHECK_EQ(ACL_STREAM_FAST_LAUNCH, 1u);
  CHECK_EQ(ACL_STREAM_FAST_SYNC, 2u);
}

TEST(codes) {
  CHECK_EQ(ACL_ERROR_NONE, 0);
  CHECK_EQ(ACL_SUCCESS, 0);
  CHECK_EQ(ACL_ERROR_INVALID_PARAM, 100000);
  CHECK_EQ(ACL_ERROR_UNINITIALIZE, 100001);
  CHECK_EQ(ACL_ERROR_REPEAT_INITIALIZE, 100002);
  CHECK_EQ(ACL_ERROR_INVALID_FILE, 100003);
  CHECK_EQ(ACL_ERROR_REPEAT_FINALIZE, 100037);
  CHECK_EQ(ACL_ERROR_BAD_ALLOC, 200000);
  CHECK_EQ(ACL_ERROR_API_NOT_SUPPORT, 200001);
  CHECK_EQ(ACL_ERROR_INVALID_DEVICE, 200002);
  CHECK_EQ(ACL_ERROR_INTERNAL_ERROR, 500000);
  CHECK_EQ(ACL_ERROR_FAILURE, 500001);
  CHECK_EQ(ACL_ERROR_RT_FAILURE, 500003);
  CHECK_EQ(ACL_ERROR_RT_PARAM_INVALID, 107000);
  CHECK_EQ(ACL_ERROR_RT_INVALID_DEVICEID, 107001);
  CHECK_EQ(ACL_ERROR_RT_CONTEXT_NULL, 107002);
  CHECK_EQ(ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID, 107006);
  CHECK_EQ(ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL, 107007);
  CHECK_EQ(ACL_ERROR_RT_INVALID_HANDLE, 107017);
  CHECK_EQ(ACL_ERROR_RT_MEMORY_ALLOCATION, 207001);
  CHECK_EQ(ACL_ERROR_RT_NO_STREAM_RESOURCE, 207008);
  CHECK_EQ(ACL_ERROR_RT_EVENT_NOT_COMPLETE, 507006);
  CHECK_EQ(ACL_ERROR_RT_STREAM_SYNC_TIMEOUT, 507046);
  CHECK_EQ(ACL_ERROR_RT_EVENT_SYNC_TIMEOUT, 507047);
  CHECK_EQ(ACLNN_SUCCESS, 0);
  CHECK_EQ(ACLNN_ERR_PARAM_NULLPTR, 161001);
  CHECK_EQ(ACLNN_ERR_PARAM_INVALID, 161002);
  CHECK_EQ(ACLNN_ERR_RUNTIME_ERROR, 361001);
  CHECK_EQ(ACLNN_ERR_INNER, 561000);
  CHECK_EQ(ACLNN_ERR_INNER_INFERSHAPE_ERROR, 561001);
  CHECK_EQ(ACLNN_ERR_INNER_TILING_ERROR, 561002);
  CHECK_EQ(ACLNN_ERR_INNER_FIND_KERNEL_ERROR, 561003);
  CHECK_EQ(ACLNN_ERR_INNER_CREATE_EXECUTOR, 561101);
  CHECK_EQ(ACLNN_ERR_INNER_NULLPTR, 561103);
}
