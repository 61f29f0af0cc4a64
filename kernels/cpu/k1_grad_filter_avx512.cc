// The filter gradient's GEMM in AVX-512: 8 x 3 sums and 3 columns of b leave room in the 32 registers.
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of its own _mm512_undefined_ps.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/k1_grad_filter.h"
#include "kernels/cpu/target.h"

MSCT_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
namespace msct {
namespace {

#include "kernels/cpu/simd_avx512-inl.h"

constexpr int kTileRows = 8;

#include "kernels/cpu/k1_grad_filter-inl.h"

}  // namespace

extern const GradFilterKernel k1_grad_filter_avx512;
constexpr GradFilterKernel k1_grad_filter_avx512 = kK1GradFilter;

}  // namespace msct
MSCT_TARGET_END
