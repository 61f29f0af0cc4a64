// K1 in AVX-512: 8 output channels x 3 vectors of 16 pixels. 24 accumulators and 3 vectors of b leave 5 of the 32
// registers; a is broadcast by the multiply-adds themselves.
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of its own _mm512_undefined_ps.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/k1_conv.h"
#include "kernels/cpu/target.h"

MSCT_TARGET_BEGIN("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
namespace msct {
namespace {

#include "kernels/cpu/simd_avx512-inl.h"

constexpr int64_t kPanel = 8;
constexpr int64_t kAccumulators = 24;

#include "kernels/cpu/k1_conv-inl.h"

}  // namespace

extern const K1Kernel k1_conv_avx512;
constexpr K1Kernel k1_conv_avx512 = kK1Conv;

}  // namespace msct
MSCT_TARGET_END
