// Texts that a C caller gets and never frees.
#ifndef MS_CONVTANH_ACLNN_SRC_KEEP_H_
#define MS_CONVTANH_ACLNN_SRC_KEEP_H_

#include <string>

namespace msct {

// A copy that lives as long as the process; one for equal texts.
const char* keep(const std::string& text);

}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_SRC_KEEP_H_
