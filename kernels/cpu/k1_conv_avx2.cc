// K1 in AVX2 and FMA: 4 output channels x 3 vectors of 8 pixels. 12 accumulators, 3 vectors of b and 1 broadcast of a
// fill the 16 registers; 12 fused multiply-adds cover the 7 loads.
#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/k1_conv.h"
#include "kernels/cpu/target.h"

MSCT_TARGET_BEGIN("avx2,fma,f16c")
namespace msct {
namespace {

#include "kernels/cpu/simd_avx2-inl.h"

constexpr int64_t kPanel = 4;
constexpr int64_t kAccumulators = 12;

#include "kernels/cpu/k1_conv-inl.h"

}  // namespace

extern const K1Kernel k1_conv_avx2;
constexpr K1Kernel k1_conv_avx2 = kK1Conv;

}  // namespace msct
MSCT_TARGET_END
