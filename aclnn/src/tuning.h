// What `ms-convtanh tune` measured on this CPU, by problem.
#ifndef MS_CONVTANH_ACLNN_SRC_TUNING_H_
#define MS_CONVTANH_ACLNN_SRC_TUNING_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "kernels/dispatch/plan.h"

namespace msct {

// The CPU's model as the system names it, such as "AMD EPYC".
const std::string& cpu_model();

// The file is a small part of YAML:
//
//   # a comment
//   format: 1
//   library: 0.1.0
//   cpu: AMD EPYC
//   entries:
//   - {isa: avx2, dtype: float32, x: [1, 64, 56, 56], filter: [64, 64, 3, 3], strides: [1, 1], pads: [1, 1, 1, 1],
//      dilations: [1, 1], groups: 1, fusion: half, threads: 2, tile_elements: 8192, gain: 1.07}
//
// with each entry on one line. From isa to groups all must be there: isa is the best variant that was allowed. What
// follows is optional: fusion (half or true), threads, the fields of Tuning, and gain, which is for readers.
class TuningTable {
 public:
  // Null and the reason if the file cannot be read, or is not for this CPU and version of the library.
  static std::shared_ptr<const TuningTable> read(const std::string& path, std::string* reason);

  // Changes the options to what was found best for the problem, in any memory layout. A fusion mode that was asked for
  // stays, and no more threads are used than allowed.
  void apply(const ConvTanhProblem& problem, DispatchOptions* options) const;

 private:
  struct Entry {
    Fusion fusion = Fusion::kAuto;
    int64_t threads = 0;  // 0: not tuned
    Tuning tuning;
  };
  // dtype, x, filter, strides, pads, dilations, groups.
  using Shape = std::array<int64_t, 18>;
  using Key = std::pair<std::string, Shape>;

  static Shape shape_of(const ConvTanhProblem& problem);
  static std::string parse_entry(const std::string& line, Key* key, Entry* entry);

  std::map<Key, Entry> entries_;
};

}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_SRC_TUNING_H_
