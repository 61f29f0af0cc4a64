// The filter gradient's GEMM in plain C++: 2 x 3 sums fit SSE2's 16 registers beside the operands.
#include <cstdint>
#include <cstring>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/k1_grad_filter.h"
#include "kernels/cpu/target.h"

namespace msct {
namespace {

#include "kernels/cpu/simd_portable-inl.h"

constexpr int kTileRows = 2;

#include "kernels/cpu/k1_grad_filter-inl.h"

}  // namespace

extern const GradFilterKernel k1_grad_filter_portable;
constexpr GradFilterKernel k1_grad_filter_portable = kK1GradFilter;

}  // namespace msct
