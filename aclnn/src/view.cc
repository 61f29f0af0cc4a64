#include "aclnn/src/view.h"

#include <algorithm>

#include "aclnn/opdev/op_errno.h"
#include "aclnn/src/error.h"

namespace msct {
namespace {

// The product of sizes, or -1 if one is negative or the product of the non-zero ones is beyond kMaxElements.
int64_t element_count(const std::vector<int64_t>& shape) {
  int64_t count = 1;
  bool empty = false;
  for (const int64_t size : shape) {
    if (size < 0) return -1;
    if (size == 0) {
      empty = true;
    } else if (__builtin_mul_overflow(count, size, &count) || count > kMaxElements) {
      return -1;
    }
  }
  return empty ? 0 : count;
}

int32_t check_count(const char* function, const char* name, const char* what, const std::vector<int64_t>& shape,
                    int64_t* count) {
  *count = element_count(shape);
  if (*count >= 0) return ACLNN_SUCCESS;
  return fail(ACLNN_ERR_PARAM_INVALID, function, "%s.%s must have sizes >= 0 and at most 2^60 elements, got %s", name,
              what, text_of(shape).c_str());
}

void expand(const std::vector<int64_t>& values, int64_t missing, int64_t (&four)[4]) {
  std::fill(four, four + 4, missing);
  const size_t rank = values.size();
  for (size_t i = 0; i < rank; ++i) four[rank == 3 && i == 2 ? 3 : i] = values[i];
}

// In a view of at most kMaxElements elements a stride that is no more than the storage cannot overflow here.
void normalise_strides(View* view) {
  for (int i = 3; i >= 0; --i) {
    if (view->shape[i] > 1 && view->count > 0) continue;
    const int64_t size = i == 3 ? 1 : std::max<int64_t>(view->shape[i + 1], 1);
    const int64_t stride = i == 3 ? 1 : view->strides[i + 1];
    if (__builtin_mul_overflow(size, stride, &view->strides[i])) view->strides[i] = 0;
  }
}

}  // namespace

bool operator==(const View& a, const View& b) {
  return a.dtype == b.dtype && std::equal(a.shape, a.shape + 4, b.shape) &&
         std::equal(a.strides, a.strides + 4, b.strides) && a.offset == b.offset;
}

int32_t read_view(const char* function, const char* name, const TensorInfo& tensor, View* view) {
  view->dtype = tensor.dtype;
  view->offset = tensor.offset;
  expand(tensor.shape, 1, view->shape);
  expand(tensor.strides, 0, view->strides);

  int64_t storage_count;
  if (int32_t status = check_count(function, name, "shape", tensor.shape, &view->count)) return status;
  if (int32_t status = check_count(function, name, "storageDims", tensor.storage_shape, &storage_count)) return status;
  if (*std::min_element(view->strides, view->strides + 4) < 0) {
    return fail(ACLNN_ERR_PARAM_INVALID, function, "%s.strides must be >= 0, got %s", name,
                text_of(tensor.strides).c_str());
  }
  if (view->offset < 0) {
    return fail(ACLNN_ERR_PARAM_INVALID, function, "%s.offset must be >= 0, got %lld", name, number(view->offset));
  }

  view->span = 0;
  view->has_gaps = false;
  if (view->count > 0) {
    int64_t last = 0, end;
    bool overflow = false;
    for (int i = 0; i < 4; ++i) {
      int64_t reach;
      overflow |= __builtin_mul_overflow(view->shape[i] - 1, view->strides[i], &reach);
      overflow |= __builtin_add_overflow(last, reach, &last);
    }
    overflow |= __builtin_add_overflow(last, view->offset, &end);
    if (overflow || end >= storage_count) {
      return fail(ACLNN_ERR_PARAM_INVALID, function,
                  "%s must lie inside its storage of %lld elements, got shape %s, strides %s and offset %lld", name,
                  number(storage_count), text_of(tensor.shape).c_str(), text_of(tensor.strides).c_str(),
                  number(view->offset));
    }
    view->span = last + 1;
    int64_t distinct = 1;
    for (int i = 0; i < 4; ++i) distinct *= view->strides[i] == 0 ? 1 : view->shape[i];
    view->has_gaps = view->span > distinct;
  }
  normalise_strides(view);
  return ACLNN_SUCCESS;
}

int32_t check_elements_apart(const char* function, const char* name, const TensorInfo& tensor, const View& view) {
  if (view.count == 0) return ACLNN_SUCCESS;
  int order[4] = {0, 1, 2, 3};
  std::sort(order, order + 4, [&](int a, int b) { return view.strides[a] < view.strides[b]; });
  int64_t reach = 0;
  for (const int i : order) {
    if (view.shape[i] == 1) continue;
    if (view.strides[i] <= reach) {
      return fail(ACLNN_ERR_PARAM_INVALID, function,
                  "%s must not repeat elements: each stride must pass what smaller ones reach, got shape %s and "
                  "strides %s",
                  name, text_of(tensor.shape).c_str(), text_of(tensor.strides).c_str());
    }
    reach += (view.shape[i] - 1) * view.strides[i];
  }
  return ACLNN_SUCCESS;
}

}  // namespace msct
