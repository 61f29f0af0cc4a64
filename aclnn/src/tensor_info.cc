#include "aclnn/src/tensor_info.h"

#include <cstddef>

namespace msct {

std::string text_of(const std::vector<int64_t>& values) {
  std::string text = "[";
  for (size_t i = 0; i < values.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(values[i]);
  return text + "]";
}

namespace {

struct Name {
  int value;
  const char* text;
};

constexpr Name kDataTypes[] = {
    {ACL_FLOAT, "ACL_FLOAT"},
    {ACL_FLOAT16, "ACL_FLOAT16"},
    {ACL_BF16, "ACL_BF16"},
    {ACL_DOUBLE, "ACL_DOUBLE"},
    {ACL_BOOL, "ACL_BOOL"},
    {ACL_INT8, "ACL_INT8"},
    {ACL_UINT8, "ACL_UINT8"},
    {ACL_INT16, "ACL_INT16"},
    {ACL_INT32, "ACL_INT32"},
    {ACL_INT64, "ACL_INT64"},
    {ACL_DT_UNDEFINED, "ACL_DT_UNDEFINED"},
};

constexpr Name kFormats[] = {
    {ACL_FORMAT_NCHW, "ACL_FORMAT_NCHW"},
    {ACL_FORMAT_NHWC, "ACL_FORMAT_NHWC"},
    {ACL_FORMAT_ND, "ACL_FORMAT_ND"},
    {ACL_FORMAT_NCL, "ACL_FORMAT_NCL"},
    {ACL_FORMAT_NCDHW, "ACL_FORMAT_NCDHW"},
    {ACL_FORMAT_NC1HWC0, "ACL_FORMAT_NC1HWC0"},
    {ACL_FORMAT_UNDEFINED, "ACL_FORMAT_UNDEFINED"},
};

template <size_t count>
std::string name_of(const Name (&names)[count], int value) {
  for (const Name& name : names) {
    if (name.value == value) return name.text;
  }
  return std::to_string(value);
}

}  // namespace

std::string text_of(aclDataType dtype) { return name_of(kDataTypes, dtype); }

std::string text_of(aclFormat format) { return name_of(kFormats, format); }

}  // namespace msct
