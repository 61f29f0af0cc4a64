// Which images the kernels that are not as exact as a plain sum may compute.
//
// Matrix kernels: which images they may compute in float32 by bfloat16 terms (k1_terms-inl.h) without losing accuracy.
//
// Matrix units take denormals as zero, terms and sums alike. With e(v) = floor(log2 |v|), for all nonzero values of an
// image, of the filter and of the bias b:
//
//   e(x), e(w), e(b) >= -102    the last bit of x3 and w3 is at least 2^-125: no term is denormal
//   e(x) + e(w) >= -70          what a sum of K products of terms loses, K * 6 * 2^-126, is below the rounding of the
//                               smallest product, 2^-24 * 2^-70, for K up to 2^26
//   e(x), e(w), e(b) <= 126     x1 and w1 do not round to Inf
//   e(x) + e(w) + log2 K < 124  no sum of x1 w1 overflows that would not without rounding x1 and w1
//
// The other images, and all if the filter or the bias is at fault, are left to a vector kernel. Inf and NaN are no
// fault. The decision is made for whole images, so that it depends neither on the batch nor on how an image is cut into
// blocks.
#ifndef MS_CONVTANH_KERNELS_CPU_RANGE_CHECK_H_
#define MS_CONVTANH_KERNELS_CPU_RANGE_CHECK_H_

#include <cstdint>

#include "kernels/dispatch/plan.h"

namespace msct {

// Workspace of a check, in bytes.
int64_t range_check_bytes(const ConvTanhProblem& problem);

// Returns one flag for each image, 1: out of range. memory: range_check_bytes bytes, aligned to 8.
const char* find_images_out_of_range(const Plan& plan, const ConvTanhTensors& tensors, void* memory);

// Winograd: whether an image may be computed by tiles, for a convolution of so many terms. x, filter: the largest
// magnitudes, as bits. The error of an output is then that of the largest inputs beside it, not of those under the
// filter alone: about 2^-24 |x| |w| K at worst, which |x| |w| K < 2^12 keeps below 2^-11 where tanh is steepest, and
// far below that on average. Nothing passes that has Inf or NaN, which would spread over a tile, or that might overflow
// or make transformed taps denormal.
bool winograd_is_accurate(uint32_t x, uint32_t filter, int64_t terms);

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_CPU_RANGE_CHECK_H_
