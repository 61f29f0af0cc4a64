// Each thread has a buffer with a lock of its own, which only a reader ever contends for. Buffers outlive threads.
#include "kernels/cpu/trace.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <vector>

namespace msct {

std::atomic<int64_t> trace_session{0};

namespace {

constexpr size_t kMaxEvents = size_t{1} << 19;  // of a thread: 68 MB

struct Buffer {
  const int64_t thread = static_cast<int64_t>(syscall(SYS_gettid));
  std::mutex mutex;
  std::vector<TraceEvent> events;
  int64_t dropped = 0;
};

struct Registry {
  std::mutex mutex;
  std::vector<std::shared_ptr<Buffer>> buffers;
  int64_t sessions = 0;
};

// Never destroyed: threads may record while static destructors run.
std::atomic<Registry*> the_registry{nullptr};
thread_local std::shared_ptr<Buffer> this_buffer;

// After fork() the parent's locks are left alone, whatever state they were in, and nothing is recorded.
void forget_parent() {
  trace_session.store(0, std::memory_order_relaxed);
  the_registry.store(new Registry, std::memory_order_release);
  this_buffer = nullptr;
}

Registry& registry() {
  Registry* current = the_registry.load(std::memory_order_acquire);
  if (current) return *current;
  auto* made = new Registry;
  if (!the_registry.compare_exchange_strong(current, made, std::memory_order_acq_rel)) {
    delete made;
    return *current;
  }
  pthread_atfork(nullptr, nullptr, forget_parent);
  return *made;
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

Buffer& buffer() {
  if (!this_buffer) {
    auto made = std::make_shared<Buffer>();
    Registry& all = registry();
    const std::lock_guard<std::mutex> lock(all.mutex);
    all.buffers.push_back(made);
    this_buffer = std::move(made);
  }
  return *this_buffer;
}

// Buffers of threads that ended are dropped with what they recorded.
void clear(Registry* all) {
  for (const std::shared_ptr<Buffer>& one : all->buffers) {
    const std::lock_guard<std::mutex> lock(one->mutex);
    std::vector<TraceEvent>().swap(one->events);
    one->dropped = 0;
  }
  const auto ended = [](const std::shared_ptr<Buffer>& one) { return one.use_count() == 1; };
  all->buffers.erase(std::remove_if(all->buffers.begin(), all->buffers.end(), ended), all->buffers.end());
}

}  // namespace

const char* name_of(TracePhase phase) {
  constexpr const char* kNames[] = {"entry", "phase 1", "phase 2", "run", "pack", "K1", "K2", "wait"};
  return kNames[static_cast<int32_t>(phase)];
}

void start_trace() {
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  clear(&all);
  trace_session.store(++all.sessions, std::memory_order_relaxed);
}

void stop_trace() { trace_session.store(0, std::memory_order_relaxed); }

std::vector<TraceEvent> read_trace(int64_t* dropped) {
  Registry& all = registry();
  const std::lock_guard<std::mutex> lock(all.mutex);
  std::vector<TraceEvent> events;
  *dropped = 0;
  for (const std::shared_ptr<Buffer>& one : all.buffers) {
    const std::lock_guard<std::mutex> buffer_lock(one->mutex);
    events.insert(events.end(), one->events.begin(), one->events.end());
    *dropped += one->dropped;
  }
  return events;
}

void TraceMark::describe(const char* operator_name, const int64_t (&x)[4], const int64_t (&filter)[4], int64_t bytes) {
  event_.operator_name = operator_name;
  std::copy(x, x + 4, event_.x);
  std::copy(filter, filter + 4, event_.filter);
  event_.bytes = bytes;
}

void TraceMark::begin(TracePhase phase, int64_t flops) { event_ = {phase, 0, now(), 0, flops, nullptr, {}, {}, 0}; }

// Allocates, which nothing else in phase 2 does; without memory the event is lost, not the call.
void TraceMark::end() {
  event_.end = now();
  try {
    Buffer& own = buffer();
    event_.thread = own.thread;
    const std::lock_guard<std::mutex> lock(own.mutex);
    if (trace_session.load(std::memory_order_relaxed) != session_) return;
    if (own.events.size() < kMaxEvents) {
      own.events.push_back(event_);
    } else {
      ++own.dropped;
    }
  } catch (const std::exception&) {
  }
}

}  // namespace msct
