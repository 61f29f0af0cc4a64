/* Everything a host program needs besides the operator: CANN's acl/acl.h, for machines without CANN. */
#ifndef MS_CONVTANH_ACL_ACL_H_
#define MS_CONVTANH_ACL_ACL_H_

#include "acl/acl_base.h"
#include "acl/acl_rt.h"

#endif  /* MS_CONVTANH_ACL_ACL_H_ */
