// Whole problems through dispatch and execution, each variant and both fusion modes, against float64.
#include "tests/native/kernel_test_util.h"

namespace msct_test {
namespace {

const Fusion kFusions[] = {Fusion::kHalf, Fusion::kTrue};
const DType kDTypes[] = {DType::kFloat32, DType::kFloat16, DType::kBFloat16};

void check_problem(DispatchOptions options, const ConvTanhProblem& p, Random* random) {
  for (Fusion fusion : kFusions) {
    Tensors tensors(p, random, size_of(p.dtype));
    options.fusion = fusion;
    options.k1_candidate = random->integer(0, 4);
    run(options, &tensors, random->integer(0, 63));
    tensors.check(describe(p) + (fusion == Fusion::kHalf ? " half" : " true"));
  }
}

// Output channels and widths around every register tile; input channels around the K step.
void edges(const char* isa) {
  DispatchOptions options = require_options(isa);
  Random random(11);
  for (DType dtype : kDTypes) {
    for (int64_t co : {1, 2, 3, 4, 5, 7, 8, 9, 16, 17}) {
      for (int64_t w : {1, 3, 7, 8, 9, 15, 16, 17, 23, 24, 25, 47, 48, 49}) {
        check_problem(options, make_problem(dtype, 1, 3, 3, w, co, 3, 1, 1, 1, 1), &random);
        check_problem(options, make_problem(dtype, 1, 5, 2, w, co, 1, 1, 0, 1, 1), &random);
      }
    }
    for (int64_t ci : {1, 2, 56, 57, 58, 113, 114, 511, 512, 513, 1025}) {
      check_problem(options, make_problem(dtype, 1, ci, 4, 9, 6, ci > 200 ? 1 : 3, 1, 0, 1, 1), &random);
    }
  }
}

void geometries(const char* isa) {
  DispatchOptions options = require_options(isa);
  Random random(12);
  for (DType dtype : kDTypes) {
    for (int64_t k : {1, 2, 3, 5, 7}) {
      for (int64_t stride : {1, 2, 3, 8}) {
        for (int64_t dilation : {1, 2, 3, 8}) {
          for (int64_t groups : {1, 2, 6}) {
            check_problem(options, make_problem(dtype, 2, 6, 19, 29, 12, k, stride, k / 2 * dilation, dilation, groups),
                          &random);
          }
        }
      }
    }
    // Depthwise, one row, one column, a kernel as large as its input, taps far apart, patches.
    check_problem(options, make_problem(dtype, 2, 24, 13, 17, 24, 3, 1, 1, 1, 24), &random);
    check_problem(options, make_problem(dtype, 1, 4, 1, 2000, 8, 1, 1, 0, 1, 1), &random);
    check_problem(options, make_problem(dtype, 1, 4, 2000, 1, 8, 1, 1, 0, 1, 1), &random);
    check_problem(options, make_problem(dtype, 3, 4, 11, 11, 8, 11, 1, 0, 1, 1), &random);
    check_problem(options, make_problem(dtype, 37, 6, 5, 5, 14, 5, 2, 0, 1, 2), &random);
    check_problem(options, make_problem(dtype, 1, 2, 120, 130, 3, 2, 1, 0, 100, 1), &random);
    check_problem(options, make_problem(dtype, 1, 3, 64, 64, 10, 16, 16, 0, 1, 1), &random);
    check_problem(options, make_problem(dtype, 1, 2, 3, 3, 4, 3, 1, 40, 1, 1), &random);
  }
}

void without_input_channels(const char* isa) {
  DispatchOptions options = require_options(isa);
  Random random(13);
  for (DType dtype : kDTypes) check_problem(options, make_problem(dtype, 1, 0, 5, 5, 3, 3, 1, 1, 1, 1), &random);
}

void random_problems(const char* isa) {
  DispatchOptions options = require_options(isa);
  Random random(14);
  for (int round = 0; round < 400; ++round) check_problem(options, random_problem(&random), &random);
}

// A NaN or Inf at each corner of x, filter and bias spreads as the formula says, whatever the tile around it.
void non_finite(const char* isa) {
  DispatchOptions options = require_options(isa);
  Random random(15);
  for (DType dtype : kDTypes) {
    for (int64_t channels : {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33}) {
      for (float value : {NAN, INFINITY, -INFINITY}) {
        const ConvTanhProblem p = make_problem(dtype, 1, channels, 6, 10, channels, 3, 1, 1, 1, 1);
        for (int corner = 0; corner < 6; ++corner) {
          for (Fusion fusion : kFusions) {
            Tensors tensors(p, &random);
            const int64_t last_x = tensors.x.size() / size_of(dtype) - 1;
            const int64_t last_filter = tensors.filter.size() / size_of(dtype) - 1;
            switch (corner) {
              case 0: from_float(tensors.x.data(), 0, dtype, value); break;
              case 1: from_float(tensors.x.data(), p.wi - 1, dtype, value); break;
              case 2: from_float(tensors.x.data(), last_x, dtype, value); break;
              case 3: from_float(tensors.filter.data(), 0, dtype, value); break;
              case 4: from_float(tensors.filter.data(), last_filter, dtype, value); break;
              case 5: from_float(tensors.bias.data(), channels - 1, dtype, value); break;
            }
            options.fusion = fusion;
            run(options, &tensors);
            tensors.check(describe(p) + " corner " + std::to_string(corner));
          }
        }
      }
    }
  }
}

// Sums that leave float16's range on the way, and cancel.
void float16_accumulates_in_float32(const char* isa) {
  DispatchOptions options = require_options(isa);
  Random random(16);
  const ConvTanhProblem p = make_problem(DType::kFloat16, 1, 64, 4, 4, 4, 1, 1, 0, 1, 1);
  Tensors tensors(p, &random);
  for (int64_t i = 0; i < 64 * 16; ++i) from_float(tensors.x.data(), i, p.dtype, i < 32 * 16 ? 100.0f : -100.0f);
  for (int64_t i = 0; i < 4 * 64; ++i) from_float(tensors.filter.data(), i, p.dtype, 100.0f);
  for (int64_t i = 0; i < 4; ++i) from_float(tensors.bias.data(), i, p.dtype, 0.0f);
  run(options, &tensors);
  for (int64_t i = 0; i < 4 * 16; ++i) CHECK_EQ(to_float(tensors.y.data(), i, p.dtype), 0.0f);
}

// Bit for bit the same for any number of threads, in both fusion modes, and for one image or many.
void deterministic(const char* isa) {
  DispatchOptions options = require_options(isa);
  for (DType dtype : kDTypes) {
    for (const ConvTanhProblem& p : {make_problem(dtype, 3, 130, 40, 41, 33, 1, 1, 0, 1, 1),
                                     make_problem(dtype, 3, 130, 40, 41, 33, 3, 1, 1, 1, 1),
                                     make_problem(dtype, 3, 64, 5, 5, 33, 5, 1, 0, 1, 1)}) {
      std::vector<char> expected;
      for (int64_t threads : {1, 2, 3, 8}) {
        for (Fusion fusion : kFusions) {
          Random random(17);
          Tensors tensors(p, &random);
          options.fusion = fusion;
          options.threads = threads;
          run(options, &tensors);
          const std::vector<char> got(tensors.y.data(), tensors.y.data() + tensors.y.size());
          if (expected.empty()) expected = got;
          CHECK(got == expected);
        }
      }
      Random random(17);
      Tensors batch(p, &random);
      ConvTanhProblem single = p;
      single.n = 1;
      const size_t image = static_cast<size_t>(batch.y.size() / 3);
      for (int64_t n = 0; n < 3; ++n) {
        std::vector<char> y(image);
        const Plan plan = make_plan(options, single);
        std::vector<char> workspace(static_cast<size_t>(plan.workspace_bytes));
        execute(plan, {batch.x.data() + n * batch.x.size() / 3, batch.filter.data(), batch.bias.data(), y.data()},
                workspace.data());
        CHECK(std::memcmp(y.data(), expected.data() + static_cast<size_t>(n) * image, image) == 0);
      }
    }
  }
}

#define MSCT_VARIANT(name, features)                                                     \
  TEST(edges_##name) { edges(#name); }                                                   \
  TEST(geometries_##name) { geometries(#name); }                                         \
  TEST(without_input_channels_##name) { without_input_channels(#name); }                 \
  TEST(random_problems_##name) { random_problems(#name); }                               \
  TEST(non_finite_##name) { non_finite(#name); }                                         \
  TEST(float16_accumulates_in_float32_##name) { float16_accumulates_in_float32(#name); } \
  TEST(deterministic_##name) { deterministic(#name); }
#define MSCT_MATRIX_VARIANT MSCT_VARIANT
#include "kernels/cpu/kernels.inc"
#undef MSCT_VARIANT

}  // namespace
}  // namespace msct_test
