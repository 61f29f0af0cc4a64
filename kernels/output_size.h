// The size of a convolution's output along one axis.
#ifndef MS_CONVTANH_KERNELS_OUTPUT_SIZE_H_
#define MS_CONVTANH_KERNELS_OUTPUT_SIZE_H_

#include <cstdint>

namespace msct {

// floor((size + pad_before + pad_after - (dilation * (taps - 1) + 1)) / stride) + 1, not above 0 where the dilated
// kernel does not fit. stride >= 1; the caller sees to it that nothing overflows.
constexpr int64_t output_size(int64_t size, int64_t pad_before, int64_t pad_after, int64_t taps, int64_t dilation,
                              int64_t stride) {
  const int64_t room = size + pad_before + pad_after - (dilation * (taps - 1) + 1);
  return (room >= 0 ? room / stride : -((stride - 1 - room) / stride)) + 1;
}

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_OUTPUT_SIZE_H_
