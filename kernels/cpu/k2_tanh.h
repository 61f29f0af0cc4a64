// The contract of K2: y = tanh(z) in float32, rounded once (to nearest, ties to even) to y's dtype.
//
// Every variant computes the same operations in the same order with fused multiply-adds, so all agree bit for bit.
// At most 4 ULP from tanh in float32; exactly +-1 from |z| = 9.02 on; odd; -0.0 stays -0.0; NaN stays NaN.
#ifndef MS_CONVTANH_KERNELS_CPU_K2_TANH_H_
#define MS_CONVTANH_KERNELS_CPU_K2_TANH_H_

#include <cstdint>

namespace msct {

struct K2Kernel {
  int64_t lanes;
  // One contiguous row of n values, by DType of y. z may be read up to a multiple of `lanes`; y is written to n only.
  void (*row[3])(const float* z, void* y, int64_t n);
  // The same without tanh, for gradients: y = z, rounded.
  void (*plain_row[3])(const float* z, void* y, int64_t n);
};

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_CPU_K2_TANH_H_
