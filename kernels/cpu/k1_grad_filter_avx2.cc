// The filter gradient's GEMM in AVX2 and FMA: 4 x 3 sums, 3 columns of b and 1 row of a fill the 16 registers.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/k1_grad_filter.h"
#include "kernels/cpu/target.h"

MSCT_TARGET_BEGIN("avx2,fma,f16c")
namespace msct {
namespace {

#include "kernels/cpu/simd_avx2-inl.h"

constexpr int kTileRows = 4;

#include "kernels/cpu/k1_grad_filter-inl.h"

}  // namespace

extern const GradFilterKernel k1_grad_filter_avx2;
constexpr GradFilterKernel k1_grad_filter_avx2 = kK1GradFilter;

}  // namespace msct
MSCT_TARGET_END
