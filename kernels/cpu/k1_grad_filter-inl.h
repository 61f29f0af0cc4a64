// The filter gradient's GEMM over any Simd; included inside a target region and an anonymous namespace by
// k1_grad_filter_<isa>.cc.
//
// Register tile: kTileRows rows of a x 3 columns of b, one vector of partial sums for each pair; what is left of the
// rows has a tile of its own height. Both operands are loaded as they lie: nothing is broadcast or transposed. The last
// tile of columns repeats the last column and drops what comes out of the repeats.

constexpr int kTileColumns = 3;

template <int kRows>
MSCT_INLINE void dot(const GradFilterBlock& block, const float* const* a, const float* const* b,
                     Simd::Float (&sum)[kRows][kTileColumns]) {
  for (auto& row : sum) {
    for (Simd::Float& value : row) value = Simd::set(0.0f);
  }
  const auto step = [&](int64_t a_at, const Simd::Float(&pixels)[kTileColumns]) {
    for (int r = 0; r < kRows; ++r) {
      const Simd::Float gradient = Simd::load(a[r] + a_at);
      for (int c = 0; c < kTileColumns; ++c) sum[r][c] = Simd::multiply_add(gradient, pixels[c], sum[r][c]);
    }
  };
  for (int64_t row = 0; row < block.rows; ++row) {
    const int64_t a_row = row * block.a_row_stride;
    const int64_t b_row = row * block.b_row_stride;
    Simd::Float pixels[kTileColumns];
    int64_t i = 0;
    for (; i + Simd::kLanes <= block.length; i += Simd::kLanes) {
      for (int c = 0; c < kTileColumns; ++c) pixels[c] = Simd::load(b[c] + b_row + i);
      step(a_row + i, pixels);
    }
    if (i < block.length) {
      for (int c = 0; c < kTileColumns; ++c) pixels[c] = Simd::load_partial(b[c] + b_row + i, block.length - i);
      step(a_row + i, pixels);
    }
  }
}

void sum_rows(const GradFilterBlock& block) {
  for (int64_t m = 0; m < block.m; ++m) {
    const float* a = block.a + m * block.a_m_stride;
    Simd::Float sum = Simd::set(0.0f);
    for (int64_t row = 0; row < block.rows; ++row) {
      for (int64_t i = 0; i < block.length; i += Simd::kLanes) {
        sum = Simd::add(sum, Simd::load(a + row * block.a_row_stride + i));
      }
    }
    double sums[4];
    Simd::lane_sums(sums, sum, sum, sum);
    block.bias_sums[m] += sums[0];
  }
}

// Output channels [m, m + kRows).
template <int kRows>
void run_rows(const GradFilterBlock& block, int64_t m) {
  const float* a[kRows];
  for (int r = 0; r < kRows; ++r) a[r] = block.a + (m + r) * block.a_m_stride;
  // Rows of a stay in L1; columns of neighbouring taps are the same pixels, shifted.
  for (int64_t column = 0; column < block.columns; column += kTileColumns) {
    const int64_t count = block.columns - column < kTileColumns ? block.columns - column : kTileColumns;
    const float* b[kTileColumns];
    for (int64_t c = 0; c < kTileColumns; ++c) b[c] = block.b + block.b_offset[column + (c < count ? c : count - 1)];
    Simd::Float sum[kRows][kTileColumns];
    dot<kRows>(block, a, b, sum);
#pragma GCC unroll 8  // else sum lies in memory, not in registers
    for (int r = 0; r < kRows; ++r) {
      double* to = block.sums + (m + r) * block.sums_m_stride + column;
      double sums[4];
      Simd::lane_sums(sums, sum[r][0], sum[r][1], sum[r][2]);
      for (int64_t c = 0; c < count; ++c) to[c] += sums[c];
    }
  }
}

template <int kRows>
void run_last_rows(const GradFilterBlock& block, int64_t rows) {
  if (rows == kRows) {
    run_rows<kRows>(block, block.m - rows);
  } else if constexpr (kRows > 1) {
    run_last_rows<kRows - 1>(block, rows);
  }
}

void run(const GradFilterBlock& block) {
  const int64_t last = block.m % kTileRows;
  for (int64_t m = 0; m + kTileRows <= block.m; m += kTileRows) run_rows<kTileRows>(block, m);
  if (last > 0) run_last_rows<kTileRows - 1>(block, last);
  if (block.bias_sums) sum_rows(block);
}

constexpr GradFilterKernel kK1GradFilter = {Simd::kLanes, run};
