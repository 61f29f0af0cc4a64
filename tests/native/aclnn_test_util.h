// Operands, calls and a float64 reference for the tests of the C interface.
#ifndef MS_CONVTANH_TESTS_NATIVE_ACLNN_TEST_UTIL_H_
#define MS_CONVTANH_TESTS_NATIVE_ACLNN_TEST_UTIL_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/opdev/op_errno.h"
#include "aclnnop/aclnn_fused_conv_tanh.h"
#include "ms_convtanh/ms_convtanh.h"
#include "tests/native/test.h"

namespace msct_test {

using Ints = std::vector<int64_t>;

inline std::string recent_message() {
  const char* message = aclGetRecentErrMsg();
  return message == nullptr ? "" : message;
}

inline int64_t product(const Ints& shape) {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

inline Ints contiguous(const Ints& shape) {
  Ints strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * std::max<int64_t>(shape[i], 1);
  return strides;
}

struct DeleteTensor {
  void operator()(aclTensor* tensor) const { aclDestroyTensor(tensor); }
};
using TensorPointer = std::unique_ptr<aclTensor, DeleteTensor>;

// A view with storage of its own. Change the fields freely before it is used.
struct Tensor {
  Ints shape;
  Ints strides;
  int64_t offset = 0;
  Ints storage_shape;
  aclDataType dtype = ACL_FLOAT;
  aclFormat format = ACL_FORMAT_NCHW;
  std::vector<unsigned char> bytes;
  bool null_data = false;

  int64_t element_size() const { return static_cast<int64_t>(aclDataTypeSize(dtype)); }

  TensorPointer make() {
    return TensorPointer(aclCreateTensor(shape.data(), shape.size(), dtype, strides.data(), offset, format,
                                         storage_shape.data(), storage_shape.size(),
                                         null_data ? nullptr : bytes.data()));
  }

  double load(int64_t place) const {
    const unsigned char* from = bytes.data() + place * element_size();
    if (dtype == ACL_FLOAT) {
      float value;
      std::memcpy(&value, from, sizeof(value));
      return value;
    }
    uint16_t bits;
    std::memcpy(&bits, from, sizeof(bits));
    if (dtype == ACL_FLOAT16) return aclFloat16ToFloat(bits);
    const uint32_t wide = static_cast<uint32_t>(bits) << 16;
    float value;
    std::memcpy(&value, &wide, sizeof(value));
    return value;
  }

  // The value must fit the dtype without rounding.
  void store(int64_t place, double value) {
    unsigned char* to = bytes.data() + place * element_size();
    const float single = static_cast<float>(value);
    uint32_t bits;
    std::memcpy(&bits, &single, sizeof(bits));
    const uint16_t half = dtype == ACL_FLOAT16 ? aclFloatToFloat16(single) : static_cast<uint16_t>(bits >> 16);
    if (dtype == ACL_FLOAT) {
      std::memcpy(to, &single, sizeof(single));
    } else {
      std::memcpy(to, &half, sizeof(half));
    }
  }
};

// Element [n, c, h, w] of a tensor of rank 1 [n], 3 [n, c, w] or 4.
inline int64_t place_of(const Tensor& tensor, int64_t n, int64_t c, int64_t h, int64_t w) {
  const int64_t four[] = {n, c, h, w}, three[] = {n, c, w};
  const int64_t* index = tensor.shape.size() == 3 ? three : four;
  int64_t place = tensor.offset;
  for (size_t i = 0; i < tensor.shape.size(); ++i) place += index[i] * tensor.strides[i];
  return place;
}

// Values that all three dtypes hold exactly: multiples of 1/16 in [-1, 1].
inline void fill(Tensor* tensor, uint32_t seed) {
  const int64_t count = static_cast<int64_t>(tensor->bytes.size()) / tensor->element_size();
  for (int64_t i = 0; i < count; ++i) {
    seed = seed * 1664525u + 1013904223u;
    tensor->store(i, (static_cast<int>(seed >> 16) % 33 - 16) / 16.0);
  }
}

inline Tensor tensor_with(Ints shape, Ints strides, int64_t offset, Ints storage_shape, aclDataType dtype) {
  Tensor tensor;
  tensor.format = shape.size() == 4 ? ACL_FORMAT_NCHW : shape.size() == 3 ? ACL_FORMAT_NCL : ACL_FORMAT_ND;
  tensor.bytes.resize(product(storage_shape) * aclDataTypeSize(dtype));
  tensor.shape = std::move(shape);
  tensor.strides = std::move(strides);
  tensor.offset = offset;
  tensor.storage_shape = std::move(storage_shape);
  tensor.dtype = dtype;
  fill(&tensor, 12345 + static_cast<uint32_t>(tensor.bytes.size()));
  return tensor;
}

inline Tensor tensor_of(Ints shape, aclDataType dtype = ACL_FLOAT) {
  Ints strides = contiguous(shape);
  Ints storage_shape = shape;
  return tensor_with(std::move(shape), std::move(strides), 0, std::move(storage_shape), dtype);
}

// Numbers from a seed: every run of the tests sees the same ones.
struct Random {
  std::mt19937_64 engine;
  int64_t from(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(engine); }
};

// Shapes and attributes of a small problem, with one spatial axis or two.
struct Geometry {
  Ints x, filter, strides, pads, dilations;
  int64_t groups;
};

inline Geometry random_geometry(Random* random) {
  Geometry g;
  g.groups = random->from(1, 3);
  const int64_t ci = random->from(1, 4), co = random->from(1, 5);
  g.x = {random->from(1, 3), g.groups * ci};
  g.filter = {g.groups * co, ci};
  for (int64_t axis = random->from(0, 1); axis < 2; ++axis) {
    const int64_t kernel = random->from(1, 4), dilation = random->from(1, 3), before = random->from(0, 3);
    const int64_t after = random->from(0, 3), extent = (kernel - 1) * dilation + 1;
    g.x.push_back(std::max<int64_t>(1, extent - before - after) + random->from(0, 12));
    g.filter.push_back(kernel);
    g.strides.push_back(random->from(1, 3));
    g.pads.insert(g.pads.end(), {before, after});
    g.dilations.push_back(dilation);
  }
  return g;
}

// The shape in memory of any axis order, with steps and an offset; an input may repeat some axes.
inline Tensor random_view(const Ints& shape, bool may_repeat, aclDataType dtype, Random* random) {
  Ints order(shape.size()), strides(shape.size());
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), random->engine);
  int64_t stride = random->from(1, 2), last = 0;
  for (const int64_t axis : order) {
    if (may_repeat && random->from(0, 5) == 0) continue;  // stays 0
    strides[axis] = stride;
    last += (shape[axis] - 1) * stride;
    stride = last + random->from(1, 3);
  }
  const int64_t offset = random->from(0, 5);
  return tensor_with(shape, strides, offset, {offset + last + 1}, dtype);
}

struct DeleteArray {
  void operator()(aclIntArray* array) const { aclDestroyIntArray(array); }
};
inline std::unique_ptr<aclIntArray, DeleteArray> array_of(const Ints& values) {
  return std::unique_ptr<aclIntArray, DeleteArray>(aclCreateIntArray(values.data(), values.size()));
}

// One call of the operator with everything it needs.
struct Call {
  Tensor x, filter;
  std::optional<Tensor> bias;
  Tensor y;
  Ints strides = {1, 1}, pads = {0, 0, 0, 0}, dilations = {1, 1};
  int64_t groups = 1, cube_math_type = 0;
  std::vector<unsigned char> workspace;

  // The aclTensors and arrays live for this call only.
  aclnnStatus phase1(uint64_t* size, aclOpExecutor** executor) {
    const TensorPointer tx = x.make(), tf = filter.make(), ty = y.make();
    const TensorPointer tb = bias ? bias->make() : nullptr;
    return aclnnFusedConvTanhGetWorkspaceSize(tx.get(), tf.get(), tb.get(), array_of(strides).get(),
                                              array_of(pads).get(), array_of(dilations).get(), groups, cube_math_type,
                                              ty.get(), size, executor);
  }

  aclnnStatus run(aclrtStream stream = nullptr) {
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    if (aclnnStatus status = phase1(&size, &executor)) return status;
    workspace.resize(size);
    return aclnnFusedConvTanh(workspace.data(), size, executor, stream);
  }
};

// x [2, 4, 6, 6], filter [6, 2, 3, 3], two groups, bias, y [2, 6, 4, 4].
inline Call small_call(aclDataType dtype = ACL_FLOAT) {
  Call call;
  call.x = tensor_of({2, 4, 6, 6}, dtype);
  call.filter = tensor_of({6, 2, 3, 3}, dtype);
  call.bias = tensor_of({6}, dtype);
  call.y = tensor_of({2, 6, 4, 4}, dtype);
  call.groups = 2;
  return call;
}

// Compares y with tanh(conv2d(x, filter, bias)) in float64, and every element of its storage outside the view with
// before.
inline void check_result(const Call& call, const Tensor& before) {
  const Tensor &x = call.x, &filter = call.filter, &y = call.y;
  const bool flat = x.shape.size() == 3;
  const auto size = [&](const Tensor& t, int axis) -> int64_t {
    if (!flat) return t.shape[axis];
    return axis == 2 ? 1 : t.shape[axis == 3 ? 2 : axis];
  };
  const int64_t stride_h = flat ? 1 : call.strides[0], stride_w = call.strides.back();
  const int64_t dilation_h = flat ? 1 : call.dilations[0], dilation_w = call.dilations.back();
  const bool each_side = call.pads.size() == 2 * call.strides.size();
  const int64_t pad_top = flat ? 0 : call.pads[0];
  const int64_t pad_left = each_side ? call.pads[call.pads.size() - 2] : call.pads.back();
  const int64_t ci_per_group = size(filter, 1), co_per_group = size(filter, 0) / call.groups;
  // tanh to 4 ULP of float32 or one rounding to the output's dtype, and an error of float32 sums that grows with them.
  const double rounding = y.dtype == ACL_FLOAT ? 0x1p-21 : y.dtype == ACL_FLOAT16 ? 0x1p-11 : 0x1p-8;
  std::vector<bool> in_view(y.bytes.size() / y.element_size());
  for (int64_t n = 0; n < size(y, 0); ++n) {
    for (int64_t co = 0; co < size(y, 1); ++co) {
      for (int64_t oy = 0; oy < size(y, 2); ++oy) {
        for (int64_t ox = 0; ox < size(y, 3); ++ox) {
          double sum = call.bias ? call.bias->load(call.bias->offset + co * call.bias->strides[0]) : 0;
          double magnitude = std::fabs(sum);
          int64_t terms = 1;
          for (int64_t ci = 0; ci < ci_per_group; ++ci) {
            for (int64_t kh = 0; kh < size(filter, 2); ++kh) {
              for (int64_t kw = 0; kw < size(filter, 3); ++kw) {
                const int64_t iy = oy * stride_h + kh * dilation_h - pad_top;
                const int64_t ix = ox * stride_w + kw * dilation_w - pad_left;
                if (iy < 0 || iy >= size(x, 2) || ix < 0 || ix >= size(x, 3)) continue;
                const int64_t channel = co / co_per_group * ci_per_group + ci;
                const double term =
                    x.load(place_of(x, n, channel, iy, ix)) * filter.load(place_of(filter, co, ci, kh, kw));
                sum += term;
                magnitude += std::fabs(term);
                ++terms;
              }
            }
          }
          const int64_t place = place_of(y, n, co, oy, ox);
          in_view[place] = true;
          const double expected = std::tanh(sum);
          const double tolerance = rounding * std::max(std::fabs(expected), 1e-4) + terms * magnitude * 0x1p-24;
          CHECK_NEAR(y.load(place), expected, tolerance);
        }
      }
    }
  }
  const int64_t element = y.element_size();
  for (size_t place = 0; place < in_view.size(); ++place) {
    if (in_view[place]) continue;
    CHECK(std::memcmp(&y.bytes[place * element], &before.bytes[place * element], element) == 0);
  }
}

inline void run_and_check(Call call, aclrtStream stream = nullptr) {
  const Tensor before = call.y;
  CHECK_EQ(call.run(stream), ACLNN_SUCCESS);
  CHECK_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
  check_result(call, before);
}

// A contiguous tensor of another shape in its place; dtype and format stay.
inline void set_shape(Tensor* tensor, Ints shape) {
  const aclFormat format = tensor->format;
  *tensor = tensor_of(std::move(shape), tensor->dtype);
  tensor->format = format;
}

// What phase 2 of the call would do.
inline msctPlan plan_of(Call* call) {
  const TensorPointer x = call->x.make(), filter = call->filter.make(), bias = call->bias->make(), y = call->y.make();
  msctPlan plan = {};
  CHECK_EQ(msctExplainFusedConvTanh(x.get(), filter.get(), bias.get(), array_of(call->strides).get(),
                                    array_of(call->pads).get(), array_of(call->dilations).get(), call->groups, 0,
                                    y.get(), &plan),
           ACLNN_SUCCESS);
  return plan;
}

}  // namespace msct_test

#endif  // MS_CONVTANH_TESTS_NATIVE_ACLNN_TEST_UTIL_H_
