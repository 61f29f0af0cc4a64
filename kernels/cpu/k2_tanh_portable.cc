// K2 in plain C++: four values at a time, fused multiply-adds emulated where the CPU has none.
#include <cstdint>
#include <cstring>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/k2_tanh.h"
#include "kernels/cpu/target.h"

namespace msct {
namespace {

#include "kernels/cpu/simd_portable-inl.h"

#include "kernels/cpu/k2_tanh-inl.h"

}  // namespace

extern const K2Kernel k2_tanh_portable;
constexpr K2Kernel k2_tanh_portable = kK2Tanh;

}  // namespace msct
