#include "kernels/problem.h"

#include <cstring>
#include <type_traits>

namespace msct {

static_assert(std::has_unique_object_representations_v<BackwardProblem>, "problems are compared as bytes");

bool operator==(const ConvTanhProblem& a, const ConvTanhProblem& b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

bool operator==(const BackwardProblem& a, const BackwardProblem& b) { return std::memcmp(&a, &b, sizeof(a)) == 0; }

}  // namespace msct
