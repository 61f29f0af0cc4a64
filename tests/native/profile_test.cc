// The recorded phases of calls, and the measured peaks.
#include "ms_convtanh/profile.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <map>
#include <thread>

#include "kernels/cpu/trace.h"
#include "ms_convtanh/ms_convtanh.h"
#include "tests/native/aclnn_test_util.h"
#include "tests/native/fork_test_util.h"

using namespace msct_test;

namespace {

std::vector<msctTraceEvent> recorded() {
  uint64_t count = 0, dropped = 1;
  CHECK_EQ(msctTraceRead(nullptr, 0, &count, &dropped), ACLNN_SUCCESS);
  CHECK_EQ(dropped, 0u);
  std::vector<msctTraceEvent> events(count);
  CHECK_EQ(msctTraceRead(events.data(), count, &count, &dropped), ACLNN_SUCCESS);
  CHECK_EQ(count, events.size());
  return events;
}

std::map<std::string, int64_t> counts(const std::vector<msctTraceEvent>& events) {
  std::map<std::string, int64_t> by_phase;
  for (const msctTraceEvent& event : events) ++by_phase[event.phase];
  return by_phase;
}

void run_once() {
  Call call = small_call();
  run_and_check(call);
}

}  // namespace

TEST(nothing_is_recorded_unless_asked) {
  run_once();
  CHECK(recorded().empty());
  CHECK_EQ(msctTraceStart(), ACLNN_SUCCESS);
  CHECK_EQ(msctTraceStop(), ACLNN_SUCCESS);
  run_once();
  CHECK(recorded().empty());
}

TEST(phases_of_a_call) {
  for (const char* fusion : {"half", "true"}) {
    CHECK_EQ(msctSetOption("fusion", fusion), ACLNN_SUCCESS);
    CHECK_EQ(msctTraceStart(), ACLNN_SUCCESS);
    run_once();
    CHECK_EQ(msctTraceStop(), ACLNN_SUCCESS);
    const std::vector<msctTraceEvent> events = recorded();
    auto count = counts(events);
    CHECK_EQ(count["phase 1"], 1);
    CHECK_EQ(count["phase 2"], 1);
    CHECK_EQ(count["run"], 1);
    CHECK(count["pack"] >= 2 && count["K1"] >= 1 && count["K2"] >= 1);
    int64_t flops = 0;
    const msctTraceEvent *run = nullptr, *phase2 = nullptr;
    for (const msctTraceEvent& event : events) {
      CHECK(event.start <= event.end);
      flops += event.flops;
      if (std::string(event.phase) == "run") run = &event;
      if (std::string(event.phase) == "phase 2") phase2 = &event;
    }
    const Call call = small_call();
    const Ints &y = call.y.shape, &filter = call.filter.shape;
    CHECK_EQ(flops, 2 * product(y) * filter[1] * filter[2] * filter[3]);
    CHECK_EQ(run->bytes, 4 * (product(call.x.shape) + product(filter) + y[1] + product(y)));
    CHECK(std::string(run->detail).find("aclnnFusedConvTanh x [") == 0);
    CHECK_EQ(run->thread, syscall(SYS_gettid));
    for (const msctTraceEvent& event : events) {  // everything but phase 1 lies within phase 2
      if (std::string(event.phase) == "phase 1") {
        CHECK(event.end <= phase2->start);
      } else {
        CHECK(event.start >= phase2->start && event.end <= phase2->end);
      }
    }
  }
  CHECK_EQ(msctSetOption("fusion", nullptr), ACLNN_SUCCESS);
}

TEST(a_new_start_forgets) {
  CHECK_EQ(msctTraceStart(), ACLNN_SUCCESS);
  run_once();
  CHECK(!recorded().empty());  // also while it records
  CHECK_EQ(msctTraceStart(), ACLNN_SUCCESS);
  CHECK(recorded().empty());
  CHECK_EQ(msctTraceStop(), ACLNN_SUCCESS);
}

TEST(marks_that_were_open_at_the_start_or_end_are_not_recorded) {
  msct::start_trace();
  {
    const msct::TraceMark open(msct::TracePhase::kK1);
    CHECK(static_cast<bool>(open));
    msct::start_trace();
  }
  {
    const msct::TraceMark open(msct::TracePhase::kK1);
    msct::stop_trace();
  }
  CHECK(recorded().empty());
}

TEST(events_beyond_the_buffer_are_counted) {
  constexpr uint64_t kMax = 524288, kMore = 10;
  msct::start_trace();
  for (uint64_t i = 0; i < kMax + kMore; ++i) const msct::TraceMark mark(msct::TracePhase::kK2);
  msct::stop_trace();
  uint64_t count = 0, dropped = 0;
  msctTraceEvent first = {};
  CHECK_EQ(msctTraceRead(&first, 1, &count, &dropped), ACLNN_SUCCESS);
  CHECK_EQ(count, kMax);
  CHECK_EQ(dropped, kMore);
  CHECK_EQ(std::string(first.phase), "K2");
  msct::start_trace();
  msct::stop_trace();
}

TEST(threads_call_while_others_start_stop_and_read) {
  std::atomic<bool> done{false};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&] {
      while (!done) run_once();
    });
  }
  for (int round = 0; round < 200; ++round) {
    CHECK_EQ(msctTraceStart(), ACLNN_SUCCESS);
    uint64_t count = 0, dropped = 0;
    std::vector<msctTraceEvent> events(64);
    CHECK_EQ(msctTraceRead(events.data(), events.size(), &count, &dropped), ACLNN_SUCCESS);
    if (round % 2) CHECK_EQ(msctTraceStop(), ACLNN_SUCCESS);
  }
  done = true;
  for (std::thread& caller : callers) caller.join();
  CHECK_EQ(msctTraceStart(), ACLNN_SUCCESS);
  std::thread(run_once).join();
  CHECK_EQ(counts(recorded())["run"], 1);  // what a thread recorded outlives it
  CHECK_EQ(msctTraceStop(), ACLNN_SUCCESS);
}

TEST(a_forked_child_records_on_its_own) {
  require_threads_after_fork();
  CHECK_EQ(msctTraceStart(), ACLNN_SUCCESS);
  run_once();
  in_a_fork([] {
    run_once();
    CHECK(recorded().empty());
    CHECK_EQ(msctTraceStart(), ACLNN_SUCCESS);
    run_once();
    const std::vector<msctTraceEvent> events = recorded();
    CHECK_EQ(counts(events)["run"], 1);
    CHECK_EQ(events.front().thread, getpid());
  });
  CHECK_EQ(counts(recorded())["run"], 1);  // the parent's goes on
  CHECK_EQ(msctTraceStop(), ACLNN_SUCCESS);
}

TEST(null_pointers) {
  uint64_t count = 0;
  msctTraceEvent event;
  CHECK_EQ(msctTraceRead(&event, 1, nullptr, &count), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_EQ(msctTraceRead(&event, 1, &count, nullptr), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_EQ(msctTraceRead(nullptr, 1, &count, &count), ACLNN_ERR_PARAM_NULLPTR);
  CHECK_EQ(recent_message().find("msctTraceRead: events"), 0u);
  CHECK_EQ(msctMeasurePeaks(nullptr), ACLNN_ERR_PARAM_NULLPTR);
}

TEST(peaks_follow_the_options) {
  msctInfo info = {};
  CHECK_EQ(msctSetOption("num_threads", "1"), ACLNN_SUCCESS);
  msctPeaks widest = {}, portable = {};
  CHECK_EQ(msctMeasurePeaks(&widest), ACLNN_SUCCESS);
  CHECK_EQ(msctGetInfo(&info), ACLNN_SUCCESS);
  CHECK_EQ(widest.threads, 1);
  CHECK(widest.flops > 1e8 && widest.flops < 1e13);
  CHECK(widest.bytes > 1e8 && widest.bytes < 1e13);
  if (std::string(info.k1) == "amx") {
    CHECK(widest.bfloat16Flops > widest.flops && widest.bfloat16Flops < 1e14);
  } else {
    CHECK_EQ(widest.bfloat16Flops, widest.flops);
  }
  if (std::string(info.k1) != "portable") {
    CHECK_EQ(msctSetOption("max_isa", "portable"), ACLNN_SUCCESS);
    CHECK_EQ(msctMeasurePeaks(&portable), ACLNN_SUCCESS);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they time their own checks
    CHECK(portable.flops < widest.flops);
#endif
    CHECK_EQ(msctSetOption("max_isa", nullptr), ACLNN_SUCCESS);
  }
  CHECK_EQ(msctSetOption("num_threads", nullptr), ACLNN_SUCCESS);
}
