#include "aclnn/src/handles.h"

#include <pthread.h>

#include <atomic>

namespace msct {
namespace {

std::mutex mutex;  // constant-initialised and trivially destroyed: there before and after everything else
std::atomic<uint64_t> forks{0};
std::atomic<uintptr_t> next_handle{1};

void before_fork() { mutex.lock(); }
void after_fork_in_parent() { mutex.unlock(); }
void after_fork_in_child() {
  ++forks;
  mutex.unlock();
}

}  // namespace

std::mutex& library_mutex() {
  [[maybe_unused]] static const int registered = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
  return mutex;
}

uint64_t fork_count() { return forks.load(std::memory_order_relaxed); }

void* new_handle() {
  constexpr uintptr_t kStep = 16;  // handles look as aligned as addresses do
  return reinterpret_cast<void*>(kStep * next_handle.fetch_add(1, std::memory_order_relaxed));
}

}  // namespace msct
