#include "aclnn/src/arguments.h"

#include <algorithm>

#include "aclnn/opdev/op_errno.h"
#include "aclnn/src/error.h"

namespace msct {
namespace {

// Strides, pads and dilations beyond this are refused: they are mistakes, and sums of them must not overflow.
constexpr int64_t kMaxAttribute = INT32_MAX;

[[gnu::format(printf, 1, 2)]] int32_t invalid(const char* format, ...) {
  va_list values;
  va_start(values, format);
  const int32_t status = vfail(ACLNN_ERR_PARAM_INVALID, kFusedConvTanh, format, values);
  va_end(values);
  return status;
}

int32_t check_dtypes(const Arguments& arguments) {
  const aclDataType dtype = arguments.x->dtype;
  if (dtype != ACL_FLOAT && dtype != ACL_FLOAT16 && dtype != ACL_BF16) {
    return invalid("x.dtype must be ACL_FLOAT, ACL_FLOAT16 or ACL_BF16, got %s", text_of(dtype).c_str());
  }
  const aclTensor* others[] = {arguments.filter, arguments.bias, arguments.y};
  for (int i = 0; i < 3; ++i) {
    if (others[i] == nullptr || others[i]->dtype == dtype) continue;
    return invalid("%s.dtype must be x.dtype = %s, got %s", kOperandNames[kFilter + i], text_of(dtype).c_str(),
                   text_of(others[i]->dtype).c_str());
  }
  return ACLNN_SUCCESS;
}

// As for aclnnConvolution, the format says which axis is which, so that ACL_FORMAT_ND is not enough but for the bias.
int32_t check_formats(const Arguments& arguments) {
  const aclFormat format = arguments.x->format;
  if (format != ACL_FORMAT_NCHW && format != ACL_FORMAT_NCL) {
    return invalid("x.format must be ACL_FORMAT_NCHW or ACL_FORMAT_NCL, got %s", text_of(format).c_str());
  }
  const std::pair<const char*, const aclTensor*> same[] = {{"filter", arguments.filter}, {"y", arguments.y}};
  for (const auto& [name, tensor] : same) {
    if (tensor->format == format) continue;
    return invalid("%s.format must be x.format = %s, got %s", name, text_of(format).c_str(),
                   text_of(tensor->format).c_str());
  }
  if (arguments.bias != nullptr) {
    const aclFormat bias = arguments.bias->format;
    if (bias != ACL_FORMAT_ND && bias != ACL_FORMAT_NCHW && bias != ACL_FORMAT_NCL) {
      return invalid("bias.format must be ACL_FORMAT_ND, ACL_FORMAT_NCHW or ACL_FORMAT_NCL, got %s",
                     text_of(bias).c_str());
    }
  }
  return ACLNN_SUCCESS;
}

int32_t check_rank(const char* name, const aclTensor& tensor, size_t rank) {
  if (tensor.shape.size() == rank) return ACLNN_SUCCESS;
  return invalid("%s must be %zu-dimensional, got shape %s", name, rank, text_of(tensor.shape).c_str());
}

int32_t check_shapes(const Arguments& arguments, View (&views)[kOperands]) {
  const aclTensor* tensors[kOperands] = {arguments.x, arguments.filter, arguments.bias, arguments.y};
  const size_t rank = arguments.x->format == ACL_FORMAT_NCHW ? 4 : 3;
  for (int i = 0; i < kOperands; ++i) {
    if (tensors[i] == nullptr) continue;
    if (int32_t status = check_rank(kOperandNames[i], *tensors[i], i == kBias ? 1 : rank)) return status;
  }
  for (int i = 0; i < kOperands; ++i) {
    if (tensors[i] == nullptr) continue;
    if (int32_t status = read_view(kFusedConvTanh, kOperandNames[i], *tensors[i], &views[i])) return status;
  }
  const View& x = views[kX];
  const View& filter = views[kFilter];
  if (std::min(filter.shape[2], filter.shape[3]) < 1) {
    return invalid("filter must have a kernel of at least 1 tap on each axis, got shape %s",
                   text_of(arguments.filter->shape).c_str());
  }
  // A number of groups that makes no sense by itself is reported with the attributes.
  const int64_t groups = arguments.groups;
  if (groups >= 1 && x.shape[1] % groups == 0 && filter.shape[1] != x.shape[1] / groups) {
    return invalid("filter.shape[1] must equal x.shape[1] / groups = %lld, got %lld", number(x.shape[1] / groups),
                   number(filter.shape[1]));
  }
  if (arguments.bias != nullptr && views[kBias].shape[0] != filter.shape[0]) {
    return invalid("bias.shape[0] must equal filter.shape[0] = %lld, got %lld", number(filter.shape[0]),
                   number(views[kBias].shape[0]));
  }
  return ACLNN_SUCCESS;
}

// An attribute with one value for each of the spatial axes.
int32_t check_attribute(const char* name, const std::vector<int64_t>& values, int64_t minimum) {
  for (const int64_t value : values) {
    if (value >= minimum && value <= kMaxAttribute) continue;
    return invalid("%s must be from %lld to 2147483647, got %s", name, number(minimum), text_of(values).c_str());
  }
  return ACLNN_SUCCESS;
}

int32_t check_attributes(const Arguments& arguments, const View& x, const View& filter) {
  const std::vector<int64_t>& strides = arguments.strides->values;
  const std::vector<int64_t>& pads = arguments.pads->values;
  const std::vector<int64_t>& dilations = arguments.dilations->values;
  const bool flat = arguments.x->format == ACL_FORMAT_NCL;
  const size_t axes = flat ? 1 : 2;
  const char* one_for_each = flat ? "[l] for NCL" : "[h, w] for NCHW";
  if (strides.size() != axes) {
    return invalid("strides must be %s, got %s", one_for_each, text_of(strides).c_str());
  }
  if (pads.size() != axes && pads.size() != 2 * axes) {
    const char* each_side = flat ? "[left, right]" : "[top, bottom, left, right]";
    return invalid("pads must be %s or %s, got %s", each_side, one_for_each, text_of(pads).c_str());
  }
  if (dilations.size() != axes) {
    return invalid("dilations must be %s, got %s", one_for_each, text_of(dilations).c_str());
  }
  if (int32_t status = check_attribute("strides", strides, 1)) return status;
  if (int32_t status = check_attribute("pads", pads, 0)) return status;
  if (int32_t status = check_attribute("dilations", dilations, 1)) return status;
  const int64_t groups = arguments.groups;
  if (groups < 1) return invalid("groups must be >= 1, got %lld", number(groups));
  if (x.shape[1] % groups != 0 || filter.shape[0] % groups != 0) {
    return invalid("groups must divide x.shape[1] = %lld and filter.shape[0] = %lld, got %lld", number(x.shape[1]),
                   number(filter.shape[0]), number(groups));
  }
  if (arguments.cube_math_type < 0 || arguments.cube_math_type > 3) {
    return invalid("cubeMathType must be from 0 to 3, got %lld", number(arguments.cube_math_type));
  }
  return ACLNN_SUCCESS;
}

void fill_problem(const Arguments& arguments, const View (&views)[kOperands], ConvTanhProblem* problem) {
  const View& x = views[kX];
  const View& filter = views[kFilter];
  const View& y = views[kY];
  const std::vector<int64_t>& strides = arguments.strides->values;
  const std::vector<int64_t>& pads = arguments.pads->values;
  const std::vector<int64_t>& dilations = arguments.dilations->values;
  const bool two_axes = strides.size() == 2;
  const bool each_side = pads.size() == 2 * strides.size();

  *problem = {};
  problem->dtype = x.dtype == ACL_FLOAT ? DType::kFloat32 : x.dtype == ACL_FLOAT16 ? DType::kFloat16 : DType::kBFloat16;
  problem->n = x.shape[0];
  problem->ci = x.shape[1];
  problem->hi = x.shape[2];
  problem->wi = x.shape[3];
  problem->co = filter.shape[0];
  problem->kh = filter.shape[2];
  problem->kw = filter.shape[3];
  problem->ho = y.shape[2];
  problem->wo = y.shape[3];
  problem->stride_h = two_axes ? strides[0] : 1;
  problem->stride_w = strides.back();
  problem->pad_top = two_axes ? pads[0] : 0;
  problem->pad_bottom = two_axes ? pads[each_side ? 1 : 0] : 0;
  problem->pad_left = each_side ? pads[pads.size() - 2] : pads.back();
  problem->pad_right = pads.back();
  problem->dilation_h = two_axes ? dilations[0] : 1;
  problem->dilation_w = dilations.back();
  problem->groups = arguments.groups;
  problem->has_bias = arguments.bias != nullptr;
  problem->cube_math_type = arguments.cube_math_type;
  std::copy(x.strides, x.strides + 4, problem->x_strides);
  std::copy(filter.strides, filter.strides + 4, problem->filter_strides);
  problem->bias_stride = views[kBias].strides[0];
  std::copy(y.strides, y.strides + 4, problem->y_strides);
}

// One spatial axis of y. The kernel may be larger than the padded input only if x is empty and y's size comes out as 0.
int32_t check_axis(const char* axis, int64_t size, int64_t pad_before, int64_t pad_after, int64_t kernel,
                   int64_t dilation, int64_t stride, bool x_is_empty, int64_t* out) {
  int64_t extent;  // of the dilated kernel
  if (__builtin_mul_overflow(dilation, kernel - 1, &extent) || extent > kMaxElements) {
    return invalid("dilated kernel along %s must be at most 2^60, got dilation %lld and %lld taps", axis,
                   number(dilation), number(kernel));
  }
  extent += 1;
  const int64_t room = size + pad_before + pad_after - extent;
  *out = (room >= 0 ? room / stride : -((stride - 1 - room) / stride)) + 1;
  if (room < 0 && !(x_is_empty && *out == 0)) {
    return invalid("dilated kernel along %s must fit the padded input of %lld, got %lld", axis,
                   number(size + pad_before + pad_after), number(extent));
  }
  return ACLNN_SUCCESS;
}

int32_t check_output(const Arguments& arguments, const View (&views)[kOperands], const ConvTanhProblem& problem) {
  const View& x = views[kX];
  const View& y = views[kY];
  int64_t ho = 0, wo = 0;
  if (int32_t status = check_axis("height", problem.hi, problem.pad_top, problem.pad_bottom, problem.kh,
                                  problem.dilation_h, problem.stride_h, x.count == 0, &ho)) {
    return status;
  }
  const char* width = arguments.x->format == ACL_FORMAT_NCHW ? "width" : "length";
  if (int32_t status = check_axis(width, problem.wi, problem.pad_left, problem.pad_right, problem.kw,
                                  problem.dilation_w, problem.stride_w, x.count == 0, &wo)) {
    return status;
  }
  std::vector<int64_t> expected = {problem.n, problem.co, ho, wo};
  if (arguments.x->format == ACL_FORMAT_NCL) expected.erase(expected.begin() + 2);
  if (arguments.y->shape != expected) {
    return invalid("y.shape must be %s, got %s", text_of(expected).c_str(), text_of(arguments.y->shape).c_str());
  }
  if (int32_t status = check_elements_apart(kFusedConvTanh, "y", *arguments.y, y)) return status;
  // The number of products must be countable; beyond that no machine ends.
  int64_t products;
  if (__builtin_mul_overflow(y.count, problem.ci / problem.groups, &products) ||
      __builtin_mul_overflow(products, problem.kh * problem.kw, &products)) {
    return invalid("x, filter and y must need fewer than 2^63 products, got filter.shape %s and y.shape %s",
                   text_of(arguments.filter->shape).c_str(), text_of(arguments.y->shape).c_str());
  }
  return ACLNN_SUCCESS;
}

// As for aclnnConvolution: with nothing to sum there must be nothing to write.
int32_t check_empty(const Arguments& arguments, const View (&views)[kOperands]) {
  if (views[kY].count == 0) return ACLNN_SUCCESS;
  for (const Operand i : {kX, kFilter}) {
    if (views[i].count > 0) continue;
    const aclTensor* tensor = i == kX ? arguments.x : arguments.filter;
    return invalid("%s must not be empty for a y that is not, got shape %s", kOperandNames[i],
                   text_of(tensor->shape).c_str());
  }
  return ACLNN_SUCCESS;
}

}  // namespace

int32_t check_pointers(const Arguments& arguments) {
  return check_not_null(ACLNN_ERR_PARAM_NULLPTR, kFusedConvTanh,
                        {{"x", arguments.x},
                         {"filter", arguments.filter},
                         {"strides", arguments.strides},
                         {"pads", arguments.pads},
                         {"dilations", arguments.dilations},
                         {"y", arguments.y}});
}

int32_t check_arguments(const Arguments& arguments, CheckedArguments* checked) {
  *checked = {};
  View(&views)[kOperands] = checked->views;
  if (int32_t status = check_dtypes(arguments)) return status;
  if (int32_t status = check_formats(arguments)) return status;
  if (int32_t status = check_shapes(arguments, views)) return status;
  if (int32_t status = check_attributes(arguments, views[kX], views[kFilter])) return status;
  fill_problem(arguments, views, &checked->problem);
  if (int32_t status = check_output(arguments, views, checked->problem)) return status;
  return check_empty(arguments, views);
}

}  // namespace msct
