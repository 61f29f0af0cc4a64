// Division and rounding of sizes, which are >= 0.
#ifndef MS_CONVTANH_KERNELS_ROUNDING_H_
#define MS_CONVTANH_KERNELS_ROUNDING_H_

#include <cstdint>

namespace msct {

constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
constexpr int64_t round_up(int64_t a, int64_t multiple) { return ceil_div(a, multiple) * multiple; }

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_ROUNDING_H_
