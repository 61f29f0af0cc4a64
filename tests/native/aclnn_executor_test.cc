// The life of an executor: single use, repeatable with new addresses, destroyed, abandoned, stale.
#include <atomic>
#include <thread>

#include "tests/native/aclnn_test_util.h"

using namespace msct_test;

namespace {

// Phase 1 of a call, and whatever it needs for phase 2. The aclTensors are gone by then.
struct Planned {
  Call call;
  Tensor before;
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;

  explicit Planned(Call to_plan) : call(std::move(to_plan)), before(call.y) {
    CHECK_EQ(call.phase1(&size, &executor), ACLNN_SUCCESS);
    call.workspace.resize(size);
  }
  aclnnStatus launch(aclrtStream stream = nullptr) {
    return aclnnFusedConvTanh(call.workspace.data(), size, executor, stream);
  }
};

constexpr char kDead[] = "executor must be alive";

}  // namespace

TEST(single_use) {
  Planned planned(small_call());
  CHECK_EQ(planned.launch(), ACLNN_SUCCESS);
  check_result(planned.call, planned.before);
  CHECK_EQ(planned.launch(), ACLNN_ERR_PARAM_INVALID);
  CHECK(recent_message().find(kDead) != std::string::npos);
  CHECK_EQ(aclDestroyAclOpExecutor(planned.executor), ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(aclSetAclOpExecutorRepeatable(planned.executor), ACLNN_ERR_PARAM_INVALID);
}

TEST(abandoned_and_destroyed_twice) {
  Planned planned(small_call());
  CHECK_EQ(aclDestroyAclOpExecutor(planned.executor), ACLNN_SUCCESS);
  CHECK_EQ(aclDestroyAclOpExecutor(planned.executor), ACLNN_ERR_PARAM_INVALID);
  CHECK(recent_message().find("aclDestroyAclOpExecutor: executor must be alive") == 0);
  CHECK_EQ(planned.launch(), ACLNN_ERR_PARAM_INVALID);
  CHECK(planned.call.y.bytes == planned.before.bytes);
}

TEST(null_executors) {
  const TensorPointer tensor = tensor_of({1}).make();
  CHECK_EQ(aclDestroyAclOpExecutor(nullptr), ACLNN_ERR_INNER_NULLPTR);
  CHECK_EQ(aclSetAclOpExecutorRepeatable(nullptr), ACLNN_ERR_INNER_NULLPTR);
  CHECK_EQ(aclSetTensorAddr(nullptr, 0, tensor.get(), nullptr), ACLNN_ERR_INNER_NULLPTR);
}

// A dead executor's handle is not given out again, whatever is made after it.
TEST(stale_handles_stay_dead) {
  Planned stale(small_call());
  CHECK_EQ(stale.launch(), ACLNN_SUCCESS);
  std::vector<std::unique_ptr<Planned>> others;
  for (int i = 0; i < 100; ++i) others.push_back(std::make_unique<Planned>(small_call()));
  CHECK_EQ(stale.launch(), ACLNN_ERR_PARAM_INVALID);
  for (const auto& other : others) CHECK_EQ(other->launch(), ACLNN_SUCCESS);
}

TEST(repeatable_runs_again_on_the_data_of_the_day) {
  Planned planned(small_call());
  CHECK_EQ(aclSetAclOpExecutorRepeatable(planned.executor), ACLNN_SUCCESS);
  for (uint32_t seed = 0; seed < 3; ++seed) {
    fill(&planned.call.x, seed);
    CHECK_EQ(planned.launch(), ACLNN_SUCCESS);
    check_result(planned.call, planned.before);
  }
  CHECK_EQ(aclDestroyAclOpExecutor(planned.executor), ACLNN_SUCCESS);
  CHECK_EQ(planned.launch(), ACLNN_ERR_PARAM_INVALID);
}

TEST(repeatable_with_new_addresses) {
  Call call = small_call();
  call.x.offset = 2;  // the address is the storage's: the offset stays in force
  call.x.storage_shape = {2, 4, 6, 7};
  call.x.bytes.resize(2 * 4 * 6 * 7 * sizeof(float));
  fill(&call.x, 1);
  Planned planned(call);
  CHECK_EQ(aclSetAclOpExecutorRepeatable(planned.executor), ACLNN_SUCCESS);
  CHECK_EQ(planned.launch(), ACLNN_SUCCESS);
  check_result(planned.call, planned.before);

  Call other = planned.call;
  Tensor* tensors[] = {&other.x, &other.filter, &*other.bias, &other.y};
  for (size_t i = 0; i < 4; ++i) {
    fill(tensors[i], 100 + static_cast<uint32_t>(i));
    const TensorPointer tensor = tensors[i]->make();
    CHECK_EQ(aclSetTensorAddr(planned.executor, i, tensor.get(), tensors[i]->bytes.data()), ACLNN_SUCCESS);
  }
  const Tensor before = other.y;
  const std::vector<unsigned char> first_result = planned.call.y.bytes;
  CHECK_EQ(planned.launch(), ACLNN_SUCCESS);
  check_result(other, before);
  CHECK(planned.call.y.bytes == first_result);
  CHECK_EQ(aclDestroyAclOpExecutor(planned.executor), ACLNN_SUCCESS);
}

TEST(addresses_by_input_and_output) {
  Planned planned(small_call());
  CHECK_EQ(aclSetAclOpExecutorRepeatable(planned.executor), ACLNN_SUCCESS);
  Call other = planned.call;
  fill(&*other.bias, 9);
  const TensorPointer bias = planned.call.bias->make(), y = planned.call.y.make();
  CHECK_EQ(aclSetInputTensorAddr(planned.executor, 2, bias.get(), other.bias->bytes.data()), ACLNN_SUCCESS);
  CHECK_EQ(aclSetOutputTensorAddr(planned.executor, 0, y.get(), other.y.bytes.data()), ACLNN_SUCCESS);
  void* address = nullptr;
  CHECK_EQ(aclGetRawTensorAddr(bias.get(), &address), ACLNN_SUCCESS);
  CHECK(address == other.bias->bytes.data());
  CHECK_EQ(planned.launch(), ACLNN_SUCCESS);
  check_result(other, planned.before);
  CHECK_EQ(aclDestroyAclOpExecutor(planned.executor), ACLNN_SUCCESS);
}

TEST(addresses_that_are_refused) {
  Call call = small_call();
  call.bias.reset();
  Planned planned(call);
  const TensorPointer x = call.x.make(), filter = call.filter.make();
  CHECK_EQ(aclSetTensorAddr(planned.executor, 0, nullptr, nullptr), ACLNN_ERR_INNER_NULLPTR);
  CHECK_EQ(aclSetTensorAddr(planned.executor, 4, x.get(), nullptr), ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(recent_message(), "aclSetTensorAddr: index must be below 4, got 4");
  CHECK_EQ(aclSetInputTensorAddr(planned.executor, 3, x.get(), nullptr), ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(aclSetOutputTensorAddr(planned.executor, 1, x.get(), nullptr), ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(aclSetTensorAddr(planned.executor, 2, x.get(), nullptr), ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(recent_message(), "aclSetTensorAddr: index must be that of a tensor, got 2: there is no bias");
  CHECK_EQ(aclSetTensorAddr(planned.executor, 0, filter.get(), nullptr), ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(recent_message(),
           "aclSetTensorAddr: tensor must have the dtype, shape, strides and offset that x had in phase 1, got "
           "ACL_FLOAT, [6, 2, 3, 3], [18, 9, 3, 1] and 0");
  const TensorPointer pair = tensor_of({2, 3}).make();
  CHECK_EQ(aclSetTensorAddr(planned.executor, 0, pair.get(), nullptr), ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(planned.launch(), ACLNN_SUCCESS);  // nothing of that had an effect
  check_result(planned.call, planned.before);
  CHECK_EQ(aclSetTensorAddr(planned.executor, 0, x.get(), nullptr), ACLNN_ERR_PARAM_INVALID);
}

// Planning before the memory is there: addresses come just before the launch.
TEST(data_may_come_after_phase1) {
  Call call = small_call();
  call.x.null_data = call.y.null_data = true;
  Planned planned(call);
  const TensorPointer x = planned.call.x.make(), y = planned.call.y.make();
  CHECK_EQ(aclSetTensorAddr(planned.executor, 0, x.get(), planned.call.x.bytes.data()), ACLNN_SUCCESS);
  CHECK_EQ(aclSetTensorAddr(planned.executor, 3, y.get(), planned.call.y.bytes.data()), ACLNN_SUCCESS);
  CHECK_EQ(planned.launch(), ACLNN_SUCCESS);
  check_result(planned.call, planned.before);
}

TEST(many_threads_one_single_use_executor) {
  for (int repeat = 0; repeat < 20; ++repeat) {
    Planned planned(small_call());
    std::atomic<int> launched{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] { launched += planned.launch() == ACLNN_SUCCESS; });
    }
    for (std::thread& thread : threads) thread.join();
    CHECK_EQ(launched.load(), 1);
    check_result(planned.call, planned.before);
  }
}

TEST(many_threads_one_repeatable_executor) {
  Call call = small_call();
  Planned planned(call);
  CHECK_EQ(aclSetAclOpExecutorRepeatable(planned.executor), ACLNN_SUCCESS);
  const TensorPointer x = planned.call.x.make();
  std::vector<std::thread> threads;
  std::vector<Tensor> others(4, planned.call.x);
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      const TensorPointer mine = others[t].make();
      for (int repeat = 0; repeat < 50; ++repeat) {
        CHECK_EQ(aclSetTensorAddr(planned.executor, 0, mine.get(), others[t].bytes.data()), ACLNN_SUCCESS);
      }
    });
  }
  for (int repeat = 0; repeat < 50; ++repeat) CHECK_EQ(planned.launch(), ACLNN_SUCCESS);
  for (std::thread& thread : threads) thread.join();
  check_result(planned.call, planned.before);  // all inputs hold the same values
  CHECK_EQ(aclDestroyAclOpExecutor(planned.executor), ACLNN_SUCCESS);
}

// More problems than the plan cache keeps.
TEST(many_problems) {
  for (int64_t height = 1; height <= 1100; ++height) {
    Call call;
    call.x = tensor_of({1, 1, height, 1});
    call.filter = tensor_of({1, 1, 1, 1});
    call.y = tensor_of({1, 1, height, 1});
    const Tensor before = call.y;
    CHECK_EQ(call.run(), ACLNN_SUCCESS);
    check_result(call, before);
  }
}
