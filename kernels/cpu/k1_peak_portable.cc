// The peak of K1's arithmetic in plain C++.
#include <cstdint>
#include <cstring>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/peak.h"
#include "kernels/cpu/target.h"

namespace msct {
namespace {

#include "kernels/cpu/simd_portable-inl.h"

constexpr int64_t kAccumulators = 8;

#include "kernels/cpu/k1_peak-inl.h"

}  // namespace

int64_t multiply_adds_portable(int64_t rounds, float* sink) { return multiply_adds(rounds, sink); }

}  // namespace msct
