// Calls of the backward operator, and their gradients in float64, for the tests of the C interface.
#ifndef MS_CONVTANH_TESTS_NATIVE_ACLNN_BACKWARD_TEST_UTIL_H_
#define MS_CONVTANH_TESTS_NATIVE_ACLNN_BACKWARD_TEST_UTIL_H_

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "aclnnop/aclnn_fused_conv_tanh_backward.h"
#include "tests/native/aclnn_test_util.h"

namespace msct_test {

struct DeleteBools {
  void operator()(aclBoolArray* array) const { aclDestroyBoolArray(array); }
};
inline std::unique_ptr<aclBoolArray, DeleteBools> bools_of(const std::vector<char>& values) {
  const std::unique_ptr<bool[]> copy(new bool[values.size() + 1]);
  std::copy(values.begin(), values.end(), copy.get());
  return std::unique_ptr<aclBoolArray, DeleteBools>(aclCreateBoolArray(copy.get(), values.size()));
}

// One call of the operator with everything it needs.
struct BackwardCall {
  Tensor grad_y, y, x, filter;
  std::optional<Tensor> grad_x, grad_filter, grad_bias;
  Ints strides = {1, 1}, pads = {0, 0, 0, 0}, dilations = {1, 1};
  int64_t groups = 1, cube_math_type = 0;
  std::vector<char> mask = {true, true, true};
  std::vector<unsigned char> workspace;

  // In the order of the prototype; null where there is none.
  std::vector<Tensor*> tensors() {
    std::vector<Tensor*> all = {&grad_y, &y, &x, &filter};
    for (auto* gradient : {&grad_x, &grad_filter, &grad_bias}) all.push_back(*gradient ? &**gradient : nullptr);
    return all;
  }

  // The aclTensors and arrays live for this call only.
  aclnnStatus phase1(uint64_t* size, aclOpExecutor** executor) {
    std::vector<TensorPointer> made;
    for (Tensor* tensor : tensors()) made.push_back(tensor == nullptr ? nullptr : tensor->make());
    return aclnnFusedConvTanhBackwardGetWorkspaceSize(
        made[0].get(), made[1].get(), made[2].get(), made[3].get(), array_of(strides).get(), array_of(pads).get(),
        array_of(dilations).get(), groups, cube_math_type, bools_of(mask).get(), made[4].get(), made[5].get(),
        made[6].get(), size, executor);
  }

  aclnnStatus run(aclrtStream stream = nullptr) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    if (aclnnStatus status = phase1(&size, &executor)) return status;
    workspace.resize(size);
    return aclnnFusedConvTanhBackward(workspace.data(), size, executor, stream);
  }
};

// Of contiguous tensors. Two spatial axes, or one if the shapes are [n, c, l].
inline BackwardCall call_of(Ints x, Ints filter, Ints strides, Ints pads, Ints dilations, int64_t groups,
                            aclDataType dtype) {
  Ints y = {x[0], filter[0]};
  for (size_t i = 0; i < strides.size(); ++i) {
    const int64_t room = x[2 + i] + pads[2 * i] + pads[2 * i + 1] - dilations[i] * (filter[2 + i] - 1) - 1;
    y.push_back(room / strides[i] + 1);
  }
  BackwardCall call;
  call.grad_y = tensor_of(y, dtype);
  call.y = tensor_of(y, dtype);
  fill(&call.y, 99);
  call.x = tensor_of(x, dtype);
  call.filter = tensor_of(filter, dtype);
  call.grad_bias = tensor_of({filter[0]}, dtype);
  call.grad_x = tensor_of(std::move(x), dtype);
  call.grad_filter = tensor_of(std::move(filter), dtype);
  call.strides = std::move(strides);
  call.pads = std::move(pads);
  call.dilations = std::move(dilations);
  call.groups = groups;
  return call;
}

// x [2, 4, 6, 6], filter [6, 2, 3, 3], two groups, y [2, 6, 4, 4].
inline BackwardCall small_backward_call(aclDataType dtype = ACL_FLOAT) {
  return call_of({2, 4, 6, 6}, {6, 2, 3, 3}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 2, dtype);
}

// A sum in float64, and what bounds the error of the same sum in float32.
struct Sum {
  double value = 0, magnitude = 0;
  void add(double term) {
    value += term;
    magnitude += std::fabs(term);
  }
};

// Compares one gradient, whose sums are contiguous, and every element of its storage outside the view with before.
inline void check_gradient(const char* name, const Tensor& gradient, const Tensor& before,
                           const std::vector<Sum>& sums) {
  const double rounding = gradient.dtype == ACL_FLOAT ? 0x1p-21 : gradient.dtype == ACL_FLOAT16 ? 0x1p-11 : 0x1p-8;
  const Ints& shape = gradient.shape;
  std::vector<bool> in_view(gradient.bytes.size() / gradient.element_size());
  for (size_t i = 0; i < sums.size(); ++i) {
    int64_t place = gradient.offset, rest = static_cast<int64_t>(i);
    for (size_t axis = shape.size(); axis-- > 0; rest /= shape[axis]) {
      place += rest % shape[axis] * gradient.strides[axis];
    }
    in_view[place] = true;
    const double tolerance = rounding * std::fabs(sums[i].value) + sums[i].magnitude * 0x1p-21;
    if (std::fabs(gradient.load(place) - sums[i].value) <= tolerance) continue;
    fail(__FILE__, __LINE__,
         std::string(name) + " at element " + std::to_string(i) + ": got " + std::to_string(gradient.load(place)) +
             ", expected " + std::to_string(sums[i].value));
    return;
  }
  const int64_t element = gradient.element_size();
  for (size_t place = 0; place < in_view.size(); ++place) {
    if (in_view[place]) continue;
    CHECK(std::memcmp(&gradient.bytes[place * element], &before.bytes[place * element], element) == 0);
  }
}

// Compares the gradients with the definition in float64, and those not asked for with before.
inline void check_result(BackwardCall& call, BackwardCall& before) {
  const bool flat = call.x.shape.size() == 3;
  const auto four = [flat](const Ints& shape) { return flat ? Ints{shape[0], shape[1], 1, shape[2]} : shape; };
  const Ints x = four(call.x.shape), f = four(call.filter.shape), y = four(call.y.shape);
  const int64_t stride_h = flat ? 1 : call.strides[0], stride_w = call.strides.back();
  const int64_t dilation_h = flat ? 1 : call.dilations[0], dilation_w = call.dilations.back();
  const int64_t top = flat ? 0 : call.pads[0], left = call.pads[call.pads.size() - 2];
  const int64_t co_per_group = std::max<int64_t>(y[1] / call.groups, 1);
  std::vector<Sum> grad_x(product(x)), grad_filter(product(f)), grad_bias(f[0]);
  for (int64_t i = 0; i < product(y); ++i) {
    const int64_t ox = i % y[3], oy = i / y[3] % y[2], co = i / y[3] / y[2] % y[1], n = i / y[3] / y[2] / y[1];
    const double value = call.y.load(place_of(call.y, n, co, oy, ox));
    const double dz = call.grad_y.load(place_of(call.grad_y, n, co, oy, ox)) * (1 - value * value);
    grad_bias[co].add(dz);
    for (int64_t j = 0; j < f[1] * f[2] * f[3]; ++j) {
      const int64_t kw = j % f[3], kh = j / f[3] % f[2], c = j / f[3] / f[2], ci = co / co_per_group * f[1] + c;
      const int64_t h = oy * stride_h + kh * dilation_h - top, w = ox * stride_w + kw * dilation_w - left;
      if (h < 0 || h >= x[2] || w < 0 || w >= x[3]) continue;
      grad_filter[co * f[1] * f[2] * f[3] + j].add(dz * call.x.load(place_of(call.x, n, ci, h, w)));
      grad_x[((n * x[1] + ci) * x[2] + h) * x[3] + w].add(dz * call.filter.load(place_of(call.filter, co, c, kh, kw)));
    }
  }
  const char* names[] = {"gradX", "gradFilter", "gradBias"};
  const std::vector<Sum>* sums[] = {&grad_x, &grad_filter, &grad_bias};
  const std::vector<Tensor*> got = call.tensors(), old = before.tensors();
  for (size_t i = 0; i < 3; ++i) {
    if (call.mask[i]) {
      check_gradient(names[i], *got[4 + i], *old[4 + i], *sums[i]);
    } else if (got[4 + i] != nullptr) {
      CHECK(got[4 + i]->bytes == old[4 + i]->bytes);
    }
  }
  for (size_t i = 0; i < 4; ++i) CHECK(got[i]->bytes == old[i]->bytes);
}

inline void run_and_check(BackwardCall call, aclrtStream stream = nullptr) {
  BackwardCall before = call;
  CHECK_EQ(call.run(stream), ACLNN_SUCCESS);
  CHECK_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
  check_result(call, before);
}

// Phase 1 of a call, and whatever it needs for phase 2. The aclTensors are gone by then.
struct PlannedBackward {
  BackwardCall call, before;
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;

  explicit PlannedBackward(BackwardCall to_plan) : call(std::move(to_plan)), before(call) {
    CHECK_EQ(call.phase1(&size, &executor), ACLNN_SUCCESS);
    call.workspace.resize(size);
  }
  aclnnStatus launch(aclrtStream stream = nullptr) {
    return aclnnFusedConvTanhBackward(call.workspace.data(), size, executor, stream);
  }
  // The launch must be refused with the code and exactly this message; the executor stays alive.
  void check_refused(aclnnStatus code, const std::string& message) {
    CHECK_EQ(launch(), code);
    CHECK_EQ(recent_message(), "aclnnFusedConvTanhBackward: " + message);
    CHECK_EQ(aclDestroyAclOpExecutor(executor), ACLNN_SUCCESS);
  }
};

}  // namespace msct_test

#endif  // MS_CONVTANH_TESTS_NATIVE_ACLNN_BACKWARD_TEST_UTIL_H_
