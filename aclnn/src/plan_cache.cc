#include "aclnn/src/plan_cache.h"

#include <cstring>
#include <unordered_map>

#include "aclnn/opdev/op_errno.h"
#include "aclnn/src/error.h"
#include "aclnn/src/handles.h"
#include "aclnn/src/options.h"
#include "aclnn/src/tuning.h"

namespace msct {
namespace {

Plan make(DispatchOptions options, const ConvTanhProblem& problem) {
  if (const auto tuning = current_tuning()) tuning->apply(problem, &options);
  return make_plan(options, problem);
}
BackwardPlan make(const DispatchOptions& options, const BackwardProblem& problem) {
  return make_backward_plan(options, problem);
}

// In units of about a kilobyte.
size_t weight_of(const Plan& /*plan*/) { return 1; }
size_t weight_of(const BackwardPlan& plan) { return 2 + plan.grad_x.size(); }

// A program with more shapes than fit this plans anew now and then.
constexpr size_t kMaxWeight = 1024;

template <typename Problem, typename AnyPlan>
class PlanCache {
 public:
  std::shared_ptr<const AnyPlan> find(const DispatchOptions& options, const Problem& problem) {
    const Key key = {options.features, static_cast<int64_t>(options.fusion), options.threads, tuning_version(),
                     problem};
    {
      const std::lock_guard<std::mutex> lock(library_mutex());
      const auto found = plans_.find(key);
      if (found != plans_.end()) return found->second;
    }
    auto plan = std::make_shared<const AnyPlan>(make(options, problem));
    const size_t weight = weight_of(*plan);
    if (weight > kMaxWeight) return plan;
    const std::lock_guard<std::mutex> lock(library_mutex());
    if (weight_ + weight > kMaxWeight) {
      plans_.clear();
      weight_ = 0;
    }
    const auto [place, is_new] = plans_.emplace(key, std::move(plan));
    if (is_new) weight_ += weight;
    return place->second;
  }

 private:
  // 64-bit fields only, so that there is no padding and keys are compared and hashed as bytes.
  struct Key {
    int64_t features;
    int64_t fusion;
    int64_t threads;
    int64_t tuning;
    Problem problem;

    bool operator==(const Key& other) const { return std::memcmp(this, &other, sizeof(Key)) == 0; }
  };
  static_assert(sizeof(Key) == 4 * sizeof(int64_t) + sizeof(Problem) && alignof(Key) == alignof(int64_t), "no padding");

  // FNV-1a on words: http://www.isthe.com/chongo/tech/comp/fnv/. The fold brings the high bits down to where tables
  // look.
  struct KeyHash {
    size_t operator()(const Key& key) const {
      uint64_t words[sizeof(Key) / sizeof(uint64_t)];
      std::memcpy(words, &key, sizeof(key));
      uint64_t hash = 0xcbf29ce484222325u;
      for (const uint64_t word : words) hash = (hash ^ word) * 0x100000001b3u;
      return static_cast<size_t>(hash ^ (hash >> 32));
    }
  };

  std::unordered_map<Key, std::shared_ptr<const AnyPlan>, KeyHash> plans_;
  size_t weight_ = 0;
};

template <typename Problem, typename AnyPlan>
int32_t find_any_plan(const Arguments& arguments, const Problem& problem, std::shared_ptr<const AnyPlan>* plan) {
  // Never destroyed: threads may plan while the process ends.
  static auto* cache = new PlanCache<Problem, AnyPlan>;
  DispatchOptions options;
  if (int32_t status = current_options(arguments.op.name, &options)) return status;
  *plan = cache->find(options, problem);
  if ((*plan)->workspace_bytes < INT64_MAX) return ACLNN_SUCCESS;
  return fail(ACLNN_ERR_PARAM_INVALID, arguments.op.name,
              "x, filter and y must need a workspace of at most 2^60 bytes, got filter.shape %s and y.shape %s",
              text_of(arguments.tensors[kFilter]->shape).c_str(), text_of(arguments.tensors[kY]->shape).c_str());
}

}  // namespace

int32_t find_plan(const Arguments& arguments, const ConvTanhProblem& problem, std::shared_ptr<const Plan>* plan) {
  return find_any_plan(arguments, problem, plan);
}

int32_t find_plan(const Arguments& arguments, const BackwardProblem& problem,
                  std::shared_ptr<const BackwardPlan>* plan) {
  return find_any_plan(arguments, problem, plan);
}

}  // namespace msct
