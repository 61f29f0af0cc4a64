// Four floats in plain C++, which compilers turn into SSE2 or NEON registers. Included inside an anonymous namespace of
// a kernel file; the simd_<isa>-inl.h files define the same names.

struct Simd {
  static constexpr int64_t kLanes = 4;
  using Float __attribute__((vector_size(16))) = float;
  using Int __attribute__((vector_size(16))) = int32_t;

  static MSCT_INLINE Float load(const float* from) {
    Float v;
    std::memcpy(&v, from, sizeof(v));
    return v;
  }
  // The first n of kLanes values, zeros behind them. Nothing else is read.
  static MSCT_INLINE Float load_partial(const float* from, int64_t n) {
    Float v = {};
    std::memcpy(&v, from, static_cast<size_t>(n) * sizeof(float));
    return v;
  }
  // from[0], from[2], ... from[2 * (kLanes - 1)]. Nothing behind that is read.
  static MSCT_INLINE Float load_every_second(const float* from) { return Float{from[0], from[2], from[4], from[6]}; }
  static MSCT_INLINE void store(float* to, Float v) { std::memcpy(to, &v, sizeof(v)); }
  // even: from[0], from[2], ...; odd: from[1], from[3], ...
  static MSCT_INLINE void load_alternating(const float* from, Float* even, Float* odd) {
    *even = Float{from[0], from[2], from[4], from[6]};
    *odd = Float{from[1], from[3], from[5], from[7]};
  }
  // The larger of the bits as integers; neither is negative.
  static MSCT_INLINE Float larger_bits(Float a, Float b) {
    const Int first = reinterpret<Int>(a), second = reinterpret<Int>(b), is_larger = first > second;
    return reinterpret<Float>((first & is_larger) | (second & ~is_larger));
  }
  // a[0], b[0], a[1], b[1], ...
  static MSCT_INLINE void store_alternating(float* to, Float a, Float b) {
    store(to, Float{a[0], b[0], a[1], b[1]});
    store(to + kLanes, Float{a[2], b[2], a[3], b[3]});
  }
  static MSCT_INLINE Float set(float value) { return Float{value, value, value, value}; }

  // multiply_add rounds once or twice, as the target does it fastest; fused_multiply_add always once.
#if defined(__aarch64__)
  static MSCT_INLINE Float multiply_add(Float a, Float b, Float c) { return vfmaq_f32(c, a, b); }
  static MSCT_INLINE Float fused_multiply_add(Float a, Float b, Float c) { return vfmaq_f32(c, a, b); }
#else
  static MSCT_INLINE Float multiply_add(Float a, Float b, Float c) { return a * b + c; }
  // Without an instruction for it: the product is exact in double; the sum is rounded to odd (the last bit of an
  // inexact one is set), after which rounding to float equals rounding once. Boldo and Melquiond, "Emulation of FMA and
  // correctly rounded sums: proved algorithms using rounding to odd" (2008).
  static MSCT_INLINE Float fused_multiply_add(Float a, Float b, Float c) {
    const HalfFloat low = fused(half<0>(a), half<0>(b), half<0>(c));
    const HalfFloat high = fused(half<2>(a), half<2>(b), half<2>(c));
    return Float{low[0], low[1], high[0], high[1]};
  }
#endif
  static MSCT_INLINE Float add(Float a, Float b) { return a + b; }
  static MSCT_INLINE Float subtract(Float a, Float b) { return a - b; }
  static MSCT_INLINE Float multiply(Float a, Float b) { return a * b; }
  static MSCT_INLINE Float divide(Float a, Float b) { return a / b; }
  // The sums of the lanes of a, b and c, taken in pairs; the fourth number is of no use.
  static MSCT_INLINE void lane_sums(double* to, Float a, Float b, Float c) {
    to[0] = (a[0] + a[1]) + (a[2] + a[3]);
    to[1] = (b[0] + b[1]) + (b[2] + b[3]);
    to[2] = (c[0] + c[1]) + (c[2] + c[3]);
  }
  // The smaller of the two, b where either is NaN.
  static MSCT_INLINE Float minimum(Float a, Float b) {
    Float result;
    for (int i = 0; i < kLanes; ++i) result[i] = a[i] < b[i] ? a[i] : b[i];
    return result;
  }
  static MSCT_INLINE Float absolute(Float v) { return reinterpret<Float>(reinterpret<Int>(v) & 0x7FFFFFFF); }
  // The magnitude of a with the sign bit of b; a has none set.
  static MSCT_INLINE Float with_sign(Float a, Float b) {
    return reinterpret<Float>(reinterpret<Int>(a) | (reinterpret<Int>(b) & INT32_MIN));
  }
  // value's bits shifted into the exponent: 2^n for a float whose low mantissa bits hold n + 127.
  static MSCT_INLINE Float exponent_from_low_bits(Float v) { return reinterpret<Float>(reinterpret<Int>(v) << 23); }

  static MSCT_INLINE Float load_f16(const uint16_t* from) {
    return Float{float_from_f16(from[0]), float_from_f16(from[1]), float_from_f16(from[2]), float_from_f16(from[3])};
  }
  static MSCT_INLINE Float load_bf16(const uint16_t* from) {
    return Float{float_from_bf16(from[0]), float_from_bf16(from[1]), float_from_bf16(from[2]),
                 float_from_bf16(from[3])};
  }
  // Rounded to bfloat16 (to nearest, ties to even; NaN stays NaN) and back: the low half of each value is 0.
  static MSCT_INLINE Float round_bf16(Float v) {
    for (int i = 0; i < kLanes; ++i) v[i] = float_from_bf16(bf16_from_float(v[i]));
    return v;
  }
  static MSCT_INLINE Float finite_or_zero(Float v) {
    return reinterpret<Float>(reinterpret<Int>(v) & (absolute(v) < set(__builtin_inff())));
  }
  // The high halves of two vectors in one: low's as low halves.
  static MSCT_INLINE Float pair_high_halves(Float low, Float high) {
    const Int upper = reinterpret<Int>(high) & -0x10000;
    return reinterpret<Float>(((reinterpret<Int>(low) >> 16) & 0xFFFF) | upper);
  }
  static MSCT_INLINE void store_f16(uint16_t* to, Float v) {
    for (int i = 0; i < kLanes; ++i) to[i] = f16_from_float(v[i]);
  }
  static MSCT_INLINE void store_bf16(uint16_t* to, Float v) {
    for (int i = 0; i < kLanes; ++i) to[i] = bf16_from_float(v[i]);
  }

 private:
  using HalfFloat __attribute__((vector_size(8))) = float;
  using Double __attribute__((vector_size(16))) = double;
  using Long __attribute__((vector_size(16))) = int64_t;

  template <int kFirst>
  static MSCT_INLINE HalfFloat half(Float v) {
    return HalfFloat{v[kFirst], v[kFirst + 1]};
  }

  static MSCT_INLINE HalfFloat fused(HalfFloat a, HalfFloat b, HalfFloat c) {
    const Double addend = __builtin_convertvector(c, Double);
    const Double product = __builtin_convertvector(a, Double) * __builtin_convertvector(b, Double);
    const Double sum = product + addend;
    const Double addend_part = sum - product;
    const Double error = (product - (sum - addend_part)) + (addend - addend_part);
    const Long bits = (Long)sum;
    const Long inexact = (error > 0.0) | (error < 0.0);  // neither for NaN
    const Long opposite = (error > 0.0) ^ (sum > 0.0);
    const Long away = opposite + opposite + 1;  // towards the exact sum: +1 or -1
    const Long odd = bits + (away & inexact & ((bits & 1) - 1));
    return __builtin_convertvector((Double)odd, HalfFloat);
  }

  template <typename To, typename From>
  static MSCT_INLINE To reinterpret(From from) {
    return (To)from;
  }
};
