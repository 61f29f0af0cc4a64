// Dispatch on invented CPUs: it is a pure function, so no test here depends on the machine.
#include "kernels/cpu/layout.h"
#include "kernels/dispatch/cost.h"
#include "kernels/dispatch/plan.h"
#include "tests/native/kernel_test_util.h"

namespace msct_test {
namespace {

constexpr DispatchOptions kAnyCpu = {0, Fusion::kAuto, 4};

Plan plan_for(uint32_t features, const ConvTanhProblem& problem) {
  return make_plan({features, Fusion::kAuto, 4}, problem);
}

TEST(best_built_variant_that_the_features_allow) {
  const ConvTanhProblem p = make_problem(DType::kFloat32, 1, 64, 32, 32, 64, 3, 1, 1, 1, 1);
  for (uint32_t features = 0; features < 4; ++features) {  // without a matrix unit, which is a matter of cost
    const char* expected = "portable";
#ifdef MSCT_BUILD_AVX2
    if (features & kFeatureAvx2) expected = "avx2";
#endif
#ifdef MSCT_BUILD_AVX512
    if (features & kFeatureAvx512) expected = "avx512";
#endif
    CHECK_EQ(std::string(plan_for(features, p).k1->name), expected);
    CHECK_EQ(std::string(plan_for(features, p).k2->name), expected);
  }
}

TEST(ceilings) {
  uint32_t mask = 99;
  CHECK(ceiling_mask("portable", &mask));
  CHECK_EQ(mask, 0u);
  CHECK(ceiling_mask("avx2", &mask));
  CHECK_EQ(mask, static_cast<uint32_t>(kFeatureAvx2));
  CHECK(ceiling_mask("avx512", &mask));
  CHECK_EQ(mask, static_cast<uint32_t>(kFeatureAvx2 | kFeatureAvx512));
  CHECK(ceiling_mask("amx", &mask));
  CHECK_EQ(mask, static_cast<uint32_t>(kFeatureAvx2 | kFeatureAvx512 | kFeatureAmxBf16));
  for (const char* unknown : {"", "AVX2", "avx", "avx512 ", "best"}) CHECK(!ceiling_mask(unknown, &mask));
}

TEST(every_variant_is_a_ceiling) {
  uint32_t mask;
  for (const K1Variant& variant : k1_variants()) {
    CHECK(ceiling_mask(variant.name, &mask));
    CHECK_EQ(variant.features & ~mask, 0u);
  }
}

TEST(fusion_follows_the_request) {
  const ConvTanhProblem p = make_problem(DType::kFloat32, 1, 64, 32, 32, 64, 3, 1, 1, 1, 1);
  CHECK(make_plan({0, Fusion::kHalf, 1}, p).fusion == Fusion::kHalf);
  CHECK(make_plan({0, Fusion::kTrue, 1}, p).fusion == Fusion::kTrue);
  CHECK(make_plan({0, Fusion::kAuto, 1}, p).fusion != Fusion::kAuto);
}

TEST(tuning_changes_the_sizes_it_names) {
  ConvTanhProblem p = make_problem(DType::kFloat32, 1, 64, 64, 64, 64, 5, 1, 2, 1, 1);
  const Plan own = plan_for(0, p);
  const auto tuned = [&](const Tuning& tuning) {
    return make_plan({0, Fusion::kAuto, 4, nullptr, 0, tuning}, p).tiling;
  };
  const auto same = [&](const Tiling& a, const Tiling& b) {
    return a.rows == b.rows && a.cols == b.cols && a.co == b.co && a.ci == b.ci;
  };
  CHECK(same(tuned({}), own.tiling));
  Tuning tuning;
  tuning.block_channels = 16;
  CHECK_EQ(tuned(tuning).co, 16);
  tuning = {};
  tuning.tile_elements = 64 * 64;
  CHECK_EQ(tuned(tuning).rows, 1);
  tuning.tile_elements = 1;
  CHECK_EQ(tuned(tuning).cols, own.k1->kernel.lanes);
  tuning = {};
  tuning.packed_elements = 1;
  CHECK_EQ(tuned(tuning).cols, own.k1->kernel.lanes);
  tuning = {};
  tuning.blocks_per_thread = 16;
  CHECK_EQ(tuned(tuning).rows, 1);

  p = make_problem(DType::kFloat32, 1, 64, 64, 64, 64, 3, 1, 1, 1, 1);  // by Winograd's tiles
  CHECK_EQ(tuned({}).co, 64);
  CHECK_EQ(tuned(tuning).rows, 2);
  tuning = {};
  tuning.block_channels = 16;
  CHECK_EQ(tuned(tuning).co, 16);
  tuning = {};
  tuning.packed_elements = 1;
  CHECK_EQ(tuned(tuning).rows, 2);
  CHECK_EQ(tuned(tuning).cols, 2 * own.k1->kernel.lanes);
}

TEST(winograd_where_it_saves_time) {
  const auto uses = [](uint32_t features, const ConvTanhProblem& p) { return plan_for(features, p).scheme.winograd; };
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    CHECK(uses(0, make_problem(dtype, 1, 64, 32, 32, 64, 3, 1, 1, 1, 1)));
    CHECK(uses(0, make_problem(dtype, 1, 64, 33, 31, 64, 3, 1, 0, 1, 2)));
    CHECK(!uses(0, make_problem(dtype, 1, 1, 32, 32, 64, 3, 1, 1, 1, 1)));
    CHECK(!uses(0, make_problem(dtype, 1, 64, 32, 32, 1, 3, 1, 1, 1, 1)));
    CHECK(!uses(0, make_problem(dtype, 1, 64, 32, 32, 64, 3, 2, 1, 1, 1)));
    CHECK(!uses(0, make_problem(dtype, 1, 64, 32, 32, 64, 3, 1, 1, 2, 1)));
    CHECK(!uses(0, make_problem(dtype, 1, 64, 32, 32, 64, 5, 1, 1, 1, 1)));
  }
#ifdef MSCT_BUILD_AMX
  CHECK(!uses(~0u, make_problem(DType::kFloat32, 1, 64, 32, 32, 64, 3, 1, 1, 1, 1)));
#endif
#ifdef MSCT_BUILD_AVX2
  // Channels, size, output channels: where tiles were measured to win by a fifth or more on AVX2, and to lose.
  struct Case {
    int64_t ci, size, co;
    bool wins;
  };
  for (const Case& c :
       {Case{64, 256, 32, true}, Case{64, 56, 128, true}, Case{256, 32, 256, true}, Case{128, 28, 128, true},
        Case{32, 64, 32, true}, Case{3, 224, 64, false}, Case{512, 7, 512, false}, Case{128, 28, 8, false},
        Case{128, 14, 8, false}, Case{64, 14, 16, false}, Case{24, 28, 8, false}, Case{8, 28, 128, false}}) {
    const ConvTanhProblem p = make_problem(DType::kFloat32, 1, c.ci, c.size, c.size, c.co, 3, 1, 1, 1, 1);
    if ((uses(kFeatureAvx2, p) != 0) != c.wins) fail(__FILE__, __LINE__, describe(p));
  }
#endif
}

// However many threads there are.
TEST(blocks_of_winograd_tiles_fill_register_tiles) {
  for (uint32_t features : {0u, 1u, 3u}) {
    for (int64_t size : {28, 32, 56}) {
      const ConvTanhProblem p = make_problem(DType::kFloat32, 1, 64, size, size, 64, 3, 1, 1, 1, 1);
      const Plan plan = make_plan({features, Fusion::kAuto, 16}, p);
      CHECK_EQ(plan.scheme.winograd, 1);
      const K1Kernel& kernel = plan.k1->kernel;
      CHECK(plan.tiling.rows * plan.tiling.cols >= 4 * kernel.lanes * kernel.group);
    }
  }
}

TEST(small_problems_stay_on_the_calling_thread) {
  CHECK_EQ(plan_for(0, make_problem(DType::kFloat32, 1, 1, 8, 8, 1, 1, 1, 0, 1, 1)).threads, 1);
  CHECK_EQ(plan_for(0, make_problem(DType::kFloat32, 1, 64, 256, 256, 32, 3, 1, 1, 1, 1)).threads, 4);
}

TEST(an_empty_output_needs_nothing) {
  for (int64_t n : {0, 1}) {
    const ConvTanhProblem p = make_problem(DType::kFloat32, n, 4, 8, 8, n == 0 ? 4 : 0, 3, 1, 1, 1, 1);
    CHECK_EQ(plan_for(3, p).workspace_bytes, 0);
  }
}

// Repeated tensors can have any size; sizes must not wrap around.
TEST(a_workspace_beyond_counting_says_so) {
  for (Fusion fusion : {Fusion::kHalf, Fusion::kTrue}) {
    ConvTanhProblem p = make_problem(DType::kFloat32, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1);
    p.wi = p.wo = int64_t{1} << 59;
    CHECK_EQ(make_plan({0, fusion, 2}, p).workspace_bytes, INT64_MAX);
    ConvTanhProblem deep = make_problem(DType::kFloat32, 1, int64_t{1} << 58, 1, 1, 1, 1, 1, 0, 1, 1);
    CHECK_EQ(make_plan({0, fusion, 2}, deep).workspace_bytes, INT64_MAX);
  }
}

TEST(pointwise_rows_are_joined_only_if_they_follow_each_other) {
  ConvTanhProblem p = make_problem(DType::kFloat32, 1, 8, 28, 28, 8, 1, 1, 0, 1, 1);
  CHECK_EQ(plan_for(0, p).problem.wo, 784);
  CHECK_EQ(plan_for(0, p).problem.ho, 1);
  ConvTanhProblem gap = p;
  gap.x_strides[2] = 30;
  CHECK_EQ(plan_for(0, gap).problem.ho, 28);
  ConvTanhProblem gap_in_y = p;
  gap_in_y.y_strides[2] = 30;
  CHECK_EQ(plan_for(0, gap_in_y).problem.ho, 28);
  CHECK_EQ(plan_for(0, make_problem(DType::kFloat32, 1, 8, 28, 28, 8, 1, 2, 0, 1, 1)).problem.ho, 14);
  CHECK_EQ(plan_for(0, make_problem(DType::kFloat32, 1, 8, 28, 28, 8, 1, 1, 1, 1, 1)).problem.ho, 30);
}

TEST(images_become_pixels_where_the_filter_covers_x) {
  const ConvTanhProblem p = make_problem(DType::kFloat32, 64, 16, 5, 5, 120, 5, 1, 0, 1, 1);
  const ConvTanhProblem joined = plan_for(0, p).problem;
  CHECK_EQ(joined.n, 1);
  CHECK_EQ(joined.ci, 400);
  CHECK_EQ(joined.kh * joined.kw, 1);
  CHECK_EQ(joined.wi, 64);
  CHECK_EQ(joined.wo, 64);
  CHECK_EQ(joined.x_strides[3], 400);
  CHECK_EQ(joined.y_strides[3], 120);
  const ConvTanhProblem grouped = plan_for(0, make_problem(DType::kFloat32, 8, 4, 3, 3, 6, 3, 2, 0, 1, 2)).problem;
  CHECK_EQ(grouped.ci, 36);
  CHECK_EQ(grouped.groups, 2);
  ConvTanhProblem gap = p;
  gap.x_strides[1] = 30;
  CHECK_EQ(plan_for(0, gap).problem.n, 64);
  ConvTanhProblem gap_in_filter = p;
  gap_in_filter.filter_strides[2] = 6;
  CHECK_EQ(plan_for(0, gap_in_filter).problem.n, 64);
  CHECK_EQ(plan_for(0, make_problem(DType::kFloat32, 64, 16, 5, 5, 120, 5, 1, 1, 1, 1)).problem.n, 64);
  CHECK_EQ(plan_for(0, make_problem(DType::kFloat32, 64, 16, 6, 5, 120, 5, 1, 0, 1, 1)).problem.n, 64);
}

TEST(input_is_read_in_place_only_as_contiguous_float32) {
  const ConvTanhProblem p = make_problem(DType::kFloat32, 1, 64, 28, 28, 128, 1, 1, 0, 1, 1);
  CHECK_EQ(plan_for(0, p).direct, 1);
  ConvTanhProblem other = p;
  other.x_strides[3] = 2;
  CHECK_EQ(plan_for(0, other).direct, 0);
  CHECK_EQ(plan_for(0, make_problem(DType::kFloat16, 1, 64, 28, 28, 128, 1, 1, 0, 1, 1)).direct, 0);
  CHECK_EQ(plan_for(0, make_problem(DType::kFloat32, 1, 64, 28, 28, 128, 3, 1, 1, 1, 1)).direct, 0);
}

#ifdef MSCT_BUILD_AMX

constexpr uint32_t kAmxMachine = kFeatureAvx2 | kFeatureAvx512 | kFeatureAmxBf16;

// Tiles where there is work for them; vectors where a tile would be empty for the most part.
TEST(tiles_are_taken_where_they_pay) {
  struct Case {
    int64_t n, ci, size, co, k, stride, pad, groups;
    bool bfloat16, float16, float32;
  };
  const Case cases[] = {
      {4, 64, 28, 128, 1, 1, 0, 1, true, true, false},   {1, 64, 256, 32, 3, 1, 1, 1, true, true, true},
      {2, 64, 56, 128, 3, 2, 1, 1, true, true, true},    {1, 256, 32, 256, 3, 1, 1, 1, true, true, true},
      {1, 64, 56, 64, 3, 1, 1, 64, false, false, false},  // depthwise
      {1, 1, 8, 1, 3, 1, 1, 1, false, false, false},
  };
  for (const Case& c : cases) {
    for (const auto& [dtype, takes_tiles] :
         {std::pair(DType::kBFloat16, c.bfloat16), std::pair(DType::kFloat16, c.float16),
          std::pair(DType::kFloat32, c.float32)}) {
      const ConvTanhProblem p = make_problem(dtype, c.n, c.ci, c.size, c.size, c.co, c.k, c.stride, c.pad, 1, c.groups);
      const Plan plan = plan_for(kAmxMachine, p);
      if ((std::string(plan.k1->name) == "amx") != takes_tiles) {
        fail(__FILE__, __LINE__, describe(p) + ": " + plan.k1->name);
      }
      CHECK_EQ(std::string(plan.k2->name), "avx512");
      CHECK(std::string(plan_for(kFeatureAvx2 | kFeatureAvx512, p).k1->name) != "amx");
    }
  }
}

TEST(few_channels_fill_tiles_with_taps) {
  // A first layer: rows of taps in K. A last layer: rows of taps in M. A middle layer: neither.
  const auto scheme = [](int64_t ci, int64_t co, int64_t k, int64_t stride) {
    const ConvTanhProblem p = make_problem(DType::kBFloat16, 1, ci, 224, 224, co, k, stride, k / 2, 1, 1);
    return plan_for(kAmxMachine, p).scheme;
  };
  CHECK_EQ(scheme(3, 64, 7, 2).fold_w, 7);
  CHECK_EQ(scheme(1, 64, 5, 1).folds(), 25);
  CHECK_EQ(scheme(64, 3, 7, 1).spread_w, 7);
  CHECK_EQ(scheme(64, 64, 3, 1).folds() * scheme(64, 64, 3, 1).spread_w, 1);
}

// Three products for float16 and where the caller allows a loss, six for float32.
TEST(products_of_terms_follow_the_dtype) {
  const auto products = [](DType dtype, int64_t cube_math_type) {
    ConvTanhProblem p = make_problem(dtype, 1, 256, 32, 32, 256, 3, 1, 1, 1, 1);
    p.cube_math_type = cube_math_type;
    return plan_for(kAmxMachine, p).scheme.products;
  };
  CHECK_EQ(products(DType::kBFloat16, 0), 1);
  CHECK_EQ(products(DType::kFloat16, 0), 3);
  const int64_t float32[] = {6, 3, 6, 3};
  for (int64_t type = 0; type < 4; ++type) CHECK_EQ(products(DType::kFloat32, type), float32[type]);
}

// What is computed must not depend on how many images or threads there are.
TEST(the_choice_does_not_depend_on_threads_or_batch) {
  Random random(8);
  for (int round = 0; round < 2000; ++round) {
    ConvTanhProblem p = random_problem(&random);
    const int64_t candidate = random.integer(0, 9);
    p.n = 1;
    const Plan one = make_plan({kAmxMachine, Fusion::kAuto, 1, nullptr, candidate}, p);
    p.n = 7;
    const Plan many = make_plan({kAmxMachine, Fusion::kAuto, 8, nullptr, candidate}, p);
    const bool same = one.k1 == many.k1 && std::memcmp(&one.scheme, &many.scheme, sizeof(K1Scheme)) == 0 &&
                      one.tiling.ci == many.tiling.ci && one.images_are_pixels == many.images_are_pixels;
    if (!same) fail(__FILE__, __LINE__, describe(p));
  }
}

#endif

TEST(candidates_are_sorted_and_can_be_chosen) {
  Random random(9);
  for (int round = 0; round < 300; ++round) {
    Plan plan = {};
    plan.problem = random_problem(&random);
    const std::vector<K1Candidate> all = k1_candidates({~0u, Fusion::kAuto, 1}, plan);
    for (size_t i = 0; i < all.size(); ++i) {
      CHECK(all[i].nanoseconds > 0);
      CHECK(i == 0 || all[i - 1].nanoseconds <= all[i].nanoseconds);
      CHECK(choose_k1({~0u, Fusion::kAuto, 1, nullptr, static_cast<int64_t>(i)}, plan).k1 == all[i].k1);
    }
    for (const K1Variant& variant : k1_variants()) {
      const K1Candidate chosen = choose_k1({~0u, Fusion::kAuto, 1, variant.name}, plan);
      const bool can = std::any_of(all.begin(), all.end(), [&](const K1Candidate& c) { return c.k1 == &variant; });
      CHECK((chosen.k1 == &variant) == can);
    }
  }
}

// The order of every sum depends on the K step alone: never on threads or batch.
TEST(the_k_step_does_not_depend_on_threads_or_batch) {
  for (int64_t ci : {1, 3, 64, 320, 1000}) {
    for (int64_t k : {1, 3, 7, 30}) {
      const int64_t expected =
          make_plan(kAnyCpu, make_problem(DType::kFloat32, 1, ci, 32, 32, 16, k, 1, 2, 1, 1)).tiling.ci;
      for (int64_t n : {1, 2, 7}) {
        for (int64_t threads : {1, 2, 64}) {
          const ConvTanhProblem p = make_problem(DType::kFloat32, n, ci, 32, 32, 16, k, 1, 2, 1, 1);
          CHECK_EQ(make_plan({0, Fusion::kAuto, threads}, p).tiling.ci, expected);
        }
      }
    }
  }
}

TEST(tilings_are_within_the_problem) {
  Random random(6);
  for (int round = 0; round < 2000; ++round) {
    const ConvTanhProblem p = random_problem(&random);
    for (uint32_t features : {0u, 1u, 3u, 7u}) {
      const Plan plan = make_plan({features, Fusion::kAuto, random.integer(1, 9)}, p);
      const Tiling& t = plan.tiling;
      const bool sound = t.rows >= 1 && t.rows <= plan.problem.ho && t.cols >= 1 && t.cols <= plan.problem.wo &&
                         t.co >= 1 && t.co <= p.co / p.groups && t.ci >= 1 && t.ci <= p.ci / p.groups &&
                         (t.cols == plan.problem.wo || t.cols % plan.k1->kernel.lanes == 0) &&
                         (t.co == p.co / p.groups || t.co % plan.k1->kernel.panel == 0) && plan.threads >= 1 &&
                         plan.scheme.depth >= 1 && plan.scheme.depth <= plan.k1->kernel.depth;
      if (!sound) fail(__FILE__, __LINE__, describe(p));
    }
  }
}

// What a caller must hold beside inputs and output: at most half fusion's fp32 result and 8 MiB.
TEST(workspaces_are_bounded) {
  struct Case {
    int64_t n, ci, h, w, co, k, stride, pad, dilation;
  };
  const Case cases[] = {{4, 64, 28, 28, 128, 1, 1, 0, 1},    {1, 320, 127, 127, 16, 1, 1, 0, 1},
                        {1, 64, 256, 256, 32, 3, 1, 1, 1},   {2, 64, 56, 56, 128, 3, 2, 1, 1},
                        {1, 64, 32, 32, 64, 3, 1, 2, 2},     {1, 1, 256, 256, 64, 5, 1, 2, 1},
                        {1, 3, 224, 224, 64, 7, 2, 3, 1},    {1, 64, 256, 256, 3, 7, 1, 3, 1},
                        {1, 2, 2000, 2000, 2, 2, 1, 0, 999}, {1, 8, 512, 512, 8, 16, 16, 0, 1}};
  for (const Case& c : cases) {
    for (uint32_t features : {0u, 1u, 3u, 7u}) {
      for (Fusion fusion : {Fusion::kHalf, Fusion::kTrue}) {
        const ConvTanhProblem p =
            make_problem(DType::kFloat32, c.n, c.ci, c.h, c.w, c.co, c.k, c.stride, c.pad, c.dilation, 1);
        const Plan plan = make_plan({features, fusion, 2}, p);
        const int64_t result = fusion == Fusion::kHalf ? 4 * p.n * p.co * p.ho * p.wo : 0;
        if (plan.workspace_bytes > result * 9 / 8 + (8 << 20)) {
          fail(__FILE__, __LINE__, describe(p) + ": " + std::to_string(plan.workspace_bytes) + " bytes");
        }
      }
    }
  }
}

}  // namespace
}  // namespace msct_test
