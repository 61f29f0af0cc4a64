// Eight floats in AVX2, FMA and F16C registers. The names are explained in simd_portable-inl.h.

struct Simd {
  static constexpr int64_t kLanes = 8;
  using Float = __m256;

  static MSCT_INLINE Float load(const float* from) { return _mm256_loadu_ps(from); }
  static MSCT_INLINE Float load_partial(const float* from, int64_t n) {
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(from, _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane));
  }
  static MSCT_INLINE Float load_every_second(const float* from) {
    return in_order(_mm256_shuffle_ps(load(from), load(from + 7), _MM_SHUFFLE(3, 1, 2, 0)));
  }
  // Pairs of lanes 0, 2, 1, 3: what a shuffle of two registers left within their halves.
  static MSCT_INLINE Float in_order(Float v) {
    return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), _MM_SHUFFLE(3, 1, 2, 0)));
  }
  static MSCT_INLINE void store(float* to, Float v) { _mm256_storeu_ps(to, v); }
  static MSCT_INLINE void load_alternating(const float* from, Float* even, Float* odd) {
    const Float a = load(from), b = load(from + kLanes);
    *even = in_order(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(2, 0, 2, 0)));
    *odd = in_order(_mm256_shuffle_ps(a, b, _MM_SHUFFLE(3, 1, 3, 1)));
  }
  static MSCT_INLINE Float larger_bits(Float a, Float b) {
    return _mm256_castsi256_ps(_mm256_max_epi32(_mm256_castps_si256(a), _mm256_castps_si256(b)));
  }
  static MSCT_INLINE void store_alternating(float* to, Float a, Float b) {
    const Float low = _mm256_unpacklo_ps(a, b), high = _mm256_unpackhi_ps(a, b);
    store(to, _mm256_permute2f128_ps(low, high, 0x20));
    store(to + kLanes, _mm256_permute2f128_ps(low, high, 0x31));
  }
  static MSCT_INLINE Float set(float value) { return _mm256_set1_ps(value); }
  static MSCT_INLINE Float multiply_add(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
  static MSCT_INLINE Float fused_multiply_add(Float a, Float b, Float c) { return _mm256_fmadd_ps(a, b, c); }
  static MSCT_INLINE Float add(Float a, Float b) { return _mm256_add_ps(a, b); }
  static MSCT_INLINE Float subtract(Float a, Float b) { return _mm256_sub_ps(a, b); }
  static MSCT_INLINE Float multiply(Float a, Float b) { return _mm256_mul_ps(a, b); }
  static MSCT_INLINE Float divide(Float a, Float b) { return _mm256_div_ps(a, b); }
  static MSCT_INLINE void lane_sums(double* to, Float a, Float b, Float c) {
    const __m256 last = _mm256_hadd_ps(c, _mm256_setzero_ps());
    const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(a, b), last);
    const __m128 sums = _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
    _mm256_storeu_pd(to, _mm256_cvtps_pd(sums));
  }
  static MSCT_INLINE Float minimum(Float a, Float b) { return _mm256_min_ps(a, b); }
  static MSCT_INLINE Float absolute(Float v) { return _mm256_andnot_ps(set(-0.0f), v); }
  static MSCT_INLINE Float with_sign(Float a, Float b) { return _mm256_or_ps(a, _mm256_and_ps(set(-0.0f), b)); }
  static MSCT_INLINE Float exponent_from_low_bits(Float v) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_castps_si256(v), 23));
  }

  static MSCT_INLINE Float load_f16(const uint16_t* from) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  }
  static MSCT_INLINE Float load_bf16(const uint16_t* from) {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
  static MSCT_INLINE void store_f16(uint16_t* to, Float v) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  static MSCT_INLINE void store_bf16(uint16_t* to, Float v) {
    const __m256i bits = _mm256_castps_si256(v);
    const __m256i high = _mm256_srli_epi32(bits, 16);
    const __m256i even = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i bias = _mm256_add_epi32(even, _mm256_set1_epi32(0x7FFF));
    const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, bias), 16);
    const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x0040));
    const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
    const __m256i result = _mm256_blendv_epi8(rounded, quiet, is_nan);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to),
                     _mm_packus_epi32(_mm256_castsi256_si128(result), _mm256_extracti128_si256(result, 1)));
  }
};
