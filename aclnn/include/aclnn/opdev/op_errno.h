/* Codes of the two-phase operators (aclnn...). Names and values are CANN's, and so is the place of this header. */
#ifndef MS_CONVTANH_ACLNN_OPDEV_OP_ERRNO_H_
#define MS_CONVTANH_ACLNN_OPDEV_OP_ERRNO_H_

#define ACLNN_SUCCESS 0
#define ACLNN_ERR_PARAM_NULLPTR 161001              // a pointer that must not be null is null
#define ACLNN_ERR_PARAM_INVALID 161002              // anything else that is wrong with an argument
#define ACLNN_ERR_RUNTIME_ERROR 361001              // the runtime refused, for example a stream that is not alive
#define ACLNN_ERR_INNER 561000                      // an error inside the library
#define ACLNN_ERR_INNER_INFERSHAPE_ERROR 561001
#define ACLNN_ERR_INNER_TILING_ERROR 561002
#define ACLNN_ERR_INNER_FIND_KERNEL_ERROR 561003
#define ACLNN_ERR_INNER_CREATE_EXECUTOR 561101      // no memory for an executor
#define ACLNN_ERR_INNER_NULLPTR 561103              // a null executor, or no memory

#endif  /* MS_CONVTANH_ACLNN_OPDEV_OP_ERRNO_H_ */
