// Calls MindSpore's generated callback as MindSpore does, with this library behind it, and prints y.
//   callback_driver CALLBACK_LIBRARY CONVTANH_LIBRARY
// x [1, 2, 4, 5] counts up in steps of 0.01 from -0.2, filter [3, 2, 3, 3] in steps of 0.02 from -0.5, bias is
// 0.1, 0.2, 0.3; strides [1, 2], pads [1, 0, 1, 1], dilations [1, 1].
#include <dlfcn.h>

#include <cstdio>
#include <vector>

#include "acl/acl.h"
#include "aclnn/acl_meta.h"

using Callback = int (*)(void*, std::vector<void*>, std::vector<void*>, uint64_t*, aclOpExecutor**);
using Launch = int (*)(void*, uint64_t, aclOpExecutor*, aclrtStream);

template <typename Function>
Function find(void* library, const char* name) {
  void* symbol = dlsym(library, name);
  if (symbol == nullptr) std::fprintf(stderr, "%s is missing\n", name);
  return reinterpret_cast<Function>(symbol);
}

aclTensor* make_tensor(decltype(&aclCreateTensor) create, const std::vector<int64_t>& shape, aclFormat format,
                       float* data) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  return create(shape.data(), shape.size(), ACL_FLOAT, strides.data(), 0, format, shape.data(), shape.size(), data);
}

int main(int count, char** arguments) {
  if (count != 3) return 2;
  void* callbacks = dlopen(arguments[1], RTLD_NOW);
  void* library = dlopen(arguments[2], RTLD_NOW);
  if (callbacks == nullptr || library == nullptr) return std::fprintf(stderr, "%s\n", dlerror()), 2;
  const auto create_tensor = find<decltype(&aclCreateTensor)>(library, "aclCreateTensor");
  const auto create_ints = find<decltype(&aclCreateIntArray)>(library, "aclCreateIntArray");
  const auto callback = find<Callback>(callbacks, "aclnnFusedConvTanhGetWorkSpaceSize");
  const auto launch = find<Launch>(library, "aclnnFusedConvTanh");
  void* phase1 = find<void*>(library, "aclnnFusedConvTanhGetWorkspaceSize");
  if (!create_tensor || !create_ints || !callback || !launch || !phase1) return 2;

  std::vector<float> x(40), filter(54), bias = {0.1f, 0.2f, 0.3f}, y(3 * 3 * 3, -9.0f);
  for (size_t i = 0; i < x.size(); ++i) x[i] = -0.2f + 0.01f * static_cast<float>(i);
  for (size_t i = 0; i < filter.size(); ++i) filter[i] = -0.5f + 0.02f * static_cast<float>(i);
  const int64_t strides[] = {1, 2}, pads[] = {1, 0, 1, 1}, dilations[] = {1, 1};
  int64_t groups = 1, cube_math_type = 0;
  const std::vector<void*> inputs = {make_tensor(create_tensor, {1, 2, 4, 5}, ACL_FORMAT_NCHW, x.data()),
                                     make_tensor(create_tensor, {3, 2, 3, 3}, ACL_FORMAT_NCHW, filter.data()),
                                     make_tensor(create_tensor, {3}, ACL_FORMAT_ND, bias.data()),
                                     create_ints(strides, 2),
                                     create_ints(pads, 4),
                                     create_ints(dilations, 2),
                                     &groups,
                                     &cube_math_type};
  const std::vector<void*> outputs = {make_tensor(create_tensor, {1, 3, 3, 3}, ACL_FORMAT_NCHW, y.data())};
  uint64_t workspace_size = 0;
  aclOpExecutor* executor = nullptr;
  if (int status = callback(phase1, inputs, outputs, &workspace_size, &executor)) return status % 100 + 10;
  std::vector<char> workspace(workspace_size);
  if (int status = launch(workspace.data(), workspace_size, executor, nullptr)) return status % 100 + 10;
  for (float value : y) std::printf("%.9g\n", static_cast<double>(value));
}
