// Target regions: functions between MSCT_TARGET_BEGIN and MSCT_TARGET_END are compiled for the named instruction sets,
// the rest of the file for the baseline. Open them after all system headers, so that no library function inside them
// can end up, compiled for a newer CPU, in code that runs everywhere.
#ifndef MS_CONVTANH_KERNELS_CPU_TARGET_H_
#define MS_CONVTANH_KERNELS_CPU_TARGET_H_

#if defined(__aarch64__)
#include <arm_neon.h>  // for simd_portable-inl.h, which is included inside a namespace
#endif

#define MSCT_PRAGMA(text) _Pragma(#text)
#if defined(__clang__)
#define MSCT_TARGET_BEGIN(isa) MSCT_PRAGMA(clang attribute push(__attribute__((target(isa))), apply_to = function))
#define MSCT_TARGET_END MSCT_PRAGMA(clang attribute pop)
#else
#define MSCT_TARGET_BEGIN(isa) MSCT_PRAGMA(GCC push_options) MSCT_PRAGMA(GCC target(isa))
#define MSCT_TARGET_END MSCT_PRAGMA(GCC pop_options)
#endif

#define MSCT_INLINE inline __attribute__((always_inline))

#endif  // MS_CONVTANH_KERNELS_CPU_TARGET_H_
