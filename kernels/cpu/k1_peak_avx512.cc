// The peak of K1's arithmetic in AVX-512.
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of its own _mm512_undefined_ps.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/peak.h"
#include "kernels/cpu/target.h"

MSCT_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
namespace msct {
namespace {

#include "kernels/cpu/simd_avx512-inl.h"

constexpr int64_t kAccumulators = 24;

#include "kernels/cpu/k1_peak-inl.h"

}  // namespace

int64_t multiply_adds_avx512(int64_t rounds, float* sink) { return multiply_adds(rounds, sink); }

}  // namespace msct
MSCT_TARGET_END
