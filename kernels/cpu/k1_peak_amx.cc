// The peak of K1's arithmetic in AMX: products of bfloat16 tiles.
#include <cstdint>

#include "kernels/cpu/target.h"
#include "kernels/cpu/tiles.h"

MSCT_TARGET_BEGIN("amx-tile,amx-bf16,avx512f")
namespace msct {
namespace {

#include "kernels/cpu/tiles_amx-inl.h"

}  // namespace

// Runs `rounds` times the products of a register tile of K1, two tiles of each side, and returns their operations. The
// tiles hold zeros, which the unit does not treat apart.
int64_t multiply_adds_amx(int64_t rounds, float* /*sink*/) {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) config.set(tile, kTileRows, kTileColumns);
  Tiles::configure(config);
  for (int64_t round = 0; round < rounds; ++round) {
    Tiles::multiply<0, 4, 6>();
    Tiles::multiply<1, 4, 7>();
    Tiles::multiply<2, 5, 6>();
    Tiles::multiply<3, 5, 7>();
  }
  Tiles::release();
  constexpr int64_t kProducts = kTileElements * 2 * kTileRows;  // pairs of bfloat16 along K
  return rounds * 4 * kProducts * 2;
}

}  // namespace msct
MSCT_TARGET_END
