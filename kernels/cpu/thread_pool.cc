// Why not OpenMP: after fork() its runtime waits for threads that the child does not have, and every calling thread
// gets a team of its own. Why not a queue per thread: a call has a handful of equal blocks, one shared counter
// suffices.
#include "kernels/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>

#include "kernels/cpu/trace.h"
#include "kernels/wait.h"

namespace msct {

namespace {

inline void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

// The process's own mask, not the calling thread's: frameworks pin their threads to single cores.
bool process_affinity(cpu_set_t* set) { return sched_getaffinity(getpid(), sizeof(*set), set) == 0; }

// CPUs that a cgroup quota allows, rounded up; 0 if there is none. path is the group's, as /proc/self/cgroup gives it.
int64_t quota_of_group(const char* mount, const char* path, bool unified) {
  char name[1024];
  char text[128] = {};
  double quota = -1;
  double period = -1;
  const auto read = [&](const char* file) {
    std::snprintf(name, sizeof(name), "%s%s/%s", mount, path, file);
    std::FILE* stream = std::fopen(name, "re");
    if (!stream) return false;
    const bool ok = std::fgets(text, sizeof(text), stream) != nullptr;
    std::fclose(stream);
    return ok;
  };
  if (unified) {
    if (!read("cpu.max") || std::sscanf(text, "%lf %lf", &quota, &period) != 2) return 0;
  } else {
    if (!read("cpu.cfs_quota_us") || std::sscanf(text, "%lf", &quota) != 1) return 0;
    if (!read("cpu.cfs_period_us") || std::sscanf(text, "%lf", &period) != 1) return 0;
  }
  if (quota <= 0 || period <= 0) return 0;
  const int64_t cpus = static_cast<int64_t>(quota / period);
  return cpus * period < quota ? cpus + 1 : cpus;
}

// The tightest quota of this process's group and all groups above it.
int64_t cgroup_quota() {
  std::FILE* groups = std::fopen("/proc/self/cgroup", "re");
  if (!groups) return 0;
  int64_t tightest = 0;
  char line[1024];
  while (std::fgets(line, sizeof(line), groups)) {
    line[std::strcspn(line, "\n")] = 0;
    char* controllers = std::strchr(line, ':');
    char* path = controllers ? std::strchr(controllers + 1, ':') : nullptr;
    if (!path) continue;
    *path++ = 0;
    ++controllers;
    const bool unified = *controllers == 0;
    if (!unified && !std::strstr(controllers, "cpu")) continue;
    const char* mount = unified ? "/sys/fs/cgroup" : "/sys/fs/cgroup/cpu";
    while (true) {
      const int64_t quota = quota_of_group(mount, std::strcmp(path, "/") == 0 ? "" : path, unified);
      if (quota > 0 && (tightest == 0 || quota < tightest)) tightest = quota;
      char* slash = std::strrchr(path, '/');
      if (!slash || *path == 0) break;
      *slash = 0;
    }
  }
  std::fclose(groups);
  return tightest;
}

int64_t count_available() {
  int64_t threads = static_cast<int64_t>(std::thread::hardware_concurrency());
  cpu_set_t set;
  if (process_affinity(&set)) threads = CPU_COUNT(&set);
  const int64_t quota = cgroup_quota();
  if (quota > 0 && quota < threads) threads = quota;
  return threads > 0 ? threads : 1;
}

// Moves the calling worker off the CPU on which a busy caller runs. After some idle milliseconds Linux often wakes a
// worker on its waker's CPU, though another one is free, and leaves it waiting there for a tick: longer than a call.
void step_aside(int caller_cpu) {
  cpu_set_t allowed, others;
  if (sched_getcpu() != caller_cpu || sched_getaffinity(0, sizeof(allowed), &allowed) != 0) return;
  others = allowed;
  CPU_CLR(static_cast<size_t>(caller_cpu), &others);
  if (CPU_COUNT(&others) == 0 || sched_setaffinity(0, sizeof(others), &others) != 0) return;
  sched_setaffinity(0, sizeof(allowed), &allowed);
}

// One call of parallel_for. Lives on its caller's stack; workers hold it only between join and leave.
struct Job {
  ParallelBody body;
  void* context;
  int64_t tasks;
  int64_t slots;  // threads that may take part
  std::atomic<int64_t> next{0};
  int64_t joined = 1;  // slots given out; the caller has slot 0. Guarded by the pool's mutex.
  std::atomic<int64_t> active{0};
  int caller_cpu = sched_getcpu();
  Job* following = nullptr;  // in the pool's list

  void work(int64_t slot) {
    for (int64_t task; (task = next.fetch_add(1, std::memory_order_relaxed)) < tasks;) body(context, task, slot);
  }
  bool open() const { return joined < slots && next.load(std::memory_order_relaxed) < tasks; }
};

class Pool {
 public:
  void run(Job* job) {
    grow(job->slots - 1);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      job->following = jobs_;
      jobs_ = job;
      published_.fetch_add(1, std::memory_order_release);
    }
    if (sleepers_.load(std::memory_order_seq_cst) > 0) {
      wake_.notify_all();
      sched_yield();  // to a worker that woke on this CPU, so that it can step aside
    }
    job->work(0);
    {
      std::lock_guard<std::mutex> lock(mutex_);
      Job** link = &jobs_;
      while (*link != job) link = &(*link)->following;
      *link = job->following;
    }
    const TraceMark mark(TracePhase::kWait);
    // No worker joins any more. Those that did are in their last task.
    if (!spin_until([job] { return job->active.load(std::memory_order_acquire) == 0; })) {
      std::unique_lock<std::mutex> lock(mutex_);
      wait_until(left_, lock, [job] { return job->active.load(std::memory_order_acquire) == 0; });
    }
  }

 private:
  // Longer than the pause between the steps of one call, and between the operators of a network: waking a thread that
  // sleeps costs about as much.
  static constexpr std::chrono::microseconds kSpinTime{50};

  // Whether the condition came true while spinning.
  template <typename Condition>
  static bool spin_until(const Condition& condition) {
    const auto end = std::chrono::steady_clock::now() + kSpinTime;
    do {
      for (int i = 0; i < 32; ++i) {
        if (condition()) return true;
        pause_cpu();
      }
    } while (std::chrono::steady_clock::now() < end);
    return false;
  }

  void grow(int64_t workers) {
    if (workers_.load(std::memory_order_acquire) >= workers) return;
    std::lock_guard<std::mutex> lock(mutex_);
    // Workers take no signals: they belong to the program's own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (workers_.load(std::memory_order_relaxed) < workers) {
      try {
        std::thread([this] { serve(); }).detach();
      } catch (const std::system_error&) {
        break;  // the callers and the workers there are do the work
      }
      workers_.fetch_add(1, std::memory_order_release);
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void serve() {
    cpu_set_t set;
    if (process_affinity(&set)) pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
    bool woken = true;
    std::unique_lock<std::mutex> lock(mutex_);
    while (true) {
      Job* job = jobs_;
      while (job && !job->open()) job = job->following;
      if (job) {
        const int64_t slot = job->joined++;
        job->active.fetch_add(1, std::memory_order_relaxed);
        lock.unlock();
        if (woken) step_aside(job->caller_cpu);
        woken = false;
        job->work(slot);
        lock.lock();
        if (job->active.fetch_sub(1, std::memory_order_release) == 1) left_.notify_all();
        continue;
      }
      const uint64_t seen = published_.load(std::memory_order_relaxed);
      lock.unlock();
      const bool published = spin_until([&] { return published_.load(std::memory_order_acquire) != seen; });
      lock.lock();
      if (published || published_.load(std::memory_order_relaxed) != seen) continue;
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      wait_until(wake_, lock, [&] { return published_.load(std::memory_order_relaxed) != seen; });
      woken = true;
      sleepers_.fetch_sub(1, std::memory_order_relaxed);
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable left_;
  Job* jobs_ = nullptr;  // newest first; guarded by mutex_
  std::atomic<uint64_t> published_{0};
  std::atomic<int64_t> sleepers_{0};
  std::atomic<int64_t> workers_{0};
};

std::atomic<Pool*> the_pool{nullptr};

// Never destroyed: its threads may still run when static destructors do. After fork() the parent's pool is left alone,
// whatever state its lock was in.
Pool* pool() {
  Pool* current = the_pool.load(std::memory_order_acquire);
  if (current) return current;
  static const int at_fork =
      pthread_atfork(nullptr, nullptr, [] { the_pool.store(nullptr, std::memory_order_release); });
  (void)at_fork;
  Pool* made = new Pool;
  if (the_pool.compare_exchange_strong(current, made, std::memory_order_acq_rel)) return made;
  delete made;
  return current;
}

}  // namespace

int64_t available_threads() {
  static const int64_t threads = count_available();
  return threads;
}

void parallel_for(int64_t tasks, int64_t threads, ParallelBody body, void* context) {
  const int64_t slots = threads < tasks ? threads : tasks;
  if (slots <= 1) {
    for (int64_t task = 0; task < tasks; ++task) body(context, task, 0);
    return;
  }
  Job job;
  job.body = body;
  job.context = context;
  job.tasks = tasks;
  job.slots = slots;
  pool()->run(&job);
}

}  // namespace msct
