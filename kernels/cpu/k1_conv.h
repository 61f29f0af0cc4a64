// The contract of K1, the convolution as an implicit GEMM:
//
//   c[m][pixel] = bias[m] + sum over k of a[k][m] * b[k_offset[k] + pixel]
//
// m runs over output channels, pixel over output positions, k over (ci, kh, kw). Weights are the GEMM's A, so the
// result is [Cout, spatial] = NCHW and is never transposed. There is no im2col buffer: a tap is an address offset into
// the packed (or the caller's own) input.
#ifndef MS_CONVTANH_KERNELS_CPU_K1_CONV_H_
#define MS_CONVTANH_KERNELS_CPU_K1_CONV_H_

#include <cstdint>

#include "kernels/problem.h"

namespace msct {

// A part of the filter, for one K step: m output channels by k = ci * kh * kw terms.
// Packed as panels of `panel` output channels (the last one may be lower, h), each [k][h] in float32.
struct K1Filter {
  const void* source;  // element (0, 0, 0, 0) of the part
  DType dtype;
  int64_t strides[4];  // co, ci, kh, kw, in elements
  int64_t m, ci, kh, kw;
};

// How packing cuts an axis so that every tap reads neighbours. Output o and tap t read padded input coordinate
// o * stride + t * dilation. That is element o + shift(t) of phase(t), where element i of phase p is padded coordinate
// first(p) + i * stride: with stride 2, phase 0 holds the even and phase 1 the odd coordinates. Only phases that a tap
// reads are packed. Taps too far apart to share elements get a phase each: modulus is then beyond every coordinate.
struct K1Axis {
  int64_t stride, dilation;
  int64_t modulus;  // the stride, or INT64_MAX for a phase per tap
  int64_t phases;

  int64_t first(int64_t phase) const { return phase * dilation % modulus; }
  int64_t phase(int64_t tap) const { return tap % phases; }
  int64_t shift(int64_t tap) const { return tap * dilation / modulus; }
};

// A part of the input: ci channels, packed as [ci][phase_h][phase_w][rows][pitch] in float32, zeros outside x.
// Element (r, c) of phases (p, q) is x[top + h.first(p) + r * h.stride][left + w.first(q) + c * w.stride].
struct K1Input {
  const void* source;  // row 0, column 0 of the first channel
  DType dtype;
  int64_t strides[3];  // ci, h, w, in elements
  int64_t ci, hi, wi;
  int64_t top, left;  // the x coordinates of padded row 0 and column 0 of this part; may be negative
  K1Axis h, w;
  int64_t rows, pitch;
  int64_t ci_stride;   // elements between packed channels, >= phases of h * phases of w * rows * pitch
  // In the backward operator: source is gradY, and dz = gradY * (1 - y * y) is packed. Null otherwise.
  const void* gate;    // y, at the source's place
  int64_t gate_strides[3];
};

// One block of output for one K step. Pixels come as `rows` rows of `vectors` vectors; whole vectors are read from b
// and written to c, so both have room for them.
struct K1Block {
  int64_t m, k;
  const float* a;  // as packed by pack_filter
  const float* b;  // element 0 of the block: packed by pack_input, or x itself
  const int64_t* k_offset;  // k entries, in elements
  int64_t rows, vectors;
  int64_t b_row_stride, c_row_stride, c_m_stride;
  float* c;
  const float* bias;  // m entries, added in the first K step; null in later ones, which add to c
};

struct K1Kernel {
  int64_t lanes;  // pixels in a vector
  int64_t panel;  // output channels in a full register tile
  int64_t group;  // vectors in a full register tile
  void (*pack_filter)(const K1Filter& filter, float* packed);
  void (*pack_input)(const K1Input& input, float* packed);
  void (*run)(const K1Block& block);
};

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_CPU_K1_CONV_H_
