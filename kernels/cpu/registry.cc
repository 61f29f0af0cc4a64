#include "kernels/cpu/registry.h"

#include "kernels/dispatch/features.h"

namespace msct {

#define MSCT_VARIANT(name, features)    \
  extern const K1Kernel k1_conv_##name; \
  extern const K2Kernel k2_tanh_##name;
#include "kernels/cpu/kernels.inc"
#undef MSCT_VARIANT

VariantList<K1Variant> k1_variants() {
  static const K1Variant variants[] = {
#define MSCT_VARIANT(name, features) {#name, features, k1_conv_##name},
#include "kernels/cpu/kernels.inc"
#undef MSCT_VARIANT
  };
  return {variants, static_cast<int64_t>(sizeof(variants) / sizeof(variants[0]))};
}

VariantList<K2Variant> k2_variants() {
  static const K2Variant variants[] = {
#define MSCT_VARIANT(name, features) {#name, features, k2_tanh_##name},
#include "kernels/cpu/kernels.inc"
#undef MSCT_VARIANT
  };
  return {variants, static_cast<int64_t>(sizeof(variants) / sizeof(variants[0]))};
}

}  // namespace msct
