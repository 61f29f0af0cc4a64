// The host runtime's memory: allocating, copying and filling.
#include <cstdlib>
#include <cstring>
#include <map>

#include "acl/acl_rt.h"
#include "aclnn/src/error.h"
#include "aclnn/src/handles.h"
#include "aclnn/src/stream.h"

namespace msct {
namespace {

constexpr size_t kAlignment = 64;

// Every allocation: first byte and size. Guarded by the library's lock.
std::map<uintptr_t, size_t>& allocations() {
  static auto* all = new std::map<uintptr_t, size_t>;
  return *all;
}

int32_t allocate(const char* function, const char* name, void** pointer, size_t size) {
  return guarded(ACL_ERROR_RT_MEMORY_ALLOCATION, function, [&]() -> int32_t {
    if (int32_t status = check_not_null(ACL_ERROR_INVALID_PARAM, function, {{name, pointer}})) return status;
    if (size == 0) return fail(ACL_ERROR_INVALID_PARAM, function, "size must be above 0, got 0");
    void* memory = nullptr;
    if (size <= static_cast<size_t>(PTRDIFF_MAX) - kAlignment) {
      memory = std::aligned_alloc(kAlignment, (size + kAlignment - 1) / kAlignment * kAlignment);
    }
    if (memory == nullptr) {
      return fail(ACL_ERROR_RT_MEMORY_ALLOCATION, function, "out of memory: no %zu bytes to be had", size);
    }
    const std::lock_guard<std::mutex> lock(library_mutex());
    allocations().emplace(reinterpret_cast<uintptr_t>(memory), size);
    *pointer = memory;
    return ACL_SUCCESS;
  });
}

int32_t release(const char* function, const char* name, void* pointer) {
  if (int32_t status = check_not_null(ACL_ERROR_INVALID_PARAM, function, {{name, pointer}})) return status;
  {
    const std::lock_guard<std::mutex> lock(library_mutex());
    if (allocations().erase(reinterpret_cast<uintptr_t>(pointer)) == 0) {
      return fail(ACL_ERROR_RT_PARAM_INVALID, function,
                  "%s must come from aclrtMalloc or aclrtMallocHost and be freed once, got %p", name, pointer);
    }
  }
  std::free(pointer);
  return ACL_SUCCESS;
}

bool is_allocated_here(const void* pointer) {
  const auto address = reinterpret_cast<uintptr_t>(pointer);
  const std::lock_guard<std::mutex> lock(library_mutex());
  const auto next = allocations().upper_bound(address);
  return next != allocations().begin() && address - std::prev(next)->first < std::prev(next)->second;
}

int32_t check_copy(const char* function, const void* dst, size_t room, const void* src, size_t count,
                   aclrtMemcpyKind kind) {
  if (int32_t status = check_not_null(ACL_ERROR_INVALID_PARAM, function, {{"dst", dst}, {"src", src}})) return status;
  if (kind < ACL_MEMCPY_HOST_TO_HOST || kind > ACL_MEMCPY_HOST_TO_BUF_TO_DEVICE) {
    return fail(ACL_ERROR_INVALID_PARAM, function, "kind must be from 0 to 5, got %d", static_cast<int>(kind));
  }
  if (count <= room) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, function, "count must be at most destMax = %zu, got %zu", room, count);
}

int32_t check_fill(const char* function, const void* pointer, size_t room, size_t count) {
  if (int32_t status = check_not_null(ACL_ERROR_INVALID_PARAM, function, {{"devPtr", pointer}})) return status;
  if (count <= room) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_PARAM_INVALID, function, "count must be at most maxCount = %zu, got %zu", room, count);
}

// Runs the work on the stream; with wait set, it is done when this returns.
template <typename Work>
int32_t run_in_order(const char* function, aclrtStream stream, bool wait, Work work) {
  return guarded(ACL_ERROR_BAD_ALLOC, function, [&]() -> int32_t {
    const auto done = std::make_shared<Recording>();
    const auto task = [work, done]() -> int32_t {
      work();
      done->complete();
      return ACL_SUCCESS;
    };
    if (int32_t status = run_on_stream(function, stream, task)) return status;
    if (wait) done->wait(-1);
    return ACL_SUCCESS;
  });
}

}  // namespace
}  // namespace msct

aclError aclrtMalloc(void** devPtr, size_t size, aclrtMemMallocPolicy) {
  return msct::allocate(__func__, "devPtr", devPtr, size);
}

aclError aclrtFree(void* devPtr) { return msct::release(__func__, "devPtr", devPtr); }

aclError aclrtMallocHost(void** hostPtr, size_t size) { return msct::allocate(__func__, "hostPtr", hostPtr, size); }

aclError aclrtFreeHost(void* hostPtr) { return msct::release(__func__, "hostPtr", hostPtr); }

aclError aclrtMemcpy(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind) {
  if (count == 0) return ACL_SUCCESS;
  if (int32_t status = msct::check_copy(__func__, dst, destMax, src, count, kind)) return status;
  std::memmove(dst, src, count);
  return ACL_SUCCESS;
}

aclError aclrtMemcpyAsync(void* dst, size_t destMax, const void* src, size_t count, aclrtMemcpyKind kind,
                          aclrtStream stream) {
  if (count == 0) return ACL_SUCCESS;
  if (int32_t status = msct::check_copy(__func__, dst, destMax, src, count, kind)) return status;
  const bool wait = !msct::is_allocated_here(dst) || !msct::is_allocated_here(src);
  return msct::run_in_order(__func__, stream, wait, [=] { std::memmove(dst, src, count); });
}

aclError aclrtMemset(void* devPtr, size_t maxCount, int32_t value, size_t count) {
  if (count == 0) return ACL_SUCCESS;
  if (int32_t status = msct::check_fill(__func__, devPtr, maxCount, count)) return status;
  std::memset(devPtr, value, count);
  return ACL_SUCCESS;
}

aclError aclrtMemsetAsync(void* devPtr, size_t maxCount, int32_t value, size_t count, aclrtStream stream) {
  if (count == 0) return ACL_SUCCESS;
  if (int32_t status = msct::check_fill(__func__, devPtr, maxCount, count)) return status;
  const bool wait = !msct::is_allocated_here(devPtr);
  return msct::run_in_order(__func__, stream, wait, [=] { std::memset(devPtr, value, count); });
}
