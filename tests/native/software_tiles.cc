// K1 for tiles, from the library's own source, with tiles in software and vectors in plain C++: linked in place of
// k1_conv_amx.cc into tests that run on any CPU.
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "kernels/cpu/convert.h"
#include "kernels/cpu/k1_conv.h"
#include "kernels/cpu/target.h"
#include "kernels/cpu/tiles.h"

namespace msct {
namespace {

#include "kernels/cpu/simd_portable-inl.h"

#include "tests/native/software_tiles-inl.h"

#include "kernels/cpu/k1_tiles-inl.h"

}  // namespace

extern const K1Kernel k1_conv_amx;
constexpr K1Kernel k1_conv_amx = kK1Tiles;

}  // namespace msct
