// The rate of K1's arithmetic alone, over any Simd; included as k1_conv-inl.h is. kAccumulators independent sums lie
// in registers, as many as a register tile of K1 has, so that the latency of a multiply-add is hidden as it is there.

// Runs `rounds` times kAccumulators vector multiply-adds and returns their floating-point operations. *sink takes part
// of the result, so that the compiler cannot drop the work.
int64_t multiply_adds(int64_t rounds, float* sink) {
  Simd::Float sums[kAccumulators];
  for (int64_t i = 0; i < kAccumulators; ++i) sums[i] = Simd::set(static_cast<float>(i));
  const Simd::Float a = Simd::set(0.5f + *sink), b = Simd::set(0.25f + *sink);
  for (int64_t round = 0; round < rounds; ++round) {
    for (int64_t i = 0; i < kAccumulators; ++i) sums[i] = Simd::multiply_add(sums[i], a, b);
  }
  Simd::Float total = Simd::set(0.0f);
  for (int64_t i = 0; i < kAccumulators; ++i) total = Simd::add(total, sums[i]);
  float lanes[Simd::kLanes];
  Simd::store(lanes, total);
  *sink = lanes[0];
  return rounds * kAccumulators * Simd::kLanes * 2;
}
