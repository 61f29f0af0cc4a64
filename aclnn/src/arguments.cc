#include "aclnn/src/arguments.h"

#include <algorithm>

#include "aclnn/opdev/op_errno.h"
#include "aclnn/src/error.h"
#include "kernels/output_size.h"

namespace msct {
namespace {

// Strides, pads and dilations beyond this are refused: they are mistakes, and sums of them must not overflow.
constexpr int64_t kMaxAttribute = INT32_MAX;

// Each check returns ACLNN_SUCCESS or fails, and relies on those before it.
class Checker {
 public:
  Checker(const Arguments& arguments, CheckedArguments* checked)
      : op_(arguments.op), arguments_(arguments), problem_(checked->problem), views_(checked->views) {}

  int32_t check() {
    if (int32_t status = check_dtypes()) return status;
    if (int32_t status = check_formats()) return status;
    if (int32_t status = check_shapes()) return status;
    if (int32_t status = check_attributes()) return status;
    fill_problem();
    if (int32_t status = check_outputs()) return status;
    return check_empty();
  }

 private:
  [[gnu::format(printf, 2, 3)]] int32_t invalid(const char* format, ...) const {
    va_list values;
    va_start(values, format);
    const int32_t status = vfail(ACLNN_ERR_PARAM_INVALID, op_.name, format, values);
    va_end(values);
    return status;
  }

  const TensorInfo* tensor(Operand operand) const { return arguments_.tensors[operand]; }
  bool is_flat() const { return tensor(kX)->format == ACL_FORMAT_NCL; }

  int32_t check_dtypes() const {
    const aclDataType dtype = tensor(kX)->dtype;
    if (dtype != ACL_FLOAT && dtype != ACL_FLOAT16 && dtype != ACL_BF16) {
      return invalid("x.dtype must be ACL_FLOAT, ACL_FLOAT16 or ACL_BF16, got %s", text_of(dtype).c_str());
    }
    for (const Operand operand : op_) {
      if (tensor(operand) == nullptr || tensor(operand)->dtype == dtype) continue;
      return invalid("%s.dtype must be x.dtype = %s, got %s", kOperandNames[operand], text_of(dtype).c_str(),
                     text_of(tensor(operand)->dtype).c_str());
    }
    return ACLNN_SUCCESS;
  }

  // As for aclnnConvolution, the format says which axis is which, so that ACL_FORMAT_ND is not enough but for the bias.
  int32_t check_formats() const {
    const aclFormat expected = tensor(kX)->format;
    if (expected != ACL_FORMAT_NCHW && expected != ACL_FORMAT_NCL) {
      return invalid("x.format must be ACL_FORMAT_NCHW or ACL_FORMAT_NCL, got %s", text_of(expected).c_str());
    }
    for (const Operand operand : op_) {
      if (tensor(operand) == nullptr) continue;
      const aclFormat format = tensor(operand)->format;
      if (shaped_like(operand) != kBias) {
        if (format == expected) continue;
        return invalid("%s.format must be x.format = %s, got %s", kOperandNames[operand], text_of(expected).c_str(),
                       text_of(format).c_str());
      }
      if (format != ACL_FORMAT_ND && format != ACL_FORMAT_NCHW && format != ACL_FORMAT_NCL) {
        return invalid("%s.format must be ACL_FORMAT_ND, ACL_FORMAT_NCHW or ACL_FORMAT_NCL, got %s",
                       kOperandNames[operand], text_of(format).c_str());
      }
    }
    return ACLNN_SUCCESS;
  }

  int32_t check_shapes() {
    for (const Operand operand : op_) {
      if (tensor(operand) == nullptr) continue;
      const size_t rank = shaped_like(operand) == kBias ? 1 : is_flat() ? 3 : 4;
      if (tensor(operand)->shape.size() == rank) continue;
      return invalid("%s must be %zu-dimensional, got shape %s", kOperandNames[operand], rank,
                     text_of(tensor(operand)->shape).c_str());
    }
    for (const Operand operand : op_) {
      if (tensor(operand) == nullptr) continue;
      if (int32_t status = read_view(op_.name, kOperandNames[operand], *tensor(operand), &views_[operand])) {
        return status;
      }
    }
    const View& x = views_[kX];
    const View& filter = views_[kFilter];
    if (std::min(filter.shape[2], filter.shape[3]) < 1) {
      return invalid("filter must have a kernel of at least 1 tap on each axis, got shape %s",
                     text_of(tensor(kFilter)->shape).c_str());
    }
    // A number of groups that makes no sense by itself is reported with the attributes.
    const int64_t groups = arguments_.groups;
    if (groups >= 1 && x.shape[1] % groups == 0 && filter.shape[1] != x.shape[1] / groups) {
      return invalid("filter.shape[1] must equal x.shape[1] / groups = %lld, got %lld", number(x.shape[1] / groups),
                     number(filter.shape[1]));
    }
    if (tensor(kBias) != nullptr && views_[kBias].shape[0] != filter.shape[0]) {
      return invalid("bias.shape[0] must equal filter.shape[0] = %lld, got %lld", number(filter.shape[0]),
                     number(views_[kBias].shape[0]));
    }
    return ACLNN_SUCCESS;
  }

  // An attribute with one value for each of the spatial axes.
  int32_t check_attribute(const char* name, const std::vector<int64_t>& values, int64_t minimum) const {
    for (const int64_t value : values) {
      if (value >= minimum && value <= kMaxAttribute) continue;
      return invalid("%s must be from %lld to 2147483647, got %s", name, number(minimum), text_of(values).c_str());
    }
    return ACLNN_SUCCESS;
  }

  int32_t check_attributes() const {
    const std::vector<int64_t>& strides = arguments_.strides->values;
    const std::vector<int64_t>& pads = arguments_.pads->values;
    const std::vector<int64_t>& dilations = arguments_.dilations->values;
    const size_t axes = is_flat() ? 1 : 2;
    const char* one_for_each = is_flat() ? "[l] for NCL" : "[h, w] for NCHW";
    if (strides.size() != axes) {
      return invalid("strides must be %s, got %s", one_for_each, text_of(strides).c_str());
    }
    if (pads.size() != axes && pads.size() != 2 * axes) {
      const char* each_side = is_flat() ? "[left, right]" : "[top, bottom, left, right]";
      return invalid("pads must be %s or %s, got %s", each_side, one_for_each, text_of(pads).c_str());
    }
    if (dilations.size() != axes) {
      return invalid("dilations must be %s, got %s", one_for_each, text_of(dilations).c_str());
    }
    if (int32_t status = check_attribute("strides", strides, 1)) return status;
    if (int32_t status = check_attribute("pads", pads, 0)) return status;
    if (int32_t status = check_attribute("dilations", dilations, 1)) return status;
    const int64_t groups = arguments_.groups;
    const int64_t ci = views_[kX].shape[1];
    const int64_t co = views_[kFilter].shape[0];
    if (groups < 1) return invalid("groups must be >= 1, got %lld", number(groups));
    if (ci % groups != 0 || co % groups != 0) {
      return invalid("groups must divide x.shape[1] = %lld and filter.shape[0] = %lld, got %lld", number(ci),
                     number(co), number(groups));
    }
    if (arguments_.cube_math_type < 0 || arguments_.cube_math_type > 3) {
      return invalid("cubeMathType must be from 0 to 3, got %lld", number(arguments_.cube_math_type));
    }
    return ACLNN_SUCCESS;
  }

  void fill_problem() {
    const View& x = views_[kX];
    const View& filter = views_[kFilter];
    const View& y = views_[kY];
    const std::vector<int64_t>& strides = arguments_.strides->values;
    const std::vector<int64_t>& pads = arguments_.pads->values;
    const std::vector<int64_t>& dilations = arguments_.dilations->values;
    const bool two_axes = strides.size() == 2;
    const bool each_side = pads.size() == 2 * strides.size();

    problem_ = {};
    problem_.dtype = x.dtype == ACL_FLOAT     ? DType::kFloat32
                     : x.dtype == ACL_FLOAT16 ? DType::kFloat16
                                              : DType::kBFloat16;
    problem_.n = x.shape[0];
    problem_.ci = x.shape[1];
    problem_.hi = x.shape[2];
    problem_.wi = x.shape[3];
    problem_.co = filter.shape[0];
    problem_.kh = filter.shape[2];
    problem_.kw = filter.shape[3];
    problem_.ho = y.shape[2];
    problem_.wo = y.shape[3];
    problem_.stride_h = two_axes ? strides[0] : 1;
    problem_.stride_w = strides.back();
    problem_.pad_top = two_axes ? pads[0] : 0;
    problem_.pad_bottom = two_axes ? pads[each_side ? 1 : 0] : 0;
    problem_.pad_left = each_side ? pads[pads.size() - 2] : pads.back();
    problem_.pad_right = pads.back();
    problem_.dilation_h = two_axes ? dilations[0] : 1;
    problem_.dilation_w = dilations.back();
    problem_.groups = arguments_.groups;
    problem_.has_bias = tensor(kBias) != nullptr;
    problem_.cube_math_type = arguments_.cube_math_type;
    std::copy(x.strides, x.strides + 4, problem_.x_strides);
    std::copy(filter.strides, filter.strides + 4, problem_.filter_strides);
    problem_.bias_stride = views_[kBias].strides[0];
    std::copy(y.strides, y.strides + 4, problem_.y_strides);
  }

  // One spatial axis of y. The kernel may be larger than the padded input only if x is empty and y's size comes out as
  // 0.
  int32_t check_axis(const char* axis, int64_t size, int64_t pad_before, int64_t pad_after, int64_t kernel,
                     int64_t dilation, int64_t stride, int64_t* out) const {
    int64_t extent;  // of the dilated kernel
    if (__builtin_mul_overflow(dilation, kernel - 1, &extent) || extent > kMaxElements) {
      return invalid("dilated kernel along %s must be at most 2^60, got dilation %lld and %lld taps", axis,
                     number(dilation), number(kernel));
    }
    extent += 1;
    const int64_t room = size + pad_before + pad_after - extent;
    *out = output_size(size, pad_before, pad_after, kernel, dilation, stride);
    if (room < 0 && !(views_[kX].count == 0 && *out == 0)) {
      return invalid("dilated kernel along %s must fit the padded input of %lld, got %lld", axis,
                     number(size + pad_before + pad_after), number(extent));
    }
    return ACLNN_SUCCESS;
  }

  // What follows from the shapes of x and filter, and from the attributes: the forward operator's output and, in the
  // backward operator, y and all gradients.
  int32_t check_outputs() const {
    const ConvTanhProblem& p = problem_;
    int64_t ho = 0, wo = 0;
    if (int32_t status = check_axis("height", p.hi, p.pad_top, p.pad_bottom, p.kh, p.dilation_h, p.stride_h, &ho)) {
      return status;
    }
    const char* width = is_flat() ? "length" : "width";
    if (int32_t status = check_axis(width, p.wi, p.pad_left, p.pad_right, p.kw, p.dilation_w, p.stride_w, &wo)) {
      return status;
    }
    std::vector<int64_t> y_shape = {p.n, p.co, ho, wo};
    if (is_flat()) y_shape.erase(y_shape.begin() + 2);
    for (const Operand operand : op_) {
      if (tensor(operand) == nullptr) continue;
      const Operand like = shaped_like(operand);
      const std::vector<int64_t> expected = like == kY      ? y_shape
                                            : like == kBias ? std::vector<int64_t>{p.co}
                                                            : tensor(like)->shape;
      if (tensor(operand)->shape == expected) continue;
      return invalid("%s.shape must be %s, got %s", kOperandNames[operand], text_of(expected).c_str(),
                     text_of(tensor(operand)->shape).c_str());
    }
    for (const Operand* output = op_.first_output(); output != op_.end(); ++output) {
      if (tensor(*output) == nullptr) continue;
      if (int32_t status = check_elements_apart(op_.name, kOperandNames[*output], *tensor(*output), views_[*output])) {
        return status;
      }
    }
    // The number of products must be countable; beyond that no machine ends.
    int64_t products;
    if (__builtin_mul_overflow(views_[kY].count, p.ci / p.groups, &products) ||
        __builtin_mul_overflow(products, p.kh * p.kw, &products)) {
      return invalid("x, filter and y must need fewer than 2^63 products, got filter.shape %s and y.shape %s",
                     text_of(tensor(kFilter)->shape).c_str(), text_of(tensor(kY)->shape).c_str());
    }
    return ACLNN_SUCCESS;
  }

  // As for aclnnConvolution: with nothing to sum there must be nothing to write.
  int32_t check_empty() const {
    if (views_[kY].count == 0) return ACLNN_SUCCESS;
    for (const Operand operand : {kX, kFilter}) {
      if (views_[operand].count > 0) continue;
      return invalid("%s must not be empty for a y that is not, got shape %s", kOperandNames[operand],
                     text_of(tensor(operand)->shape).c_str());
    }
    return ACLNN_SUCCESS;
  }

  const Operator& op_;
  const Arguments& arguments_;
  ConvTanhProblem& problem_;
  View (&views_)[kOperands];
};

}  // namespace

int32_t check_arguments(const Arguments& arguments, CheckedArguments* checked) {
  *checked = {};
  return Checker(arguments, checked).check();
}

}  // namespace msct
