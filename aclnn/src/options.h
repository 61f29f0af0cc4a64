// The options of ms_convtanh.h: an environment variable each, and msctSetOption above it.
#ifndef MS_CONVTANH_ACLNN_SRC_OPTIONS_H_
#define MS_CONVTANH_ACLNN_SRC_OPTIONS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/dispatch/plan.h"

namespace msct {

class TuningTable;

enum Option { kMaxIsa, kFusion, kNumThreads, kTuning, kOptions };

// What dispatch may use now. Fails with ACLNN_ERR_PARAM_INVALID if an environment variable has an unknown value, and
// names it.
int32_t current_options(const char* function, DispatchOptions* options);

// The value in force, "" where none was given.
std::string option_text(Option option);

// What was measured on this CPU for single problems, null if nothing; and why a file of the environment is ignored, ""
// if none is. Its version changes with it.
std::shared_ptr<const TuningTable> current_tuning(std::string* ignored = nullptr);
int64_t tuning_version();

}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_SRC_OPTIONS_H_
