// The process's one pool of worker threads.
#ifndef MS_CONVTANH_KERNELS_CPU_THREAD_POOL_H_
#define MS_CONVTANH_KERNELS_CPU_THREAD_POOL_H_

#include <cstdint>

namespace msct {

// How many threads this process may use: the smallest of the affinity mask and the cgroup quota (rounded up), at least
// 1. Read once per process.
int64_t available_threads();

// Runs body(context, task, slot) for every task in [0, tasks), on the calling thread and at most threads - 1 workers.
// Returns when all are done. slot is in [0, threads) and no two bodies that run at the same time share one. Bodies must
// not throw. Many threads may call at once; a body may call parallel_for itself. After fork() the child has a pool of
// its own.
using ParallelBody = void (*)(void* context, int64_t task, int64_t slot);
void parallel_for(int64_t tasks, int64_t threads, ParallelBody body, void* context);

template <typename Body>
void parallel_for(int64_t tasks, int64_t threads, const Body& body) {
  parallel_for(
      tasks, threads,
      [](void* context, int64_t task, int64_t slot) { (*static_cast<const Body*>(context))(task, slot); },
      const_cast<Body*>(&body));
}

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_CPU_THREAD_POOL_H_
