// K2 over any Simd; included inside a target region and an anonymous namespace by k2_tanh_<isa>.cc.
//
//   tanh(z) = sign(z) * -e / (e + 2),  e = expm1(-2|z|)
//
// expm1 by the usual reduction -2|z| = n ln2 + r, |r| <= ln2 / 2:  e = 2^n p + (2^n - 1),  p = r + r^2 q(r).
// q is a degree-4 minimax fit whose coefficients were rounded to float32 one by one, the rest refitted after each; its
// error relative to expm1(r) is below 2^-26. |z| is clamped to 10: from 9.02 on, tanh rounds to 1 in float32. The
// formula has no overflow, no cancellation and no special case: for tiny |z|, n = 0 and the quotient is |z| itself.

MSCT_INLINE Simd::Float tanh_vector(Simd::Float z) {
  const Simd::Float magnitude = Simd::minimum(Simd::set(10.0f), Simd::absolute(z));  // NaN stays NaN
  const Simd::Float t = Simd::multiply(magnitude, Simd::set(-2.0f));

  // 1.5 * 2^23 rounds to an integer; the 127 more is the exponent's bias.
  const Simd::Float rounder = Simd::set(0x1.8p23f + 127.0f);
  const Simd::Float biased_n = Simd::fused_multiply_add(t, Simd::set(0x1.715476p+0f), rounder);
  const Simd::Float power = Simd::exponent_from_low_bits(biased_n);
  const Simd::Float n = Simd::subtract(biased_n, rounder);
  Simd::Float r = Simd::fused_multiply_add(n, Simd::set(-0x1.62e43p-1f), t);
  r = Simd::fused_multiply_add(n, Simd::set(0x1.05c61p-29f), r);

  Simd::Float q = Simd::set(0x1.6b9c66p-10f);
  q = Simd::fused_multiply_add(q, r, Simd::set(0x1.12254ap-7f));
  q = Simd::fused_multiply_add(q, r, Simd::set(0x1.5556f2p-5f));
  q = Simd::fused_multiply_add(q, r, Simd::set(0x1.5554b4p-3f));
  q = Simd::fused_multiply_add(q, r, Simd::set(0x1.fffffep-2f));
  const Simd::Float p = Simd::fused_multiply_add(Simd::multiply(r, r), q, r);

  const Simd::Float e = Simd::fused_multiply_add(power, p, Simd::subtract(power, Simd::set(1.0f)));
  const Simd::Float quotient = Simd::divide(e, Simd::add(e, Simd::set(2.0f)));
  return Simd::with_sign(Simd::absolute(quotient), z);
}

MSCT_INLINE Simd::Float same_vector(Simd::Float z) { return z; }

template <typename Element, void (*kStore)(Element*, Simd::Float), Simd::Float (*kFunction)(Simd::Float)>
void map_row(const float* z, void* y, int64_t n) {
  Element* out = static_cast<Element*>(y);
  int64_t i = 0;
  for (; i + Simd::kLanes <= n; i += Simd::kLanes) kStore(out + i, kFunction(Simd::load(z + i)));
  if (i < n) {
    Element tail[Simd::kLanes];
    kStore(tail, kFunction(Simd::load(z + i)));
    std::memcpy(out + i, tail, static_cast<size_t>(n - i) * sizeof(Element));
  }
}

constexpr K2Kernel kK2Tanh = {
    Simd::kLanes,
    {map_row<float, Simd::store, tanh_vector>, map_row<uint16_t, Simd::store_f16, tanh_vector>,
     map_row<uint16_t, Simd::store_bf16, tanh_vector>},
    {map_row<float, Simd::store, same_vector>, map_row<uint16_t, Simd::store_f16, same_vector>,
     map_row<uint16_t, Simd::store_bf16, same_vector>},
};
