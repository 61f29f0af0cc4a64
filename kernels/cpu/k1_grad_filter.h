// The contract of the filter gradient's GEMM. Its K axis is output pixels, which lie side by side in both operands:
//
//   sums[m][column] += sum over rows, pixels of a[m][row][pixel] * b[offset[column] + row][pixel]
//
// a is dz, packed; b is x, packed as for K1, so that a column (ci, kh, kw) is an address offset as there.
#ifndef MS_CONVTANH_KERNELS_CPU_K1_GRAD_FILTER_H_
#define MS_CONVTANH_KERNELS_CPU_K1_GRAD_FILTER_H_

#include <cstdint>

namespace msct {

struct GradFilterBlock {
  int64_t m, columns;
  int64_t rows, length;    // pixels: rows of length each
  const float* a;          // each row has zeros up to a multiple of `lanes`
  int64_t a_m_stride, a_row_stride;
  const float* b;          // read to `length` only: lanes beyond might hold a NaN that no output sees
  const int64_t* b_offset;  // of each column, in elements
  int64_t b_row_stride;
  double* sums;
  int64_t sums_m_stride;
  double* bias_sums;       // m entries, the sums of a alone; or null
};

struct GradFilterKernel {
  int64_t lanes;
  // Sums over a block are taken in float32, one for each lane, then over the lanes in pairs; blocks are added up in
  // float64: the error of the whole does not grow with their number.
  void (*run)(const GradFilterBlock& block);
};

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_CPU_K1_GRAD_FILTER_H_
