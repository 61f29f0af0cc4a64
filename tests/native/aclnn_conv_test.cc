// aclnnFusedConvTanh against a float64 reference: dtypes, attributes, views of every kind, empty and huge tensors.
#include <sys/mman.h>

#include <thread>

#include "tests/native/aclnn_test_util.h"

using namespace msct_test;

namespace {

constexpr aclDataType kDtypes[] = {ACL_FLOAT, ACL_FLOAT16, ACL_BF16};

Ints output_shape(const Call& call) {
  Ints shape = {call.x.shape[0], call.filter.shape[0]};
  const size_t axes = call.strides.size();
  for (size_t i = 0; i < axes; ++i) {
    const bool each_side = call.pads.size() == 2 * axes;
    const int64_t pads = each_side ? call.pads[2 * i] + call.pads[2 * i + 1] : 2 * call.pads[i];
    const int64_t extent = call.dilations[i] * (call.filter.shape[2 + i] - 1) + 1;
    shape.push_back((call.x.shape[2 + i] + pads - extent) / call.strides[i] + 1);
  }
  return shape;
}

Call call_of(Ints x, Ints filter, Ints strides, Ints pads, Ints dilations, int64_t groups, aclDataType dtype) {
  Call call;
  call.x = tensor_of(std::move(x), dtype);
  call.filter = tensor_of(std::move(filter), dtype);
  call.bias = tensor_of({call.filter.shape[0]}, dtype);
  call.strides = std::move(strides);
  call.pads = std::move(pads);
  call.dilations = std::move(dilations);
  call.groups = groups;
  call.y = tensor_of(output_shape(call), dtype);
  return call;
}

}  // namespace

TEST(attributes_in_every_dtype) {
  for (const aclDataType dtype : kDtypes) {
    run_and_check(small_call(dtype));
    run_and_check(call_of({1, 3, 9, 8}, {5, 3, 3, 2}, {2, 1}, {1, 0, 2, 1}, {1, 2}, 1, dtype));
    run_and_check(call_of({2, 6, 7, 7}, {6, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 6, dtype));
    run_and_check(call_of({1, 4, 1, 1}, {8, 4, 1, 1}, {1, 1}, {0, 0}, {1, 1}, 1, dtype));
    run_and_check(call_of({1, 2, 3, 3}, {2, 2, 2, 2}, {7, 5}, {9, 8, 7, 6}, {3, 2}, 1, dtype));
  }
}

TEST(without_bias) {
  Call call = small_call();
  call.bias.reset();
  run_and_check(call);
}

TEST(every_cube_math_type_keeps_float32) {
  for (int64_t type = 0; type <= 3; ++type) {
    Call call = small_call();
    call.cube_math_type = type;
    run_and_check(call);
  }
}

TEST(two_pads_mean_height_and_width) {
  Call two = call_of({1, 2, 5, 6}, {3, 2, 3, 3}, {1, 1}, {2, 1}, {1, 1}, 1, ACL_FLOAT);
  Call four = two;
  four.pads = {2, 2, 1, 1};
  CHECK_EQ(two.run(), ACLNN_SUCCESS);
  CHECK_EQ(four.run(), ACLNN_SUCCESS);
  CHECK(two.y.bytes == four.y.bytes);
}

TEST(one_dimension) {
  for (const aclDataType dtype : kDtypes) {
    run_and_check(call_of({2, 4, 11}, {6, 2, 3}, {2}, {1}, {2}, 2, dtype));
    run_and_check(call_of({1, 3, 5}, {2, 3, 4}, {1}, {3, 0}, {1}, 1, dtype));
  }
}

TEST(views_with_strides_and_offsets) {
  for (const aclDataType dtype : kDtypes) {
    Call call = small_call(dtype);
    // x: NHWC memory; filter: every other tap of a wider one; bias: every third element; y: a window of a larger image.
    call.x = tensor_with({2, 4, 6, 6}, {6 * 6 * 4, 1, 6 * 4, 4}, 0, {2, 6, 6, 4}, dtype);
    call.filter = tensor_with({6, 2, 3, 3}, {2 * 3 * 6, 3 * 6, 6, 2}, 1, {6, 2, 3, 6}, dtype);
    call.bias = tensor_with({6}, {3}, 2, {20}, dtype);
    call.y = tensor_with({2, 6, 4, 4}, {6 * 9 * 9, 9 * 9, 2 * 9, 2}, 10, {2, 6, 9, 9}, dtype);
    run_and_check(call);
    // y in NHWC memory, x transposed in its two last axes.
    call.x = tensor_with({2, 4, 6, 6}, {4 * 36, 36, 1, 6}, 0, {2, 4, 6, 6}, dtype);
    call.y = tensor_with({2, 6, 4, 4}, {4 * 4 * 6, 1, 4 * 6, 6}, 0, {2, 4, 4, 6}, dtype);
    run_and_check(call);
  }
}

TEST(random_views_of_random_problems) {
  Random random{std::mt19937_64(2718)};
  for (int repeat = 0; repeat < 200; ++repeat) {
    const aclDataType dtype = kDtypes[repeat % 3];
    const Geometry g = random_geometry(&random);
    Call call = call_of(g.x, g.filter, g.strides, g.pads, g.dilations, g.groups, dtype);
    call.x = random_view(call.x.shape, true, dtype, &random);
    call.filter = random_view(call.filter.shape, true, dtype, &random);
    call.bias = random_view(call.bias->shape, true, dtype, &random);
    call.y = random_view(call.y.shape, false, dtype, &random);
    if (repeat % 4 == 0) call.bias.reset();
    run_and_check(call);
    if (failures() != 0) {
      fail(__FILE__, __LINE__, "in repeat " + std::to_string(repeat));
      return;
    }
  }
}

TEST(inputs_may_repeat_elements) {
  Call call = small_call();
  call.x = tensor_with({2, 4, 6, 6}, {0, 36, 6, 1}, 0, {4, 6, 6}, ACL_FLOAT);
  call.filter = tensor_with({6, 2, 3, 3}, {0, 9, 0, 1}, 0, {2, 3, 3}, ACL_FLOAT);
  call.bias = tensor_with({6}, {0}, 1, {2}, ACL_FLOAT);
  run_and_check(call);
  call.x = tensor_with({2, 4, 6, 6}, {0, 0, 0, 0}, 3, {4}, ACL_FLOAT);
  run_and_check(call);
  call.x = tensor_with({2, 4, 6, 6}, {1, 1, 1, 1}, 0, {20}, ACL_FLOAT);  // a sliding window
  run_and_check(call);
}

TEST(strides_of_single_elements_mean_nothing) {
  Call call = call_of({1, 1, 4, 4}, {1, 1, 4, 4}, {1, 1}, {0, 0}, {1, 1}, 1, ACL_FLOAT);
  call.x.strides[0] = 0;
  call.filter.strides[1] = 777777;
  call.y.strides = {0, 0, 0, 0};
  run_and_check(call);
}

TEST(data_aligned_to_its_elements_only) {
  for (const aclDataType dtype : kDtypes) {
    Call call = small_call(dtype);
    for (Tensor* tensor : {&call.x, &call.filter, &*call.bias, &call.y}) {
      tensor->offset = 1;
      tensor->storage_shape = {product(tensor->shape) + 1};
      tensor->bytes.resize(tensor->storage_shape[0] * tensor->element_size());
      fill(tensor, 7);
    }
    run_and_check(call);
  }
}

TEST(empty_outputs) {
  Call no_batch = small_call();
  no_batch.x = tensor_of({0, 4, 6, 6});
  no_batch.y = tensor_of({0, 6, 4, 4});
  Call no_channels = small_call();
  no_channels.filter = tensor_of({0, 2, 3, 3});
  no_channels.bias = tensor_of({0});
  no_channels.y = tensor_of({2, 0, 4, 4});
  Call no_height = small_call();
  no_height.x = tensor_of({2, 4, 0, 6});
  no_height.filter = tensor_of({6, 2, 1, 3});
  no_height.y = tensor_of({2, 6, 0, 4});
  Call no_input_channels = small_call();
  no_input_channels.x = tensor_of({0, 0, 6, 6});
  no_input_channels.filter = tensor_of({6, 0, 3, 3});
  no_input_channels.y = tensor_of({0, 6, 4, 4});
  for (Call* call : {&no_batch, &no_channels, &no_height, &no_input_channels}) {
    uint64_t size = 1;
    aclOpExecutor* executor = nullptr;
    CHECK_EQ(call->phase1(&size, &executor), ACLNN_SUCCESS);
    CHECK_EQ(size, 0u);
    CHECK_EQ(aclnnFusedConvTanh(nullptr, 0, executor, nullptr), ACLNN_SUCCESS);
  }
}

// One row of 2^32 pixels, all of them the same element: an index that wraps at 2^31 or 2^32 reads elsewhere.
TEST(more_elements_than_32_bits_count) {
  Call call;
  const int64_t width = (int64_t{1} << 32) + 5, stride = (int64_t{1} << 31) - 1;
  call.x = tensor_with({1, 1, 1, width}, {0, 0, 0, 0}, 0, {1}, ACL_FLOAT);
  call.filter = tensor_of({1, 1, 1, 5});
  call.strides = {1, stride};
  call.y = tensor_of({1, 1, 1, 3});
  run_and_check(call);
}

// The channels of x and y lie more than 2^31 elements apart, in memory that is reserved but never touched in between.
TEST(strides_beyond_32_bits) {
  const int64_t far = (int64_t{1} << 31) + 3, places = 5 * far + 64;
  const size_t bytes = static_cast<size_t>(places) * sizeof(float);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) SKIP("no address space of 43 GB");
  float* x = static_cast<float*>(memory);
  const Ints shape = {1, 3, 2, 2}, x_strides = {3 * far, far, 2, 1}, y_strides = {3 * far, 2 * far, 4, 2};
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t i = 0; i < 4; ++i) x[c * far + i] = static_cast<float>(c + 1) * 0.125f + static_cast<float>(i) * 0.25f;
  }
  const float filter[3] = {0.5f, -0.25f, 0.75f};
  const Ints filter_shape = {3, 1, 1, 1}, three = {3};
  const auto make = [&](const Ints& view, const Ints& strides, int64_t offset, const Ints& storage, void* data) {
    return TensorPointer(aclCreateTensor(view.data(), 4, ACL_FLOAT, strides.data(), offset, ACL_FORMAT_NCHW,
                                         storage.data(), storage.size(), data));
  };
  const TensorPointer tx = make(shape, x_strides, 0, {places}, memory);
  const TensorPointer tf = make(filter_shape, {1, 1, 1, 1}, 0, three, const_cast<float*>(filter));
  const TensorPointer ty = make(shape, y_strides, 32, {places}, memory);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK_EQ(
      aclnnFusedConvTanhGetWorkspaceSize(tx.get(), tf.get(), nullptr, array_of({1, 1}).get(), array_of({0, 0}).get(),
                                         array_of({1, 1}).get(), 3, 0, ty.get(), &size, &executor),
      ACLNN_SUCCESS);
  std::vector<unsigned char> workspace(size);
  CHECK_EQ(aclnnFusedConvTanh(workspace.data(), size, executor, nullptr), ACLNN_SUCCESS);
  for (int64_t c = 0; c < 3; ++c) {
    for (int64_t i = 0; i < 4; ++i) {
      const double z = static_cast<double>(filter[c]) * x[c * far + i];
      CHECK_NEAR(x[32 + c * 2 * far + i / 2 * 4 + i % 2 * 2], std::tanh(z), 1e-6);
    }
  }
  munmap(memory, bytes);
}

TEST(many_threads_at_once) {
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t) {
    threads.emplace_back([t] {
      for (int repeat = 0; repeat < 6; ++repeat) {
        const aclDataType dtype = kDtypes[(t + repeat) % 3];
        run_and_check(call_of({1 + t % 2, 4, 12, 9 + t}, {8, 4, 3, 3}, {1, 1}, {1, 1}, {1, 1}, 1, dtype));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}
