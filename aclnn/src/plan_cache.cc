#include "aclnn/src/plan_cache.h"

#include <cstring>
#include <unordered_map>

#include "aclnn/src/handles.h"

namespace msct {
namespace {

// A plan takes about a kilobyte. A program with more shapes than this plans anew now and then.
constexpr size_t kMaxPlans = 1024;

// 64-bit fields only, so that there is no padding and keys are compared and hashed as bytes.
struct Key {
  int64_t features;
  int64_t fusion;
  int64_t threads;
  ConvTanhProblem problem;

  bool operator==(const Key& other) const { return std::memcmp(this, &other, sizeof(Key)) == 0; }
};
constexpr size_t kWords = sizeof(Key) / sizeof(uint64_t);
static_assert(sizeof(Key) == kWords * sizeof(uint64_t) && alignof(Key) == alignof(uint64_t), "no padding");

// FNV-1a on words: http://www.isthe.com/chongo/tech/comp/fnv/. The fold brings the high bits down to where tables look.
struct KeyHash {
  size_t operator()(const Key& key) const {
    uint64_t words[kWords];
    std::memcpy(words, &key, sizeof(key));
    uint64_t hash = 0xcbf29ce484222325u;
    for (const uint64_t word : words) hash = (hash ^ word) * 0x100000001b3u;
    return static_cast<size_t>(hash ^ (hash >> 32));
  }
};

using Plans = std::unordered_map<Key, std::shared_ptr<const Plan>, KeyHash>;

Plans& plans() {
  static Plans* all = new Plans;  // never destroyed: threads may plan while the process ends
  return *all;
}

}  // namespace

std::shared_ptr<const Plan> cached_plan(const DispatchOptions& options, const ConvTanhProblem& problem) {
  const Key key = {options.features, static_cast<int64_t>(options.fusion), options.threads, problem};
  {
    const std::lock_guard<std::mutex> lock(library_mutex());
    const auto found = plans().find(key);
    if (found != plans().end()) return found->second;
  }
  auto plan = std::make_shared<const Plan>(make_plan(options, problem));
  const std::lock_guard<std::mutex> lock(library_mutex());
  if (plans().size() >= kMaxPlans) plans().clear();
  return plans().emplace(key, std::move(plan)).first->second;
}

}  // namespace msct
