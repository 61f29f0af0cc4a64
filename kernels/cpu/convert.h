// float16 and bfloat16 as bits, in plain C++: to float32 exactly, and from float32 to nearest with ties to even.
// NaN keeps its sign and the payload bits that fit, and becomes quiet, as the CPU's own conversions do.
#ifndef MS_CONVTANH_KERNELS_CPU_CONVERT_H_
#define MS_CONVTANH_KERNELS_CPU_CONVERT_H_

#include <cstdint>
#include <cstring>

#include "kernels/cpu/target.h"

namespace msct {

namespace {

template <typename To, typename From>
MSCT_INLINE To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From), "bit_cast needs equal sizes");
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

MSCT_INLINE float float_from_bf16(uint16_t bits) { return bit_cast<float>(static_cast<uint32_t>(bits) << 16); }

MSCT_INLINE uint16_t bf16_from_float(float value) {
  const uint32_t bits = bit_cast<uint32_t>(value);
  if (value != value) return static_cast<uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

MSCT_INLINE float float_from_f16(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000u) << 16;
  const uint32_t magnitude = bits & 0x7FFFu;
  uint32_t result;
  if (magnitude >= 0x7C00u) {  // Inf and NaN
    result = 0x7F800000u | ((magnitude & 0x03FFu) << 13) | (magnitude > 0x7C00u ? 0x00400000u : 0u);
  } else if (magnitude >= 0x0400u) {  // normal
    result = (magnitude << 13) + ((127u - 15u) << 23);
  } else {  // zero and subnormal: magnitude * 2^-24
    result = bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24f);
  }
  return bit_cast<float>(sign | result);
}

MSCT_INLINE uint16_t f16_from_float(float value) {
  const uint32_t bits = bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7FFFFFFFu;
  uint32_t result;
  if (magnitude > 0x7F800000u) {  // NaN
    result = 0x7E00u | ((magnitude >> 13) & 0x03FFu);
  } else if (magnitude >= 0x477FF000u) {  // rounds to 65536 or more
    result = 0x7C00u;
  } else if (magnitude >= 0x38800000u) {  // normal
    result = (magnitude - ((127u - 15u) << 23) + 0x0FFFu + ((magnitude >> 13) & 1u)) >> 13;
  } else {  // subnormal: adding 0.5 leaves magnitude / 2^-24, rounded, in the low bits
    result = bit_cast<uint32_t>(bit_cast<float>(magnitude) + 0.5f) - 0x3F000000u;
  }
  return static_cast<uint16_t>(sign | result);
}

}  // namespace

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_CPU_CONVERT_H_
