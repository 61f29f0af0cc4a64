// K2 in AVX2, FMA and F16C.
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/k2_tanh.h"
#include "kernels/cpu/target.h"

MSCT_TARGET_BEGIN("avx2,fma,f16c")
namespace msct {
namespace {

#include "kernels/cpu/simd_avx2-inl.h"

#include "kernels/cpu/k2_tanh-inl.h"

}  // namespace

extern const K2Kernel k2_tanh_avx2;
constexpr K2Kernel k2_tanh_avx2 = kK2Tanh;

}  // namespace msct
MSCT_TARGET_END
