// K1 in AMX: tiles of bfloat16, float32 sums; AVX-512 packs.
#if defined(__GNUC__) && !defined(__clang__)
// GCC 12 warns of its own _mm512_undefined_ps.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/k1_conv.h"
#include "kernels/cpu/target.h"
#include "kernels/cpu/tiles.h"

MSCT_TARGET_BEGIN("amx-tile,amx-bf16,avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c")
namespace msct {
namespace {

#include "kernels/cpu/simd_avx512-inl.h"

#include "kernels/cpu/tiles_amx-inl.h"

#include "kernels/cpu/k1_tiles-inl.h"

}  // namespace

extern const K1Kernel k1_conv_amx;
constexpr K1Kernel k1_conv_amx = kK1Tiles;

}  // namespace msct
MSCT_TARGET_END
