// Where this library keeps a thread's message; in CANN's world it goes to CANN.
#include <algorithm>
#include <cstdio>

#include "acl/acl_rt.h"
#include "aclnn/src/error.h"

namespace msct {
namespace {

// A plain array: it needs no destructor, so that it is there until the thread's very end.
thread_local char message[1024];
thread_local bool has_message = false;

}  // namespace

int32_t vfail(int32_t status, const char* function, const char* format, va_list values) {
  constexpr int kSize = sizeof(message);
  const int used = std::min(std::snprintf(message, kSize, "%s: ", function), kSize - 1);
  std::vsnprintf(message + used, kSize - used, format, values);
  has_message = true;
  return status;
}

const char* take_message() {
  const bool taken = has_message;
  has_message = false;
  return taken ? message : nullptr;
}

}  // namespace msct

const char* aclGetRecentErrMsg() { return msct::take_message(); }
