// Streams and events.
#ifndef MS_CONVTANH_ACLNN_SRC_STREAM_H_
#define MS_CONVTANH_ACLNN_SRC_STREAM_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "aclnn/src/handles.h"
#include "kernels/wait.h"

namespace msct {

// Waits until done() holds, for timeout milliseconds or, for -1, as long as it takes. Returns whether it came to hold.
template <typename Done>
bool wait_for(std::condition_variable& changed, std::unique_lock<std::mutex>& lock, int32_t timeout, Done done) {
  if (timeout >= 0) return changed.wait_for(lock, std::chrono::milliseconds(timeout), done);
  wait_until(changed, lock, done);
  return true;
}

// Runs tasks in order on a thread of its own, which starts with the first task.
class Stream {
 public:
  // Returns 0, or a code with fail()'s message.
  using Task = std::function<int32_t()>;

  Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();  // runs what is queued first

  // Throws std::system_error if the thread cannot be started.
  void enqueue(Task task);

  // Waits for the tasks queued so far; false if they take longer than timeout. Otherwise *status is 0, or the code of
  // the first task that failed since this was last asked; its message is then the calling thread's, under function.
  bool synchronize(const char* function, int32_t timeout, int32_t* status);

  bool idle();

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable work_comes_;
  std::condition_variable work_ends_;
  std::deque<Task> queue_;
  uint64_t queued_ = 0;  // tasks ever queued
  uint64_t ended_ = 0;  // of these, the ones that ended
  bool stopping_ = false;
  int32_t failure_ = 0;
  std::string failure_message_;
  std::thread thread_;
};

// One recording of an event: complete once the stream has come to it.
class Recording {
 public:
  using Clock = std::chrono::steady_clock;

  void complete();
  bool is_complete();
  bool wait(int32_t timeout);  // false if it takes longer
  Clock::time_point time();  // of completion

 private:
  std::mutex mutex_;
  std::condition_variable completed_;
  bool complete_ = false;
  Clock::time_point time_;
};

class Event {
 public:
  explicit Event(bool timed) : timed(timed) {}

  void record(std::shared_ptr<Recording> recording);
  std::shared_ptr<Recording> latest();  // null if it was never recorded

  const bool timed;

 private:
  std::mutex mutex_;
  std::shared_ptr<Recording> latest_;
};

Handles<Stream>& streams();
Handles<Event>& events();

// Finds the stream of a handle. Fails with ACL_ERROR_RT_INVALID_HANDLE.
int32_t find_stream(const char* function, const void* handle, std::shared_ptr<Stream>* stream);

// Queues the task, or runs it here and now for a null handle. Fails as find_stream does, with
// ACL_ERROR_RT_NO_STREAM_RESOURCE if the stream's thread cannot be started, and as the task does if it was run.
int32_t run_on_stream(const char* function, const void* handle, Stream::Task task);

}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_SRC_STREAM_H_
