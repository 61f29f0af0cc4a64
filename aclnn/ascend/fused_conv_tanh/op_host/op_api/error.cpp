// aclnn/src/message.cc in CANN's world: messages go to its log and to aclGetRecentErrMsg().
#include "aclnn/src/error.h"

#include <cstdio>

#include "opdev/op_log.h"

namespace msct {

int32_t vfail(int32_t status, const char* function, const char* format, va_list values) {
  char text[1024];
  std::vsnprintf(text, sizeof(text), format, values);
  OP_LOGE(status, "%s: %s", function, text);
  return status;
}

}  // namespace msct
