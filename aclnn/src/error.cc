#include "aclnn/src/error.h"

namespace msct {

int32_t fail(int32_t status, const char* function, const char* format, ...) {
  va_list values;
  va_start(values, format);
  vfail(status, function, format, values);
  va_end(values);
  return status;
}

int32_t check_not_null(int32_t status, const char* function, std::initializer_list<NamedPointer> pointers) {
  for (const NamedPointer& argument : pointers) {
    if (argument.pointer == nullptr) return fail(status, function, "%s must not be null", argument.name);
  }
  return 0;
}

}  // namespace msct
