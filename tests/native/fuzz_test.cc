// Random problems, every variant of this CPU, both fusion modes and any tuning on the same bytes, against float64 and
// each other.
// MS_CONVTANH_FUZZ_SECONDS (default 5) bounds the time, MS_CONVTANH_FUZZ_SEED (default 1) chooses the problems; a
// failure prints the problem and its seed.
#include <chrono>

#include "kernels/cpu/thread_pool.h"
#include "tests/native/kernel_test_util.h"

namespace msct_test {
namespace {

int64_t setting(const char* name, int64_t otherwise) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : otherwise;
}

// Sizes from the smallest to beyond the problem, or dispatch's own.
Tuning any_tuning(Random* random) {
  const auto any = [&] { return random->pick<int64_t>({0, 0, 1, 2, 7, 64, 1000, 1 << 24}); };
  return {any(), any(), any(), any()};
}

TEST(fuzz) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(setting("MS_CONVTANH_FUZZ_SECONDS", 5));
  const int64_t first_seed = setting("MS_CONVTANH_FUZZ_SEED", 1);
  int64_t problems = 0;
  while (std::chrono::steady_clock::now() < end && failures() == 0) {
    const uint32_t seed = static_cast<uint32_t>(first_seed + problems++);
    Random random(seed);
    const ConvTanhProblem p = random_problem(&random);
    for (const K1Variant& variant : k1_variants()) {
      uint32_t mask = 0;
      CHECK(ceiling_mask(variant.name, &mask));
      if (is_tested_elsewhere(variant.features) || (variant.features & ~runnable_features()) != 0) continue;
      std::vector<char> other;
      const int64_t candidate = random.integer(0, 4);
      for (Fusion fusion : {Fusion::kHalf, Fusion::kTrue}) {
        Random values(seed);
        Tensors tensors(p, &values, size_of(p.dtype) * random.integer(0, 9));
        const DispatchOptions options = {
            mask & runnable_features(), fusion, random.integer(1, 4), variant.name, candidate, any_tuning(&random)};
        const Plan plan = run(options, &tensors, random.integer(0, 63));
        CHECK(plan.k1 == &variant || variant.kernel.halves == 2);
        tensors.check("seed " + std::to_string(seed) + ", " + variant.name + ", " + describe(p));
        const std::vector<char> y(tensors.y.data(), tensors.y.data() + tensors.y.size());
        if (other.empty()) other = y;
        CHECK(y == other);
      }
    }
  }
  std::printf("     %lld problems\n", static_cast<long long>(problems));
}

}  // namespace
}  // namespace msct_test
