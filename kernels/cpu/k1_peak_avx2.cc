// The peak of K1's arithmetic in AVX2 and FMA.
#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/peak.h"
#include "kernels/cpu/target.h"

MSCT_TARGET_BEGIN("avx2,fma,f16c")
namespace msct {
namespace {

#include "kernels/cpu/simd_avx2-inl.h"

constexpr int64_t kAccumulators = 12;

#include "kernels/cpu/k1_peak-inl.h"

}  // namespace

int64_t multiply_adds_avx2(int64_t rounds, float* sink) { return multiply_adds(rounds, sink); }

}  // namespace msct
MSCT_TARGET_END
