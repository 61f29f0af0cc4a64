// The filter gradient's GEMM over any Simd; included inside a target region and an anonymous namespace by
// k1_grad_filter_<isa>.cc.
//
// Register tile: kTileRows rows of a x kTileColumns columns of b, one vector of partial sums for each pair. Both
// operands are loaded as they lie: nothing is broadcast or transposed. The last tile of an axis repeats its last row or
// column and drops what comes out of the repeats.

template <int kRows, int kColumns>
MSCT_INLINE void dot(const GradFilterBlock& block, const float* const* a, const float* const* b,
                     Simd::Float (&sum)[kRows][kColumns]) {
  for (auto& row : sum) {
    for (Simd::Float& value : row) value = Simd::set(0.0f);
  }
  const auto step = [&](int64_t a_at, const Simd::Float(&pixels)[kColumns]) {
    for (int r = 0; r < kRows; ++r) {
      const Simd::Float gradient = Simd::load(a[r] + a_at);
      for (int c = 0; c < kColumns; ++c) sum[r][c] = Simd::multiply_add(gradient, pixels[c], sum[r][c]);
    }
  };
  for (int64_t row = 0; row < block.rows; ++row) {
    const int64_t a_row = row * block.a_row_stride;
    const int64_t b_row = row * block.b_row_stride;
    Simd::Float pixels[kColumns];
    int64_t i = 0;
    for (; i + Simd::kLanes <= block.length; i += Simd::kLanes) {
      for (int c = 0; c < kColumns; ++c) pixels[c] = Simd::load(b[c] + b_row + i);
      step(a_row + i, pixels);
    }
    if (i < block.length) {
      for (int c = 0; c < kColumns; ++c) pixels[c] = Simd::load_partial(b[c] + b_row + i, block.length - i);
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
    block.bias_sums[m] += Simd::sum(sum);
  }
}

void run(const GradFilterBlock& block) {
  const auto last = [](int64_t i, int64_t n) { return i < n ? i : n - 1; };
  for (int64_t m = 0; m < block.m; m += kTileRows) {
    const float* a[kTileRows];
    for (int r = 0; r < kTileRows; ++r) a[r] = block.a + last(m + r, block.m) * block.a_m_stride;
    // Rows of a stay in L1; columns of neighbouring taps are the same pixels, shifted.
    for (int64_t column = 0; column < block.columns; column += kTileColumns) {
      const float* b[kTileColumns];
      for (int c = 0; c < kTileColumns; ++c) b[c] = block.b + block.b_offset[last(column + c, block.columns)];
      Simd::Float sum[kTileRows][kTileColumns];
      dot<kTileRows, kTileColumns>(block, a, b, sum);
      for (int r = 0; r < kTileRows && m + r < block.m; ++r) {
        double* sums = block.sums + (m + r) * block.sums_m_stride + column;
        for (int c = 0; c < kTileColumns && column + c < block.columns; ++c) sums[c] += Simd::sum(sum[r][c]);
      }
    }
  }
  if (block.bias_sums) sum_rows(block);
}

constexpr GradFilterKernel kK1GradFilter = {Simd::kLanes, run};
