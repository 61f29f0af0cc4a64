// What this machine can do at best, measured: what a profile compares with.
#ifndef MS_CONVTANH_KERNELS_CPU_PEAK_H_
#define MS_CONVTANH_KERNELS_CPU_PEAK_H_

#include <cstdint>

namespace msct {

struct Peaks {
  double flops;  // float32 operations per second in registers, 2 for a multiply-add
  double bfloat16_flops;  // of bfloat16 products that are summed in float32: those of a matrix unit where there is one
  double bytes;  // bytes per second that a copy between arrays beyond the caches reads and writes, both counted
};

// Measures with `threads` threads at once and the widest instructions of `features`, for about a fifth of a second.
// Throws std::bad_alloc without room for two arrays of 64 MiB.
Peaks measure_peaks(uint32_t features, int64_t threads);

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_CPU_PEAK_H_
