// K2 in AVX-512.
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of its own _mm512_undefined_ps.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/k2_tanh.h"
#include "kernels/cpu/target.h"

MSCT_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
namespace msct {
namespace {

#include "kernels/cpu/simd_avx512-inl.h"

#include "kernels/cpu/k2_tanh-inl.h"

}  // namespace

extern const K2Kernel k2_tanh_avx512;
constexpr K2Kernel k2_tanh_avx512 = kK2Tanh;

}  // namespace msct
MSCT_TARGET_END
