// The tile operations that K1 needs, in AMX. Included inside a target region and an anonymous namespace; the tests have
// the same operations in plain C++ (tests/native/software_tiles-inl.h).
//
// Written as assembly, because compilers' intrinsics do not say that they read and write memory: stores that fill a
// configuration or a buffer were seen to vanish. Every statement is volatile, which keeps them in order, and tile
// numbers are immediate operands, so that templates can count them.

struct Tiles {
  // Sets up the tiles and clears them. Valid on this thread until release.
  static MSCT_INLINE void configure(const TileConfig& config) {
    __asm__ volatile("ldtilecfg %0" ::"m"(config) : "memory");
  }
  static MSCT_INLINE void release() { __asm__ volatile("tilerelease" ::: "memory"); }

  // Rows lie `stride` elements of 4 bytes apart.
  template <int kTile>
  static MSCT_INLINE void load(const float* from, int64_t stride) {
    __asm__ volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride * 4), "i"(kTile) : "memory");
  }
  template <int kTile>
  static MSCT_INLINE void store(float* to, int64_t stride) {
    __asm__ volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride * 4), "i"(kTile) : "memory");
  }
  // c += a * b in float32, where a row of a holds pairs of bfloat16 and so does a column of b.
  template <int kC, int kA, int kB>
  static MSCT_INLINE void multiply() {
    __asm__ volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kC), "i"(kA), "i"(kB));
  }
};
