#include "aclnn/src/keep.h"

#include <mutex>
#include <set>

#include "aclnn/src/handles.h"

namespace msct {

const char* keep(const std::string& text) {
  const std::lock_guard<std::mutex> lock(library_mutex());
  static auto* kept = new std::set<std::string>;
  return kept->insert(text).first->c_str();
}

}  // namespace msct
