// An operand's view, checked and brought to four dimensions.
#ifndef MS_CONVTANH_ACLNN_SRC_VIEW_H_
#define MS_CONVTANH_ACLNN_SRC_VIEW_H_

#include <cstdint>

#include "aclnn/src/tensor_info.h"

namespace msct {

// Sizes beyond this are refused. Four bytes for each element still leave a factor of two below int64_t's end.
constexpr int64_t kMaxElements = int64_t{1} << 60;

// [n, c, h, w]: NCL [n, c, l] becomes [n, c, 1, l], a vector [c] becomes [c, 1, 1, 1]. The stride of a dimension of
// size 1 (or of an empty view) means nothing and is set to what it is in a contiguous view: equal views have equal
// strides.
struct View {
  aclDataType dtype;
  int64_t shape[4];
  int64_t strides[4];  // elements
  int64_t offset;  // elements
  int64_t count;  // elements
  int64_t span;  // elements from the first to the last one, both counted; 0 if empty
  bool has_gaps;  // the span has elements that are not the view's
};

bool operator==(const View& a, const View& b);

// The rank must be 1, 3 or 4. Fails with ACLNN_ERR_PARAM_INVALID, naming function and name, if the shape or the strides
// have negative entries, a size is beyond kMaxElements, or an element lies outside the storage.
int32_t read_view(const char* function, const char* name, const TensorInfo& tensor, View* view);

// Fails if two elements of an output might share a place: each stride must pass all that smaller strides reach.
int32_t check_elements_apart(const char* function, const char* name, const TensorInfo& tensor, const View& view);

}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_SRC_VIEW_H_
