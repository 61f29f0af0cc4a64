// Splitting float16 and float32 into bfloat16 terms, over any Simd; included by k1_tiles-inl.h.
//
//   x = x1 + x2 (+ x3),  x1 = bfloat16(x),  x2 = bfloat16(x - x1),  x3 = bfloat16(x - x1 - x2)
//
// Both subtractions are exact, and so is the sum: 8 + 3 bits hold float16's 11, 8 + 8 + 8 hold float32's 24, unless a
// term falls below bfloat16's normal range or x1 above it (see range_check.h). Of the products of terms, those that
// can matter are computed, the small ones first:
//
//   float16   x2 w1 + x1 w2 + x1 w1                            left out: x2 w2 < 2^-16 |x w|
//   float32   x3 w1 + x1 w3 + x2 w2 + x2 w1 + x1 w2 + x1 w1    left out: x2 w3 + x3 w2 + x3 w3 < 2^-22 |x w|
//
// The bounds are worst cases: a term that was rounded off is half as large on average, and of either sign.
//
// Where x is not finite, x2 and x3 are 0, and so is the x1 that meets w2 or w3 (which would be 0 themselves): Inf and
// NaN take part in x1 w1 alone, as they do in the plain formula.

enum Term { kFirst, kFirstIfFinite, kSecond, kThird };

struct Product {
  Term x, filter;
};
constexpr Product kOneProduct[] = {{kFirst, kFirst}};
constexpr Product kThreeProducts[] = {{kSecond, kFirstIfFinite}, {kFirstIfFinite, kSecond}, {kFirst, kFirst}};
constexpr Product kSixProducts[] = {{kThird, kFirstIfFinite},  {kFirstIfFinite, kThird},  {kSecond, kSecond},
                                    {kSecond, kFirstIfFinite}, {kFirstIfFinite, kSecond}, {kFirst, kFirst}};

MSCT_INLINE const Product* products_of(int64_t products) {
  return products == 1 ? kOneProduct : products == 3 ? kThreeProducts : kSixProducts;
}

// The terms of a vector, each in the high halves of its values.
struct Terms {
  Simd::Float values[4];

  MSCT_INLINE explicit Terms(Simd::Float v) {
    values[kFirst] = Simd::round_bf16(v);
    values[kFirstIfFinite] = Simd::finite_or_zero(values[kFirst]);
    const Simd::Float rest = Simd::finite_or_zero(Simd::subtract(v, values[kFirst]));
    values[kSecond] = Simd::round_bf16(rest);
    values[kThird] = Simd::round_bf16(Simd::subtract(rest, values[kSecond]));
  }
};
