#include "aclnn/src/workspace_pool.h"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <vector>

#include "aclnn/src/handles.h"

namespace msct {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kGranule = size_t{1} << 16;        // sizes are rounded up to this: similar problems share a buffer
constexpr size_t kMaxIdleBytes = size_t{256} << 20;  // of all buffers but one
constexpr int kRequestsInEpoch = 256;

struct Buffer {
  void* data;
  size_t size;
};

// All functions need library_mutex(), which fork() takes too. Freed buffers are few and freeing is fast.
class Pool {
 public:
  // The smallest idle buffer with room for size bytes; one with null data if there is none. Then the largest idle
  // buffer is given up, since the caller will bring back a larger one.
  Buffer take(size_t size) {
    note_request(size);
    auto best = idle_.end();
    auto largest = idle_.end();
    for (auto it = idle_.begin(); it != idle_.end(); ++it) {
      if (it->size >= size && (best == idle_.end() || it->size < best->size)) best = it;
      if (largest == idle_.end() || it->size > largest->size) largest = it;
    }
    if (best == idle_.end()) {
      if (largest != idle_.end()) drop(largest);
      return {nullptr, 0};
    }
    const Buffer buffer = *best;
    idle_.erase(best);
    return buffer;
  }

  // Keeps the buffer. Gives up what no recent request needed, and the oldest idle buffers beyond the limit.
  void give_back(Buffer buffer) noexcept {
    try {
      idle_.push_back(buffer);
    } catch (const std::bad_alloc&) {
      std::free(buffer.data);
      return;
    }
    const size_t useful = 2 * std::max(largest_request_[0], largest_request_[1]);
    for (auto it = idle_.begin(); it != idle_.end();) it = it->size > useful ? drop(it) : it + 1;
    while (idle_.size() > 1 && idle_bytes() > kMaxIdleBytes) drop(idle_.begin());
  }

  size_t idle_bytes() const {
    size_t bytes = 0;
    for (const Buffer& buffer : idle_) bytes += buffer.size;
    return bytes;
  }

 private:
  void note_request(size_t size) {
    if (++requests_ == kRequestsInEpoch) {
      requests_ = 0;
      largest_request_[1] = largest_request_[0];
      largest_request_[0] = 0;
    }
    largest_request_[0] = std::max(largest_request_[0], size);
  }

  std::vector<Buffer>::iterator drop(std::vector<Buffer>::iterator it) {
    std::free(it->data);
    return idle_.erase(it);
  }

  std::vector<Buffer> idle_;              // oldest first
  size_t largest_request_[2] = {0, 0};    // of this epoch and the one before
  int requests_ = 0;
};

// Never destroyed: threads may still use it while the process ends.
Pool& pool() {
  static Pool* const instance = new Pool;
  return *instance;
}

}  // namespace

BorrowedWorkspace::BorrowedWorkspace(size_t bytes) {
  if (bytes == 0) return;
  if (bytes > SIZE_MAX - kGranule) throw std::bad_alloc();
  const size_t size = (bytes + kGranule - 1) / kGranule * kGranule;
  Buffer buffer;
  {
    const std::lock_guard<std::mutex> lock(library_mutex());
    buffer = pool().take(size);
  }
  if (buffer.data == nullptr) {
    buffer = {std::aligned_alloc(kAlignment, size), size};
    if (buffer.data == nullptr) throw std::bad_alloc();
  }
  data_ = buffer.data;
  size_ = buffer.size;
}

BorrowedWorkspace::~BorrowedWorkspace() {
  if (data_ == nullptr) return;
  const std::lock_guard<std::mutex> lock(library_mutex());
  pool().give_back({data_, size_});
}

size_t idle_workspace_bytes() {
  const std::lock_guard<std::mutex> lock(library_mutex());
  return pool().idle_bytes();
}

}  // namespace msct
