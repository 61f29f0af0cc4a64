// Every refusal of aclnnFusedConvTanhBackward: its code and its message, and that nothing ran.
#include <functional>
#include <random>

#include "tests/native/aclnn_backward_test_util.h"

using namespace msct_test;

namespace {

// Phase 1 must refuse with the code and exactly this message, and leave the outputs alone.
void check_refused(BackwardCall call, aclnnStatus code, const std::string& message) {
  uint64_t size = 77;
  auto* executor = reinterpret_cast<aclOpExecutor*>(&size);
  CHECK_EQ(call.phase1(&size, &executor), code);
  CHECK_EQ(recent_message(), "aclnnFusedConvTanhBackward: " + message);
  CHECK_EQ(size, 77u);
  CHECK(executor == reinterpret_cast<aclOpExecutor*>(&size));
}

struct Refusal {
  const char* message;
  std::function<void(BackwardCall*)> spoil;
};

const Refusal kRefusals[] = {
    // outputMask
    {"outputMask must be [gradX, gradFilter, gradBias], got 2 entries",
     [](BackwardCall* call) { call->mask = {true, true}; }},
    {"outputMask must be [gradX, gradFilter, gradBias], got 0 entries", [](BackwardCall* call) { call->mask.clear(); }},
    {"outputMask must be [gradX, gradFilter, gradBias], got 4 entries",
     [](BackwardCall* call) { call->mask.push_back(true); }},
    // dtype
    {"x.dtype must be ACL_FLOAT, ACL_FLOAT16 or ACL_BF16, got ACL_DOUBLE",
     [](BackwardCall* call) { call->x.dtype = ACL_DOUBLE; }},
    {"gradY.dtype must be x.dtype = ACL_FLOAT, got ACL_FLOAT16",
     [](BackwardCall* call) { call->grad_y.dtype = ACL_FLOAT16; }},
    {"y.dtype must be x.dtype = ACL_FLOAT, got ACL_BF16", [](BackwardCall* call) { call->y.dtype = ACL_BF16; }},
    {"filter.dtype must be x.dtype = ACL_FLOAT, got ACL_BF16",
     [](BackwardCall* call) { call->filter.dtype = ACL_BF16; }},
    {"gradX.dtype must be x.dtype = ACL_FLOAT, got ACL_INT32",
     [](BackwardCall* call) { call->grad_x->dtype = ACL_INT32; }},
    {"gradFilter.dtype must be x.dtype = ACL_FLOAT, got ACL_FLOAT16",
     [](BackwardCall* call) { call->grad_filter->dtype = ACL_FLOAT16; }},
    {"gradBias.dtype must be x.dtype = ACL_FLOAT, got ACL_DOUBLE",
     [](BackwardCall* call) { call->grad_bias->dtype = ACL_DOUBLE; }},
    // format
    {"x.format must be ACL_FORMAT_NCHW or ACL_FORMAT_NCL, got ACL_FORMAT_NHWC",
     [](BackwardCall* call) { call->x.format = ACL_FORMAT_NHWC; }},
    {"gradY.format must be x.format = ACL_FORMAT_NCHW, got ACL_FORMAT_ND",
     [](BackwardCall* call) { call->grad_y.format = ACL_FORMAT_ND; }},
    {"gradX.format must be x.format = ACL_FORMAT_NCHW, got ACL_FORMAT_NCL",
     [](BackwardCall* call) { call->grad_x->format = ACL_FORMAT_NCL; }},
    {"gradFilter.format must be x.format = ACL_FORMAT_NCHW, got ACL_FORMAT_ND",
     [](BackwardCall* call) { call->grad_filter->format = ACL_FORMAT_ND; }},
    {"gradBias.format must be ACL_FORMAT_ND, ACL_FORMAT_NCHW or ACL_FORMAT_NCL, got ACL_FORMAT_NC1HWC0",
     [](BackwardCall* call) { call->grad_bias->format = ACL_FORMAT_NC1HWC0; }},
    // shape
    {"gradY must be 4-dimensional, got shape [2, 6, 16]",
     [](BackwardCall* call) { set_shape(&call->grad_y, {2, 6, 16}); }},
    {"gradX must be 4-dimensional, got shape []", [](BackwardCall* call) { set_shape(&*call->grad_x, {}); }},
    {"gradFilter must be 4-dimensional, got shape [6]",
     [](BackwardCall* call) { set_shape(&*call->grad_filter, {6}); }},
    {"gradBias must be 1-dimensional, got shape [1, 6]",
     [](BackwardCall* call) { set_shape(&*call->grad_bias, {1, 6}); }},
    {"gradX.strides must be >= 0, got [144, 36, -6, 1]", [](BackwardCall* call) { call->grad_x->strides[2] = -6; }},
    {"gradFilter must lie inside its storage of 108 elements, got shape [6, 2, 3, 3], strides [18, 9, 3, 1] and offset "
     "1",
     [](BackwardCall* call) { call->grad_filter->offset = 1; }},
    {"filter.shape[1] must equal x.shape[1] / groups = 2, got 4",
     [](BackwardCall* call) { set_shape(&call->filter, {6, 4, 3, 3}); }},
    // attributes
    {"strides must be [h, w] for NCHW, got [1]", [](BackwardCall* call) { call->strides = {1}; }},
    {"pads must be from 0 to 2147483647, got [0, 0, -1, 0]", [](BackwardCall* call) { call->pads = {0, 0, -1, 0}; }},
    {"dilations must be from 1 to 2147483647, got [0, 1]", [](BackwardCall* call) { call->dilations = {0, 1}; }},
    {"groups must be >= 1, got 0", [](BackwardCall* call) { call->groups = 0; }},
    {"cubeMathType must be from 0 to 3, got 4", [](BackwardCall* call) { call->cube_math_type = 4; }},
    // shapes that follow
    {"dilated kernel along height must fit the padded input of 6, got 7",
     [](BackwardCall* call) { call->dilations = {3, 1}; }},
    {"gradY.shape must be [2, 6, 4, 4], got [2, 6, 4, 5]",
     [](BackwardCall* call) { set_shape(&call->grad_y, {2, 6, 4, 5}); }},
    {"y.shape must be [2, 6, 4, 4], got [2, 4, 4, 4]", [](BackwardCall* call) { set_shape(&call->y, {2, 4, 4, 4}); }},
    {"gradX.shape must be [2, 4, 6, 6], got [2, 4, 6, 7]",
     [](BackwardCall* call) { set_shape(&*call->grad_x, {2, 4, 6, 7}); }},
    {"gradFilter.shape must be [6, 2, 3, 3], got [6, 4, 3, 3]",
     [](BackwardCall* call) { set_shape(&*call->grad_filter, {6, 4, 3, 3}); }},
    {"gradBias.shape must be [6], got [5]", [](BackwardCall* call) { set_shape(&*call->grad_bias, {5}); }},
    {"gradX must not repeat elements: each stride must pass what smaller ones reach, got shape [2, 4, 6, 6] and "
     "strides "
     "[0, 36, 6, 1]",
     [](BackwardCall* call) { call->grad_x->strides[0] = 0; }},
    {"gradFilter must not repeat elements: each stride must pass what smaller ones reach, got shape [6, 2, 3, 3] and "
     "strides [18, 9, 2, 1]",
     [](BackwardCall* call) { call->grad_filter->strides[2] = 2; }},
    {"gradBias must not repeat elements: each stride must pass what smaller ones reach, got shape [6] and strides [0]",
     [](BackwardCall* call) { call->grad_bias->strides[0] = 0; }},
    {"x must not be empty for a y that is not, got shape [2, 0, 6, 6]",
     [](BackwardCall* call) {
       for (Tensor* tensor : {&call->x, &*call->grad_x}) set_shape(tensor, {2, 0, 6, 6});
       for (Tensor* tensor : {&call->filter, &*call->grad_filter}) set_shape(tensor, {6, 0, 3, 3});
     }},
    {"strides and filter must split gradX into at most 262144 convolutions, got strides [65536, 65536] and "
     "filter.shape [1, 1, 65536, 65536]",
     [](BackwardCall* call) {
       const Ints large = {1, 1, 65536, 65536};
       for (Tensor* tensor : {&call->grad_y, &call->y}) set_shape(tensor, {1, 1, 1, 1});
       for (Tensor* tensor : {&call->x, &call->filter}) {
         *tensor = tensor_with(large, {0, 0, 0, 0}, 0, {1}, ACL_FLOAT);
       }
       for (auto* gradient : {&call->grad_x, &call->grad_filter}) {
         set_shape(&**gradient, {1, 1, 1, 1});
         (*gradient)->shape = (*gradient)->storage_shape = large;
         (*gradient)->strides = contiguous(large);
       }
       set_shape(&*call->grad_bias, {1});
       call->strides = {65536, 65536};
       call->groups = 1;
     }},
    {"x, filter and y must need a workspace of at most 2^60 bytes, got filter.shape [1, 1, 1, 1] and y.shape [1, 1, "
     "1152921504606846976, 1]",
     [](BackwardCall* call) {
       const Ints huge = {1, 1, int64_t{1} << 60, 1};
       for (Tensor* tensor : {&call->grad_y, &call->y, &call->x}) {
         *tensor = tensor_with(huge, {0, 0, 0, 0}, 0, {1}, ACL_FLOAT);
       }
       for (Tensor* tensor : {&call->filter, &*call->grad_filter}) set_shape(tensor, {1, 1, 1, 1});
       set_shape(&*call->grad_bias, {1});
       set_shape(&*call->grad_x, {1, 1, 1, 1});
       call->grad_x->shape = call->grad_x->storage_shape = huge;
       call->groups = 1;
     }},
};

}  // namespace

TEST(every_null_pointer_of_phase1) {
  BackwardCall call = small_backward_call();
  std::vector<TensorPointer> made;
  for (Tensor* tensor : call.tensors()) made.push_back(tensor->make());
  const auto two = array_of({1, 1}), pads = array_of({0, 0});
  const auto mask = bools_of(call.mask);
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  const char* names[] = {"gradY",      "y",     "x",          "filter",   "strides",       "pads",    "dilations",
                         "outputMask", "gradX", "gradFilter", "gradBias", "workspaceSize", "executor"};
  for (int null = 0; null < 13; ++null) {
    const auto unless = [null](int i, auto* pointer) { return i == null ? nullptr : pointer; };
    CHECK_EQ(aclnnFusedConvTanhBackwardGetWorkspaceSize(
                 unless(0, made[0].get()), unless(1, made[1].get()), unless(2, made[2].get()), unless(3, made[3].get()),
                 unless(4, two.get()), unless(5, pads.get()), unless(6, two.get()), 2, 0, unless(7, mask.get()),
                 unless(8, made[4].get()), unless(9, made[5].get()), unless(10, made[6].get()), unless(11, &size),
                 unless(12, &executor)),
             ACLNN_ERR_PARAM_NULLPTR);
    CHECK_EQ(recent_message(), std::string("aclnnFusedConvTanhBackward: ") + names[null] + " must not be null");
  }
}

TEST(every_refusal_of_phase1) {
  for (const Refusal& refusal : kRefusals) {
    BackwardCall call = small_backward_call();
    refusal.spoil(&call);
    check_refused(call, ACLNN_ERR_PARAM_INVALID, refusal.message);
  }
}

// Several faults at once: the one that comes first in the order of the aclnn operators is reported.
TEST(order_of_the_checks) {
  BackwardCall call = small_backward_call();
  const auto expect = [&](const char* message) { check_refused(call, ACLNN_ERR_PARAM_INVALID, message); };
  call.grad_bias->strides = {0};
  set_shape(&*call.grad_x, {1, 1, 1, 1});
  expect("gradX.shape must be [2, 4, 6, 6], got [1, 1, 1, 1]");
  call.groups = -1;
  expect("groups must be >= 1, got -1");
  set_shape(&*call.grad_filter, {3});
  expect("gradFilter must be 4-dimensional, got shape [3]");
  call.y.format = ACL_FORMAT_NCL;
  expect("y.format must be x.format = ACL_FORMAT_NCHW, got ACL_FORMAT_NCL");
  call.grad_bias->dtype = ACL_BF16;
  expect("gradBias.dtype must be x.dtype = ACL_FLOAT, got ACL_BF16");
  call.mask.pop_back();
  expect("outputMask must be [gradX, gradFilter, gradBias], got 2 entries");
}

TEST(data_that_is_null_or_not_aligned) {
  const char* names[] = {"gradY", "y", "x", "filter", "gradX", "gradFilter", "gradBias"};
  for (int i = 0; i < 7; ++i) {
    BackwardCall call = small_backward_call();
    call.tensors()[i]->null_data = true;
    PlannedBackward(call).check_refused(ACLNN_ERR_PARAM_NULLPTR,
                                        std::string("the data of ") + names[i] + " must not be null");
  }
  PlannedBackward planned(small_backward_call());
  const TensorPointer grad_x = planned.call.grad_x->make();
  CHECK_EQ(aclSetOutputTensorAddr(planned.executor, 0, grad_x.get(), planned.call.grad_x->bytes.data() + 2),
           ACLNN_SUCCESS);
  CHECK_EQ(planned.launch(), ACLNN_ERR_PARAM_INVALID);
  CHECK(recent_message().find("aclnnFusedConvTanhBackward: the data of gradX must be aligned to 4 bytes, got 0x") == 0);
  CHECK_EQ(aclDestroyAclOpExecutor(planned.executor), ACLNN_SUCCESS);
}

// Every gradient upon every input that is read, every earlier gradient, and the workspace.
TEST(gradients_that_share_memory) {
  const char* names[] = {"gradY", "y", "x", "filter", "gradX", "gradFilter", "gradBias"};
  for (int output = 4; output < 7; ++output) {
    for (int other = 0; other < output; ++other) {
      PlannedBackward planned(small_backward_call());
      const TensorPointer tensor = planned.call.tensors()[output]->make();
      std::vector<unsigned char> memory(10000);
      CHECK_EQ(aclSetTensorAddr(planned.executor, output, tensor.get(), memory.data() + 16), ACLNN_SUCCESS);
      const TensorPointer shared = planned.call.tensors()[other]->make();
      CHECK_EQ(aclSetTensorAddr(planned.executor, other, shared.get(), memory.data()), ACLNN_SUCCESS);
      planned.check_refused(ACLNN_ERR_PARAM_INVALID,
                            std::string(names[output]) + " must not share memory with " + names[other]);
    }
    PlannedBackward planned(small_backward_call());
    const TensorPointer tensor = planned.call.tensors()[output]->make();
    CHECK_EQ(aclSetTensorAddr(planned.executor, output, tensor.get(), planned.call.workspace.data()), ACLNN_SUCCESS);
    planned.check_refused(ACLNN_ERR_PARAM_INVALID,
                          std::string("workspace must not share memory with ") + names[output]);
  }
}

TEST(workspace_null_or_too_small) {
  PlannedBackward planned(small_backward_call());
  CHECK_EQ(aclnnFusedConvTanhBackward(nullptr, planned.size, planned.executor, nullptr), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_EQ(recent_message(), "aclnnFusedConvTanhBackward: workspace must not be null");
  CHECK_EQ(aclnnFusedConvTanhBackward(planned.call.workspace.data(), planned.size - 1, planned.executor, nullptr),
           ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(recent_message(), "aclnnFusedConvTanhBackward: workspaceSize must be at least " +
                                 std::to_string(planned.size) + ", got " + std::to_string(planned.size - 1));
  CHECK_EQ(planned.launch(), ACLNN_SUCCESS);  // a refused launch leaves the executor alive
  check_result(planned.call, planned.before);
}

TEST(executors_of_the_other_operator) {
  PlannedBackward backward(small_backward_call());
  Call call = small_call();
  uint64_t size = 0;
  aclOpExecutor* forward = nullptr;
  CHECK_EQ(call.phase1(&size, &forward), ACLNN_SUCCESS);
  call.workspace.resize(size);
  CHECK_EQ(aclnnFusedConvTanh(backward.call.workspace.data(), backward.size, backward.executor, nullptr),
           ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(recent_message(),
           "aclnnFusedConvTanh: executor must be one for aclnnFusedConvTanh, got one for aclnnFusedConvTanhBackward");
  CHECK_EQ(aclnnFusedConvTanhBackward(call.workspace.data(), size, forward, nullptr), ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(aclnnFusedConvTanh(call.workspace.data(), size, forward, nullptr), ACLNN_SUCCESS);
  CHECK_EQ(backward.launch(), ACLNN_SUCCESS);
  CHECK_EQ(aclnnFusedConvTanhBackward(nullptr, 0, nullptr, nullptr), ACLNN_ERR_INNER_NULLPTR);
  CHECK_EQ(recent_message(), "aclnnFusedConvTanhBackward: executor must not be null");
}

TEST(addresses_that_are_refused) {
  BackwardCall call = small_backward_call();
  call.mask = {true, true, false};
  PlannedBackward planned(call);
  const TensorPointer x = call.x.make(), filter = call.filter.make(), bias = call.grad_bias->make();
  CHECK_EQ(aclSetTensorAddr(planned.executor, 7, x.get(), nullptr), ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(recent_message(), "aclSetTensorAddr: index must be below 7, got 7");
  CHECK_EQ(aclSetInputTensorAddr(planned.executor, 4, x.get(), nullptr), ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(aclSetOutputTensorAddr(planned.executor, 3, x.get(), nullptr), ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(aclSetOutputTensorAddr(planned.executor, 2, bias.get(), nullptr), ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(recent_message(), "aclSetOutputTensorAddr: index must be that of a tensor, got 2: there is no gradBias");
  CHECK_EQ(aclSetOutputTensorAddr(planned.executor, 0, filter.get(), nullptr), ACLNN_ERR_PARAM_INVALID);
  CHECK_EQ(recent_message(),
           "aclSetOutputTensorAddr: tensor must have the dtype, shape, strides and offset that gradX had in phase 1, "
           "got ACL_FLOAT, [6, 2, 3, 3], [18, 9, 3, 1] and 0");
  CHECK_EQ(planned.launch(), ACLNN_SUCCESS);  // nothing of that had an effect
  check_result(planned.call, planned.before);
}

// Whatever the numbers are, phase 1 plans or refuses: it neither overflows nor ends the process (sanitizers watch).
TEST(any_numbers_are_planned_or_refused) {
  std::mt19937_64 random(161803);
  const Ints edges = {0, 1, 2, 3, 7, 64, 65, 1000, 65535, 65536, INT32_MAX, INT64_MAX, -1, INT64_MIN};
  const auto any = [&] { return random() % 2 == 0 ? int64_t{1} << (random() % 63) : edges[random() % edges.size()]; };
  const auto size = [&] { return random() % 8 == 0 ? any() : edges[random() % 9]; };
  const auto input = [](Ints shape) { return tensor_with(std::move(shape), {0, 0, 0, 0}, 0, {1}, ACL_FLOAT); };
  const auto output = [](Ints shape) {
    Tensor tensor = tensor_of({1, 1, 1, 1});
    for (int axis = 3; axis > 0; --axis) {
      const int64_t elements = std::max<int64_t>(shape[axis], 1);
      if (__builtin_mul_overflow(tensor.strides[axis], elements, &tensor.strides[axis - 1])) {
        tensor.strides[axis - 1] = INT64_MAX;
      }
    }
    tensor.shape = std::move(shape);
    tensor.storage_shape = {int64_t{1} << 60};
    return tensor;
  };
  int planned = 0;
  for (int repeat = 0; repeat < 50000; ++repeat) {
    BackwardCall call;
    call.groups = random() % 4 == 0 ? any() : 1;
    const int64_t ci = size(), co = size(), n = size();
    call.strides = {size(), size()};
    call.pads = {size(), size(), size(), size()};
    call.dilations = {size(), size()};
    call.x = input({n, ci, size(), size()});
    call.filter = input({co, ci, size(), size()});
    const auto out = [&](int axis) {
      const __int128 kernel = __int128{call.filter.shape[axis]} - 1, dilation = call.dilations[axis - 2];
      const __int128 room =
          __int128{call.x.shape[axis]} + call.pads[2 * axis - 4] + call.pads[2 * axis - 3] - kernel * dilation - 1;
      return call.strides[axis - 2] <= 0 ? 1 : static_cast<int64_t>(room / call.strides[axis - 2] + 1);
    };
    call.y = call.grad_y = input({n, co, out(2), out(3)});
    call.grad_x = output(call.x.shape);
    call.grad_filter = output(call.filter.shape);
    call.grad_bias = tensor_of({1});
    call.grad_bias->shape = {co};
    call.grad_bias->storage_shape = {int64_t{1} << 60};
    call.mask = {random() % 4 != 0, random() % 4 != 0, random() % 4 != 0};
    uint64_t workspace = 0;
    aclOpExecutor* executor = nullptr;
    const aclnnStatus status = call.phase1(&workspace, &executor);
    if (status == ACLNN_SUCCESS) {
      ++planned;
      CHECK(workspace <= uint64_t{1} << 60);
      CHECK_EQ(aclDestroyAclOpExecutor(executor), ACLNN_SUCCESS);
    } else {
      CHECK_EQ(status, ACLNN_ERR_PARAM_INVALID);
      CHECK(recent_message().find("aclnnFusedConvTanhBackward: ") == 0);
    }
  }
  CHECK(planned > 1000);
}
