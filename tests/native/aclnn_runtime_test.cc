// The host runtime besides streams: start and end, device, contexts, memory, tensors and arrays, data types.
#include <limits>
#include <thread>

#include "acl/acl.h"
#include "aclnn/aclnn_base.h"
#include "tests/native/aclnn_test_util.h"

using namespace msct_test;

TEST(start_and_end) {
  CHECK_EQ(aclInit("/no/such/file.json"), ACL_ERROR_INVALID_FILE);
  CHECK_EQ(recent_message(),
           "aclInit: configPath must be null, \"\" or a file that can be read, got /no/such/file.json");
  CHECK_EQ(aclInit(nullptr), ACL_SUCCESS);
  CHECK_EQ(aclInit(""), ACL_ERROR_REPEAT_INITIALIZE);
  CHECK_EQ(aclFinalize(), ACL_SUCCESS);
  CHECK_EQ(aclFinalize(), ACL_ERROR_REPEAT_FINALIZE);
  CHECK_EQ(aclInit(""), ACL_SUCCESS);
  CHECK_EQ(aclFinalize(), ACL_SUCCESS);
  CHECK_EQ(aclnnInit(nullptr), ACL_SUCCESS);
  CHECK_EQ(aclnnInit("/no/such/file.json"), ACL_ERROR_INVALID_FILE);
  CHECK_EQ(aclnnFinalize(), ACL_SUCCESS);
}

TEST(one_device) {
  uint32_t count = 0;
  int32_t device = 9;
  CHECK_EQ(aclrtGetDeviceCount(&count), ACL_SUCCESS);
  CHECK_EQ(count, 1u);
  CHECK_EQ(aclrtGetDeviceCount(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
  CHECK_EQ(aclrtSetDevice(1), ACL_ERROR_RT_INVALID_DEVICEID);
  CHECK_EQ(recent_message(), "aclrtSetDevice: deviceId must be 0, the only device here, got 1");
  CHECK_EQ(aclrtSetDevice(0), ACL_SUCCESS);
  CHECK_EQ(aclrtGetDevice(&device), ACL_SUCCESS);
  CHECK_EQ(device, 0);
  CHECK_EQ(aclrtGetDevice(nullptr), ACL_ERROR_INVALID_PARAM);
  std::thread([] {  // a device is a thread's own
    int32_t none;
    CHECK_EQ(aclrtGetDevice(&none), ACL_ERROR_RT_CONTEXT_NULL);
  })
      .join();
  aclrtRunMode mode = ACL_DEVICE;
  CHECK_EQ(aclrtGetRunMode(&mode), ACL_SUCCESS);
  CHECK_EQ(mode, ACL_HOST);
  CHECK_EQ(aclrtResetDevice(-1), ACL_ERROR_RT_INVALID_DEVICEID);
  CHECK_EQ(aclrtResetDevice(0), ACL_SUCCESS);
  CHECK_EQ(aclrtGetDevice(&device), ACL_ERROR_RT_CONTEXT_NULL);
  CHECK_EQ(aclrtResetDeviceForce(0), ACL_SUCCESS);
}

TEST(contexts) {
  aclrtContext first = nullptr, second = nullptr, current = nullptr;
  CHECK_EQ(aclrtGetCurrentContext(&current), ACL_ERROR_RT_CONTEXT_NULL);
  CHECK_EQ(aclrtCreateContext(nullptr, 0), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aclrtCreateContext(&first, 3), ACL_ERROR_RT_INVALID_DEVICEID);
  CHECK_EQ(aclrtCreateContext(&first, 0), ACL_SUCCESS);
  CHECK_EQ(aclrtCreateContext(&second, 0), ACL_SUCCESS);
  CHECK_EQ(aclrtGetCurrentContext(&current), ACL_SUCCESS);
  CHECK(current == second);
  CHECK_EQ(aclrtSetCurrentContext(first), ACL_SUCCESS);
  CHECK_EQ(aclrtDestroyContext(first), ACL_SUCCESS);
  CHECK_EQ(aclrtGetCurrentContext(&current), ACL_ERROR_RT_CONTEXT_NULL);
  CHECK_EQ(aclrtSetCurrentContext(first), ACL_ERROR_RT_INVALID_HANDLE);
  CHECK_EQ(aclrtDestroyContext(first), ACL_ERROR_RT_INVALID_HANDLE);
  CHECK_EQ(aclrtDestroyContext(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aclrtSetDevice(0), ACL_SUCCESS);
  CHECK_EQ(aclrtGetCurrentContext(&current), ACL_SUCCESS);
  CHECK_EQ(aclrtDestroyContext(current), ACL_ERROR_RT_PARAM_INVALID);  // the default one
  CHECK_EQ(aclrtDestroyContext(second), ACL_SUCCESS);
  CHECK_EQ(aclrtResetDevice(0), ACL_SUCCESS);
}

TEST(memory) {
  void* device = nullptr;
  void* host = nullptr;
  for (const size_t size : {size_t{1}, size_t{63}, size_t{64}, size_t{65}, size_t{1} << 20}) {
    CHECK_EQ(aclrtMalloc(&device, size, ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
    CHECK_EQ(aclrtMallocHost(&host, size), ACL_SUCCESS);
    CHECK_EQ(reinterpret_cast<uintptr_t>(device) % 64, 0u);
    CHECK_EQ(reinterpret_cast<uintptr_t>(host) % 64, 0u);
    CHECK_EQ(aclrtMemset(host, size, 0x5a, size), ACL_SUCCESS);
    CHECK_EQ(aclrtMemset(device, size, 0, size), ACL_SUCCESS);
    CHECK_EQ(aclrtMemcpy(device, size, host, size, ACL_MEMCPY_HOST_TO_DEVICE), ACL_SUCCESS);
    CHECK_EQ(static_cast<unsigned char*>(device)[size - 1], 0x5a);
    CHECK_EQ(aclrtFree(device), ACL_SUCCESS);
    CHECK_EQ(aclrtFreeHost(host), ACL_SUCCESS);
  }
  CHECK_EQ(aclrtFree(device), ACL_ERROR_RT_PARAM_INVALID);  // twice
  CHECK_EQ(aclrtFree(&device), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_EQ(aclrtFree(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aclrtFreeHost(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aclrtMalloc(nullptr, 1, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aclrtMalloc(&device, 0, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aclrtMalloc(&device, SIZE_MAX, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_ERROR_RT_MEMORY_ALLOCATION);
  CHECK_EQ(aclrtMallocHost(&host, SIZE_MAX - 63), ACL_ERROR_RT_MEMORY_ALLOCATION);
}

TEST(copies_and_fills_that_are_refused) {
  char room[8] = "1234567", source[8] = "abcdefg";
  CHECK_EQ(aclrtMemcpy(room, 4, source, 5, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_EQ(recent_message(), "aclrtMemcpy: count must be at most destMax = 4, got 5");
  CHECK_EQ(aclrtMemcpy(nullptr, 4, source, 4, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aclrtMemcpy(room, 4, nullptr, 4, ACL_MEMCPY_HOST_TO_HOST), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aclrtMemcpy(room, 4, source, 4, static_cast<aclrtMemcpyKind>(6)), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aclrtMemcpy(nullptr, 0, nullptr, 0, ACL_MEMCPY_HOST_TO_HOST), ACL_SUCCESS);
  CHECK_EQ(aclrtMemcpyAsync(room, 4, source, 5, ACL_MEMCPY_HOST_TO_HOST, nullptr), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_EQ(aclrtMemcpyAsync(room, 4, source, 4, ACL_MEMCPY_HOST_TO_HOST, room), ACL_ERROR_RT_INVALID_HANDLE);
  CHECK_EQ(aclrtMemcpyAsync(nullptr, 0, nullptr, 0, ACL_MEMCPY_HOST_TO_HOST, nullptr), ACL_SUCCESS);
  CHECK_EQ(aclrtMemset(room, 4, 0, 5), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_EQ(aclrtMemset(nullptr, 4, 0, 4), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aclrtMemset(nullptr, 0, 0, 0), ACL_SUCCESS);
  CHECK_EQ(aclrtMemsetAsync(room, 4, 0, 5, nullptr), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_EQ(std::string(room), "1234567");
  CHECK_EQ(aclrtMemcpyAsync(room, 8, source, 4, ACL_MEMCPY_HOST_TO_HOST, nullptr), ACL_SUCCESS);
  CHECK_EQ(aclrtMemsetAsync(room + 5, 2, 'x', 2, nullptr), ACL_SUCCESS);
  CHECK_EQ(std::string(room), "abcd5xx");
}

// Memory that is not the runtime's may be gone after the call: such a copy is done by then, in its place on the stream.
TEST(asynchronous_copies_from_foreign_memory_are_done_at_once) {
  aclrtStream stream = nullptr;
  void* device = nullptr;
  CHECK_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
  CHECK_EQ(aclrtMalloc(&device, 64, ACL_MEM_MALLOC_NORMAL_ONLY), ACL_SUCCESS);
  for (char letter = 'a'; letter < 'k'; ++letter) {
    std::vector<char> foreign(64, letter);
    CHECK_EQ(aclrtMemcpyAsync(device, 64, foreign.data(), 64, ACL_MEMCPY_HOST_TO_DEVICE, stream), ACL_SUCCESS);
    foreign.assign(64, '!');
    CHECK_EQ(
        aclrtMemcpyAsync(foreign.data(), 64, static_cast<char*>(device) + 1, 63, ACL_MEMCPY_DEVICE_TO_HOST, stream),
        ACL_SUCCESS);
    CHECK_EQ(foreign[62], letter);
    CHECK_EQ(foreign[63], '!');
  }
  CHECK_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
  CHECK_EQ(aclrtFree(device), ACL_SUCCESS);
}

TEST(what_a_tensor_was_made_of) {
  const Ints shape = {2, 3, 4}, strides = {24, 8, 2}, storage = {60};
  float data = 0, other = 0;
  aclTensor* tensor =
      aclCreateTensor(shape.data(), 3, ACL_BF16, strides.data(), 5, ACL_FORMAT_NCL, storage.data(), 1, &data);
  int64_t* values = nullptr;
  uint64_t count = 0;
  CHECK_EQ(aclGetViewShape(tensor, &values, &count), ACLNN_SUCCESS);
  CHECK(Ints(values, values + count) == shape);
  delete[] values;
  CHECK_EQ(aclGetViewStrides(tensor, &values, &count), ACLNN_SUCCESS);
  CHECK(Ints(values, values + count) == strides);
  delete[] values;
  CHECK_EQ(aclGetStorageShape(tensor, &values, &count), ACLNN_SUCCESS);
  CHECK(Ints(values, values + count) == storage);
  delete[] values;
  int64_t offset = 0;
  aclFormat format = ACL_FORMAT_UNDEFINED;
  aclDataType dtype = ACL_DT_UNDEFINED;
  void* address = nullptr;
  CHECK_EQ(aclGetViewOffset(tensor, &offset), ACLNN_SUCCESS);
  CHECK_EQ(offset, 5);
  CHECK_EQ(aclGetFormat(tensor, &format), ACLNN_SUCCESS);
  CHECK_EQ(format, ACL_FORMAT_NCL);
  CHECK_EQ(aclGetDataType(tensor, &dtype), ACLNN_SUCCESS);
  CHECK_EQ(dtype, ACL_BF16);
  CHECK_EQ(aclGetRawTensorAddr(tensor, &address), ACLNN_SUCCESS);
  CHECK(address == &data);
  CHECK_EQ(aclSetRawTensorAddr(tensor, &other), ACLNN_SUCCESS);
  CHECK_EQ(aclGetRawTensorAddr(tensor, &address), ACLNN_SUCCESS);
  CHECK(address == &other);
  for (aclnnStatus status :
       {aclGetViewShape(nullptr, &values, &count), aclGetViewStrides(tensor, nullptr, &count),
        aclGetStorageShape(tensor, &values, nullptr), aclGetViewOffset(tensor, nullptr), aclGetFormat(nullptr, &format),
        aclGetDataType(tensor, nullptr), aclGetRawTensorAddr(tensor, nullptr), aclSetRawTensorAddr(nullptr, &data)}) {
    CHECK_EQ(status, ACLNN_ERR_PARAM_NULLPTR);
  }
  CHECK_EQ(aclDestroyTensor(tensor), ACLNN_SUCCESS);
  CHECK_EQ(aclDestroyTensor(nullptr), ACLNN_SUCCESS);
}

TEST(tensors_without_strides_are_contiguous) {
  const Ints shape = {2, 0, 4, 5};
  aclTensor* tensor =
      aclCreateTensor(shape.data(), 4, ACL_FLOAT, nullptr, 0, ACL_FORMAT_NCHW, shape.data(), 4, nullptr);
  int64_t* values = nullptr;
  uint64_t count = 0;
  CHECK_EQ(aclGetViewStrides(tensor, &values, &count), ACLNN_SUCCESS);
  CHECK((Ints(values, values + count) == Ints{20, 20, 5, 1}));
  delete[] values;
  CHECK_EQ(aclDestroyTensor(tensor), ACLNN_SUCCESS);
}

TEST(tensors_that_cannot_be_made) {
  const Ints shape = {1};
  CHECK(aclCreateTensor(nullptr, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape.data(), 1, nullptr) == nullptr);
  CHECK_EQ(recent_message(), "aclCreateTensor: viewDims must not be null for 1 dimensions");
  CHECK(aclCreateTensor(shape.data(), 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 2, nullptr) == nullptr);
  CHECK_EQ(recent_message(), "aclCreateTensor: storageDims must not be null for 2 dimensions");
  aclTensor* scalar = aclCreateTensor(nullptr, 0, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, nullptr, 0, nullptr);
  CHECK(scalar != nullptr);
  CHECK_EQ(aclDestroyTensor(scalar), ACLNN_SUCCESS);
  CHECK(aclCreateTensor(shape.data(), UINT64_MAX / 8, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, shape.data(), 1, nullptr) ==
        nullptr);
  CHECK(recent_message().find("aclCreateTensor: ") == 0);
}

TEST(arrays) {
  Ints values = {3, -1, INT64_MAX};
  const bool flags[2] = {true, false};
  uint64_t size = 0;
  aclIntArray* ints = aclCreateIntArray(values.data(), values.size());
  aclBoolArray* bools = aclCreateBoolArray(flags, 2);
  aclIntArray* none = aclCreateIntArray(nullptr, 0);
  CHECK_EQ(aclGetIntArraySize(ints, &size), ACLNN_SUCCESS);
  CHECK_EQ(size, 3u);
  CHECK_EQ(aclGetBoolArraySize(bools, &size), ACLNN_SUCCESS);
  CHECK_EQ(size, 2u);
  CHECK_EQ(aclGetIntArraySize(none, &size), ACLNN_SUCCESS);
  CHECK_EQ(size, 0u);
  CHECK_EQ(aclGetIntArraySize(nullptr, &size), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_EQ(aclGetBoolArraySize(bools, nullptr), ACLNN_ERR_PARAM_NULLPTR);
  CHECK(aclCreateIntArray(nullptr, 2) == nullptr);
  CHECK_EQ(recent_message(), "aclCreateIntArray: value must not be null for a size of 2");
  CHECK(aclCreateBoolArray(nullptr, 1) == nullptr);
  CHECK_EQ(aclDestroyIntArray(ints), ACLNN_SUCCESS);
  CHECK_EQ(aclDestroyIntArray(none), ACLNN_SUCCESS);
  CHECK_EQ(aclDestroyIntArray(nullptr), ACLNN_SUCCESS);
  CHECK_EQ(aclDestroyBoolArray(bools), ACLNN_SUCCESS);
  CHECK_EQ(aclDestroyBoolArray(nullptr), ACLNN_SUCCESS);
}

TEST(sizes_of_data_types) {
  const std::pair<aclDataType, size_t> sizes[] = {
      {ACL_DT_UNDEFINED, 0}, {ACL_STRING, 0}, {ACL_INT4, 1},      {ACL_UINT1, 1},       {ACL_BOOL, 1},
      {ACL_INT8, 1},         {ACL_UINT8, 1},  {ACL_BF16, 2},      {ACL_FLOAT16, 2},     {ACL_INT16, 2},
      {ACL_UINT16, 2},       {ACL_FLOAT, 4},  {ACL_INT32, 4},     {ACL_UINT32, 4},      {ACL_INT64, 8},
      {ACL_UINT64, 8},       {ACL_DOUBLE, 8}, {ACL_COMPLEX64, 8}, {ACL_COMPLEX128, 16}, {ACL_COMPLEX32, 4},
      {ACL_FLOAT8_E5M2, 1}};
  for (const auto& [dtype, size] : sizes) CHECK_EQ(aclDataTypeSize(dtype), size);
}

// All 65536 values there and back; the neighbours of every midpoint between two of them.
TEST(float16_conversions) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const float value = aclFloat16ToFloat(static_cast<aclFloat16>(bits));
    const int exponent = (bits >> 10) & 31;
    const double fraction = (bits & 1023) / 1024.0;
    const double magnitude = exponent == 0 ? fraction * 0x1p-14 : (1 + fraction) * std::pow(2.0, exponent - 15);
    CHECK_EQ(value, (bits & 0x8000 ? -1 : 1) * magnitude);  // 31 counts as an exponent like others
    CHECK_EQ(std::signbit(value), (bits & 0x8000) != 0);
    if (exponent == 31) {
      CHECK_EQ(aclFloatToFloat16(value), (bits & 0x8000) | 0x7bff);
      continue;
    }
    CHECK_EQ(aclFloatToFloat16(value), bits);
    if ((bits & 0x7fff) == 0x7bff) continue;
    const float next = aclFloat16ToFloat(static_cast<aclFloat16>(bits + 1));
    const float middle = (value + next) / 2;  // exact in float32
    CHECK_EQ(aclFloatToFloat16(middle), bits % 2 == 0 ? bits : bits + 1);  // to even
    CHECK_EQ(aclFloatToFloat16(std::nextafter(middle, value)), bits);
    CHECK_EQ(aclFloatToFloat16(std::nextafter(middle, next)), bits + 1);
  }
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK_EQ(aclFloatToFloat16(infinity), 0x7bff);
  CHECK_EQ(aclFloatToFloat16(-infinity), 0xfbff);
  CHECK_EQ(aclFloatToFloat16(std::numeric_limits<float>::quiet_NaN()), 0x7bff);
  CHECK_EQ(aclFloatToFloat16(65519.0f), 0x7bff);
  CHECK_EQ(aclFloatToFloat16(1e30f), 0x7bff);
  CHECK_EQ(aclFloatToFloat16(std::numeric_limits<float>::denorm_min()), 0);
  CHECK_EQ(aclFloatToFloat16(-0.0f), 0x8000);
}
