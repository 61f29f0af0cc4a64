#include "aclnn/src/stream.h"

#include "acl/acl_base.h"
#include "aclnn/src/error.h"

namespace msct {

Stream::~Stream() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stopping_ = true;
  }
  work_comes_.notify_one();
  if (thread_.joinable()) thread_.join();
}

void Stream::enqueue(Task task) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread(&Stream::work, this);
    queue_.push_back(std::move(task));
    ++queued_;
  }
  work_comes_.notify_one();
}

bool Stream::synchronize(const char* function, int32_t timeout, int32_t* status) {
  std::unique_lock<std::mutex> lock(mutex_);
  const uint64_t target = queued_;
  if (!wait_for(work_ends_, lock, timeout, [this, target] { return ended_ >= target; })) return false;
  *status = failure_;
  if (failure_ != 0) fail(failure_, function, "a task of the stream failed: %s", failure_message_.c_str());
  failure_ = 0;
  return true;
}

bool Stream::idle() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return ended_ == queued_;
}

void Stream::work() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    wait_until(work_comes_, lock, [this] { return stopping_ || !queue_.empty(); });
    if (queue_.empty()) return;
    Task task = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    const int32_t status = guarded(ACL_ERROR_INTERNAL_ERROR, "stream", task);
    task = nullptr;  // what it holds goes before the stream counts as idle
    const char* message = take_message();
    lock.lock();
    ++ended_;
    if (status != 0 && failure_ == 0) {
      failure_ = status;
      failure_message_ = message == nullptr ? "no message" : message;
    }
    work_ends_.notify_all();
  }
}

void Recording::complete() {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    complete_ = true;
    time_ = Clock::now();
  }
  completed_.notify_all();
}

bool Recording::is_complete() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return complete_;
}

bool Recording::wait(int32_t timeout) {
  std::unique_lock<std::mutex> lock(mutex_);
  return wait_for(completed_, lock, timeout, [this] { return complete_; });
}

Recording::Clock::time_point Recording::time() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return time_;
}

void Event::record(std::shared_ptr<Recording> recording) {
  const std::lock_guard<std::mutex> lock(mutex_);
  latest_ = std::move(recording);
}

std::shared_ptr<Recording> Event::latest() {
  const std::lock_guard<std::mutex> lock(mutex_);
  return latest_;
}

Handles<Stream>& streams() {
  static auto* all = new Handles<Stream>(/*survives_fork=*/false);
  return *all;
}

Handles<Event>& events() {
  static auto* all = new Handles<Event>(/*survives_fork=*/false);
  return *all;
}

int32_t find_stream(const char* function, const void* handle, std::shared_ptr<Stream>* stream) {
  *stream = streams().find(handle);
  if (*stream != nullptr) return ACL_SUCCESS;
  return fail(ACL_ERROR_RT_INVALID_HANDLE, function, "stream must be alive and of this process, got %p", handle);
}

int32_t run_on_stream(const char* function, const void* handle, Stream::Task task) {
  return guarded(ACL_ERROR_RT_NO_STREAM_RESOURCE, function, [&]() -> int32_t {
    if (handle == nullptr) return task();
    std::shared_ptr<Stream> stream;
    if (int32_t status = find_stream(function, handle, &stream)) return status;
    stream->enqueue(std::move(task));
    return ACL_SUCCESS;
  });
}

}  // namespace msct
