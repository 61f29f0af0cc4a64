// K1 in plain C++: 4 output channels x 2 vectors of 4 pixels fit the 16 registers of SSE2; NEON has 32, takes 4 x 4.
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/k1_conv.h"
#include "kernels/cpu/target.h"

namespace msct {
namespace {

#include "kernels/cpu/simd_portable-inl.h"

constexpr int64_t kPanel = 4;
#if defined(__aarch64__)
constexpr int64_t kAccumulators = 16;
#else
constexpr int64_t kAccumulators = 8;
#endif

#include "kernels/cpu/k1_conv-inl.h"

}  // namespace

extern const K1Kernel k1_conv_portable;
constexpr K1Kernel k1_conv_portable = kK1Conv;

}  // namespace msct
