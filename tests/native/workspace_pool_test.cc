// Scratch of the MindSpore entry: reused once warm, shared safely, given up when it is no longer needed.
#include "aclnn/src/workspace_pool.h"

#include <cstdint>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/native/test.h"

namespace {

using msct::BorrowedWorkspace;
using msct::idle_workspace_bytes;

constexpr size_t kMiB = size_t{1} << 20;

TEST(warm_calls_reuse_the_buffer) {
  const void* first;
  {
    BorrowedWorkspace workspace(3 * kMiB);
    first = workspace.data();
    CHECK_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  }
  const size_t idle = idle_workspace_bytes();
  for (int i = 0; i < 100; ++i) {
    BorrowedWorkspace workspace(i % 2 == 0 ? 3 * kMiB : 1000);
    CHECK(workspace.data() == first);
  }
  CHECK_EQ(idle_workspace_bytes(), idle);
}

TEST(grows_by_replacing) {
  { BorrowedWorkspace workspace(4 * kMiB); }
  { BorrowedWorkspace workspace(9 * kMiB); }
  CHECK(idle_workspace_bytes() >= 9 * kMiB);
  CHECK(idle_workspace_bytes() < 13 * kMiB);
}

TEST(nothing_for_nothing) {
  BorrowedWorkspace workspace(0);
  CHECK(workspace.data() == nullptr);
}

TEST(refuses_what_no_machine_has) {
  bool refused = false;
  try {
    BorrowedWorkspace workspace(SIZE_MAX);
  } catch (const std::bad_alloc&) {
    refused = true;
  }
  CHECK(refused);
}

TEST(large_buffers_are_given_up_after_small_calls) {
  { BorrowedWorkspace workspace(64 * kMiB); }
  CHECK(idle_workspace_bytes() >= 64 * kMiB);
  for (int i = 0; i < 600; ++i) BorrowedWorkspace workspace(1000);
  CHECK(idle_workspace_bytes() <= kMiB);
}

TEST(idle_memory_is_bounded) {
  {
    std::vector<BorrowedWorkspace*> borrowed;
    for (int i = 0; i < 20; ++i) borrowed.push_back(new BorrowedWorkspace(32 * kMiB));
    for (BorrowedWorkspace* workspace : borrowed) delete workspace;
  }
  CHECK(idle_workspace_bytes() <= 256 * kMiB);
}

TEST(threads_never_share) {
  std::vector<std::thread> threads;
  for (int id = 1; id <= 4; ++id) {
    threads.emplace_back([id] {
      for (int i = 0; i < 300; ++i) {
        const size_t size = 1000 + static_cast<size_t>((i * 7919 + id * 104729) % 200000);
        BorrowedWorkspace workspace(size);
        auto* bytes = static_cast<unsigned char*>(workspace.data());
        std::memset(bytes, id, size);
        std::this_thread::yield();
        CHECK(bytes[0] == id && bytes[size / 2] == id && bytes[size - 1] == id);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
