// What each thread does when, for a profiler. Recording is off at first: a mark then costs one load and one branch, and
// there are none inside kernels.
#ifndef MS_CONVTANH_KERNELS_CPU_TRACE_H_
#define MS_CONVTANH_KERNELS_CPU_TRACE_H_

#include <atomic>
#include <cstdint>
#include <vector>

namespace msct {

enum class TracePhase : int32_t {
  kEntry,  // a call by MindSpore, with all that it contains
  kPhase1,  // checks and plan
  kPhase2,  // launch; contains kRun unless that is on a stream
  kRun,  // execution of a plan, contains all that follow
  kPack,  // bias, filter and input to float32, in the order that K1 reads
  kK1,
  kK2,
  kWait,  // for the last tasks of other threads
};

// The phase's name, as in the list above but in words.
const char* name_of(TracePhase phase);

struct TraceEvent {
  TracePhase phase;
  int64_t thread;  // as gettid() gives it
  int64_t start, end;  // nanoseconds of CLOCK_MONOTONIC
  int64_t flops;  // of kK1, 2 for each multiply-add; 0 for other phases
  // Of kRun; null and 0 for other phases.
  const char* operator_name;
  int64_t x[4], filter[4];  // shapes
  int64_t bytes;  // of all tensors
};

// Starts to record anew: what was recorded before is forgotten. Marks that were open before are not recorded.
void start_trace();
void stop_trace();

// What was recorded, each thread's events in the order of their ends. *dropped: events that found their thread's buffer
// full.
std::vector<TraceEvent> read_trace(int64_t* dropped);

extern std::atomic<int64_t> trace_session;  // 0 while nothing is recorded

// Records the time from here to the end of the scope.
class TraceMark {
 public:
  explicit TraceMark(TracePhase phase, int64_t flops = 0) : session_(trace_session.load(std::memory_order_relaxed)) {
    if (session_ != 0) begin(phase, flops);
  }
  ~TraceMark() {
    if (session_ != 0) end();
  }
  TraceMark(const TraceMark&) = delete;
  TraceMark& operator=(const TraceMark&) = delete;

  explicit operator bool() const { return session_ != 0; }
  // Completes a mark of kRun that is true.
  void describe(const char* operator_name, const int64_t (&x)[4], const int64_t (&filter)[4], int64_t bytes);

 private:
  void begin(TracePhase phase, int64_t flops);
  void end();

  const int64_t session_;
  TraceEvent event_;  // set by begin()
};

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_CPU_TRACE_H_
