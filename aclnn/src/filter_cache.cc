// msctFilterCache: the handles of filter caches, and how executors get them.
#include "kernels/cpu/filter_cache.h"

#include "aclnn/opdev/op_errno.h"
#include "aclnn/src/error.h"
#include "aclnn/src/executor.h"
#include "aclnn/src/handles.h"
#include "ms_convtanh/ms_convtanh.h"

namespace msct {
namespace {

Handles<FilterCache>& filter_caches() {
  static auto* all = new Handles<FilterCache>(/*survives_fork=*/true);
  return *all;
}

int32_t cache_is_dead(const char* function) {
  return fail(ACLNN_ERR_PARAM_INVALID, function, "cache must be alive, got one that was destroyed already");
}

}  // namespace
}  // namespace msct

msctFilterCache* msctCreateFilterCache() {
  msctFilterCache* made = nullptr;
  msct::guarded(ACLNN_ERR_INNER, __func__, [&]() -> int32_t {
    made = static_cast<msctFilterCache*>(msct::filter_caches().insert(std::make_shared<msct::FilterCache>()));
    return ACLNN_SUCCESS;
  });
  return made;
}

aclnnStatus msctDestroyFilterCache(const msctFilterCache* cache) {
  using namespace msct;
  return guarded(ACLNN_ERR_INNER, __func__, [&]() -> int32_t {
    if (int32_t status = check_not_null(ACLNN_ERR_INNER_NULLPTR, "msctDestroyFilterCache", {{"cache", cache}})) {
      return status;
    }
    return filter_caches().erase(cache) == nullptr ? cache_is_dead("msctDestroyFilterCache") : ACLNN_SUCCESS;
  });
}

aclnnStatus msctSetFilterCache(aclOpExecutor* executor, const msctFilterCache* cache) {
  using namespace msct;
  constexpr const char* kName = "msctSetFilterCache";
  return guarded(ACLNN_ERR_INNER, kName, [&]() -> int32_t {
    std::shared_ptr<Executor> found;
    if (int32_t status = find_executor(kName, executor, &found)) return status;
    if (&found->op != &kFusedConvTanh) {
      return fail(ACLNN_ERR_PARAM_INVALID, kName, "executor must be one for %s, got one for %s", kFusedConvTanh.name,
                  found->op.name);
    }
    std::shared_ptr<FilterCache> filters;
    if (cache != nullptr && (filters = filter_caches().find(cache)) == nullptr) return cache_is_dead(kName);
    std::atomic_store(&found->filters, std::move(filters));
    return ACLNN_SUCCESS;
  });
}
