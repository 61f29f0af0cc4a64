#include "kernels/cpu/registry.h"

#include "kernels/dispatch/features.h"

namespace msct {

#define MSCT_VARIANT(name, features)                   \
  extern const K1Kernel k1_conv_##name;                \
  extern const GradFilterKernel k1_grad_filter_##name; \
  extern const K2Kernel k2_tanh_##name;
#define MSCT_MATRIX_VARIANT(name, features) extern const K1Kernel k1_conv_##name;
#include "kernels/cpu/kernels.inc"
#undef MSCT_VARIANT

namespace {

template <typename T, size_t kCount>
VariantList<T> list(const T (&variants)[kCount]) {
  return {variants, static_cast<int64_t>(kCount)};
}

}  // namespace

VariantList<K1Variant> k1_variants() {
  static const K1Variant variants[] = {
#define MSCT_VARIANT(name, features) {{#name, features, k1_conv_##name}},
#define MSCT_MATRIX_VARIANT MSCT_VARIANT
#include "kernels/cpu/kernels.inc"
#undef MSCT_VARIANT
  };
  return list(variants);
}

VariantList<GradFilterVariant> grad_filter_variants() {
  static const GradFilterVariant variants[] = {
#define MSCT_VARIANT(name, features) {{#name, features, k1_grad_filter_##name}},
#include "kernels/cpu/kernels.inc"
#undef MSCT_VARIANT
  };
  return list(variants);
}

VariantList<K2Variant> k2_variants() {
  static const K2Variant variants[] = {
#define MSCT_VARIANT(name, features) {{#name, features, k2_tanh_##name}},
#include "kernels/cpu/kernels.inc"
#undef MSCT_VARIANT
  };
  return list(variants);
}

}  // namespace msct
