#include "kernels/cpu/peak.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>

#include "kernels/cpu/thread_pool.h"
#include "kernels/dispatch/features.h"

namespace msct {

// Each in k1_peak_<isa>.cc.
int64_t multiply_adds_portable(int64_t rounds, float* sink);
#ifdef MSCT_BUILD_AVX2
int64_t multiply_adds_avx2(int64_t rounds, float* sink);
#endif
#ifdef MSCT_BUILD_AVX512
int64_t multiply_adds_avx512(int64_t rounds, float* sink);
#endif
#ifdef MSCT_BUILD_AMX
int64_t multiply_adds_amx(int64_t rounds, float* sink);
#endif

namespace {

using MultiplyAdds = int64_t (*)(int64_t rounds, float* sink);

MultiplyAdds widest([[maybe_unused]] uint32_t features) {
#ifdef MSCT_BUILD_AVX512
  if ((features & kFeatureAvx512) != 0) return multiply_adds_avx512;
#endif
#ifdef MSCT_BUILD_AVX2
  if ((features & kFeatureAvx2) != 0) return multiply_adds_avx2;
#endif
  return multiply_adds_portable;
}

// The best of several runs: other work on the machine only ever makes one slower. body returns what it did.
template <typename Body>
double best_rate(int runs, const Body& body) {
  double best = 0;
  for (int run = 0; run < runs; ++run) {
    const auto start = std::chrono::steady_clock::now();
    const double done = body();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    best = std::max(best, done / std::max(seconds.count(), 1e-9));
  }
  return best;
}

constexpr int kRuns = 8;

// Of all threads together.
double arithmetic_rate(MultiplyAdds multiply_adds, int64_t threads) {
  constexpr int64_t kRounds = 200000;  // some milliseconds
  return best_rate(kRuns, [&] {
    const auto flops = std::make_unique<int64_t[]>(static_cast<size_t>(threads));
    parallel_for(threads, threads, [&](int64_t task, int64_t) {
      float sink = 0;
      flops[static_cast<size_t>(task)] = multiply_adds(kRounds, &sink);
    });
    int64_t total = 0;
    for (int64_t task = 0; task < threads; ++task) total += flops[static_cast<size_t>(task)];
    return static_cast<double>(total);
  });
}

}  // namespace

Peaks measure_peaks(uint32_t features, int64_t threads) {
  Peaks peaks = {};
  peaks.flops = arithmetic_rate(widest(features), threads);
  peaks.bfloat16_flops = peaks.flops;
#ifdef MSCT_BUILD_AMX
  if ((features & kFeatureAmxBf16) != 0) peaks.bfloat16_flops = arithmetic_rate(multiply_adds_amx, threads);
#endif

  constexpr size_t kBytes = size_t{64} << 20;
  constexpr size_t kPart = size_t{1} << 20;
  const auto from = std::make_unique<char[]>(kBytes), to = std::make_unique<char[]>(kBytes);  // zeroed: pages exist
  peaks.bytes = best_rate(kRuns, [&] {
    parallel_for(kBytes / kPart, threads, [&](int64_t task, int64_t) {
      const size_t start = static_cast<size_t>(task) * kPart;
      std::memcpy(to.get() + start, from.get() + start, kPart);
    });
    return 2.0 * kBytes;
  });
  return peaks;
}

}  // namespace msct
