/* What every operator header includes: the types of acl_meta.h, and the start and end of use. */
#ifndef MS_CONVTANH_ACLNN_ACLNN_BASE_H_
#define MS_CONVTANH_ACLNN_ACLNN_BASE_H_

#include "aclnn/acl_meta.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Optional, as in CANN. configPath: as for aclInit. May be repeated. */
ACL_FUNC_VISIBILITY aclnnStatus aclnnInit(const char* configPath);
ACL_FUNC_VISIBILITY aclnnStatus aclnnFinalize(void);

#ifdef __cplusplus
}
#endif

#endif  /* MS_CONVTANH_ACLNN_ACLNN_BASE_H_ */
