// The tile operations of tiles_amx-inl.h in plain C++, bit for bit as the processor computes them: Intel 64 and IA-32
// Architectures Software Developer's Manual, volume 2, LDTILECFG, TILELOADD, TILESTORED, TDPBF16PS. What the processor
// refuses ends the program.

struct SoftwareTiles {
  TileConfig config;
  uint32_t data[8][kTileRows][kTileColumns];
};
thread_local SoftwareTiles software_tiles;

[[noreturn]] void refuse(const char* what) {
  std::fprintf(stderr, "software tiles: %s\n", what);
  std::abort();
}

// Denormals count as zero, in operands and in results.
inline float flushed(float v) { return std::fabs(v) < 0x1p-126f ? std::copysign(0.0f, v) : v; }

// A float32 sum of `sum` and an exact product, rounded once.
inline float multiply_add(float a, float b, float sum) {
  const float product = a * b;  // 16 bits: exact unless it leaves the range
  const float magnitude = std::fabs(product);
  if (magnitude >= 0x1p-126f && magnitude < INFINITY) return flushed(product + sum);
  return flushed(std::fma(a, b, sum));
}

struct Tiles {
  static void configure(const TileConfig& config) {
    if (config.palette != 1 || config.start_row != 0) refuse("palette and start row must be 1 and 0");
    for (int tile = 0; tile < 16; ++tile) {
      const int rows = config.rows[tile], bytes = config.row_bytes[tile];
      if (rows > kTileRows || bytes > kTileRowBytes || (tile > 7 && rows + bytes != 0)) refuse("no such tile");
      if ((rows == 0) != (bytes == 0)) refuse("a tile has rows or columns only");
    }
    software_tiles = {config, {}};
  }
  static void release() {
    software_tiles = {};
    software_tiles.config.palette = 0;
  }

  template <int kTile>
  static void load(const float* from, int64_t stride) {
    SoftwareTiles& tiles = used(kTile);
    std::memset(tiles.data[kTile], 0, sizeof(tiles.data[kTile]));
    for (int64_t row = 0; row < tiles.config.rows[kTile]; ++row) {
      std::memcpy(tiles.data[kTile][row], from + row * stride, tiles.config.row_bytes[kTile]);
    }
  }
  template <int kTile>
  static void store(float* to, int64_t stride) {
    const SoftwareTiles& tiles = used(kTile);
    for (int64_t row = 0; row < tiles.config.rows[kTile]; ++row) {
      std::memcpy(to + row * stride, tiles.data[kTile][row], tiles.config.row_bytes[kTile]);
    }
  }

  template <int kC, int kA, int kB>
  static void multiply() {
    SoftwareTiles& tiles = used(kC);
    used(kA), used(kB);
    const TileConfig& config = tiles.config;
    if (config.rows[kC] != config.rows[kA] || config.row_bytes[kC] != config.row_bytes[kB] ||
        config.row_bytes[kA] != config.rows[kB] * 4) {
      refuse("the shapes of a product differ");
    }
    const int64_t depth = config.rows[kB], columns = config.row_bytes[kC] / 4;
    const Halves a(tiles.data[kA], config.rows[kA], depth), b(tiles.data[kB], depth, columns);
    // No product, sum or rest of a sum can leave the normal range then, and products are exact.
    const bool tame = a.smallest * b.smallest >= 0x1p-110f && a.largest * b.largest <= 0x1p120f;
    for (int64_t m = 0; m < config.rows[kC]; ++m) {
      float sums[2][kTileColumns] = {};
      for (int64_t k = 0; k < depth; ++k) {
        for (int half = 0; half < 2; ++half) {
          const float factor = a.values[half][m][k];
          if (tame) {
            for (int64_t n = 0; n < kTileColumns; ++n) sums[half][n] += factor * b.values[half][k][n];
          } else {
            for (int64_t n = 0; n < columns; ++n) {
              sums[half][n] = multiply_add(factor, b.values[half][k][n], sums[half][n]);
            }
          }
        }
      }
      for (int64_t n = 0; n < columns; ++n) {
        const float c = flushed(bit_cast<float>(tiles.data[kC][m][n]));
        tiles.data[kC][m][n] = bit_cast<uint32_t>(flushed(c + flushed(sums[0][n] + sums[1][n])));
      }
    }
  }

 private:
  static SoftwareTiles& used(int tile) {
    if (software_tiles.config.palette != 1) refuse("not configured");
    if (software_tiles.config.rows[tile] == 0) refuse("the tile has no rows");
    return software_tiles;
  }

  // A tile's bfloat16 values, even and odd rows of K apart, and the range of their magnitudes.
  struct Halves {
    float values[2][kTileRows][kTileColumns] = {};
    float smallest = 1, largest = 1;

    Halves(const uint32_t (&pairs)[kTileRows][kTileColumns], int64_t rows, int64_t columns) {
      for (int64_t row = 0; row < rows; ++row) {
        for (int64_t column = 0; column < columns; ++column) {
          const uint32_t pair = pairs[row][column];
          values[0][row][column] = flushed(bit_cast<float>(pair << 16));
          values[1][row][column] = flushed(bit_cast<float>(pair & 0xFFFF0000u));
          for (int half = 0; half < 2; ++half) {
            const float magnitude = std::fabs(values[half][row][column]);
            if (magnitude != 0 && magnitude < smallest) smallest = magnitude;
            if (magnitude > largest) largest = magnitude;
          }
        }
      }
    }
  };
};
