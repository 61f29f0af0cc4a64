// Streams and events: order, concurrency, failures, waiting, time, stale handles, fork.
#include "aclnn/src/stream.h"

#include <atomic>
#include <chrono>
#include <future>
#include <thread>

#include "aclnn/src/error.h"
#include "tests/native/aclnn_test_util.h"
#include "tests/native/fork_test_util.h"

using namespace msct_test;

namespace {

struct StreamHandle {
  aclrtStream handle = nullptr;
  StreamHandle() { CHECK_EQ(aclrtCreateStream(&handle), ACL_SUCCESS); }
  ~StreamHandle() { CHECK_EQ(aclrtDestroyStream(handle), ACL_SUCCESS); }
  operator aclrtStream() const { return handle; }
  std::shared_ptr<msct::Stream> inner() const { return msct::streams().find(handle); }
};

struct EventHandle {
  aclrtEvent handle = nullptr;
  EventHandle() { CHECK_EQ(aclrtCreateEvent(&handle), ACL_SUCCESS); }
  ~EventHandle() { CHECK_EQ(aclrtDestroyEvent(handle), ACL_SUCCESS); }
  operator aclrtEvent() const { return handle; }
};

// A task that runs until it is let go.
struct Gate {
  std::promise<void> promise;
  std::shared_future<void> opened = promise.get_future().share();
  void open() { promise.set_value(); }
  msct::Stream::Task task() {
    return [opened = opened]() -> int32_t {
      opened.wait();
      return 0;
    };
  }
};

}  // namespace

TEST(operator_on_a_stream) {
  StreamHandle stream;
  run_and_check(small_call(), stream);
}

TEST(tasks_run_in_order_and_later) {
  StreamHandle stream;
  Gate gate;
  std::vector<int> order;
  stream.inner()->enqueue(gate.task());
  for (int i = 0; i < 100; ++i) {
    stream.inner()->enqueue([&order, i]() -> int32_t {
      order.push_back(i);
      return 0;
    });
  }
  aclrtStreamStatus status;
  CHECK_EQ(aclrtStreamQuery(stream, &status), ACL_SUCCESS);
  CHECK_EQ(status, ACL_STREAM_STATUS_NOT_READY);
  CHECK(order.empty());
  gate.open();
  CHECK_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
  CHECK_EQ(order.size(), 100u);
  for (size_t i = 0; i < order.size(); ++i) CHECK_EQ(order[i], static_cast<int>(i));
  CHECK_EQ(aclrtStreamQuery(stream, &status), ACL_SUCCESS);
  CHECK_EQ(status, ACL_STREAM_STATUS_COMPLETE);
}

// A launch returns while the stream is busy. The result of one call is the input of the next, copied in between.
TEST(launches_are_asynchronous_and_chained) {
  StreamHandle stream;
  Gate gate;
  stream.inner()->enqueue(gate.task());
  Call first = small_call();
  first.y = tensor_of({2, 6, 4, 4});
  Call second;
  second.x = tensor_of({2, 6, 4, 4});
  second.filter = tensor_of({2, 6, 1, 1});
  second.y = tensor_of({2, 2, 4, 4});
  const Tensor first_before = first.y, second_before = second.y;
  CHECK_EQ(first.run(stream), ACLNN_SUCCESS);
  void* between = nullptr;
  CHECK_EQ(aclrtMalloc(&between, first.y.bytes.size(), ACL_MEM_MALLOC_HUGE_FIRST), ACL_SUCCESS);
  // Memory from aclrtMalloc only: these copies do not wait.
  CHECK_EQ(aclrtMemsetAsync(between, first.y.bytes.size(), 0xff, first.y.bytes.size(), stream), ACL_SUCCESS);
  CHECK(first.y.bytes == first_before.bytes);
  gate.open();
  CHECK_EQ(aclrtMemcpyAsync(between, first.y.bytes.size(), first.y.bytes.data(), first.y.bytes.size(),
                            ACL_MEMCPY_DEVICE_TO_DEVICE, stream),
           ACL_SUCCESS);
  CHECK_EQ(aclrtMemcpyAsync(second.x.bytes.data(), second.x.bytes.size(), between, second.x.bytes.size(),
                            ACL_MEMCPY_DEVICE_TO_HOST, stream),
           ACL_SUCCESS);
  CHECK_EQ(second.run(stream), ACLNN_SUCCESS);
  CHECK_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
  CHECK_EQ(aclrtFree(between), ACL_SUCCESS);
  check_result(first, first_before);
  CHECK(second.x.bytes == first.y.bytes);
  check_result(second, second_before);
}

TEST(streams_run_at_the_same_time) {
  StreamHandle one, two;
  std::promise<void> from_one, from_two;
  // Each waits for the other: on one thread this would never end.
  one.inner()->enqueue([&]() -> int32_t {
    from_one.set_value();
    from_two.get_future().wait();
    return 0;
  });
  two.inner()->enqueue([&]() -> int32_t {
    from_one.get_future().wait();
    from_two.set_value();
    return 0;
  });
  CHECK_EQ(aclrtSynchronizeStream(one), ACL_SUCCESS);
  CHECK_EQ(aclrtSynchronizeDevice(), ACL_SUCCESS);
}

TEST(many_streams_with_the_operator) {
  std::vector<StreamHandle> streams(6);
  std::vector<Call> calls(6, small_call());
  const Tensor before = calls[0].y;
  for (int repeat = 0; repeat < 5; ++repeat) {
    for (size_t i = 0; i < streams.size(); ++i) CHECK_EQ(calls[i].run(streams[i]), ACLNN_SUCCESS);
    CHECK_EQ(aclrtSynchronizeDevice(), ACL_SUCCESS);
  }
  for (const Call& call : calls) check_result(call, before);
}

TEST(a_failure_is_reported_once_and_stops_nothing) {
  StreamHandle stream;
  std::atomic<bool> ran{false};
  stream.inner()->enqueue([] { return msct::fail(12345, "some_task", "it went wrong"); });
  stream.inner()->enqueue([] { return msct::fail(54321, "some_task", "this came later"); });
  stream.inner()->enqueue([&]() -> int32_t {
    ran = true;
    return 0;
  });
  CHECK_EQ(aclrtSynchronizeStream(stream), 12345);
  CHECK_EQ(recent_message(), "aclrtSynchronizeStream: a task of the stream failed: some_task: it went wrong");
  CHECK(ran);
  CHECK_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
  stream.inner()->enqueue([]() -> int32_t { throw std::runtime_error("thrown"); });
  CHECK_EQ(aclrtSynchronizeDevice(), ACL_ERROR_INTERNAL_ERROR);
  CHECK(recent_message().find("thrown") != std::string::npos);
  CHECK_EQ(aclrtSynchronizeDevice(), ACL_SUCCESS);
}

TEST(destroying_waits_and_tells_of_a_failure) {
  aclrtStream stream = nullptr;
  CHECK_EQ(aclrtCreateStreamWithConfig(&stream, 0, ACL_STREAM_FAST_LAUNCH), ACL_SUCCESS);
  std::atomic<int> ran{0};
  const auto inner = msct::streams().find(stream);
  inner->enqueue([&]() -> int32_t {
    usleep(20000);
    ++ran;
    return msct::fail(7, "slow_task", "no");
  });
  CHECK_EQ(aclrtDestroyStreamForce(stream), 7);
  CHECK_EQ(ran.load(), 1);
}

TEST(an_idle_stream_has_no_thread_to_wait_for) {
  StreamHandle stream;
  CHECK_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
  aclrtStreamStatus status = ACL_STREAM_STATUS_RESERVED;
  CHECK_EQ(aclrtStreamQuery(stream, &status), ACL_SUCCESS);
  CHECK_EQ(status, ACL_STREAM_STATUS_COMPLETE);
}

TEST(waiting_ends_with_the_timeout) {
  StreamHandle stream;
  Gate gate;
  stream.inner()->enqueue(gate.task());
  EventHandle event;
  CHECK_EQ(aclrtRecordEvent(event, stream), ACL_SUCCESS);
  CHECK_EQ(aclrtSynchronizeStreamWithTimeout(stream, 0), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_EQ(aclrtSynchronizeStreamWithTimeout(stream, 10), ACL_ERROR_RT_STREAM_SYNC_TIMEOUT);
  CHECK_EQ(recent_message(), "aclrtSynchronizeStreamWithTimeout: the stream's work took longer than 10 ms");
  CHECK_EQ(aclrtSynchronizeEventWithTimeout(event, 10), ACL_ERROR_RT_EVENT_SYNC_TIMEOUT);
  CHECK_EQ(aclrtSynchronizeStreamWithTimeout(stream, -2), ACL_ERROR_RT_PARAM_INVALID);
  CHECK_EQ(aclrtSynchronizeEventWithTimeout(event, -2), ACL_ERROR_RT_PARAM_INVALID);
  gate.open();
  CHECK_EQ(aclrtSynchronizeStreamWithTimeout(stream, 60000), ACL_SUCCESS);
  CHECK_EQ(aclrtSynchronizeStreamWithTimeout(stream, -1), ACL_SUCCESS);
  CHECK_EQ(aclrtSynchronizeEventWithTimeout(event, 0), ACL_SUCCESS);
}

// A wait covers what was queued before it, even while every task queues another one.
TEST(synchronizing_does_not_wait_for_later_work) {
  StreamHandle stream;
  const std::shared_ptr<msct::Stream> inner = stream.inner();
  std::atomic<bool> stop{false};
  std::function<int32_t()> again = [&]() -> int32_t {
    if (!stop) inner->enqueue(again);
    return 0;
  };
  inner->enqueue(again);
  CHECK_EQ(aclrtSynchronizeStreamWithTimeout(stream, 60000), ACL_SUCCESS);
  stop = true;
  CHECK_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);  // the one that was queued last
  CHECK_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
}

TEST(events_order_streams) {
  StreamHandle producer, consumer;
  EventHandle event;
  Gate gate;
  std::atomic<bool> produced{false};
  bool seen = false;
  producer.inner()->enqueue(gate.task());
  producer.inner()->enqueue([&]() -> int32_t {
    produced = true;
    return 0;
  });
  CHECK_EQ(aclrtRecordEvent(event, producer), ACL_SUCCESS);
  CHECK_EQ(aclrtStreamWaitEvent(consumer, event), ACL_SUCCESS);
  consumer.inner()->enqueue([&]() -> int32_t {
    seen = produced;
    return 0;
  });
  aclrtEventRecordedStatus recorded;
  CHECK_EQ(aclrtQueryEventStatus(event, &recorded), ACL_SUCCESS);
  CHECK_EQ(recorded, ACL_EVENT_RECORDED_STATUS_NOT_READY);
  aclrtEventStatus status;
  CHECK_EQ(aclrtQueryEvent(event, &status), ACL_SUCCESS);
  CHECK_EQ(status, ACL_EVENT_STATUS_NOT_READY);
  gate.open();
  CHECK_EQ(aclrtSynchronizeStream(consumer), ACL_SUCCESS);
  CHECK(seen);
  CHECK_EQ(aclrtSynchronizeEvent(event), ACL_SUCCESS);
  CHECK_EQ(aclrtQueryEventStatus(event, &recorded), ACL_SUCCESS);
  CHECK_EQ(recorded, ACL_EVENT_RECORDED_STATUS_COMPLETE);
  CHECK_EQ(aclrtQueryEvent(event, &status), ACL_SUCCESS);
  CHECK_EQ(status, ACL_EVENT_STATUS_COMPLETE);
}

TEST(the_null_stream_waits_for_events_here_and_now) {
  StreamHandle stream;
  EventHandle event;
  std::atomic<bool> ran{false};
  stream.inner()->enqueue([&]() -> int32_t {
    usleep(10000);
    ran = true;
    return 0;
  });
  CHECK_EQ(aclrtRecordEvent(event, stream), ACL_SUCCESS);
  CHECK_EQ(aclrtStreamWaitEvent(nullptr, event), ACL_SUCCESS);
  CHECK(ran);
}

// A wait holds to the recording that was the latest when it was queued. The event may be destroyed meanwhile.
TEST(events_are_recorded_again) {
  StreamHandle stream, other;
  aclrtEvent event = nullptr;
  CHECK_EQ(aclrtCreateEventExWithFlag(&event, ACL_EVENT_SYNC), ACL_SUCCESS);
  CHECK_EQ(aclrtRecordEvent(event, nullptr), ACL_SUCCESS);
  CHECK_EQ(aclrtStreamWaitEvent(other, event), ACL_SUCCESS);
  Gate gate;
  stream.inner()->enqueue(gate.task());
  CHECK_EQ(aclrtRecordEvent(event, stream), ACL_SUCCESS);
  CHECK_EQ(aclrtSynchronizeStream(other), ACL_SUCCESS);  // not held up by the second recording
  CHECK_EQ(aclrtStreamWaitEvent(other, event), ACL_SUCCESS);
  CHECK_EQ(aclrtDestroyEvent(event), ACL_SUCCESS);
  aclrtStreamStatus status;
  CHECK_EQ(aclrtStreamQuery(other, &status), ACL_SUCCESS);
  CHECK_EQ(status, ACL_STREAM_STATUS_NOT_READY);
  gate.open();
  CHECK_EQ(aclrtSynchronizeStream(other), ACL_SUCCESS);
}

TEST(an_event_that_was_never_recorded_counts_as_complete) {
  EventHandle event;
  aclrtEventRecordedStatus recorded;
  CHECK_EQ(aclrtQueryEventStatus(event, &recorded), ACL_SUCCESS);
  CHECK_EQ(recorded, ACL_EVENT_RECORDED_STATUS_COMPLETE);
  CHECK_EQ(aclrtSynchronizeEvent(event), ACL_SUCCESS);
  CHECK_EQ(aclrtStreamWaitEvent(nullptr, event), ACL_SUCCESS);
}

TEST(elapsed_time) {
  StreamHandle stream;
  EventHandle start, end;
  float ms = -1;
  CHECK_EQ(aclrtEventElapsedTime(&ms, start, end), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
  CHECK_EQ(aclrtRecordEvent(start, stream), ACL_SUCCESS);
  Gate gate;
  stream.inner()->enqueue(gate.task());
  CHECK_EQ(aclrtRecordEvent(end, stream), ACL_SUCCESS);
  CHECK_EQ(aclrtSynchronizeEvent(start), ACL_SUCCESS);
  CHECK_EQ(aclrtEventElapsedTime(&ms, start, end), ACL_ERROR_RT_EVENT_NOT_COMPLETE);
  usleep(20000);
  gate.open();
  CHECK_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
  CHECK_EQ(aclrtEventElapsedTime(&ms, start, end), ACL_SUCCESS);
  CHECK(ms >= 20 && ms < 60000);
  CHECK_EQ(aclrtEventElapsedTime(&ms, end, start), ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL);
  CHECK_EQ(aclrtEventElapsedTime(nullptr, start, end), ACL_ERROR_INVALID_PARAM);

  aclrtEvent untimed = nullptr;
  CHECK_EQ(aclrtCreateEventWithFlag(&untimed, ACL_EVENT_SYNC), ACL_SUCCESS);
  CHECK_EQ(aclrtRecordEvent(untimed, nullptr), ACL_SUCCESS);
  CHECK_EQ(aclrtEventElapsedTime(&ms, start, untimed), ACL_ERROR_RT_EVENT_TIMESTAMP_INVALID);
  CHECK_EQ(aclrtDestroyEvent(untimed), ACL_SUCCESS);
}

TEST(null_and_stale_handles) {
  aclrtStream stream = nullptr;
  aclrtEvent event = nullptr;
  CHECK_EQ(aclrtCreateStream(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aclrtCreateEvent(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aclrtDestroyStream(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aclrtDestroyEvent(nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aclrtRecordEvent(nullptr, nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aclrtStreamQuery(nullptr, nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aclrtSynchronizeStream(nullptr), ACL_SUCCESS);
  CHECK_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
  CHECK_EQ(aclrtCreateEvent(&event), ACL_SUCCESS);
  CHECK_EQ(aclrtQueryEvent(event, nullptr), ACL_ERROR_INVALID_PARAM);
  CHECK_EQ(aclrtSynchronizeStream(event), ACL_ERROR_RT_INVALID_HANDLE);  // one is not the other
  CHECK_EQ(aclrtSynchronizeEvent(stream), ACL_ERROR_RT_INVALID_HANDLE);
  CHECK_EQ(aclrtDestroyStream(stream), ACL_SUCCESS);
  CHECK_EQ(aclrtDestroyStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
  CHECK(recent_message().find("aclrtDestroyStream: stream must be alive and of this process, got 0x") == 0);
  CHECK_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
  CHECK_EQ(aclrtRecordEvent(event, stream), ACL_ERROR_RT_INVALID_HANDLE);
  CHECK_EQ(aclrtDestroyEvent(event), ACL_SUCCESS);
  CHECK_EQ(aclrtDestroyEvent(event), ACL_ERROR_RT_INVALID_HANDLE);
  CHECK_EQ(aclrtStreamWaitEvent(nullptr, event), ACL_ERROR_RT_INVALID_HANDLE);
}

// The child has the null stream, streams of its own and the executors, but not the parent's streams and events.
TEST(fork_while_streams_are_busy) {
  require_threads_after_fork();
  StreamHandle stream;
  EventHandle event;
  Gate gate;
  stream.inner()->enqueue(gate.task());
  Call planned = small_call();
  uint64_t size = 0;
  aclOpExecutor* executor = nullptr;
  CHECK_EQ(planned.phase1(&size, &executor), ACLNN_SUCCESS);
  planned.workspace.resize(size);
  const Tensor before = planned.y;
  in_a_fork([&] {
    CHECK_EQ(aclrtSynchronizeStream(stream), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQ(aclrtDestroyEvent(event), ACL_ERROR_RT_INVALID_HANDLE);
    CHECK_EQ(aclrtSynchronizeDevice(), ACL_SUCCESS);
    CHECK_EQ(aclnnFusedConvTanh(planned.workspace.data(), size, executor, nullptr), ACLNN_SUCCESS);
    check_result(planned, before);
    StreamHandle own;
    run_and_check(small_call(), own);
  });
  gate.open();
  CHECK_EQ(aclnnFusedConvTanh(planned.workspace.data(), size, executor, stream), ACLNN_SUCCESS);
  CHECK_EQ(aclrtSynchronizeStream(stream), ACL_SUCCESS);
  check_result(planned, before);
}

TEST(fork_while_other_threads_call) {
  require_threads_after_fork();
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      StreamHandle stream;
      while (!stop) run_and_check(small_call(), stream);
    });
  }
  for (int repeat = 0; repeat < 20; ++repeat) {
    in_a_fork([] { run_and_check(small_call()); });
  }
  stop = true;
  for (std::thread& thread : threads) thread.join();
}

// A process may end while streams live and work: this must come last, and the program must still end well.
TEST(streams_left_behind_at_exit) {
  aclrtStream stream = nullptr;
  CHECK_EQ(aclrtCreateStream(&stream), ACL_SUCCESS);
  static Gate never_opened;
  msct::streams().find(stream)->enqueue(never_opened.task());
}
