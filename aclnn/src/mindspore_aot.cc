// The operator as MindSpore's ops.Custom (func_type "aot") runs it on CPUs. The only file that sees MindSpore's types.
//
// It is compiled with _GLIBCXX_USE_CXX11_ABI=0, which MindSpore's interface needs: only the C interface and plain types
// connect it to the rest of the library.
//
// MindSpore calls, on any of its threads:
//   FusedConvTanhInferType   when it compiles: the dtype of y
//   FusedConvTanhInferShape  when it compiles, with dims of -1 and ranks of -2 where shapes are dynamic, and again at
//                            run time for those
//   FusedConvTanhInit        once for each operator of a compiled network, also with -1 and -2. It sizes nothing,
//                            because later inputs may be larger: scratch comes from the library's pool, call by call.
//   FusedConvTanh            for each launch
// and the same with FusedConvTanhBackward.
//
// Inputs are x, filter and, if there is one, bias; the output is y. Attributes are those of the operator, and pad_mode:
// "pad" takes pads as given, "valid" is 0, "same" follows nn.Conv2d and depends on the shape of x. Backward has inputs
// grad_y, y, x and filter; its output is the one gradient that the attribute wanted names: x, filter or bias. So a
// network computes no gradient that it does not need; and MindSpore infers the shapes of single outputs only. An
// attribute frozen, of any value, makes an operator keep its packed filters for as long as MindSpore keeps it.
//
// Shape inference refuses nothing, because Python's checks come after it, with better exceptions: see _custom.py. What
// they cannot see is refused at launch. What a returned code means is lost on the way to Python, what() is not:
// failures are thrown as std::exception.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

#include "acl/acl.h"
#include "aclnn/opdev/op_errno.h"
#include "aclnn/src/workspace_pool.h"
#include "aclnnop/aclnn_fused_conv_tanh.h"
#include "aclnnop/aclnn_fused_conv_tanh_backward.h"
#include "kernels/cpu/trace.h"
#include "ms_convtanh/ms_convtanh.h"

namespace msct {

// MindSpore's classes as far as they are used here: the order of the virtual functions and members is what counts.
// They must not be in an unnamed namespace: the compiler would know then that nothing here implements AotExtra.
class AotKernelData {
 public:
  AotKernelData() = default;
  virtual ~AotKernelData() = default;
};

class AotExtra {
 public:
  virtual ~AotExtra() = default;
  virtual bool HasAttr(std::string name) = 0;
  virtual bool GetAttrBool(std::string name) = 0;
  virtual int64_t GetAttrInt(std::string name) = 0;
  virtual float GetAttrFloat(std::string name) = 0;
  virtual std::string GetAttrStr(std::string name) = 0;
  virtual std::vector<int64_t> GetAttrIntVec(std::string name) = 0;

  // MindSpore deletes the data with the operator.
  void SetKernelData(const AotKernelData* data) { kernel_data_ = data; }
  const AotKernelData* KernelData() const { return kernel_data_; }

 private:
  std::vector<size_t> workspace_;
  const AotKernelData* kernel_data_ = nullptr;
};

}  // namespace msct

namespace {

using msct::AotExtra;
using msct::AotKernelData;

struct Destroy {
  void operator()(const aclTensor* tensor) const { aclDestroyTensor(tensor); }
  void operator()(const aclIntArray* array) const { aclDestroyIntArray(array); }
  void operator()(const aclBoolArray* array) const { aclDestroyBoolArray(array); }
  void operator()(aclOpExecutor* executor) const { aclDestroyAclOpExecutor(executor); }
  void operator()(const msctFilterCache* cache) const { msctDestroyFilterCache(cache); }
};
using Tensor = std::unique_ptr<aclTensor, Destroy>;
using IntArray = std::unique_ptr<aclIntArray, Destroy>;
using BoolArray = std::unique_ptr<aclBoolArray, Destroy>;
using FilterCache = std::unique_ptr<msctFilterCache, Destroy>;

struct Attributes final : AotKernelData {
  explicit Attributes(AotExtra* extra)
      : strides(extra->GetAttrIntVec("strides")),
        pads(extra->GetAttrIntVec("pads")),
        dilations(extra->GetAttrIntVec("dilations")),
        groups(extra->GetAttrInt("groups")),
        pad_mode(extra->GetAttrStr("pad_mode")),
        wanted(extra->HasAttr("wanted") ? extra->GetAttrStr("wanted") : "") {}

  std::vector<int64_t> strides, pads, dilations;
  int64_t groups;
  std::string pad_mode;
  std::string wanted;  // of Backward
  FilterCache filters;  // of cells that are frozen
};

struct Shape {
  Shape(const int64_t* first, int count) : dims(first, first + count) {}

  bool has_rank() const { return std::count(dims.begin(), dims.end(), -2) == 0; }
  bool is_known() const {
    return std::all_of(dims.begin(), dims.end(), [](int64_t dim) { return dim >= 0; });
  }

  std::vector<int64_t> dims;
};

struct Problem {
  Problem(const Attributes& attributes, const Shape& x, const Shape& filter)
      : attributes(attributes), x(x.dims), filter(filter.dims), pads(attributes.pads) {
    if (attributes.pad_mode != "pad") {
      pads.clear();
      for (size_t axis = 0; axis + 2 < x.dims.size(); ++axis) {
        const int64_t sum =
            attributes.pad_mode == "same" && is_spatial(axis) && x.dims[axis + 2] >= 0 ? same_padding(axis) : 0;
        pads.push_back(sum / 2);
        pads.push_back(sum - sum / 2);
      }
    }
  }

  // Whether a spatial axis can be computed with. Phase 1 says what is wrong with one that cannot.
  bool is_spatial(size_t axis) const {
    return axis + 2 < std::min(x.size(), filter.size()) &&
           axis < std::min(attributes.strides.size(), attributes.dilations.size()) && attributes.strides[axis] > 0 &&
           is_sane(attributes.strides[axis]) && is_sane(attributes.dilations[axis]) && is_sane(filter[axis + 2]);
  }
  static bool is_sane(int64_t value) { return value >= 0 && value <= INT32_MAX; }

  int64_t extent(size_t axis) const { return attributes.dilations[axis] * (filter[axis + 2] - 1) + 1; }

  // y has ceil(size / stride) elements along the axis.
  int64_t same_padding(size_t axis) const {
    const int64_t stride = attributes.strides[axis];
    const int64_t last = (x[axis + 2] - 1) / stride * stride;
    return std::max<int64_t>(last + extent(axis) - x[axis + 2], 0);
  }

  // Dims of -1 where the inputs have them. 0 where the filter is larger than the padded input.
  std::vector<int64_t> y_shape() const {
    std::vector<int64_t> y(std::max<size_t>(x.size(), 2), -1);
    if (x.size() > 0) y[0] = x[0];
    if (filter.size() > 0) y[1] = filter[0];
    for (size_t axis = 0; axis + 2 < y.size(); ++axis) {
      if (!is_spatial(axis) || x[axis + 2] < 0) continue;
      const bool one_for_both = pads.size() < 2 * (x.size() - 2);
      const size_t before = one_for_both ? axis : 2 * axis;
      const size_t after = one_for_both ? axis : 2 * axis + 1;
      if (after >= pads.size() || !is_sane(pads[before]) || !is_sane(pads[after])) continue;
      const int64_t room = x[axis + 2] + pads[before] + pads[after] - extent(axis);
      y[axis + 2] = room < 0 ? 0 : room / attributes.strides[axis] + 1;
    }
    return y;
  }

  const Attributes& attributes;
  const std::vector<int64_t> x, filter;
  std::vector<int64_t> pads;
};

void throw_if_failed(aclnnStatus status) {
  if (status == ACLNN_SUCCESS) return;
  const char* message = aclGetRecentErrMsg();
  throw std::runtime_error(message != nullptr ? message : "FusedConvTanh: status " + std::to_string(status));
}

Tensor tensor(const std::vector<int64_t>& shape, aclDataType dtype, aclFormat format, void* data) {
  Tensor made(aclCreateTensor(shape.data(), shape.size(), dtype, nullptr, 0, format, shape.data(), shape.size(), data));
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

IntArray int_array(const std::vector<int64_t>& values) {
  IntArray made(aclCreateIntArray(values.data(), values.size()));
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

aclDataType dtype_of(const std::string& name) {
  if (name == "float32") return ACL_FLOAT;
  if (name == "float16") return ACL_FLOAT16;
  if (name == "bfloat16") return ACL_BF16;
  throw std::invalid_argument("FusedConvTanh: dtype must be float32, float16 or bfloat16, got " + name);
}

constexpr int64_t kKeepDtype = 0;

// The arguments of one launch for phase 1.
struct Launch {
  // x and filter are inputs number x and x + 1.
  Launch(int x, int nparam, void** params, int* ndims, int64_t** shapes, const char** dtypes, void* extra)
      : attributes(*static_cast<const Attributes*>(static_cast<AotExtra*>(extra)->KernelData())),
        strides(int_array(attributes.strides)),
        dilations(int_array(attributes.dilations)) {
    const Shape x_shape(shapes[x], ndims[x]), filter_shape(shapes[x + 1], ndims[x + 1]);
    pads = int_array(Problem(attributes, x_shape, filter_shape).pads);
    const aclFormat format = x_shape.dims.size() == 3 ? ACL_FORMAT_NCL : ACL_FORMAT_NCHW;
    for (int i = 0; i < nparam; ++i) {
      operands.push_back(tensor(Shape(shapes[i], ndims[i]).dims, dtype_of(dtypes[i]), format, params[i]));
    }
  }

  const Attributes& attributes;
  IntArray strides, dilations, pads;
  std::vector<Tensor> operands;  // the inputs, then the output
};

// Phase 2, with scratch from the pool.
void run(aclnnStatus (*phase2)(void*, uint64_t, aclOpExecutor*, aclrtStream), uint64_t size, aclOpExecutor* executor) {
  std::unique_ptr<aclOpExecutor, Destroy> unused(executor);
  const msct::BorrowedWorkspace workspace(size);
  throw_if_failed(phase2(workspace.data(), size, unused.release(), nullptr));
}

}  // namespace

#define MINDSPORE_ENTRY extern "C" __attribute__((visibility("default")))

// A std::vector as the result of a C function is MindSpore's choice.
#if defined(__clang__)
#pragma clang diagnostic ignored "-Wreturn-type-c-linkage"
#endif

// types and the result are values of MindSpore's enumeration TypeId.
MINDSPORE_ENTRY int FusedConvTanhInferType(std::vector<int> types, AotExtra* /*extra*/) { return types.at(0); }

MINDSPORE_ENTRY std::vector<int64_t> FusedConvTanhInferShape(int* ndims, int64_t** shapes, AotExtra* extra) {
  const Attributes attributes(extra);
  const Shape filter(shapes[1], ndims[1]);
  if (!filter.has_rank()) return {-2};
  Shape x(shapes[0], ndims[0]);
  if (!x.has_rank()) x.dims.assign(filter.dims.size(), -1);
  return Problem(attributes, x, filter).y_shape();
}

MINDSPORE_ENTRY int FusedConvTanhInit(int* /*ndims*/, int64_t** /*shapes*/, const char** /*dtypes*/, AotExtra* extra) {
  auto attributes = std::make_unique<Attributes>(extra);
  if (extra->HasAttr("frozen")) attributes->filters.reset(msctCreateFilterCache());
  extra->SetKernelData(attributes.release());
  return 0;
}

MINDSPORE_ENTRY int FusedConvTanh(int nparam, void** params, int* ndims, int64_t** shapes, const char** dtypes,
                                  void* /*stream*/, void* extra) {
  const msct::TraceMark mark(msct::TracePhase::kEntry);
  const Launch launch(0, nparam, params, ndims, shapes, dtypes, extra);
  const std::vector<Tensor>& operands = launch.operands;
  const aclTensor* bias = operands.size() == 4 ? operands[2].get() : nullptr;
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  throw_if_failed(aclnnFusedConvTanhGetWorkspaceSize(
      operands[0].get(), operands[1].get(), bias, launch.strides.get(), launch.pads.get(), launch.dilations.get(),
      launch.attributes.groups, kKeepDtype, operands.back().get(), &size, &executor));
  if (launch.attributes.filters != nullptr) msctSetFilterCache(executor, launch.attributes.filters.get());
  run(&aclnnFusedConvTanh, size, executor);
  return 0;
}

MINDSPORE_ENTRY int FusedConvTanhBackwardInferType(std::vector<int> types, AotExtra* /*extra*/) { return types.at(0); }

MINDSPORE_ENTRY std::vector<int64_t> FusedConvTanhBackwardInferShape(int* ndims, int64_t** shapes, AotExtra* extra) {
  const Attributes attributes(extra);
  const Shape x(shapes[2], ndims[2]), filter(shapes[3], ndims[3]);
  if (attributes.wanted == "x") return x.dims;
  if (attributes.wanted == "filter") return filter.dims;
  return {filter.has_rank() && !filter.dims.empty() ? filter.dims[0] : -1};
}

MINDSPORE_ENTRY int FusedConvTanhBackwardInit(int* /*ndims*/, int64_t** /*shapes*/, const char** /*dtypes*/,
                                              AotExtra* extra) {
  extra->SetKernelData(new Attributes(extra));
  return 0;
}

MINDSPORE_ENTRY int FusedConvTanhBackward(int nparam, void** params, int* ndims, int64_t** shapes, const char** dtypes,
                                          void* /*stream*/, void* extra) {
  const msct::TraceMark mark(msct::TracePhase::kEntry);
  const Launch launch(2, nparam, params, ndims, shapes, dtypes, extra);
  const std::vector<Tensor>& operands = launch.operands;
  const std::string& wanted = launch.attributes.wanted;
  const bool wants[] = {wanted == "x", wanted == "filter", wanted == "bias"};
  const BoolArray mask(aclCreateBoolArray(wants, 3));
  if (mask == nullptr) throw std::bad_alloc();
  aclTensor* gradient = operands.back().get();
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  throw_if_failed(aclnnFusedConvTanhBackwardGetWorkspaceSize(
      operands[0].get(), operands[1].get(), operands[2].get(), operands[3].get(), launch.strides.get(),
      launch.pads.get(), launch.dilations.get(), launch.attributes.groups, kKeepDtype, mask.get(), gradient, gradient,
      gradient, &size, &executor));
  run(&aclnnFusedConvTanhBackward, size, executor);
  return 0;
}
