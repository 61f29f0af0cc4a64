// Prints what the host tiling makes of problems: one problem on each line of the input, as the number of cores
// and the numbers of problem_list; on each line of the output all numbers of the plan, or "error: " and the reason.
#include <iostream>
#include <sstream>

#include "kernels/ascend/conv_tiling.h"

namespace {

template <typename Tiling>
void print(const msct::ascend::Launch<Tiling>& launch) {
  const auto* values = reinterpret_cast<const int64_t*>(&launch.tiling);
  for (size_t i = 0; i < sizeof(Tiling) / sizeof(int64_t); ++i) std::cout << values[i] << ' ';
  std::cout << launch.key << ' ' << launch.blocks << ' ';
}

}  // namespace

int main() {
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    int64_t cores = 0;
    words >> cores;
    std::vector<int64_t> values;
    for (int64_t value; words >> value;) values.push_back(value);
    msct::ConvTanhProblem problem;
    bool fused = false;
    if (!msct::ascend::problem_of_list(values.data(), values.size(), &problem, &fused)) return 2;
    if (msct::ascend::problem_list(problem, fused) != values) return 3;
    msct::ascend::Plan plan;
    std::string error;
    if (!msct::ascend::make_tiling(problem, cores, fused, &plan, &error)) {
      std::cout << "error: " << error << '\n';
      continue;
    }
    print(plan.pack);
    print(plan.conv);
    print(plan.tanh);
    std::cout << static_cast<int64_t>(plan.compute_dtype) << ' ' << plan.x_packed_elements << ' '
              << plan.filter_packed_elements << ' ' << plan.wst_elements << '\n';
  }
}
