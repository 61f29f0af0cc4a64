// Sizes of elements, and float16 for host buffers.
#include <algorithm>
#include <cmath>

#include "acl/acl_base.h"

size_t aclDataTypeSize(aclDataType dataType) {
  switch (dataType) {
    case ACL_STRING:
    case ACL_DT_UNDEFINED: return 0;
    case ACL_UINT1:
    case ACL_INT4:
    case ACL_BOOL:
    case ACL_INT8:
    case ACL_UINT8:
    case ACL_HIFLOAT8:
    case ACL_FLOAT8_E5M2:
    case ACL_FLOAT8_E4M3FN:
    case ACL_FLOAT8_E8M0: return 1;
    case ACL_FLOAT16:
    case ACL_INT16:
    case ACL_UINT16:
    case ACL_BF16: return 2;
    case ACL_FLOAT:
    case ACL_INT32:
    case ACL_UINT32:
    case ACL_COMPLEX32: return 4;
    case ACL_COMPLEX128: return 16;
    default: return 8;
  }
}

// binary16: 1 sign bit, 5 exponent bits with bias 15, 10 fraction bits. Exponent 31 counts as a number, as in CANN.
float aclFloat16ToFloat(aclFloat16 value) {
  const int exponent = (value >> 10) & 31;
  const int fraction = value & 1023;
  const float magnitude = exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25);
  return (value & 0x8000) != 0 ? -magnitude : magnitude;
}

aclFloat16 aclFloatToFloat16(float value) {
  constexpr float kLargest = 65504.0f;
  const auto sign = static_cast<aclFloat16>(std::signbit(value) ? 0x8000 : 0);
  const float magnitude = std::isnan(value) ? kLargest : std::min(std::fabs(value), kLargest);
  if (magnitude == 0) return sign;
  // Units of the last place: 2^-24 up to the largest subnormal, then 11 bits below each power of two. A carry out of
  // the fraction counts the exponent up, which is right as the bits stand.
  const int exponent = std::max(std::ilogb(magnitude), -14);
  const auto units = static_cast<int>(std::nearbyint(std::ldexp(magnitude, 10 - exponent)));
  return static_cast<aclFloat16>(sign | (((exponent + 14) << 10) + units));
}
