// aclnnFusedConvTanhBackward: gradients against float64, views, masks, empty tensors, executors, streams.
// What both operators share, aclnn_*_test.cc test on the forward one in depth.
#include <thread>

#include "tests/native/aclnn_backward_test_util.h"

using namespace msct_test;

namespace {

constexpr aclDataType kDtypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};

BackwardCall flat_call(aclDataType dtype = ACL_FLOAT) {
  return call_of({2, 4, 11}, {6, 2, 3}, {2}, {1, 0}, {2}, 2, dtype);
}

// The shape with other memory behind it: the axes in this order, a step, and an offset.
Tensor spread(const Tensor& like, const std::vector<int>& order, int64_t step, int64_t offset) {
  Ints strides(like.shape.size());
  int64_t stride = step;
  for (size_t i = order.size(); i-- > 0; stride *= like.shape[order[i]]) strides[order[i]] = stride;
  return tensor_with(like.shape, strides, offset, {stride + offset}, like.dtype);
}

}  // namespace

TEST(attributes_in_every_dtype) {
  for (const aclDataType dtype : kDtypes) {
    run_and_check(small_backward_call(dtype));
    run_and_check(flat_call(dtype));
    run_and_check(call_of({1, 3, 9, 8}, {5, 3, 3, 2}, {2, 1}, {1, 0, 2, 1}, {1, 2}, 1, dtype));
    run_and_check(call_of({2, 6, 7, 7}, {6, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 6, dtype));
    run_and_check(call_of({1, 4, 1, 1}, {8, 4, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1, dtype));
    run_and_check(call_of({1, 2, 3, 3}, {2, 2, 2, 2}, {7, 5}, {9, 8, 7, 6}, {3, 2}, 1, dtype));
    run_and_check(call_of({2, 3, 11, 13}, {4, 3, 2, 2}, {3, 4}, {0, 1, 0, 2}, {1, 1}, 1, dtype));
  }
}

TEST(every_mask) {
  for (int bits = 0; bits < 8; ++bits) {
    BackwardCall call = small_backward_call();
    call.mask = {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0};
    run_and_check(call);  // gradients that are not asked for are left alone,
    if (!call.mask[0]) call.grad_x.reset();
    if (!call.mask[1]) call.grad_filter.reset();
    if (!call.mask[2]) call.grad_bias.reset();
    run_and_check(call);  // and may be null
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    CHECK_EQ(call.phase1(&size, &executor), ACLNN_SUCCESS);
    CHECK_EQ(size == 0, bits == 0);
    CHECK_EQ(aclDestroyAclOpExecutor(executor), ACLNN_SUCCESS);
  }
}

TEST(gradients_not_asked_for_are_not_looked_at) {
  BackwardCall call = small_backward_call();
  call.mask = {false, true, false};
  call.grad_x->dtype = ACL_INT64;
  call.grad_x->shape = {-1};
  call.grad_bias->strides = {0};
  run_and_check(call);
}

TEST(views_with_strides_and_offsets) {
  for (const aclDataType dtype : kDtypes) {
    BackwardCall call = small_backward_call(dtype);
    call.grad_y = spread(call.grad_y, {0, 2, 3, 1}, 1, 3);
    call.y = spread(call.y, {1, 0, 3, 2}, 2, 1);
    call.x = spread(call.x, {3, 2, 1, 0}, 1, 0);
    call.filter = spread(call.filter, {2, 3, 1, 0}, 3, 2);
    call.grad_x = spread(*call.grad_x, {0, 2, 3, 1}, 2, 5);
    call.grad_filter = spread(*call.grad_filter, {1, 3, 0, 2}, 1, 7);
    call.grad_bias = spread(*call.grad_bias, {0}, 3, 1);
    run_and_check(call);
    call = flat_call(dtype);
    call.y = spread(call.y, {2, 0, 1}, 1, 1);
    call.grad_x = spread(*call.grad_x, {2, 1, 0}, 2, 0);
    call.grad_filter = spread(*call.grad_filter, {1, 2, 0}, 1, 3);
    run_and_check(call);
  }
}

TEST(random_views_of_random_problems) {
  Random random{std::mt19937_64(577)};
  for (int repeat = 0; repeat < 200; ++repeat) {
    const aclDataType dtype = kDtypes[repeat % 3];
    const Geometry g = random_geometry(&random);
    BackwardCall call = call_of(g.x, g.filter, g.strides, g.pads, g.dilations, g.groups, dtype);
    for (Tensor* tensor : {&call.grad_y, &call.y, &call.x, &call.filter}) {
      *tensor = random_view(tensor->shape, true, dtype, &random);
    }
    for (auto* gradient : {&call.grad_x, &call.grad_filter, &call.grad_bias}) {
      *gradient = random_view((*gradient)->shape, false, dtype, &random);
    }
    run_and_check(call);
    if (failures() != 0) {
      fail(__FILE__, __LINE__, "in repeat " + std::to_string(repeat));
      return;
    }
  }
}

TEST(inputs_may_repeat_elements) {
  BackwardCall call = small_backward_call();
  call.grad_y = tensor_with({2, 6, 4, 4}, {0, 0, 0, 0}, 2, {3}, ACL_FLOAT);  // the gradient of a sum, say
  call.y = tensor_with({2, 6, 4, 4}, {0, 16, 4, 1}, 0, {6, 4, 4}, ACL_FLOAT);
  call.x = tensor_with({2, 4, 6, 6}, {1, 1, 1, 1}, 0, {20}, ACL_FLOAT);
  call.filter = tensor_with({6, 2, 3, 3}, {0, 9, 0, 1}, 0, {2, 3, 3}, ACL_FLOAT);
  run_and_check(call);
}

TEST(data_aligned_to_its_elements_only) {
  for (const aclDataType dtype : kDtypes) {
    BackwardCall call = small_backward_call(dtype);
    for (Tensor* tensor : call.tensors()) {
      tensor->offset = 1;
      tensor->storage_shape = {product(tensor->shape) + 1};
      tensor->bytes.resize(tensor->storage_shape[0] * tensor->element_size());
      fill(tensor, 7);
    }
    run_and_check(call);
  }
}

// Gradients that have elements are 0; the data of tensors without elements, and of inputs not read, may be null.
TEST(empty_tensors) {
  const auto check_zeros = [](BackwardCall call) {
    for (Tensor* tensor : call.tensors()) tensor->null_data = tensor->bytes.empty();
    call.x.null_data = call.filter.null_data = true;
    run_and_check(call);
    call.mask = {true, false, true};
    run_and_check(call);
  };
  for (const aclDataType dtype : kDtypes) {
    check_zeros(call_of({0, 4, 6, 6}, {6, 2, 3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 2, dtype));
    check_zeros(call_of({2, 4, 6, 6}, {0, 2, 3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 2, dtype));
    check_zeros(call_of({2, 4, 6, 6}, {0, 4, 3, 3}, {2, 3}, {1, 0, 0, 1}, {2, 1}, 1, dtype));
    check_zeros(call_of({2, 4, 0, 6}, {6, 2, 1, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 2, dtype));
    check_zeros(call_of({0, 0, 6, 6}, {6, 0, 3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1, dtype));
    check_zeros(call_of({0, 4, 11}, {6, 2, 3}, {1}, {0, 0}, {1}, 2, dtype));
  }
}

// As a network calls it: y is the forward operator's.
TEST(after_the_forward_operator) {
  for (const aclDataType dtype : kDtypes) {
    Call forward = small_call(dtype);
    CHECK_EQ(forward.run(), ACLNN_SUCCESS);
    BackwardCall call = small_backward_call(dtype);
    call.x = forward.x;
    call.filter = forward.filter;
    call.y = forward.y;
    run_and_check(call);
  }
}

// x is read for gradFilter alone, filter for gradX alone.
TEST(data_that_is_not_read_may_be_null_or_overwritten) {
  BackwardCall call = small_backward_call();
  call.mask = {true, false, true};
  call.x.null_data = true;
  run_and_check(call);
  PlannedBackward planned(call);
  const TensorPointer x = planned.call.x.make();
  CHECK_EQ(aclSetTensorAddr(planned.executor, 2, x.get(), planned.call.grad_x->bytes.data()), ACLNN_SUCCESS);
  CHECK_EQ(planned.launch(), ACLNN_SUCCESS);
  check_result(planned.call, planned.before);
  call = small_backward_call();
  call.mask = {false, true, false};
  call.filter.null_data = true;
  run_and_check(call);
}

TEST(single_use) {
  PlannedBackward planned(small_backward_call());
  CHECK_EQ(planned.launch(), ACLNN_SUCCESS);
  check_result(planned.call, planned.before);
  CHECK_EQ(planned.launch(), ACLNN_ERR_PARAM_INVALID);
  CHECK(recent_message().find("aclnnFusedConvTanhBackward: executor must be alive") == 0);
  CHECK_EQ(aclDestroyAclOpExecutor(planned.executor), ACLNN_ERR_PARAM_INVALID);
}

TEST(repeatable_with_new_addresses) {
  PlannedBackward planned(small_backward_call());
  CHECK_EQ(aclSetAclOpExecutorRepeatable(planned.executor), ACLNN_SUCCESS);
  CHECK_EQ(planned.launch(), ACLNN_SUCCESS);
  check_result(planned.call, planned.before);
  BackwardCall other = planned.call;
  const std::vector<Tensor*> tensors = other.tensors();
  for (size_t i = 0; i < 7; ++i) {
    fill(tensors[i], 100 + static_cast<uint32_t>(i));
    const TensorPointer tensor = tensors[i]->make();
    void* data = tensors[i]->bytes.data();
    if (i % 2 == 0) {
      CHECK_EQ(aclSetTensorAddr(planned.executor, i, tensor.get(), data), ACLNN_SUCCESS);
    } else if (i < 4) {
      CHECK_EQ(aclSetInputTensorAddr(planned.executor, i, tensor.get(), data), ACLNN_SUCCESS);
    } else {
      CHECK_EQ(aclSetOutputTensorAddr(planned.executor, i - 4, tensor.get(), data), ACLNN_SUCCESS);
    }
  }
  BackwardCall before = other;
  const std::vector<unsigned char> first_result = planned.call.grad_x->bytes;
  CHECK_EQ(planned.launch(), ACLNN_SUCCESS);
  check_result(other, before);
  CHECK(planned.call.grad_x->bytes == first_result);
  CHECK_EQ(aclDestroyAclOpExecutor(planned.executor), ACLNN_SUCCESS);
  CHECK_EQ(planned.launch(), ACLNN_ERR_PARAM_INVALID);
}

TEST(on_streams) {
  aclrtStream streams[2] = {};
  for (aclrtStream& stream : streams) CHECK_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
  for (const aclDataType dtype : kDtypes) {
    for (aclrtStream stream : streams) run_and_check(small_backward_call(dtype), stream);
  }
  CHECK_EQ(aclrtDestroyStream(streams[1]), ACL_SUCCESS);
  PlannedBackward planned(small_backward_call());
  CHECK_EQ(planned.launch(streams[1]), ACLNN_ERR_RUNTIME_ERROR);
  CHECK(recent_message().find("aclnnFusedConvTanhBackward: stream must be alive") == 0);
  CHECK_EQ(planned.launch(streams[0]), ACLNN_SUCCESS);
  CHECK_EQ(aclrtSynchronizeStream(streams[0]), ACL_SUCCESS);
  check_result(planned.call, planned.before);
  CHECK_EQ(aclrtDestroyStream(streams[0]), ACL_SUCCESS);
}

TEST(many_threads_at_once) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 6; ++t) {
    threads.emplace_back([t] {
      for (int repeat = 0; repeat < 4; ++repeat) {
        const aclDataType dtype = kDtypes[(t + repeat) % 3];
        run_and_check(call_of({1 + t % 2, 4, 12, 9 + t}, {8, 4, 3, 3}, {1 + t % 3, 1}, {1, 1, 1, 1}, {1, 1}, 1, dtype));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// More problems than the plan cache keeps, among them some of very many parts.
TEST(many_problems) {
  for (int64_t height = 1; height <= 600; ++height) {
    run_and_check(call_of({1, 1, height, 1}, {1, 1, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1, ACL_FLOAT));
  }
  for (int64_t size = 30; size <= 34; ++size) {
    run_and_check(call_of({1, 1, size, size}, {1, 1, size, size}, {size, size}, {0, 0, 0, 0}, {1, 1}, 1, ACL_FLOAT));
  }
}
