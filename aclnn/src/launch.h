// Phase 2 of both operators.
#ifndef MS_CONVTANH_ACLNN_SRC_LAUNCH_H_
#define MS_CONVTANH_ACLNN_SRC_LAUNCH_H_

#include "acl/acl_rt.h"
#include "aclnn/acl_meta.h"
#include "aclnn/src/arguments.h"

namespace msct {

// Launches an executor of the operator, as the public headers say.
int32_t launch(const Operator& op, void* workspace, uint64_t workspace_size, aclOpExecutor* handle,
               aclrtStream stream_handle);

}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_SRC_LAUNCH_H_
