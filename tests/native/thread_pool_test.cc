#include "kernels/cpu/thread_pool.h"

#include <atomic>
#include <thread>

#include "tests/native/fork_test_util.h"

namespace msct_test {
namespace {

using msct::parallel_for;

// Runs tasks and checks that each ran once and that no two at the same time had one slot.
void check_loop(int64_t tasks, int64_t threads) {
  std::vector<std::atomic<int>> ran(static_cast<size_t>(tasks));
  std::vector<std::atomic<int>> busy(static_cast<size_t>(threads));
  parallel_for(tasks, threads, [&](int64_t task, int64_t slot) {
    CHECK(slot >= 0 && slot < threads);
    CHECK_EQ(busy[static_cast<size_t>(slot)]++, 0);
    ++ran[static_cast<size_t>(task)];
    --busy[static_cast<size_t>(slot)];
  });
  for (const std::atomic<int>& count : ran) CHECK_EQ(count.load(), 1);
}

TEST(every_task_runs_once) {
  for (int64_t threads : {1, 2, 3, 8}) {
    for (int64_t tasks : {0, 1, 2, 3, 100}) check_loop(tasks, threads);
  }
}

TEST(many_short_loops) {
  for (int i = 0; i < 20000; ++i) check_loop(3, 2);
}

TEST(many_callers_at_once) {
  std::vector<std::thread> callers;
  for (int i = 0; i < 6; ++i) {
    callers.emplace_back([] {
      for (int round = 0; round < 1000; ++round) check_loop(7, 3);
    });
  }
  for (std::thread& caller : callers) caller.join();
}

TEST(a_body_may_loop_itself) {
  std::atomic<int> sum{0};
  parallel_for(4, 2, [&](int64_t, int64_t) { parallel_for(5, 2, [&](int64_t, int64_t) { ++sum; }); });
  CHECK_EQ(sum.load(), 20);
}

TEST(workers_join_after_a_pause) {
  for (int round = 0; round < 5; ++round) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // by now they sleep
    std::atomic<int> together{0}, seen{0};
    parallel_for(2, 2, [&](int64_t, int64_t) {
      ++together;
      for (int i = 0; i < 2000 && together < 2; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (together == 2) ++seen;
    });
    CHECK_EQ(seen.load(), 2);
  }
}

TEST(a_forked_child_has_its_own_pool) {
  require_threads_after_fork();
  check_loop(100, 3);
  in_a_fork([] { check_loop(100, 3); });
  check_loop(100, 3);
}

TEST(available_threads_is_at_least_one) { CHECK(msct::available_threads() >= 1); }

}  // namespace
}  // namespace msct_test
