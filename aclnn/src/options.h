// The options of ms_convtanh.h: an environment variable each, and msctSetOption above it.
#ifndef MS_CONVTANH_ACLNN_SRC_OPTIONS_H_
#define MS_CONVTANH_ACLNN_SRC_OPTIONS_H_

#include <string>

#include "kernels/dispatch/plan.h"

namespace msct {

enum Option { kMaxIsa, kFusion, kNumThreads, kOptions };

// What dispatch may use now. Fails with ACLNN_ERR_PARAM_INVALID if an environment variable has an unknown value, and
// names it.
int32_t current_options(const char* function, DispatchOptions* options);

// The value in force, "" where none was given.
std::string option_text(Option option);

}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_SRC_OPTIONS_H_
