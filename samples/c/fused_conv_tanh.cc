// y = tanh(conv2d(x, filter, bias)) through the two-phase C interface, in the steps of every aclnn sample. The same
// file builds against ms_convtanh on any Linux CPU and against CANN with our operator package: see README.md.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

#include "acl/acl.h"
#include "aclnnop/aclnn_fused_conv_tanh.h"

#define CHECK_RET(condition, return_expression) \
  do {                                          \
    if (!(condition)) {                         \
      return_expression;                        \
    }                                           \
  } while (0)

namespace {

int Fail(const char* call, int code) {
  const char* message = aclGetRecentErrMsg();
  std::fprintf(stderr, "%s failed with %d: %s\n", call, code, message == nullptr ? "no message" : message);
  return code;
}

int64_t ElementCount(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  for (int64_t size : shape) count *= size;
  return count;
}

int Init(int32_t deviceId, aclrtStream* stream) {
  int ret = aclInit(nullptr);
  CHECK_RET(ret == ACL_SUCCESS, return Fail("aclInit", ret));
  ret = aclrtSetDevice(deviceId);
  CHECK_RET(ret == ACL_SUCCESS, return Fail("aclrtSetDevice", ret));
  ret = aclrtCreateStream(stream);
  CHECK_RET(ret == ACL_SUCCESS, return Fail("aclrtCreateStream", ret));
  return ACL_SUCCESS;
}

void Finalize(int32_t deviceId, aclrtStream stream) {
  if (stream != nullptr) aclrtDestroyStream(stream);
  aclrtResetDevice(deviceId);
  aclFinalize();
}

// Memory on the device, and the tensor that describes it.
struct DeviceTensor {
  void* data = nullptr;
  aclTensor* tensor = nullptr;

  ~DeviceTensor() {
    aclDestroyTensor(tensor);
    if (data != nullptr) aclrtFree(data);
  }
};

int CreateAclTensor(const std::vector<float>& hostData, const std::vector<int64_t>& shape, aclFormat format,
                    DeviceTensor* result) {
  const size_t size = hostData.size() * sizeof(float);
  int ret = aclrtMalloc(&result->data, size, ACL_MEM_MALLOC_HUGE_FIRST);
  CHECK_RET(ret == ACL_SUCCESS, return Fail("aclrtMalloc", ret));
  ret = aclrtMemcpy(result->data, size, hostData.data(), size, ACL_MEMCPY_HOST_TO_DEVICE);
  CHECK_RET(ret == ACL_SUCCESS, return Fail("aclrtMemcpy", ret));
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size() - 1; i > 0; --i) strides[i - 1] = strides[i] * shape[i];
  result->tensor = aclCreateTensor(shape.data(), shape.size(), ACL_FLOAT, strides.data(), 0, format, shape.data(),
                                   shape.size(), result->data);
  CHECK_RET(result->tensor != nullptr, return Fail("aclCreateTensor", ACL_ERROR_INTERNAL_ERROR));
  return ACL_SUCCESS;
}

struct IntArray {
  aclIntArray* array;
  explicit IntArray(const std::vector<int64_t>& values) : array(aclCreateIntArray(values.data(), values.size())) {}
  ~IntArray() { aclDestroyIntArray(array); }
  IntArray(const IntArray&) = delete;
  IntArray& operator=(const IntArray&) = delete;
};

// The problem of this sample: an edge filter, a blur and a sharpening filter over one padded 6x8 image.
const std::vector<int64_t> kShapeX = {1, 1, 6, 8};
const std::vector<int64_t> kShapeFilter = {3, 1, 3, 3};
const std::vector<int64_t> kShapeBias = {3};
const std::vector<int64_t> kShapeY = {1, 3, 6, 8};
const std::vector<float> kFilter = {
    -1,    0,    1,     -2,   0,   2,    -1,    0,    1,  // Sobel: edges
    .0625, .125, .0625, .125, .25, .125, .0625, .125, .0625,  // Gauss: blurred
    0,     -1,   0,     -1,   5,   -1,   0,     -1,   0,  // sharpened
};
const std::vector<float> kBias = {0.0f, -0.5f, 0.25f};

// What y must be, computed the plain way in double precision.
double Expected(const std::vector<float>& x, int64_t channel, int64_t row, int64_t column) {
  double sum = kBias[channel];
  for (int64_t kh = 0; kh < 3; ++kh) {
    for (int64_t kw = 0; kw < 3; ++kw) {
      const int64_t h = row + kh - 1, w = column + kw - 1;
      if (h < 0 || h >= kShapeX[2] || w < 0 || w >= kShapeX[3]) continue;
      sum += static_cast<double>(x[h * kShapeX[3] + w]) * kFilter[channel * 9 + kh * 3 + kw];
    }
  }
  return std::tanh(sum);
}

int FusedConvTanh(aclrtStream stream) {
  // 1. Inputs and output.
  std::vector<float> xData(ElementCount(kShapeX)), yData(ElementCount(kShapeY), 0.0f);
  for (size_t i = 0; i < xData.size(); ++i) xData[i] = static_cast<float>(i % 7) / 7.0f;
  DeviceTensor x, filter, bias, y;
  int ret = CreateAclTensor(xData, kShapeX, ACL_FORMAT_NCHW, &x);
  CHECK_RET(ret == ACL_SUCCESS, return ret);
  ret = CreateAclTensor(kFilter, kShapeFilter, ACL_FORMAT_NCHW, &filter);
  CHECK_RET(ret == ACL_SUCCESS, return ret);
  ret = CreateAclTensor(kBias, kShapeBias, ACL_FORMAT_ND, &bias);
  CHECK_RET(ret == ACL_SUCCESS, return ret);
  ret = CreateAclTensor(yData, kShapeY, ACL_FORMAT_NCHW, &y);
  CHECK_RET(ret == ACL_SUCCESS, return ret);
  const IntArray strides({1, 1}), pads({1, 1, 1, 1}), dilations({1, 1});
  const int64_t groups = 1, cubeMathType = 0;  // 0: KEEP_DTYPE

  // 2. Phase 1: checks, and how much workspace phase 2 needs.
  uint64_t workspaceSize = 0;
  aclOpExecutor* executor = nullptr;
  ret = aclnnFusedConvTanhGetWorkspaceSize(x.tensor, filter.tensor, bias.tensor, strides.array, pads.array,
                                           dilations.array, groups, cubeMathType, y.tensor, &workspaceSize, &executor);
  CHECK_RET(ret == ACL_SUCCESS, return Fail("aclnnFusedConvTanhGetWorkspaceSize", ret));

  // 3. Phase 2: launches on the stream.
  DeviceTensor workspace;
  if (workspaceSize > 0) {
    ret = aclrtMalloc(&workspace.data, workspaceSize, ACL_MEM_MALLOC_HUGE_FIRST);
    CHECK_RET(ret == ACL_SUCCESS, return Fail("aclrtMalloc", ret));
  }
  ret = aclnnFusedConvTanh(workspace.data, workspaceSize, executor, stream);
  CHECK_RET(ret == ACL_SUCCESS, return Fail("aclnnFusedConvTanh", ret));

  // 4. Waits for the work.
  ret = aclrtSynchronizeStream(stream);
  CHECK_RET(ret == ACL_SUCCESS, return Fail("aclrtSynchronizeStream", ret));

  // 5. Takes the result back, and checks it.
  const size_t size = yData.size() * sizeof(float);
  ret = aclrtMemcpy(yData.data(), size, y.data, size, ACL_MEMCPY_DEVICE_TO_HOST);
  CHECK_RET(ret == ACL_SUCCESS, return Fail("aclrtMemcpy", ret));
  double worst = 0;
  for (int64_t i = 0; i < ElementCount(kShapeY); ++i) {
    const double expected = Expected(xData, i / 48, i / 8 % 6, i % 8);
    worst = std::max(worst, std::fabs(yData[i] - expected));
    if (i % 48 < 4) {
      std::printf("y[0, %d, 0, %d] = %9.6f, expected %9.6f\n", static_cast<int>(i / 48), static_cast<int>(i % 8),
                  static_cast<double>(yData[i]), expected);
    }
  }
  std::printf("largest error of %d elements: %.1e\n", static_cast<int>(yData.size()), worst);
  CHECK_RET(worst < 1e-5, std::fprintf(stderr, "the result is wrong\n"); return ACL_ERROR_FAILURE);
  return ACL_SUCCESS;
}

}  // namespace

int main() {
  const int32_t deviceId = 0;
  aclrtStream stream = nullptr;
  int ret = Init(deviceId, &stream);
  if (ret == ACL_SUCCESS) ret = FusedConvTanh(stream);
  Finalize(deviceId, stream);
  return ret == ACL_SUCCESS ? 0 : 1;
}
