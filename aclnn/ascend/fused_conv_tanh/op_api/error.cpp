// aclnn/src/error.h in CANN's world: messages go to its log and to aclGetRecentErrMsg().
#include "aclnn/src/error.h"

#include <cstdio>

#include "opdev/op_log.h"

namespace msct {

int32_t fail(int32_t status, const char* function, const char* format, ...) {
  va_list values;
  va_start(values, format);
  vfail(status, function, format, values);
  va_end(values);
  return status;
}

int32_t vfail(int32_t status, const char* function, const char* format, va_list values) {
  char text[1024];
  std::vsnprintf(text, sizeof(text), format, values);
  OP_LOGE(status, "%s: %s", function, text);
  return status;
}

int32_t check_not_null(int32_t status, const char* function, std::initializer_list<NamedPointer> pointers) {
  for (const NamedPointer& argument : pointers) {
    if (argument.pointer == nullptr) return fail(status, function, "%s must not be null", argument.name);
  }
  return 0;
}

}  // namespace msct
