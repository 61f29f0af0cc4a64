// The kernel variants in this library, best first. kernels.inc has one line for each.
#ifndef MS_CONVTANH_KERNELS_CPU_REGISTRY_H_
#define MS_CONVTANH_KERNELS_CPU_REGISTRY_H_

#include <cstdint>

#include "kernels/cpu/k1_conv.h"
#include "kernels/cpu/k1_grad_filter.h"
#include "kernels/cpu/k2_tanh.h"

namespace msct {

template <typename Kernel>
struct Variant {
  const char* name;   // file suffix, symbol suffix, environment value and test id
  uint32_t features;  // what the CPU must have, as Feature bits
  Kernel kernel;
};
struct K1Variant : Variant<K1Kernel> {};
struct GradFilterVariant : Variant<GradFilterKernel> {};
struct K2Variant : Variant<K2Kernel> {};

template <typename T>
struct VariantList {
  const T* first;
  int64_t count;
  const T* begin() const { return first; }
  const T* end() const { return first + count; }
};

VariantList<K1Variant> k1_variants();
VariantList<GradFilterVariant> grad_filter_variants();
VariantList<K2Variant> k2_variants();

// The first variant that needs no more than these features.
template <typename T>
const T* best_variant(VariantList<T> variants, uint32_t features) {
  for (const T& variant : variants) {
    if ((variant.features & ~features) == 0) return &variant;
  }
  return nullptr;  // unreachable: the portable variant needs nothing
}

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_CPU_REGISTRY_H_
