// The live objects behind the opaque pointers of the C interface.
#ifndef MS_CONVTANH_ACLNN_SRC_HANDLES_H_
#define MS_CONVTANH_ACLNN_SRC_HANDLES_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace msct {

// Guards every table of the library: handles, plans, options, allocations. fork() takes it, so that the child finds
// the tables whole and the lock free. Held for look-ups only.
std::mutex& library_mutex();

// How many forks lie between the process that loaded the library and this one.
uint64_t fork_count();

// A handle that was never given out before, in no table.
void* new_handle();

// Handles are numbers, not addresses: a stale one is found missing instead of leading to freed memory or to a newer
// object in the same place. Tables are never destroyed: threads may still use them while the process ends.
template <typename Object>
class Handles {
 public:
  // Objects with threads do not survive fork(): their handles are missing in the child.
  explicit Handles(bool survives_fork) : survives_fork_(survives_fork) {}

  void* insert(std::shared_ptr<Object> object) {
    void* handle = new_handle();
    const std::lock_guard<std::mutex> lock(library_mutex());
    objects_.emplace(handle, Entry{std::move(object), fork_count()});
    return handle;
  }

  // Null if the handle is not alive.
  std::shared_ptr<Object> find(const void* handle) const {
    const std::lock_guard<std::mutex> lock(library_mutex());
    const auto found = objects_.find(handle);
    return found != objects_.end() && lives_here(found->second) ? found->second.object : nullptr;
  }

  // The object, whose handle is now dead; null if it was not alive. Of several callers one gets the object.
  std::shared_ptr<Object> erase(const void* handle) {
    const std::lock_guard<std::mutex> lock(library_mutex());
    const auto found = objects_.find(handle);
    if (found == objects_.end() || !lives_here(found->second)) return nullptr;
    std::shared_ptr<Object> object = std::move(found->second.object);
    objects_.erase(found);
    return object;
  }

  std::vector<std::shared_ptr<Object>> all() const {
    const std::lock_guard<std::mutex> lock(library_mutex());
    std::vector<std::shared_ptr<Object>> objects;
    for (const auto& [handle, entry] : objects_) {
      if (lives_here(entry)) objects.push_back(entry.object);
    }
    return objects;
  }

 private:
  struct Entry {
    std::shared_ptr<Object> object;
    uint64_t fork_count;
  };
  bool lives_here(const Entry& entry) const { return survives_fork_ || entry.fork_count == fork_count(); }

  const bool survives_fork_;
  std::unordered_map<const void*, Entry> objects_;
};

}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_SRC_HANDLES_H_
