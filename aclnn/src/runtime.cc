// The host runtime's device, contexts and start and end of use.
#include <unistd.h>

#include <memory>

#include "acl/acl_rt.h"
#include "aclnn/aclnn_base.h"
#include "aclnn/src/error.h"
#include "aclnn/src/handles.h"

namespace msct {
namespace {

// Guarded by the library's lock. As in CANN, the first aclFinalize succeeds even without an aclInit.
bool initialised = false;
bool finalised = false;

int32_t check_config(const char* function, const char* path) {
  if (path == nullptr || *path == '\0' || access(path, R_OK) == 0) return ACL_SUCCESS;
  return fail(ACL_ERROR_INVALID_FILE, function, "configPath must be null, \"\" or a file that can be read, got %s",
              path);
}

int32_t check_device(const char* function, int32_t device) {
  if (device == 0) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_INVALID_DEVICEID, function, "deviceId must be 0, the only device here, got %d", device);
}

struct Context {};

Handles<Context>& contexts() {
  static auto* all = new Handles<Context>(/*survives_fork=*/true);
  return *all;
}

// What aclrtSetDevice gives to a thread; never destroyed.
aclrtContext default_context() {
  static const aclrtContext context = contexts().insert(std::make_shared<Context>());
  return context;
}

thread_local aclrtContext current_context = nullptr;

int32_t check_current(const char* function) {
  if (current_context != nullptr && contexts().find(current_context) != nullptr) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_CONTEXT_NULL, function, "the thread must have a device: call aclrtSetDevice first");
}

int32_t check_context(const char* function, aclrtContext context) {
  if (int32_t status = check_not_null(ACL_ERROR_INVALID_PARAM, function, {{"context", context}})) return status;
  if (contexts().find(context) != nullptr) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_INVALID_HANDLE, function, "context must be alive, got %p", context);
}

int32_t reset_device(const char* function, int32_t device) {
  if (int32_t status = check_device(function, device)) return status;
  if (current_context == default_context()) current_context = nullptr;
  return aclrtSynchronizeDevice();
}

}  // namespace
}  // namespace msct

aclError aclInit(const char* configPath) {
  if (int32_t status = msct::check_config(__func__, configPath)) return status;
  const std::lock_guard<std::mutex> lock(msct::library_mutex());
  if (msct::initialised) {
    return msct::fail(ACL_ERROR_REPEAT_INITIALIZE, __func__, "this process is initialised already");
  }
  msct::initialised = true;
  msct::finalised = false;
  return ACL_SUCCESS;
}

aclError aclFinalize() {
  const std::lock_guard<std::mutex> lock(msct::library_mutex());
  if (msct::finalised) return msct::fail(ACL_ERROR_REPEAT_FINALIZE, __func__, "this process is finalised already");
  msct::initialised = false;
  msct::finalised = true;
  return ACL_SUCCESS;
}

aclnnStatus aclnnInit(const char* configPath) { return msct::check_config(__func__, configPath); }

aclnnStatus aclnnFinalize() { return ACL_SUCCESS; }

aclError aclrtSetDevice(int32_t deviceId) {
  return msct::guarded(ACL_ERROR_BAD_ALLOC, __func__, [&]() -> int32_t {
    if (int32_t status = msct::check_device("aclrtSetDevice", deviceId)) return status;
    msct::current_context = msct::default_context();
    return ACL_SUCCESS;
  });
}

aclError aclrtResetDevice(int32_t deviceId) { return msct::reset_device(__func__, deviceId); }

aclError aclrtResetDeviceForce(int32_t deviceId) { return msct::reset_device(__func__, deviceId); }

aclError aclrtGetDevice(int32_t* deviceId) {
  if (int32_t status = msct::check_not_null(ACL_ERROR_INVALID_PARAM, __func__, {{"deviceId", deviceId}})) {
    return status;
  }
  if (int32_t status = msct::check_current(__func__)) return status;
  *deviceId = 0;
  return ACL_SUCCESS;
}

aclError aclrtGetDeviceCount(uint32_t* count) {
  if (int32_t status = msct::check_not_null(ACL_ERROR_INVALID_PARAM, __func__, {{"count", count}})) return status;
  *count = 1;
  return ACL_SUCCESS;
}

// A host program: host and device are told apart, although they are one here.
aclError aclrtGetRunMode(aclrtRunMode* runMode) {
  if (int32_t status = msct::check_not_null(ACL_ERROR_INVALID_PARAM, __func__, {{"runMode", runMode}})) return status;
  *runMode = ACL_HOST;
  return ACL_SUCCESS;
}

aclError aclrtCreateContext(aclrtContext* context, int32_t deviceId) {
  return msct::guarded(ACL_ERROR_BAD_ALLOC, __func__, [&]() -> int32_t {
    constexpr char kFunction[] = "aclrtCreateContext";
    if (int32_t status = msct::check_not_null(ACL_ERROR_INVALID_PARAM, kFunction, {{"context", context}})) {
      return status;
    }
    if (int32_t status = msct::check_device(kFunction, deviceId)) return status;
    *context = msct::contexts().insert(std::make_shared<msct::Context>());
    msct::current_context = *context;
    return ACL_SUCCESS;
  });
}

aclError aclrtDestroyContext(aclrtContext context) {
  if (int32_t status = msct::check_context(__func__, context)) return status;
  if (context == msct::default_context()) {
    return msct::fail(ACL_ERROR_RT_PARAM_INVALID, __func__, "context must be one from aclrtCreateContext");
  }
  msct::contexts().erase(context);
  if (context == msct::current_context) msct::current_context = nullptr;
  return ACL_SUCCESS;
}

aclError aclrtSetCurrentContext(aclrtContext context) {
  if (int32_t status = msct::check_context(__func__, context)) return status;
  msct::current_context = context;
  return ACL_SUCCESS;
}

aclError aclrtGetCurrentContext(aclrtContext* context) {
  if (int32_t status = msct::check_not_null(ACL_ERROR_INVALID_PARAM, __func__, {{"context", context}})) return status;
  if (int32_t status = msct::check_current(__func__)) return status;
  *context = msct::current_context;
  return ACL_SUCCESS;
}
