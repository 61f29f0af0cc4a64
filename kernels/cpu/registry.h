// The kernel variants in this library, best first. kernels.inc has one line for each.
#ifndef MS_CONVTANH_KERNELS_CPU_REGISTRY_H_
#define MS_CONVTANH_KERNELS_CPU_REGISTRY_H_

#include <cstdint>

#include "kernels/cpu/k1_conv.h"
#include "kernels/cpu/k2_tanh.h"

namespace msct {

struct K1Variant {
  const char* name;   // file suffix, symbol suffix, environment value and test id
  uint32_t features;  // what the CPU must have, as Feature bits
  K1Kernel kernel;
};

struct K2Variant {
  const char* name;
  uint32_t features;
  K2Kernel kernel;
};

template <typename Variant>
struct VariantList {
  const Variant* first;
  int64_t count;
  const Variant* begin() const { return first; }
  const Variant* end() const { return first + count; }
};

VariantList<K1Variant> k1_variants();
VariantList<K2Variant> k2_variants();

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_CPU_REGISTRY_H_
