// msctFilterCache in the C interface.
#include "aclnnop/aclnn_fused_conv_tanh_backward.h"
#include "ms_convtanh/ms_convtanh.h"
#include "tests/native/aclnn_test_util.h"

using namespace msct_test;

namespace {

struct Cache {
  msctFilterCache* handle = msctCreateFilterCache();
  ~Cache() { msctDestroyFilterCache(handle); }
};

// A repeatable executor of a call.
struct Repeated {
  Call call;
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;

  explicit Repeated(Call to_plan) : call(std::move(to_plan)) {
    CHECK_EQ(call.phase1(&size, &executor), ACLNN_SUCCESS);
    CHECK_EQ(aclSetAclOpExecutorRepeatable(executor), ACLNN_SUCCESS);
    call.workspace.resize(size);
  }
  ~Repeated() { aclDestroyAclOpExecutor(executor); }
  void run_and_check(aclrtStream stream = nullptr) {
    const Tensor before = call.y;
    CHECK_EQ(aclnnFusedConvTanh(call.workspace.data(), size, executor, stream), ACLNN_SUCCESS);
    CHECK_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
    check_result(call, before);
  }
};

}  // namespace

TEST(weights_that_change_in_place) {
  Cache cache;
  CHECK(cache.handle != nullptr);
  for (const aclDataType dtype : {ACL_FLOAT, ACL_FLOAT16, ACL_BF16}) {
    Repeated repeated(small_call(dtype));
    CHECK_EQ(msctSetFilterCache(repeated.executor, cache.handle), ACLNN_SUCCESS);
    for (uint32_t seed = 1; seed < 5; ++seed) {
      repeated.run_and_check();
      repeated.run_and_check();
      fill(&repeated.call.filter, seed);
    }
    CHECK_EQ(msctSetFilterCache(repeated.executor, nullptr), ACLNN_SUCCESS);
    repeated.run_and_check();
  }
}

// Memory is freed and used again for another filter of the same shape, by calls that share a cache.
TEST(memory_that_is_used_again) {
  Cache cache;
  Call call = small_call();
  const void* place = call.filter.bytes.data();
  const size_t bytes = call.filter.bytes.size();
  int reused = 0;
  for (uint32_t seed = 1; seed < 9; ++seed) {
    std::vector<unsigned char>().swap(call.filter.bytes);
    call.filter.bytes.resize(bytes);
    reused += call.filter.bytes.data() == place;
    place = call.filter.bytes.data();
    fill(&call.filter, seed);
    const Tensor before = call.y;
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    CHECK_EQ(call.phase1(&size, &executor), ACLNN_SUCCESS);
    call.workspace.resize(size);
    CHECK_EQ(msctSetFilterCache(executor, cache.handle), ACLNN_SUCCESS);
    CHECK_EQ(aclnnFusedConvTanh(call.workspace.data(), size, executor, nullptr), ACLNN_SUCCESS);
    check_result(call, before);
  }
  std::printf("     the allocator gave the same address %d times of 8\n", reused);
}

TEST(another_address) {
  Cache cache;
  Repeated repeated(small_call());
  CHECK_EQ(msctSetFilterCache(repeated.executor, cache.handle), ACLNN_SUCCESS);
  repeated.run_and_check();
  const Tensor first = repeated.call.filter;
  fill(&repeated.call.filter, 77);
  Tensor second = repeated.call.filter;
  for (int i = 0; i < 4; ++i) {
    Tensor& chosen = i % 2 == 0 ? second : repeated.call.filter;
    const TensorPointer tensor = chosen.make();
    CHECK_EQ(aclSetInputTensorAddr(repeated.executor, 1, tensor.get(), chosen.bytes.data()), ACLNN_SUCCESS);
    repeated.run_and_check();
  }
}

// On a stream, with the cache destroyed before and after the launch.
TEST(executors_outlive_the_cache) {
  CHECK_EQ(aclrtSetDevice(0), ACL_SUCCESS);
  aclrtStream stream = nullptr;
  CHECK_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
  msctFilterCache* cache = msctCreateFilterCache();
  Repeated repeated(small_call());
  CHECK_EQ(msctSetFilterCache(repeated.executor, cache), ACLNN_SUCCESS);
  repeated.run_and_check(stream);
  CHECK_EQ(aclnnFusedConvTanh(repeated.call.workspace.data(), repeated.size, repeated.executor, stream), ACLNN_SUCCESS);
  CHECK_EQ(msctDestroyFilterCache(cache), ACLNN_SUCCESS);
  CHECK_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
  repeated.run_and_check(stream);
  CHECK_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
}

TEST(refused) {
  Cache cache;
  Repeated repeated(small_call());
  CHECK_EQ(msctSetFilterCache(nullptr, cache.handle), ACLNN_ERR_INNER_NULLPTR);
  CHECK_EQ(msctDestroyFilterCache(nullptr), ACLNN_ERR_INNER_NULLPTR);
  msctFilterCache* dead = msctCreateFilterCache();
  CHECK_EQ(msctDestroyFilterCache(dead), ACLNN_SUCCESS);
  CHECK_EQ(msctDestroyFilterCache(dead), ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(recent_message(), "msctDestroyFilterCache: cache must be alive, got one that was destroyed already");
  CHECK_EQ(msctSetFilterCache(repeated.executor, dead), ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(recent_message(), "msctSetFilterCache: cache must be alive, got one that was destroyed already");
  repeated.run_and_check();

  Call& call = repeated.call;
  Tensor grad_x = tensor_of(call.x.shape), grad_y = tensor_of(call.y.shape);
  const bool mask[] = {true, false, false};
  aclBoolArray* wanted = aclCreateBoolArray(mask, 3);
  uint64_t size = 0;
  aclOpExecutor* backward = nullptr;
  CHECK_EQ(aclnnFusedConvTanhBackwardGetWorkspaceSize(
               grad_y.make().get(), call.y.make().get(), call.x.make().get(), call.filter.make().get(),
               array_of(call.strides).get(), array_of(call.pads).get(), array_of(call.dilations).get(), call.groups, 0,
               wanted, grad_x.make().get(), nullptr, nullptr, &size, &backward),
           ACLNN_SUCCESS);
  CHECK_EQ(msctSetFilterCache(backward, cache.handle), ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(recent_message(),
           "msctSetFilterCache: executor must be one for aclnnFusedConvTanh, got one for aclnnFusedConvTanhBackward");
  CHECK_EQ(aclDestroyAclOpExecutor(backward), ACLNN_SUCCESS);
  CHECK_EQ(msctSetFilterCache(backward, cache.handle), ACLNN_ERR_PARAM_INVALID);
  aclDestroyBoolArray(wanted);
}
