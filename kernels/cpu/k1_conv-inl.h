// K1 over any Simd; included inside a target region and an anonymous namespace by k1_conv_<isa>.cc.
//
// Register tile: h output channels x N vectors of pixels, h * N accumulators. N grows as h shrinks, so that even one
// output channel has enough independent sums to hide the latency of a fused multiply-add. Per k: N vector loads of b,
// h broadcasts of a.
//
//            pixels ->          N vectors, each with its own address (they may lie in different rows)
//          k +---------------+
//            |      b        |  b[k_offset[k] + pixel]
//            +---------------+
//    a  [k][h]   acc[h][N]      stored to c, whole vectors
//
// Order of the loops: a group of N vectors stays in L1 while all panels of a stream past it. The last group repeats its
// last vector: repeats load, compute and store the same values. The sum over k has one order, k ascending, whatever the
// tile, so results do not depend on how the output is cut.

#include "kernels/cpu/k1_load-inl.h"

void pack_bias(const void* source, DType dtype, int64_t stride, int64_t n, float* packed) {
  if (source) {
    load_row(packed, source, 0, stride, n, dtype);
  } else {
    for (int64_t i = 0; i < n; ++i) packed[i] = 0.0f;
  }
}

// to[i][h] = rows[h][i]
template <int kHeight>
MSCT_INLINE void interleave(const float (*rows)[kChunk], int64_t n, float* to) {
  for (int64_t i = 0; i < n; ++i, to += kHeight) {
    for (int h = 0; h < kHeight; ++h) to[h] = rows[h][i];
  }
}

template <int kHeight = kPanel>
MSCT_INLINE void interleave(const float (*rows)[kChunk], int64_t height, int64_t n, float* to) {
  if (height == kHeight) {
    interleave<kHeight>(rows, n, to);
  } else if constexpr (kHeight > 1) {
    interleave<kHeight - 1>(rows, height, n, to);
  }
}

void pack_filter(const K1Filter& filter, float* packed) {
  const int64_t taps = filter.kh * filter.kw;
  const int64_t k = filter.ci * taps;
  Run run = {filter.kw, filter.strides[3]};
  if (run.join(filter.kh, filter.strides[2])) run.join(filter.ci, filter.strides[1]);
  float rows[kPanel][kChunk];
  for (int64_t m = 0; m < filter.m; m += kPanel) {
    const int64_t height = filter.m - m < kPanel ? filter.m - m : kPanel;
    for (int64_t first = 0; first < k; first += run.n) {
      const int64_t offset =
          m * filter.strides[0] + first / taps * filter.strides[1] + first % taps / filter.kw * filter.strides[2];
      for (int64_t start = 0; start < run.n; start += kChunk) {
        const int64_t size = run.n - start < kChunk ? run.n - start : kChunk;
        for (int64_t h = 0; h < height; ++h) {
          const int64_t from = offset + h * filter.strides[0] + start * run.step;
          load_row(rows[h], filter.source, from, run.step, size, filter.dtype);
        }
        interleave(rows, height, size, packed);
        packed += size * height;
      }
    }
  }
}

template <typename Element>
MSCT_INLINE void pack_elements(const K1Input& input, float* packed, Simd::Float (*load)(const Element*)) {
  for (int64_t ci = 0; ci < input.ci; ++ci) {
    float* to = packed + ci * input.plane_stride;
    for (int64_t p = 0; p < input.h.phases; ++p) {
      for (int64_t q = 0; q < input.w.phases; ++q) {
        const Columns columns = columns_inside(input, q);
        for (int64_t r = 0; r < input.rows; ++r, to += input.pitch) {
          const int64_t row = input.top + input.h.first(p) + r * input.h.stride;
          if (row < 0 || row >= input.hi) {
            fill_zeros(to, 0, input.pitch);
          } else {
            pack_row(input, ci, row, columns, to, load);
          }
        }
      }
    }
  }
}

// The GEMM.

MSCT_INLINE bool is_packed(const K1Block& block) { return block.a_m_stride == 0; }

template <int kHeight, int kVectors>
MSCT_INLINE void tile(const K1Block& block, const float* a, int64_t m, const float* const* b, float* const* c) {
  Simd::Float sum[kHeight][kVectors];
  for (int h = 0; h < kHeight; ++h) {
    for (int v = 0; v < kVectors; ++v) {
      sum[h][v] = block.bias ? Simd::set(block.bias[m + h]) : Simd::load(c[v] + (m + h) * block.c_m_stride);
    }
  }
  const int64_t* offset = block.k_offset;
  const int64_t a_m_stride = is_packed(block) ? 1 : block.a_m_stride;
  const int64_t a_k_stride = is_packed(block) ? kHeight : 1;
  for (int64_t k = 0; k < block.k; ++k, a += a_k_stride) {
    const int64_t o = offset[k];
    if (kHeight >= kVectors) {
      Simd::Float pixels[kVectors];
      for (int v = 0; v < kVectors; ++v) pixels[v] = Simd::load(b[v] + o);
      for (int h = 0; h < kHeight; ++h) {
        const Simd::Float weight = Simd::set(a[h * a_m_stride]);
        for (int v = 0; v < kVectors; ++v) sum[h][v] = Simd::multiply_add(weight, pixels[v], sum[h][v]);
      }
    } else {
      Simd::Float weights[kHeight];
      for (int h = 0; h < kHeight; ++h) weights[h] = Simd::set(a[h * a_m_stride]);
      for (int v = 0; v < kVectors; ++v) {
        const Simd::Float pixels = Simd::load(b[v] + o);
        for (int h = 0; h < kHeight; ++h) sum[h][v] = Simd::multiply_add(weights[h], pixels, sum[h][v]);
      }
    }
  }
  for (int h = 0; h < kHeight; ++h) {
    for (int v = 0; v < kVectors; ++v) Simd::store(c[v] + (m + h) * block.c_m_stride, sum[h][v]);
  }
}

// All pixels of the block for output channels [m_begin, m_end), a multiple of kHeight.
template <int kHeight, int kVectors>
void sweep(const K1Block& block, int64_t m_begin, int64_t m_end) {
  const int64_t vectors = block.rows * block.vectors;
  int64_t row = 0;
  int64_t column = 0;
  for (int64_t first = 0; first < vectors; first += kVectors) {
    const float* b[kVectors];
    float* c[kVectors];
    for (int v = 0; v < kVectors; ++v) {
      b[v] = block.b + row * block.b_row_stride + column * Simd::kLanes;
      c[v] = block.c + row * block.c_row_stride + column * Simd::kLanes;
      if (first + v + 1 < vectors && ++column == block.vectors) {
        column = 0;
        ++row;
      }
    }
    for (int64_t m = m_begin; m < m_end; m += kHeight) {
      const float* a = block.a + m * (is_packed(block) ? block.k : block.a_m_stride);
      tile<kHeight, kVectors>(block, a, m, b, c);
    }
  }
}

// Vectors beside each other in a tile of the given height: as many accumulators as registers allow, at most 8 vectors.
constexpr int vectors_for(int64_t height) {
  const int64_t fit = kAccumulators / height;
  return static_cast<int>(fit < 8 ? fit : 8);
}

template <int kHeight>
void run_last_panel(const K1Block& block, int64_t height) {
  if (height == kHeight) {
    sweep<kHeight, vectors_for(kHeight)>(block, block.m - height, block.m);
  } else if constexpr (kHeight > 1) {
    run_last_panel<kHeight - 1>(block, height);
  }
}

void run(const K1Block& block) {
  const int64_t height = block.m % kPanel;
  if (block.m >= kPanel) sweep<kPanel, vectors_for(kPanel)>(block, 0, block.m - height);
  if (height > 0) run_last_panel<kPanel - 1>(block, height);
}

#include "kernels/cpu/k1_winograd-inl.h"

constexpr K1Kernel kK1Conv = {Simd::kLanes, kPanel,    vectors_for(kPanel), 1,   1,       1,       1,
                              pack_filter,  pack_bias, pack_input,          run, nullptr, nullptr, &kK1Winograd};
