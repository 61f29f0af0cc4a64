// The matrix unit's configuration, as ldtilecfg reads it: palette 1 has eight tiles of up to 16 rows of 64 bytes.
// Intel 64 and IA-32 Architectures Software Developer's Manual, volume 1, chapter 18.
#ifndef MS_CONVTANH_KERNELS_CPU_TILES_H_
#define MS_CONVTANH_KERNELS_CPU_TILES_H_

#include <cstdint>

namespace msct {

constexpr int64_t kTileRows = 16;
constexpr int64_t kTileColumns = 16;  // of 4 bytes
constexpr int64_t kTileElements = kTileRows * kTileColumns;
constexpr int64_t kTileRowBytes = 64;

struct alignas(64) TileConfig {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  uint8_t reserved[14] = {};
  uint16_t row_bytes[16] = {};
  uint8_t rows[16] = {};

  void set(int tile, int64_t tile_rows, int64_t columns) {
    rows[tile] = static_cast<uint8_t>(tile_rows);
    row_bytes[tile] = static_cast<uint16_t>(columns * 4);
  }
};
static_assert(sizeof(TileConfig) == 64, "as the instruction reads it");

}  // namespace msct

#endif  // MS_CONVTANH_KERNELS_CPU_TILES_H_
