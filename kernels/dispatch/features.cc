#include "kernels/dispatch/features.h"

#include <cstring>

#if defined(__x86_64__)
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace msct {

namespace {

#if defined(__x86_64__)

uint64_t read_xcr0() {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return static_cast<uint64_t>(high) << 32 | low;
}

// Tiles take 8 KiB of each thread's saved state: a process has to ask for them, on behalf of all its threads. What the
// request returns is not enough to go by: the permissions are read back. Linux documentation, arch/x86/xstate.rst.
bool may_use_tiles() {
  constexpr int64_t kGetPermissions = 0x1022, kRequestPermission = 0x1023;  // of arch_prctl
  constexpr int64_t kTileData = 18;                                         // the bit in XCR0
  uint64_t permissions = 0;
  if (syscall(SYS_arch_prctl, kRequestPermission, kTileData) != 0) return false;
  if (syscall(SYS_arch_prctl, kGetPermissions, &permissions) != 0) return false;
  return (permissions >> kTileData & 1) != 0;
}

// Bit numbers: Intel 64 and IA-32 Architectures Software Developer's Manual, volume 2, CPUID; volume 1, chapter 13.
uint32_t detect() {
  uint32_t eax, ebx, ecx, edx;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return 0;
  const auto has = [](uint64_t word, uint64_t bits) { return (word & bits) == bits; };
  if (!has(ecx, bit_OSXSAVE)) return 0;
  const uint64_t xcr0 = read_xcr0();
  const uint64_t ymm_state = 0x06;  // SSE and AVX
  const uint64_t zmm_state = 0xE6;  // those, mask registers and both halves of AVX-512
  const bool has_avx = has(xcr0, ymm_state) && has(ecx, bit_AVX | bit_FMA | bit_F16C);
  if (!has_avx || !__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !has(ebx, bit_AVX2)) return 0;
  uint32_t features = kFeatureAvx2;
  if (has(xcr0, zmm_state) && has(ebx, bit_AVX512F | bit_AVX512BW | bit_AVX512DQ | bit_AVX512VL)) {
    features |= kFeatureAvx512;
    const uint64_t tile_state = 3u << 17;                  // configuration and data
    const uint64_t tile_features = (1u << 22) | (1u << 24);  // AMX-BF16, AMX-TILE
    if (has(xcr0, tile_state) && has(edx, tile_features) && may_use_tiles()) features |= kFeatureAmxBf16;
  }
  return features;
}

#else

uint32_t detect() { return 0; }

#endif

struct Ceiling {
  const char* name;
  uint32_t mask;
};

constexpr Ceiling kCeilings[] = {
    {"portable", 0},
    {"avx2", kFeatureAvx2},
    {"avx512", kFeatureAvx2 | kFeatureAvx512},
    {"amx", kFeatureAvx2 | kFeatureAvx512 | kFeatureAmxBf16},
};

}  // namespace

uint32_t detected_features() {
  static const uint32_t features = detect();
  return features;
}

bool ceiling_mask(const char* isa, uint32_t* mask) {
  for (const Ceiling& ceiling : kCeilings) {
    if (std::strcmp(isa, ceiling.name) == 0) {
      *mask = ceiling.mask;
      return true;
    }
  }
  return false;
}

const char* ceiling_names() { return "portable, avx2, avx512, amx"; }

}  // namespace msct
