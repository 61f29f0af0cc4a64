// K1 by Winograd's minimal filtering F(2x2, 3x3), over any Simd; included by k1_conv-inl.h. Lavin and Gray, "Fast
// Algorithms for Convolutional Neural Networks" (CVPR 2016), section 4.1: a tile of 2x2 outputs takes 16 products for
// each input channel instead of 36.
//
//   y = A^T [ sum over ci of (G g G^T) . (B^T d B) ] A       g: 3x3 taps, d: 4x4 inputs, . : element by element
//
//   B^T = 1  0 -1  0      G = 1    0    0       A^T = 1  1  1  0
//         0  1  1  0          1/2  1/2  1/2           0  1 -1 -1
//         0 -1  1  0          1/2 -1/2  1/2
//         0  1  0 -1          0    0    1
//
// The sum over ci is a GEMM for each of the 16 positions, by `run` as it is: pixels are tiles there. Lanes hold
// neighbouring tiles, whose inputs are apart by 2: packing splits even and odd columns.

MSCT_INLINE uint32_t largest_magnitude(const float* values, int64_t n, uint32_t largest) {
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i, sizeof(bits));
    const uint32_t magnitude = bits & 0x7FFFFFFFu;
    largest = magnitude > largest ? magnitude : largest;
  }
  return largest;
}

MSCT_INLINE const void* advance(const void* data, int64_t elements, DType dtype) {
  return static_cast<const char*>(data) + elements * size_of(dtype);
}

// taps: [ci][9][height], as pack_filter leaves a panel. Writes [ci][height] at each position.
MSCT_INLINE void transform_taps(const float* taps, int64_t ci, int64_t height, float* to, int64_t position_stride) {
  for (int64_t c = 0; c < ci; ++c, taps += 9 * height, to += height) {
    for (int64_t h = 0; h < height; ++h) {
      float rows[4][3];
      for (int j = 0; j < 3; ++j) {
        const float g0 = taps[j * height + h], g1 = taps[(3 + j) * height + h], g2 = taps[(6 + j) * height + h];
        rows[0][j] = g0;
        rows[1][j] = 0.5f * (g0 + g2 + g1);
        rows[2][j] = 0.5f * (g0 + g2 - g1);
        rows[3][j] = g2;
      }
      for (int i = 0; i < 4; ++i) {
        float* position = to + 4 * i * position_stride + h;
        position[0] = rows[i][0];
        position[position_stride] = 0.5f * (rows[i][0] + rows[i][2] + rows[i][1]);
        position[2 * position_stride] = 0.5f * (rows[i][0] + rows[i][2] - rows[i][1]);
        position[3 * position_stride] = rows[i][2];
      }
    }
  }
}

// packed: 16 filters, as pack_filter packs those of a 1x1 convolution.
uint32_t winograd_filter(const K1Filter& filter, int64_t position_stride, float* packed) {
  constexpr int64_t kChannels = 16;  // at once
  float taps[kChannels * 9 * kPanel];
  uint32_t largest = 0;
  for (int64_t m = 0; m < filter.m; m += kPanel) {
    for (int64_t ci = 0; ci < filter.ci; ci += kChannels) {
      K1Filter part = filter;
      part.source = advance(filter.source, m * filter.strides[0] + ci * filter.strides[1], filter.dtype);
      part.m = filter.m - m < kPanel ? filter.m - m : kPanel;
      part.ci = filter.ci - ci < kChannels ? filter.ci - ci : kChannels;
      pack_filter(part, taps);
      largest = largest_magnitude(taps, part.ci * 9 * part.m, largest);
      float* to = packed + m * filter.ci + ci * part.m;
      if (part.m == kPanel) {  // known at compile time: the compiler makes vectors of it
        transform_taps(taps, part.ci, kPanel, to, position_stride);
      } else {
        transform_taps(taps, part.ci, part.m, to, position_stride);
      }
    }
  }
  return largest;
}

// A vector of tiles. even, odd: columns of the first row of x, `pitch` apart from the next.
MSCT_INLINE void transform_inputs(const float* even, const float* odd, int64_t pitch, float* to,
                                  int64_t position_stride) {
  Simd::Float rows[4][4];
  for (int i = 0; i < 4; ++i, even += pitch, odd += pitch) {
    const Simd::Float d0 = Simd::load(even), d1 = Simd::load(odd);
    const Simd::Float d2 = Simd::load(even + 1), d3 = Simd::load(odd + 1);
    rows[i][0] = Simd::subtract(d0, d2);
    rows[i][1] = Simd::add(d1, d2);
    rows[i][2] = Simd::subtract(d2, d1);
    rows[i][3] = Simd::subtract(d1, d3);
  }
  for (int j = 0; j < 4; ++j) {
    float* position = to + j * position_stride;
    Simd::store(position, Simd::subtract(rows[0][j], rows[2][j]));
    Simd::store(position + 4 * position_stride, Simd::add(rows[1][j], rows[2][j]));
    Simd::store(position + 8 * position_stride, Simd::subtract(rows[2][j], rows[1][j]));
    Simd::store(position + 12 * position_stride, Simd::subtract(rows[1][j], rows[3][j]));
  }
}

// Channels are far apart, where no hardware looks ahead. An address beyond x does no harm.
MSCT_INLINE void prefetch_next_channel(const K1Input& input, const void* channel) {
  constexpr int64_t kLine = 64;
  if (input.strides[2] > 1) return;  // a line for each element, or more lines than elements
  const int64_t size = size_of(input.dtype);
  const int64_t columns = input.w.stride * input.pitch * input.strides[2] * size;
  for (int64_t row = input.top; row < input.top + input.rows; ++row) {
    const int64_t offset = input.strides[0] + row * input.strides[1] + input.left * input.strides[2];
    const uintptr_t address = reinterpret_cast<uintptr_t>(channel) + static_cast<uintptr_t>(offset * size);
    for (int64_t i = 0; i < columns; i += kLine) {
      __builtin_prefetch(reinterpret_cast<const void*>(address + static_cast<uintptr_t>(i)));
    }
  }
}

// Columns input.left, input.left + 2, ... of a row to even, those between them to odd, zeros outside x. line: room for
// a row of 2 * pitch.
template <typename Element>
MSCT_INLINE Simd::Float split_row(const K1Input& input, const Element* from, int64_t row, float* even, float* odd,
                                  float* line, Simd::Float largest, Simd::Float (*load)(const Element*)) {
  if (row < 0 || row >= input.hi) {
    fill_zeros(even, 0, input.pitch);
    fill_zeros(odd, 0, input.pitch);
    return largest;
  }
  const int64_t width = 2 * input.pitch;
  const int64_t step = input.strides[2];
  from += row * input.strides[1];
  const float* columns = line;
  if (std::is_same<Element, float>::value && step == 1 && input.left >= 0 && input.left + width <= input.wi) {
    columns = reinterpret_cast<const float*>(from) + input.left;
  } else {
    int64_t begin = input.left < 0 ? -input.left : 0, end = input.wi - input.left;
    begin = begin < width ? begin : width;
    end = end < begin ? begin : end < width ? end : width;
    fill_zeros(line, 0, begin);
    fill_zeros(line, end - end % Simd::kLanes, width);
    load_elements(line + begin, from + (input.left + begin) * step, step, end - begin, load);
  }
  for (int64_t c = 0; c < input.pitch; c += Simd::kLanes) {
    Simd::Float a, b;
    Simd::load_alternating(columns + 2 * c, &a, &b);
    Simd::store(even + c, a);
    Simd::store(odd + c, b);
    largest = Simd::larger_bits(largest, Simd::larger_bits(Simd::absolute(a), Simd::absolute(b)));
  }
  return largest;
}

template <typename Element>
MSCT_INLINE Simd::Float transform_channels(const K1Input& input, const WinogradTiles& tiles, float* plane,
                                           float* transformed, Simd::Float (*load)(const Element*)) {
  Simd::Float largest = Simd::set(0.0f);
  float* line = plane + 2 * input.rows * input.pitch;
  const Element* channel = static_cast<const Element*>(input.source);
  for (int64_t ci = 0; ci < input.ci; ++ci, channel += input.strides[0], transformed += tiles.channel_stride) {
    prefetch_next_channel(input, channel);
    for (int64_t row = 0; row < input.rows; ++row) {
      float* even = plane + 2 * row * input.pitch;
      largest = split_row(input, channel, input.top + row, even, even + input.pitch, line, largest, load);
    }
    for (int64_t row = 0; row < tiles.rows; ++row) {
      // Lanes beyond the end of a row are those of the next one, which is computed later.
      for (int64_t column = 0; column < tiles.columns; column += Simd::kLanes) {
        const float* even = plane + 4 * row * input.pitch + column;
        transform_inputs(even, even + input.pitch, 2 * input.pitch, transformed + row * tiles.columns + column,
                         tiles.position_stride);
      }
    }
  }
  return largest;
}

uint32_t winograd_input(const K1Input& input, const WinogradTiles& tiles, float* plane, float* transformed) {
  Simd::Float largest;
  if (input.dtype == DType::kFloat32) {
    largest = transform_channels(input, tiles, plane, transformed, Simd::load);
  } else if (input.dtype == DType::kFloat16) {
    largest = transform_channels(input, tiles, plane, transformed, Simd::load_f16);
  } else {
    largest = transform_channels(input, tiles, plane, transformed, Simd::load_bf16);
  }
  float lanes[Simd::kLanes];
  Simd::store(lanes, largest);
  return largest_magnitude(lanes, Simd::kLanes, 0);
}

// A vector of tiles: two rows of outputs.
MSCT_INLINE void transform_products(const float* products, int64_t position_stride, Simd::Float bias, float* c,
                                    int64_t row_stride) {
  Simd::Float columns[4][2];
  for (int i = 0; i < 4; ++i) {
    const float* position = products + 4 * i * position_stride;
    const Simd::Float p0 = Simd::load(position), p1 = Simd::load(position + position_stride);
    const Simd::Float p2 = Simd::load(position + 2 * position_stride);
    const Simd::Float p3 = Simd::load(position + 3 * position_stride);
    columns[i][0] = Simd::add(Simd::add(p0, p1), p2);
    columns[i][1] = Simd::subtract(Simd::subtract(p1, p2), p3);
  }
  Simd::Float upper[2], lower[2];
  for (int j = 0; j < 2; ++j) {
    upper[j] = Simd::add(Simd::add(columns[0][j], columns[1][j]), columns[2][j]);
    lower[j] = Simd::subtract(Simd::subtract(columns[1][j], columns[2][j]), columns[3][j]);
  }
  Simd::store_alternating(c, Simd::add(upper[0], bias), Simd::add(upper[1], bias));
  Simd::store_alternating(c + row_stride, Simd::add(lower[0], bias), Simd::add(lower[1], bias));
}

void winograd_output(const WinogradTiles& tiles, const float* products, const float* bias, int64_t m, float* c,
                     int64_t c_row_stride, int64_t c_m_stride) {
  for (int64_t i = 0; i < m; ++i, products += tiles.channel_stride, c += c_m_stride) {
    for (int64_t row = 0; row < tiles.rows; ++row) {
      for (int64_t column = 0; column < tiles.columns; column += Simd::kLanes) {
        transform_products(products + row * tiles.columns + column, tiles.position_stride, Simd::set(bias[i]),
                           c + 2 * row * c_row_stride + 2 * column, c_row_stride);
      }
    }
  }
}

constexpr K1Winograd kK1Winograd = {winograd_filter, winograd_input, winograd_output};
