// Sixteen floats in AVX-512 registers. The names are explained in simd_portable-inl.h.

struct Simd {
  static constexpr int64_t kLanes = 16;
  using Float = __m512;

  static MSCT_INLINE Float load(const float* from) { return _mm512_loadu_ps(from); }
  static MSCT_INLINE Float load_partial(const float* from, int64_t n) {
    return _mm512_maskz_loadu_ps(static_cast<__mmask16>((1u << n) - 1), from);
  }
  static MSCT_INLINE Float load_every_second(const float* from) {
    const __m512i lanes = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 17, 19, 21, 23, 25, 27, 29, 31);
    return _mm512_permutex2var_ps(load(from), lanes, load(from + 15));
  }
  static MSCT_INLINE void store(float* to, Float v) { _mm512_storeu_ps(to, v); }
  static MSCT_INLINE void load_alternating(const float* from, Float* even, Float* odd) {
    const Float a = load(from), b = load(from + kLanes);
    const __m512i first = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    *even = _mm512_permutex2var_ps(a, first, b);
    *odd = _mm512_permutex2var_ps(a, _mm512_add_epi32(first, _mm512_set1_epi32(1)), b);
  }
  static MSCT_INLINE Float larger_bits(Float a, Float b) {
    return _mm512_castsi512_ps(_mm512_max_epi32(_mm512_castps_si512(a), _mm512_castps_si512(b)));
  }
  static MSCT_INLINE void store_alternating(float* to, Float a, Float b) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    store(to, _mm512_permutex2var_ps(a, low, b));
    store(to + kLanes, _mm512_permutex2var_ps(a, high, b));
  }
  static MSCT_INLINE Float set(float value) { return _mm512_set1_ps(value); }
  static MSCT_INLINE Float multiply_add(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
  static MSCT_INLINE Float fused_multiply_add(Float a, Float b, Float c) { return _mm512_fmadd_ps(a, b, c); }
  static MSCT_INLINE Float add(Float a, Float b) { return _mm512_add_ps(a, b); }
  static MSCT_INLINE Float subtract(Float a, Float b) { return _mm512_sub_ps(a, b); }
  static MSCT_INLINE Float multiply(Float a, Float b) { return _mm512_mul_ps(a, b); }
  static MSCT_INLINE Float divide(Float a, Float b) { return _mm512_div_ps(a, b); }
  static MSCT_INLINE void lane_sums(double* to, Float a, Float b, Float c) {
    const __m256 last = _mm256_hadd_ps(halves(c), _mm256_setzero_ps());
    const __m256 pairs = _mm256_hadd_ps(_mm256_hadd_ps(halves(a), halves(b)), last);
    const __m128 sums = _mm_add_ps(_mm256_castps256_ps128(pairs), _mm256_extractf128_ps(pairs, 1));
    _mm256_storeu_pd(to, _mm256_cvtps_pd(sums));
  }
  static MSCT_INLINE __m256 halves(Float v) {
    return _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
  }
  static MSCT_INLINE Float minimum(Float a, Float b) { return _mm512_min_ps(a, b); }
  static MSCT_INLINE Float absolute(Float v) { return _mm512_andnot_ps(set(-0.0f), v); }
  static MSCT_INLINE Float with_sign(Float a, Float b) { return _mm512_or_ps(a, _mm512_and_ps(set(-0.0f), b)); }
  static MSCT_INLINE Float exponent_from_low_bits(Float v) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_castps_si512(v), 23));
  }

  static MSCT_INLINE Float load_f16(const uint16_t* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
  }
  static MSCT_INLINE Float load_bf16(const uint16_t* from) {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  static MSCT_INLINE Float round_bf16(Float v) {
    const __m512i bits = _mm512_castps_si512(v);
    const __m512i even = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded = _mm512_add_epi32(bits, _mm512_add_epi32(even, _mm512_set1_epi32(0x7FFF)));
    const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
    const __m512i result = _mm512_mask_or_epi32(rounded, is_nan, bits, _mm512_set1_epi32(0x00400000));
    return _mm512_castsi512_ps(_mm512_and_si512(result, _mm512_set1_epi32(-0x10000)));
  }
  static MSCT_INLINE Float finite_or_zero(Float v) {
    const __mmask16 is_finite = _mm512_cmp_ps_mask(absolute(v), set(__builtin_inff()), _CMP_LT_OQ);
    return _mm512_maskz_mov_ps(is_finite, v);
  }
  static MSCT_INLINE Float pair_high_halves(Float low, Float high) {
    const __m512i upper = _mm512_and_si512(_mm512_castps_si512(high), _mm512_set1_epi32(-0x10000));
    return _mm512_castsi512_ps(_mm512_or_si512(_mm512_srli_epi32(_mm512_castps_si512(low), 16), upper));
  }
  static MSCT_INLINE void store_f16(uint16_t* to, Float v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
  }
  static MSCT_INLINE void store_bf16(uint16_t* to, Float v) {
    const __m512i high = _mm512_srli_epi32(_mm512_castps_si512(round_bf16(v)), 16);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), _mm512_cvtepi32_epi16(high));
  }
};
