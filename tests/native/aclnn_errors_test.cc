// Every refusal of phase 1 and phase 2: its code and its message, and that nothing ran.
#include <functional>
#include <random>

#include "ms_convtanh/ms_convtanh.h"
#include "tests/native/aclnn_test_util.h"

using namespace msct_test;

namespace {

struct Refusal {
  const char* message;  // behind "aclnnFusedConvTanh: "
  std::function<void(Call*)> spoil;
};

// Phase 1 must refuse with the code and exactly this message, and leave the outputs alone.
void check_refused(Call call, aclnnStatus code, const std::string& message) {
  uint64_t size = 77;
  auto* executor = reinterpret_cast<aclOpExecutor*>(&size);
  CHECK_EQ(call.phase1(&size, &executor), code);
  CHECK_EQ(recent_message(), "aclnnFusedConvTanh: " + message);
  CHECK_EQ(size, 77u);
  CHECK(executor == reinterpret_cast<aclOpExecutor*>(&size));
}

Call flat_call() {
  Call call;
  call.x = tensor_of({1, 2, 8});
  call.filter = tensor_of({3, 2, 3});
  call.bias = tensor_of({3});
  call.y = tensor_of({1, 3, 6});
  call.strides = {1};
  call.pads = {0};
  call.dilations = {1};
  return call;
}

// small_call(): x [2, 4, 6, 6], filter [6, 2, 3, 3], bias [6], groups 2, y [2, 6, 4, 4].
const Refusal kRefusals[] = {
    // dtype
    {"x.dtype must be ACL_FLOAT, ACL_FLOAT16 or ACL_BF16, got ACL_DOUBLE",
     [](Call* call) { call->x.dtype = call->filter.dtype = call->bias->dtype = call->y.dtype = ACL_DOUBLE; }},
    {"x.dtype must be ACL_FLOAT, ACL_FLOAT16 or ACL_BF16, got 63",
     [](Call* call) { call->x.dtype = static_cast<aclDataType>(63); }},
    {"filter.dtype must be x.dtype = ACL_FLOAT, got ACL_FLOAT16", [](Call* call) { call->filter.dtype = ACL_FLOAT16; }},
    {"bias.dtype must be x.dtype = ACL_FLOAT, got ACL_BF16", [](Call* call) { call->bias->dtype = ACL_BF16; }},
    {"y.dtype must be x.dtype = ACL_FLOAT, got ACL_INT32", [](Call* call) { call->y.dtype = ACL_INT32; }},
    // format
    {"x.format must be ACL_FORMAT_NCHW or ACL_FORMAT_NCL, got ACL_FORMAT_NHWC",
     [](Call* call) { call->x.format = ACL_FORMAT_NHWC; }},
    {"x.format must be ACL_FORMAT_NCHW or ACL_FORMAT_NCL, got ACL_FORMAT_ND",
     [](Call* call) { call->x.format = call->filter.format = call->y.format = ACL_FORMAT_ND; }},
    {"filter.format must be x.format = ACL_FORMAT_NCHW, got ACL_FORMAT_NCL",
     [](Call* call) { call->filter.format = ACL_FORMAT_NCL; }},
    {"y.format must be x.format = ACL_FORMAT_NCHW, got ACL_FORMAT_ND",
     [](Call* call) { call->y.format = ACL_FORMAT_ND; }},
    {"bias.format must be ACL_FORMAT_ND, ACL_FORMAT_NCHW or ACL_FORMAT_NCL, got ACL_FORMAT_NC1HWC0",
     [](Call* call) { call->bias->format = ACL_FORMAT_NC1HWC0; }},
    // shape: ranks
    {"x must be 4-dimensional, got shape [2, 4, 36]", [](Call* call) { set_shape(&call->x, {2, 4, 36}); }},
    {"filter must be 4-dimensional, got shape [6, 2, 3, 3, 1]",
     [](Call* call) { set_shape(&call->filter, {6, 2, 3, 3, 1}); }},
    {"bias must be 1-dimensional, got shape [1, 6]", [](Call* call) { set_shape(&*call->bias, {1, 6}); }},
    {"y must be 4-dimensional, got shape []", [](Call* call) { set_shape(&call->y, {}); }},
    // shape: views
    {"x.shape must have sizes >= 0 and at most 2^60 elements, got [2, 4, -6, 6]",
     [](Call* call) { call->x.shape[2] = -6; }},
    {"y.shape must have sizes >= 0 and at most 2^60 elements, got [2, 6, 4611686018427387904, 4]",
     [](Call* call) { call->y.shape[2] = int64_t{1} << 62; }},
    {"filter.shape must have sizes >= 0 and at most 2^60 elements, got [0, 2, 4611686018427387904, 4]",
     [](Call* call) { call->filter.shape = {0, 2, int64_t{1} << 62, 4}; }},
    {"x.storageDims must have sizes >= 0 and at most 2^60 elements, got [4611686018427387904, 2]",
     [](Call* call) { call->x.storage_shape = {int64_t{1} << 62, 2}; }},
    {"bias.storageDims must have sizes >= 0 and at most 2^60 elements, got [-6]",
     [](Call* call) { call->bias->storage_shape = {-6}; }},
    {"x.strides must be >= 0, got [144, 36, -6, 1]", [](Call* call) { call->x.strides[2] = -6; }},
    {"x.offset must be >= 0, got -1", [](Call* call) { call->x.offset = -1; }},
    {"x must lie inside its storage of 288 elements, got shape [2, 4, 6, 6], strides [144, 36, 6, 1] and offset 1",
     [](Call* call) { call->x.offset = 1; }},
    {"filter must lie inside its storage of 108 elements, got shape [6, 2, 3, 3], strides [18, 9, 3, 2] and offset 0",
     [](Call* call) { call->filter.strides[3] = 2; }},
    {"bias must lie inside its storage of 6 elements, got shape [6], strides [9223372036854775807] and offset 0",
     [](Call* call) { call->bias->strides[0] = INT64_MAX; }},
    {"y must lie inside its storage of 192 elements, got shape [2, 6, 4, 4], strides [96, 16, 4, 1] and offset "
     "9223372036854775807",
     [](Call* call) { call->y.offset = INT64_MAX; }},
    // shape: sizes that belong together
    {"filter must have a kernel of at least 1 tap on each axis, got shape [6, 2, 3, 0]",
     [](Call* call) { set_shape(&call->filter, {6, 2, 3, 0}); }},
    {"filter.shape[1] must equal x.shape[1] / groups = 2, got 4",
     [](Call* call) { set_shape(&call->filter, {6, 4, 3, 3}); }},
    {"bias.shape[0] must equal filter.shape[0] = 6, got 5", [](Call* call) { set_shape(&*call->bias, {5}); }},
    // attributes
    {"strides must be [h, w] for NCHW, got [1]", [](Call* call) { call->strides = {1}; }},
    {"strides must be [h, w] for NCHW, got []", [](Call* call) { call->strides = {}; }},
    {"pads must be [top, bottom, left, right] or [h, w] for NCHW, got [0, 0, 0]",
     [](Call* call) { call->pads = {0, 0, 0}; }},
    {"dilations must be [h, w] for NCHW, got [1, 1, 1, 1]", [](Call* call) { call->dilations = {1, 1, 1, 1}; }},
    {"strides must be from 1 to 2147483647, got [1, 0]", [](Call* call) { call->strides = {1, 0}; }},
    {"strides must be from 1 to 2147483647, got [2147483648, 1]", [](Call* call) { call->strides = {2147483648, 1}; }},
    {"pads must be from 0 to 2147483647, got [0, 0, -1, 0]", [](Call* call) { call->pads = {0, 0, -1, 0}; }},
    {"pads must be from 0 to 2147483647, got [9223372036854775807, 0]",
     [](Call* call) { call->pads = {INT64_MAX, 0}; }},
    {"dilations must be from 1 to 2147483647, got [-1, 1]", [](Call* call) { call->dilations = {-1, 1}; }},
    {"dilations must be from 1 to 2147483647, got [1, 2147483648]",
     [](Call* call) { call->dilations = {1, 2147483648}; }},
    {"groups must be >= 1, got 0", [](Call* call) { call->groups = 0; }},
    {"groups must be >= 1, got -2", [](Call* call) { call->groups = -2; }},
    {"groups must divide x.shape[1] = 4 and filter.shape[0] = 6, got 3", [](Call* call) { call->groups = 3; }},
    {"groups must divide x.shape[1] = 4 and filter.shape[0] = 5, got 2",
     [](Call* call) {
       set_shape(&call->filter, {5, 2, 3, 3});
       set_shape(&*call->bias, {5});
     }},
    {"cubeMathType must be from 0 to 3, got 4", [](Call* call) { call->cube_math_type = 4; }},
    {"cubeMathType must be from 0 to 3, got -1", [](Call* call) { call->cube_math_type = -1; }},
    // the kernel and the output
    {"dilated kernel along height must fit the padded input of 6, got 7", [](Call* call) { call->dilations = {3, 1}; }},
    {"dilated kernel along width must fit the padded input of 8, got 9",
     [](Call* call) {
       call->pads = {0, 0, 1, 1};
       call->dilations = {1, 4};
     }},
    {"dilated kernel along width must be at most 2^60, got dilation 2147483647 and 4611686018 taps",
     [](Call* call) {
       call->filter = tensor_with({6, 2, 1, 4611686018}, {0, 0, 0, 0}, 0, {1}, ACL_FLOAT);
       call->dilations = {1, INT32_MAX};
     }},
    {"y.shape must be [2, 6, 4, 4], got [2, 6, 4, 5]", [](Call* call) { set_shape(&call->y, {2, 6, 4, 5}); }},
    {"y.shape must be [2, 6, 4, 4], got [2, 4, 4, 4]", [](Call* call) { set_shape(&call->y, {2, 4, 4, 4}); }},
    {"y must not repeat elements: each stride must pass what smaller ones reach, got shape [2, 6, 4, 4] and strides "
     "[0, "
     "16, 4, 1]",
     [](Call* call) { call->y.strides[0] = 0; }},
    {"y must not repeat elements: each stride must pass what smaller ones reach, got shape [2, 6, 4, 4] and strides "
     "[96, "
     "16, 3, 1]",
     [](Call* call) { call->y.strides[2] = 3; }},
    {"x, filter and y must need fewer than 2^63 products, got filter.shape [1, 1, 1, 33554432] and y.shape [1, 1, "
     "1099511627776, 1]",
     [](Call* call) {
       const int64_t height = int64_t{1} << 40, width = int64_t{1} << 25;
       *call = Call();
       call->x = tensor_with({1, 1, height, 1}, {0, 0, 0, 0}, 0, {1}, ACL_FLOAT);
       call->filter = tensor_with({1, 1, 1, width}, {0, 0, 0, 0}, 0, {1}, ACL_FLOAT);
       call->pads = {0, 0, width - 1, 0};
       call->y = tensor_of({1, 1, 1, 1});
       call->y.shape[2] = call->y.storage_shape[2] = height;
     }},
    {"x, filter and y must need a workspace of at most 2^60 bytes, got filter.shape [1, 1, 1, 1] and y.shape [1, 1, "
     "1152921504606846976, 1]",
     [](Call* call) {
       const int64_t height = int64_t{1} << 60;
       *call = Call();
       call->x = tensor_with({1, 1, height, 1}, {0, 0, 0, 0}, 0, {1}, ACL_FLOAT);
       call->filter = tensor_of({1, 1, 1, 1});
       call->y = tensor_of({1, 1, 1, 1});
       call->y.shape[2] = call->y.storage_shape[2] = height;
     }},
    // empty tensors
    {"dilated kernel along height must fit the padded input of 0, got 3",
     [](Call* call) {
       set_shape(&call->x, {2, 4, 0, 6});
       set_shape(&call->y, {2, 6, 0, 4});
     }},
    {"x must not be empty for a y that is not, got shape [2, 0, 6, 6]",
     [](Call* call) {
       set_shape(&call->x, {2, 0, 6, 6});
       set_shape(&call->filter, {6, 0, 3, 3});
     }},
    {"x must not be empty for a y that is not, got shape [2, 4, 6, 0]",
     [](Call* call) {
       set_shape(&call->x, {2, 4, 6, 0});
       call->pads = {0, 0, 3, 3};
     }},
};

const Refusal kFlatRefusals[] = {
    {"filter must be 3-dimensional, got shape [3, 2, 1, 3]",
     [](Call* call) { set_shape(&call->filter, {3, 2, 1, 3}); }},
    {"strides must be [l] for NCL, got [1, 1]", [](Call* call) { call->strides = {1, 1}; }},
    {"pads must be [left, right] or [l] for NCL, got [0, 0, 0, 0]", [](Call* call) { call->pads = {0, 0, 0, 0}; }},
    {"dilations must be [l] for NCL, got []", [](Call* call) { call->dilations = {}; }},
    {"dilated kernel along length must fit the padded input of 8, got 9", [](Call* call) { call->dilations = {4}; }},
    {"y.shape must be [1, 3, 6], got [1, 3, 7]", [](Call* call) { set_shape(&call->y, {1, 3, 7}); }},
};

// A planned call, ready for phase 2.
struct Planned {
  Call call = small_call();
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;

  Planned() { plan(); }
  explicit Planned(Call to_plan) : call(std::move(to_plan)) { plan(); }
  ~Planned() { CHECK_EQ(aclDestroyAclOpExecutor(executor), ACLNN_SUCCESS); }  // a refused launch leaves it alive

  void plan() {
    CHECK_EQ(call.phase1(&size, &executor), ACLNN_SUCCESS);
    call.workspace.resize(size + 64);
  }
  void check_refused(void* workspace, uint64_t given, aclrtStream stream, aclnnStatus code,
                     const std::string& message) {
    const std::vector<unsigned char> before = call.y.bytes;
    CHECK_EQ(aclnnFusedConvTanh(workspace, given, executor, stream), code);
    CHECK_EQ(recent_message(), "aclnnFusedConvTanh: " + message);
    CHECK(call.y.bytes == before);
  }
};

}  // namespace

TEST(the_call_that_all_others_spoil_is_good) {
  run_and_check(small_call());
  run_and_check(flat_call());
}

TEST(every_null_pointer_of_phase1) {
  Call call = small_call();
  const TensorPointer x = call.x.make(), filter = call.filter.make(), y = call.y.make();
  const auto two = array_of({1, 1});
  const auto pads = array_of({0, 0});
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  const char* names[] = {"x", "filter", "strides", "pads", "dilations", "y", "workspaceSize", "executor"};
  for (int null = 0; null < 8; ++null) {
    const auto unless = [null](int i, auto* pointer) { return i == null ? nullptr : pointer; };
    CHECK_EQ(aclnnFusedConvTanhGetWorkspaceSize(unless(0, x.get()), unless(1, filter.get()), nullptr,
                                                unless(2, two.get()), unless(3, pads.get()), unless(4, two.get()), 2, 0,
                                                unless(5, y.get()), unless(6, &size), unless(7, &executor)),
             ACLNN_ERR_PARAM_NULLPTR);
    CHECK_EQ(recent_message(), std::string("aclnnFusedConvTanh: ") + names[null] + " must not be null");
  }
}

TEST(every_refusal_of_phase1) {
  for (const Refusal& refusal : kRefusals) {
    Call call = small_call();
    refusal.spoil(&call);
    check_refused(call, ACLNN_ERR_PARAM_INVALID, refusal.message);
  }
  for (const Refusal& refusal : kFlatRefusals) {
    Call call = flat_call();
    refusal.spoil(&call);
    check_refused(call, ACLNN_ERR_PARAM_INVALID, refusal.message);
  }
}

// Whatever the numbers are, phase 1 plans or refuses: it neither overflows nor ends the process (sanitizers watch).
TEST(any_numbers_are_planned_or_refused) {
  std::mt19937_64 random(314159);
  const Ints edges = {0, 1, 2, 3, 7, 64, 65, 1000, 65535, 65536, INT32_MAX, INT64_MAX, -1, INT64_MIN};
  const auto any = [&] { return random() % 2 == 0 ? int64_t{1} << (random() % 63) : edges[random() % edges.size()]; };
  const auto small = [&] { return edges[random() % 9]; };
  int planned = 0;
  for (int repeat = 0; repeat < 200000; ++repeat) {
    Call call;
    const auto huge = [&](Tensor* tensor, Ints shape) {  // of one element, repeated
      *tensor = tensor_with(std::move(shape), {0, 0, 0, 0}, 0, {1}, ACL_FLOAT);
    };
    const auto size = [&] { return random() % 8 == 0 ? any() : small(); };
    call.groups = random() % 4 == 0 ? any() : 1;
    const int64_t ci = size(), co = size(), n = size();
    huge(&call.x, {n, ci, size(), size()});
    huge(&call.filter, {co, ci, size(), size()});
    call.strides = {size(), size()};
    call.pads = {size(), size(), size(), size()};
    call.dilations = {size(), size()};
    call.cube_math_type = static_cast<int64_t>(random() % 4);
    const auto out = [&](int axis) {
      const __int128 kernel = __int128{call.filter.shape[axis]} - 1, dilation = call.dilations[axis - 2];
      const __int128 room =
          __int128{call.x.shape[axis]} + call.pads[2 * axis - 4] + call.pads[2 * axis - 3] - kernel * dilation - 1;
      return call.strides[axis - 2] <= 0 ? 1 : static_cast<int64_t>(room / call.strides[axis - 2] + 1);
    };
    call.y = tensor_of({1, 1, 1, 1});
    call.y.shape = {n, co, out(2), out(3)};
    call.y.strides = {1, 1, 1, 1};
    if (random() % 4 != 0) {
      int64_t stride = 1;
      for (int axis = 3; axis >= 0; --axis) {
        call.y.strides[axis] = stride;
        if (__builtin_mul_overflow(stride, std::max<int64_t>(call.y.shape[axis], 1), &stride)) stride = INT64_MAX;
      }
    }
    call.y.storage_shape = {int64_t{1} << 60};
    uint64_t workspace = 0;
    aclOpExecutor* executor = nullptr;
    const aclnnStatus status = call.phase1(&workspace, &executor);
    if (status == ACLNN_SUCCESS) {
      ++planned;
      CHECK(workspace <= uint64_t{1} << 60);
      CHECK_EQ(aclDestroyAclOpExecutor(executor), ACLNN_SUCCESS);
    } else {
      CHECK_EQ(status, ACLNN_ERR_PARAM_INVALID);
      CHECK(recent_message().find("aclnnFusedConvTanh: ") == 0);
    }
  }
  CHECK(planned > 1000);
}

// Several faults at once: the one that comes first in the order of the aclnn operators is reported.
TEST(order_of_the_checks) {
  Call call = small_call();
  set_shape(&call.y, {1, 1, 1, 1});
  check_refused(call, ACLNN_ERR_PARAM_INVALID, "y.shape must be [2, 6, 4, 4], got [1, 1, 1, 1]");
  call.groups = -1;
  check_refused(call, ACLNN_ERR_PARAM_INVALID, "groups must be >= 1, got -1");
  call.strides = {0, 0};
  check_refused(call, ACLNN_ERR_PARAM_INVALID, "strides must be from 1 to 2147483647, got [0, 0]");
  set_shape(&*call.bias, {7});
  check_refused(call, ACLNN_ERR_PARAM_INVALID, "bias.shape[0] must equal filter.shape[0] = 6, got 7");
  call.y.format = ACL_FORMAT_NCL;
  check_refused(call, ACLNN_ERR_PARAM_INVALID, "y.format must be x.format = ACL_FORMAT_NCHW, got ACL_FORMAT_NCL");
  call.filter.dtype = ACL_BF16;
  check_refused(call, ACLNN_ERR_PARAM_INVALID, "filter.dtype must be x.dtype = ACL_FLOAT, got ACL_BF16");
}

TEST(null_executor) {
  CHECK_EQ(aclnnFusedConvTanh(nullptr, 0, nullptr, nullptr), ACLNN_ERR_INNER_NULLPTR);
  CHECK_EQ(recent_message(), "aclnnFusedConvTanh: executor must not be null");
}

TEST(executor_that_never_was) {
  int something = 0;
  CHECK_EQ(aclnnFusedConvTanh(nullptr, 0, reinterpret_cast<aclOpExecutor*>(&something), nullptr),
           ACLNN_ERR_PARAM_INVALID);
}

TEST(null_data_is_refused_by_the_launch) {
  const char* names[] = {"x", "filter", "bias", "y"};
  for (int i = 0; i < 4; ++i) {
    Call call = small_call();
    Tensor* tensors[] = {&call.x, &call.filter, &*call.bias, &call.y};
    tensors[i]->null_data = true;
    Planned planned(call);
    planned.check_refused(planned.call.workspace.data(), planned.size, nullptr, ACLNN_ERR_PARAM_NULLPTR,
                          std::string("the data of ") + names[i] + " must not be null");
  }
}

TEST(stream_that_is_not_alive) {
  aclrtStream stream = nullptr;
  CHECK_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
  CHECK_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
  Planned planned;
  CHECK_EQ(aclnnFusedConvTanh(planned.call.workspace.data(), planned.size, planned.executor, stream),
           ACLNN_ERR_RUNTIME_ERROR);
  CHECK(recent_message().find("aclnnFusedConvTanh: stream must be alive") == 0);
}

// Half fusion is asked for, so that there is a workspace to speak of.
TEST(workspace_null_too_small_or_shared) {
  CHECK_EQ(msctSetOption("fusion", "half"), ACLNN_SUCCESS);
  {
    Planned planned;
    CHECK(planned.size >= 2 * 6 * 4 * 4 * sizeof(float));
    unsigned char* workspace = planned.call.workspace.data();
    planned.check_refused(nullptr, planned.size, nullptr, ACLNN_ERR_PARAM_NULLPTR, "workspace must not be null");
    const std::string size = std::to_string(planned.size), less = std::to_string(planned.size - 1);
    planned.check_refused(workspace, planned.size - 1, nullptr, ACLNN_ERR_PARAM_INVALID,
                          "workspaceSize must be at least " + size + ", got " + less);
  }
  {
    Call call = small_call();
    call.y = tensor_with({2, 6, 4, 4}, contiguous({2, 6, 4, 4}), 0, {100000}, ACL_FLOAT);
    Planned planned(call);
    planned.check_refused(planned.call.y.bytes.data() + 4, planned.size, nullptr, ACLNN_ERR_PARAM_INVALID,
                          "workspace must not share memory with y");
  }
  CHECK_EQ(msctSetOption("fusion", nullptr), ACLNN_SUCCESS);
}

TEST(data_that_y_overwrites_or_that_is_not_aligned) {
  Call call = small_call();
  // Room for y in each input's storage, so that y reaches into that one alone.
  call.filter = tensor_with({6, 2, 3, 3}, {18, 9, 3, 1}, 0, {1000}, ACL_FLOAT);
  call.bias = tensor_with({6}, {1}, 0, {1000}, ACL_FLOAT);
  Planned planned(call);
  CHECK_EQ(aclSetAclOpExecutorRepeatable(planned.executor), ACLNN_SUCCESS);
  const TensorPointer y = planned.call.y.make();
  unsigned char* inputs[] = {planned.call.x.bytes.data(), planned.call.filter.bytes.data(),
                             planned.call.bias->bytes.data()};
  const char* names[] = {"x", "filter", "bias"};
  for (int i = 0; i < 3; ++i) {
    CHECK_EQ(aclSetTensorAddr(planned.executor, 3, y.get(), inputs[i]), ACLNN_SUCCESS);
    planned.check_refused(planned.call.workspace.data(), planned.size, nullptr, ACLNN_ERR_PARAM_INVALID,
                          std::string("y must not share memory with ") + names[i]);
  }
  unsigned char* odd = planned.call.y.bytes.data() + 2;
  CHECK_EQ(aclSetTensorAddr(planned.executor, 3, y.get(), odd), ACLNN_SUCCESS);
  CHECK_EQ(aclnnFusedConvTanh(planned.call.workspace.data(), planned.size, planned.executor, nullptr),
           ACLNN_ERR_PARAM_INVALID);
  CHECK(recent_message().find("aclnnFusedConvTanh: the data of y must be aligned to 4 bytes, got 0x") == 0);
}

// x and y are the two halves of each image of one buffer: between each other's elements, not on them.
TEST(data_between_the_elements_of_y_is_fine) {
  std::vector<float> buffer(2 * 8 * 9);
  for (size_t i = 0; i < buffer.size(); ++i) buffer[i] = static_cast<float>(i % 5) * 0.25f;
  const Ints shape = {2, 4, 3, 3}, strides = {72, 9, 3, 1}, storage = {144}, ones = {1, 1, 1, 1}, filter = {4, 1, 1, 1};
  float taps[4] = {0.5f, 1.0f, -0.5f, 0.25f};
  const auto half = [&](int64_t offset) {
    return TensorPointer(aclCreateTensor(shape.data(), 4, ACL_FLOAT, strides.data(), offset, ACL_FORMAT_NCHW,
                                         storage.data(), 1, buffer.data()));
  };
  const TensorPointer x = half(0), y = half(36);
  const TensorPointer f(
      aclCreateTensor(filter.data(), 4, ACL_FLOAT, ones.data(), 0, ACL_FORMAT_NCHW, filter.data(), 4, taps));
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK_EQ(aclnnFusedConvTanhGetWorkspaceSize(x.get(), f.get(), nullptr, array_of({1, 1}).get(), array_of({0, 0}).get(),
                                              array_of({1, 1}).get(), 4, 0, y.get(), &size, &executor),
           ACLNN_SUCCESS);
  std::vector<unsigned char> workspace(size);
  CHECK_EQ(aclnnFusedConvTanh(workspace.data(), size, executor, nullptr), ACLNN_SUCCESS);
  for (int n = 0; n < 2; ++n) {
    for (int i = 0; i < 36; ++i) {
      const float x_value = static_cast<float>((n * 72 + i) % 5) * 0.25f;
      CHECK_EQ(buffer[n * 72 + i], x_value);
      CHECK_NEAR(buffer[n * 72 + 36 + i], std::tanh(static_cast<double>(x_value) * taps[i / 9]), 1e-6);
    }
  }
}

TEST(a_message_is_its_threads_own_and_given_once) {
  CHECK_EQ(aclnnFusedConvTanh(nullptr, 0, nullptr, nullptr), ACLNN_ERR_INNER_NULLPTR);
  CHECK(!recent_message().empty());
  CHECK(aclGetRecentErrMsg() == nullptr);
}
