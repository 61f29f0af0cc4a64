// The contract of K1, the convolution as an implicit GEMM:
//
//   c[m][pixel] = bias[m] + sum over k of a[k][m] * b[k_offset[k] + pixel]
//
// m runs over output channels, pixel over output positions, k over (ci, kh, kw). Weights are the GEMM's A, so the
// result is [Cout, spatial] = NCHW and is never transposed. There is no im2col buffer: a tap is an address offset into
// the packed (or the caller's own) input.
//
// Vector kernels (portable, avx2, avx512) multiply float32; matrix kernels (amx) multiply tiles of bfloat16.
#ifndef MS_CONVTANH_KERNELS_CPU_K1_CONV_H_
#define MS_CONVTANH_KERNELS_CPU_K1_CONV_H_

#include <cstdint>

#include "kernels/problem.h"

namespace msct {

// How the reduction is laid out. Packed input consists of planes of 4-byte elements, and K of entries: `depth` planes
// that lie one behind the other, at one tap.
//
// Vector kernels: a plane is a channel, an element a float32, depth 1.
//
// Matrix kernels: an element is two bfloat16 values, neighbours on K: its halves. Rows of K are (channel, folded tap)
// pairs; two of them make a plane. With few channels, taps are folded into K so that they fill an entry; the others
// stay address offsets. With few output channels, and stride 1 along w, the taps of a row become rows of M instead: c
// then holds a partial sum for each (output channel, tap), and add_taps shifts and adds them. float16 and float32 are
// split into bfloat16 terms, x = x1 + x2 (+ x3), and the rows repeat for each product of terms that counts (see
// k1_terms-inl.h). A last half or plane without a row is zeros on both sides.
struct K1Scheme {
  int64_t halves;          // rows of K in an element: 1 or 2
  int64_t products;        // products of bfloat16 terms for one of x and filter: 1, 3 or 6
  int64_t fold_h, fold_w;  // taps that are rows of K: 1 or all of the axis
  int64_t spread_w;        // taps that are rows of M: 1 or kw
  int64_t depth;           // planes in an entry
  int64_t winograd = 0;    // 1: by tiles of 2x2 outputs, in 16 GEMMs of channels (k1_winograd-inl.h)

  // Taps that are address offsets, or positions of a tile.
  int64_t tap_rows(int64_t kh) const { return winograd ? 4 : kh / fold_h; }
  int64_t tap_columns(int64_t kw) const { return winograd ? 4 : kw / fold_w / spread_w; }
  int64_t folds() const { return fold_h * fold_w; }
  // For ci channels: planes of each product, of all, and entries at each tap.
  int64_t product_planes(int64_t ci) const { return (ci * folds() + halves - 1) / halves; }
  int64_t planes(int64_t ci) const { return blocks(ci) * depth; }
  int64_t blocks(int64_t ci) const { return (products * product_planes(ci) + depth - 1) / depth; }
};

constexpr K1Scheme kVectorScheme = {1, 1, 1, 1, 1, 1, 0};
constexpr int64_t kWinogradPositions = 16;
constexpr K1Scheme kWinogradScheme = {1, 1, 1, 1, 1, 1, 1};

// A part of the filter, for one K step: m output channels by ci * kh * kw terms.
// Vector kernels pack panels of `panel` output channels (the last one may be lower, h), each [k][h] in float32.
// Matrix kernels: see their file.
struct K1Filter {
  const void* source;  // element (0, 0, 0, 0) of the part
  DType dtype;
  int64_t strides[4];  // co, ci, kh, kw, in elements
  int64_t m, ci, kh, kw;
  K1Scheme scheme;
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

// A part of the input: ci channels, packed as planes [phase_h][phase_w][rows][pitch], zeros outside x.
// Element (r, c) of phases (p, q) is x[top + h.first(p) + r * h.stride][left + w.first(q) + c * w.stride]; folded taps
// move top and left.
struct K1Input {
  const void* source;  // row 0, column 0 of the first channel
  DType dtype;
  int64_t strides[3];  // ci, h, w, in elements
  int64_t ci, hi, wi;
  int64_t top, left;  // the x coordinates of padded row 0 and column 0 of this part; may be negative
  K1Axis h, w;          // of the taps that are not folded
  int64_t rows, pitch;
  int64_t plane_stride;  // elements between planes, >= phases of h * phases of w * rows * pitch
  K1Scheme scheme;
  // In the backward operator: source is gradY, and dz = gradY * (1 - y * y) is packed. Null otherwise.
  const void* gate;    // y, at the source's place
  int64_t gate_strides[3];
};

// One block of output for one K step. Pixels come as `rows` rows of `vectors` vectors; whole vectors are read from b
// and written to c, so both have room for them.
struct K1Block {
  int64_t m, k;    // k entries
  const float* a;  // as packed by pack_filter, or the filter itself (vector kernels only)
  int64_t a_m_stride;  // elements between output channels of the filter itself, where k is one run; 0: packed
  const float* b;  // element 0 of the block: packed by pack_input, or x itself
  const int64_t* k_offset;  // k, in elements
  int64_t depth, plane_stride;  // of an entry; matrix kernels only
  int64_t rows, vectors;
  int64_t b_row_stride, c_row_stride, c_m_stride;
  float* c;
  const float* bias;  // as packed by pack_bias, added in the first K step; null in later ones, which add to c
};

// Magnitudes of float32 values, as their bits without the sign. Starts empty.
struct K1Range {
  uint32_t below_smallest = UINT32_MAX;  // one less than the smallest that is not zero
  uint32_t largest = 0;                  // of finite values
};

// The end of a block whose taps are rows of M: c[m][row][pixel] = bias[m] + sum over taps of
// partial[m * taps + tap][row][pixel + tap * step], in whole vectors.
struct K1Taps {
  int64_t m, taps, step;
  int64_t rows, vectors;
  const float* partial;
  int64_t partial_row_stride, partial_m_stride;
  const float* bias;  // as packed by pack_bias
  float* c;
  int64_t c_row_stride, c_m_stride;
};

// Tiles of a block as arrays [position][channel][tile]: those of a row one behind the other, then the next row.
struct WinogradTiles {
  int64_t rows, columns;  // of tiles
  int64_t channel_stride, position_stride;  // elements
};

// What turns a 3x3 convolution into GEMMs and back. The first two return the largest magnitude that they read, as bits:
// at least 0x7F800000 if there is Inf or NaN.
struct K1Winograd {
  // [position], each as pack_filter packs the filter of a 1x1 convolution.
  uint32_t (*pack_filter)(const K1Filter& filter, int64_t position_stride, float* packed);
  // Packs one channel after the other to plane, [row][even or odd columns][pitch], and transforms it.
  uint32_t (*pack_input)(const K1Input& input, const WinogradTiles& tiles, float* plane, float* transformed);
  // c: two rows of outputs, in whole vectors of tiles, for each row of tiles; bias as packed by pack_bias.
  void (*add_products)(const WinogradTiles& tiles, const float* products, const float* bias, int64_t m, float* c,
                       int64_t c_row_stride, int64_t c_m_stride);
};

struct K1Kernel {
  int64_t lanes;  // pixels in a vector
  int64_t panel;  // output channels in a full register tile
  int64_t group;  // vectors in a full register tile
  int64_t depth;  // planes in an entry at most; the packed filter has this many elements for each entry and channel
  int64_t halves;  // as in K1Scheme
  int64_t height;  // output channels of a packed filter are rounded up to a multiple of this
  int64_t bias_width;  // float32 values for each output channel in a packed bias
  void (*pack_filter)(const K1Filter& filter, float* packed);
  // n values, `stride` elements apart; null: zeros.
  void (*pack_bias)(const void* source, DType dtype, int64_t stride, int64_t n, float* packed);
  void (*pack_input)(const K1Input& input, float* packed);
  void (*run)(const K1Block& block);
  void (*add_taps)(const K1Taps& taps);  // null if no scheme of the variant has taps as rows of M
  // Extends a range by n values, `stride` elements apart. Null if float32 values of every range are computed as such.
  void (*add_to_range)(const float* values, int64_t stride, int64_t n, K1Range* range);
  const K1Winograd* winograd;  // null if the variant has none
};

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_CPU_K1_CONV_H_
