// Reading filter and input: rows of any element type and strides to contiguous float32, over any Simd. Included by
// k1_conv-inl.h and k1_tiles-inl.h.

// to[i] = make(i) for whole vectors of i; the last vector may overlap the one before. n >= kLanes.
template <typename Make>
MSCT_INLINE void fill_vectors(float* to, int64_t n, const Make& make) {
  for (int64_t i = 0; i + Simd::kLanes <= n; i += Simd::kLanes) Simd::store(to + i, make(i));
  if (n % Simd::kLanes != 0) Simd::store(to + n - Simd::kLanes, make(n - Simd::kLanes));
}

template <typename Element>
MSCT_INLINE void widen(float* to, const Element* from, int64_t n, Simd::Float (*load)(const Element*)) {
  if (n >= Simd::kLanes) {
    fill_vectors(to, n, [&](int64_t i) { return load(from + i); });
  } else if (n > 0) {
    Element few[Simd::kLanes] = {};
    std::memcpy(few, from, static_cast<size_t>(n) * sizeof(Element));
    float values[Simd::kLanes];
    Simd::store(values, load(few));
    std::memcpy(to, values, static_cast<size_t>(n) * sizeof(float));
  }
}

constexpr int64_t kChunk = 256;

template <typename Element>
MSCT_INLINE void gather(Element* to, const Element* from, int64_t step, int64_t n) {
  if (step == 2) {  // known at compile time: the compiler makes shuffles of it
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * 2];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
  }
}

// n elements, `step` apart. Inlined, here and below, so that `load` is known.
MSCT_INLINE void load_elements(float* to, const float* from, int64_t step, int64_t n, Simd::Float (*)(const float*)) {
  if (step == 1) {
    widen(to, from, n, Simd::load);
  } else if (step == 2 && n >= Simd::kLanes) {
    fill_vectors(to, n, [&](int64_t i) { return Simd::load_every_second(from + 2 * i); });
  } else {
    gather(to, from, step, n);
  }
}

MSCT_INLINE void load_elements(float* to, const uint16_t* from, int64_t step, int64_t n,
                               Simd::Float (*load)(const uint16_t*)) {
  if (step == 1) {
    widen(to, from, n, load);
    return;
  }
  uint16_t chunk[kChunk];
  for (int64_t start = 0; start < n; start += kChunk) {
    const int64_t size = n - start < kChunk ? n - start : kChunk;
    gather(chunk, from + start * step, step, size);
    widen(to + start, chunk, size, load);
  }
}

MSCT_INLINE void load_row(float* to, const void* from, int64_t offset, int64_t step, int64_t n, DType dtype) {
  if (dtype == DType::kFloat32) {
    load_elements(to, static_cast<const float*>(from) + offset, step, n, Simd::load);
  } else if (dtype == DType::kFloat16) {
    load_elements(to, static_cast<const uint16_t*>(from) + offset, step, n, Simd::load_f16);
  } else {
    load_elements(to, static_cast<const uint16_t*>(from) + offset, step, n, Simd::load_bf16);
  }
}

// n elements, `step` apart, that one load_row can take.
struct Run {
  int64_t n, step;

  // Extends the run by an outer axis, if its elements continue this run.
  bool join(int64_t outer_n, int64_t outer_step) {
    if (n == 1) {
      *this = {outer_n, outer_step};
    } else if (outer_n != 1) {
      if (outer_step != n * step) return false;
      n *= outer_n;
    }
    return true;
  }
};

MSCT_INLINE void fill_zeros(float* to, int64_t begin, int64_t end) {
  for (int64_t c = begin; c < end; c += Simd::kLanes) Simd::store(to + c, Simd::set(0.0f));
}

// dz = gradY * (1 - y * y), without cancellation where |y| is near 1 and exactly 0 where it is 1.
MSCT_INLINE Simd::Float gate(Simd::Float grad, Simd::Float y) {
  const Simd::Float one = Simd::set(1.0f);
  return Simd::multiply(grad, Simd::multiply(Simd::subtract(one, y), Simd::add(one, y)));
}

template <typename Element>
MSCT_INLINE void load_gated(float* to, const Element* grad, int64_t grad_step, const Element* y, int64_t y_step,
                            int64_t n, Simd::Float (*load)(const Element*)) {
  if (grad_step == 1 && y_step == 1 && n >= Simd::kLanes) {
    fill_vectors(to, n, [&](int64_t i) { return gate(load(grad + i), load(y + i)); });
    return;
  }
  float grads[kChunk], ys[kChunk];
  for (int64_t start = 0; start < n; start += kChunk) {
    const int64_t size = n - start < kChunk ? n - start : kChunk;
    load_elements(grads, grad + start * grad_step, grad_step, size, load);
    load_elements(ys, y + start * y_step, y_step, size, load);
    for (int64_t i = 0; i < size; ++i) to[start + i] = grads[i] * ((1.0f - ys[i]) * (1.0f + ys[i]));
  }
}

// Columns [begin, end) of a packed row lie inside x, `first` is the column of x at `begin`; the others are zeros.
struct Columns {
  int64_t begin, end, first;
};

MSCT_INLINE Columns columns_inside(const K1Input& input, int64_t phase) {
  const int64_t stride = input.w.stride;
  const int64_t first = input.left + input.w.first(phase);
  // Those c with 0 <= first + c * stride < wi.
  int64_t begin = first >= 0 ? 0 : (-first + stride - 1) / stride;
  int64_t end = first >= input.wi ? 0 : (input.wi - first + stride - 1) / stride;
  begin = begin < input.pitch ? begin : input.pitch;
  end = end < input.pitch ? end : input.pitch;
  end = end > begin ? end : begin;
  return {begin, end, first + begin * stride};
}

// One packed row of channel ci. Zeros come first, in whole vectors.
template <typename Element>
MSCT_INLINE void pack_row(const K1Input& input, int64_t ci, int64_t row, const Columns& columns, float* packed,
                          Simd::Float (*load)(const Element*)) {
  fill_zeros(packed, 0, columns.begin);
  fill_zeros(packed, columns.end - columns.end % Simd::kLanes, input.pitch);
  const auto at = [&](const void* data, const int64_t* strides) {
    return static_cast<const Element*>(data) + ci * strides[0] + row * strides[1] + columns.first * strides[2];
  };
  const Element* from = at(input.source, input.strides);
  const int64_t step = input.w.stride * input.strides[2];
  const int64_t n = columns.end - columns.begin;
  if (input.gate) {
    load_gated(packed + columns.begin, from, step, at(input.gate, input.gate_strides),
               input.w.stride * input.gate_strides[2], n, load);
  } else {
    load_elements(packed + columns.begin, from, step, n, load);
  }
}

// How the kernel that includes this file packs x of one element type.
template <typename Element>
MSCT_INLINE void pack_elements(const K1Input& input, float* packed, Simd::Float (*load)(const Element*));

void pack_input(const K1Input& input, float* packed) {
  if (input.dtype == DType::kFloat32) {
    pack_elements(input, packed, Simd::load);
  } else if (input.dtype == DType::kFloat16) {
    pack_elements(input, packed, Simd::load_f16);
  } else {
    pack_elements(input, packed, Simd::load_bf16);
  }
}
