/*
 * The gradients of y = tanh(conv2d(x, filter, bias)), the aclnn two-phase operator.
 *
 * The same header serves the embedded CPU library and the CANN operator package. Declarations stay on this exact form:
 * MindSpore reads the prototype out of the installed header.
 */
#ifndef MS_CONVTANH_ACLNNOP_ACLNN_FUSED_CONV_TANH_BACKWARD_H_
#define MS_CONVTANH_ACLNNOP_ACLNN_FUSED_CONV_TANH_BACKWARD_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Phase 1: checks every argument, plans, and returns the workspace size in bytes and an executor.
 * With dz = gradY * (1 - y * y):
 *   gradX       the transposed convolution of dz with filter; 0 where no output reads x
 *   gradFilter  the sums over batch and space of dz times the x that each tap reads
 *   gradBias    the sums over batch and space of dz
 *
 *   gradY, y    [N, Cout, Ho, Wo] (NCHW) or [N, Cout, Lo] (NCL); y is what the forward operator returned
 *   x, filter   as the forward operator had them
 *   strides, pads, dilations, groups, cubeMathType   likewise
 *   outputMask  [gradX, gradFilter, gradBias]: which gradients to compute; at least one
 *   gradX, gradFilter, gradBias   shaped as x, filter and [Cout]; null or ignored where outputMask is false
 *
 * All tensors share one dtype: ACL_FLOAT, ACL_FLOAT16 or ACL_BF16. Sums are taken in float32, those over batch and space
 * in blocks that are added up in float64, and rounded once. Results do not depend on the number of threads. Any strides
 * and offsets are accepted; inputs may repeat elements (stride 0), outputs may not. N = 0 and empty outputs of the
 * forward operator give gradients of 0. Tensors and arrays may be destroyed after phase 1; the data must live until
 * phase 2 has run.
 *
 * Returns ACLNN_SUCCESS; ACLNN_ERR_PARAM_NULLPTR (161001) for a null pointer that is needed; ACLNN_ERR_PARAM_INVALID
 * (161002) for anything else that is wrong. aclGetRecentErrMsg() names the argument, what was expected and what came.
 */
__attribute__((visibility("default")))
aclnnStatus aclnnFusedConvTanhBackwardGetWorkspaceSize(const aclTensor *gradY, const aclTensor *y, const aclTensor *x,
                                                       const aclTensor *filter, const aclIntArray *strides,
                                                       const aclIntArray *pads, const aclIntArray *dilations,
                                                       int64_t groups, int64_t cubeMathType,
                                                       const aclBoolArray *outputMask, aclTensor *gradX,
                                                       aclTensor *gradFilter, aclTensor *gradBias,
                                                       uint64_t *workspaceSize, aclOpExecutor **executor);

/* Phase 2: as aclnnFusedConvTanh. */
__attribute__((visibility("default")))
aclnnStatus aclnnFusedConvTanhBackward(void *workspace, uint64_t workspaceSize, aclOpExecutor *executor,
                                       aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  /* MS_CONVTANH_ACLNNOP_ACLNN_FUSED_CONV_TANH_BACKWARD_H_ */
