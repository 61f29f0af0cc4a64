// The message behind a status code, one for each thread.
#ifndef MS_CONVTANH_ACLNN_SRC_ERROR_H_
#define MS_CONVTANH_ACLNN_SRC_ERROR_H_

#include <cstdarg>
#include <cstdint>
#include <exception>
#include <initializer_list>

namespace msct {

// Keeps "<function>: <formatted text>" for aclGetRecentErrMsg() and returns status, so that a check reads
// `if (bad) return fail(ACLNN_ERR_PARAM_INVALID, __func__, "x must be ..., got ...", ...);`
[[gnu::format(printf, 3, 4)]] int32_t fail(int32_t status, const char* function, const char* format, ...);
[[gnu::format(printf, 3, 0)]] int32_t vfail(int32_t status, const char* function, const char* format, va_list values);

// int64_t for %lld, on every platform.
inline long long number(int64_t value) { return value; }

// This thread's kept text, or null if there is none; it is kept no longer.
const char* take_message();

// Fails with status if one of the pointers is null.
struct NamedPointer {
  const char* name;
  const void* pointer;
};
int32_t check_not_null(int32_t status, const char* function, std::initializer_list<NamedPointer> pointers);

// Returns what body returns, or status if it throws: no exception leaves the library.
template <typename Body>
int32_t guarded(int32_t status, const char* function, Body&& body) {
  try {
    return body();
  } catch (const std::exception& error) {
    return fail(status, function, "%s", error.what());
  }
}

}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_SRC_ERROR_H_
