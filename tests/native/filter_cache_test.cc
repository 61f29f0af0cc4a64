// Packed filters that are kept: the same bits as without, never those of a filter that was there before.
#include "kernels/cpu/filter_cache.h"

#include <limits>
#include <thread>

#include "kernels/cpu/layout.h"
#include "tests/native/kernel_test_util.h"

namespace msct_test {
namespace {

std::vector<char> result(const Plan& plan, Tensors* tensors, FilterCache* filters) {
  Guarded<char> workspace(plan.workspace_bytes, 0);
  execute(plan, tensors->addresses(), workspace.data(), nullptr, filters);
  CHECK(workspace.intact());
  return {tensors->y.data(), tensors->y.data() + tensors->y.size()};
}

// Where phase 2 packs the filter.
bool packs(const Plan& plan, Tensors* tensors, FilterCache* filters) {
  constexpr unsigned char kMark = 0xa5;
  std::vector<unsigned char> workspace(static_cast<size_t>(plan.workspace_bytes), kMark);
  execute(plan, tensors->addresses(), workspace.data(), nullptr, filters);
  const auto* filter = reinterpret_cast<const unsigned char*>(aligned(workspace.data())) + make_layout(plan).filter;
  return std::any_of(filter, filter + sizeof(float), [](unsigned char byte) { return byte != kMark; });
}

// 64 KiB are compared at a time: this one has three parts, the last one short.
ConvTanhProblem large_problem(DType dtype) { return make_problem(dtype, 1, 66, 26, 25, 65, 3, 1, 1, 1, 1); }

void same_bits(const char* isa) {
  const DispatchOptions options = require_options(isa);
  Random random(3);
  int kept = 0;
  for (int i = 0; i < 60; ++i) {
    const ConvTanhProblem p = random_problem(&random);
    Tensors tensors(p, &random);
    const Plan plan = make_plan(options, p);
    FilterCache filters;
    const std::vector<char> expected = result(plan, &tensors, nullptr);
    for (int call = 0; call < 2; ++call) CHECK(result(plan, &tensors, &filters) == expected);
    if (expected.empty()) continue;
    const auto found = filters.find(plan, tensors.filter.data());
    CHECK(found == filters.find(plan, tensors.filter.data()));
    kept += found != nullptr;
  }
  CHECK(kept > 10);
}

void changed_in_place(const char* isa) {
  const DispatchOptions options = require_options(isa);
  for (DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBFloat16}) {
    Random random(4);
    Tensors tensors(large_problem(dtype), &random);
    const Plan plan = make_plan(options, tensors.p);
    FilterCache filters;
    CHECK(packs(plan, &tensors, nullptr));
    CHECK(!packs(plan, &tensors, &filters));
    const int64_t size = tensors.filter.size(), part = int64_t{1} << 16;
    for (const int64_t place : {int64_t{0}, part - 1, part, size / 2, size - 1}) {
      const auto before = filters.find(plan, tensors.filter.data());
      CHECK(before == filters.find(plan, tensors.filter.data()));
      tensors.filter.data()[place] ^= 1;
      CHECK(before != filters.find(plan, tensors.filter.data()));
      CHECK(result(plan, &tensors, &filters) == result(plan, &tensors, nullptr));
    }
    CHECK(tensors.intact());
  }
}

// Winograd's tiles refuse images by the largest weight, which is kept as well.
TEST(weights_beyond_the_range_of_tiles) {
  const DispatchOptions options = require_options("portable");
  for (const float weight : {1e30f, std::numeric_limits<float>::infinity(), std::nanf("")}) {
    Random random(10);
    Tensors tensors(large_problem(DType::kFloat32), &random);
    const Plan plan = make_plan(options, tensors.p);
    CHECK_EQ(plan.scheme.winograd, 1);
    FilterCache filters;
    CHECK(result(plan, &tensors, &filters) == result(plan, &tensors, nullptr));
    reinterpret_cast<float*>(tensors.filter.data())[7] = weight;
    const std::vector<char> expected = result(plan, &tensors, nullptr);
    for (int call = 0; call < 3; ++call) CHECK(result(plan, &tensors, &filters) == expected);
    tensors.check("a large weight");
  }
}

// The bits of -0 and 0 differ, those of a NaN are equal to themselves.
TEST(bytes_are_compared_and_not_values) {
  Random random(5);
  Tensors tensors(make_problem(DType::kFloat32, 1, 3, 30, 30, 5, 3, 1, 1, 1, 1), &random);
  const Plan plan = make_plan(require_options("portable"), tensors.p);
  FilterCache filters;
  auto* weights = reinterpret_cast<float*>(tensors.filter.data());
  weights[1] = std::nanf("");
  weights[2] = 0.0f;
  const auto found = filters.find(plan, weights);
  CHECK(found != nullptr);
  CHECK(found == filters.find(plan, weights));
  weights[2] = -0.0f;
  CHECK(found != filters.find(plan, weights));
}

TEST(filters_of_one_shape_are_kept_apart) {
  Random random(6);
  const ConvTanhProblem p = make_problem(DType::kFloat32, 1, 3, 30, 30, 5, 3, 1, 1, 1, 1);
  Tensors one(p, &random), other(p, &random);
  const Plan plan = make_plan(require_options("portable"), p);
  FilterCache filters;
  const auto first = filters.find(plan, one.filter.data()), second = filters.find(plan, other.filter.data());
  CHECK(first != second);
  CHECK(first == filters.find(plan, one.filter.data()));
  CHECK(second == filters.find(plan, other.filter.data()));
}

// One filter, read by plans of several forms.
TEST(forms_of_one_filter_are_kept_apart) {
  Random random(7);
  Tensors tensors(large_problem(DType::kFloat32), &random);
  DispatchOptions options = require_options("portable");
  const Plan plan = make_plan(options, tensors.p);
  options.tuning.block_channels = 8;
  const Plan other = make_plan(options, tensors.p);
  CHECK(plan.tiling.co != other.tiling.co);
  FilterCache filters;
  const auto first = filters.find(plan, tensors.filter.data());
  CHECK(first != filters.find(other, tensors.filter.data()));
  CHECK(first == filters.find(plan, tensors.filter.data()));
  CHECK(result(other, &tensors, &filters) == result(plan, &tensors, &filters));
}

TEST(what_is_not_kept) {
  Random random(8);
  const DispatchOptions options = require_options("portable");
  ConvTanhProblem gaps = make_problem(DType::kFloat32, 1, 3, 30, 30, 5, 3, 1, 1, 1, 1);
  for (int64_t& stride : gaps.filter_strides) stride *= 2;
  ConvTanhProblem empty = make_problem(DType::kFloat32, 1, 0, 30, 30, 5, 3, 1, 1, 1, 1);
  for (const ConvTanhProblem& p : {gaps, empty}) {
    Tensors tensors(p, &random);
    const Plan plan = make_plan(options, p);
    FilterCache filters;
    CHECK(filters.find(plan, tensors.filter.data()) == nullptr);
    result(plan, &tensors, &filters);
    tensors.check("not kept");
  }
}

TEST(the_oldest_filter_goes) {
  Random random(9);
  const ConvTanhProblem p = make_problem(DType::kFloat32, 1, 1, 30, 30, 1, 3, 1, 1, 1, 1);
  const Plan plan = make_plan(require_options("portable"), p);
  std::vector<std::unique_ptr<Tensors>> all;
  for (size_t i = 0; i <= FilterCache::kMostFilters; ++i) all.push_back(std::make_unique<Tensors>(p, &random));
  FilterCache filters;
  const auto first = filters.find(plan, all[0]->filter.data()), second = filters.find(plan, all[1]->filter.data());
  CHECK(first == filters.find(plan, all[0]->filter.data()));  // used after the second one
  for (size_t i = 2; i < all.size(); ++i) filters.find(plan, all[i]->filter.data());
  CHECK(first == filters.find(plan, all[0]->filter.data()));
  CHECK(second != filters.find(plan, all[1]->filter.data()));
}

TEST(threads_share_a_cache) {
  const ConvTanhProblem p = make_problem(DType::kFloat32, 1, 5, 20, 20, 9, 3, 1, 1, 1, 1);
  const Plan plan = make_plan(require_options("portable"), p);
  FilterCache filters;
  std::vector<std::thread> threads;
  for (uint32_t seed = 0; seed < 4; ++seed) {
    threads.emplace_back([&, seed] {
      Random random(seed);
      Tensors tensors(p, &random);
      for (int call = 0; call < 50; ++call) {
        if (call % 5 == 0) reinterpret_cast<float*>(tensors.filter.data())[call] += 0.25f;
        CHECK(result(plan, &tensors, &filters) == result(plan, &tensors, nullptr));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

#define MSCT_VARIANT(name, features)           \
  TEST(same_bits_##name) { same_bits(#name); } \
  TEST(changed_in_place_##name) { changed_in_place(#name); }
#define MSCT_MATRIX_VARIANT MSCT_VARIANT
#include "kernels/cpu/kernels.inc"
#undef MSCT_VARIANT

}  // namespace
}  // namespace msct_test
