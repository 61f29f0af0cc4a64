// What this CPU and its operating system allow, and the words by which variants are known.
#ifndef MS_CONVTANH_KERNELS_DISPATCH_FEATURES_H_
#define MS_CONVTANH_KERNELS_DISPATCH_FEATURES_H_

#include <cstdint>

namespace msct {

// Bits of a feature mask. A bit is set only if the CPU reports the feature and the operating system saves its state.
enum Feature : uint32_t {
  kFeatureAvx2 = 1u << 0,     // AVX2, FMA and F16C together
  kFeatureAvx512 = 1u << 1,   // AVX-512 F, BW, DQ and VL together
  kFeatureAmxBf16 = 1u << 2,  // AMX tiles of bfloat16, with the system's permission; only beside AVX-512
};

// Detected once; the same for the life of the process. OSXSAVE first, then XCR0, then the feature bits. Linux grants
// the use of tiles to processes that ask: where there are any, the first call does.
uint32_t detected_features();

// The ceilings of MS_CONVTANH_MAX_ISA, lowest first: "portable", "avx2", "avx512", "amx". Each allows the features of
// all ceilings below it. Returns false for any other word.
bool ceiling_mask(const char* isa, uint32_t* mask);

// All accepted words, as they appear in error messages.
const char* ceiling_names();

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_DISPATCH_FEATURES_H_
