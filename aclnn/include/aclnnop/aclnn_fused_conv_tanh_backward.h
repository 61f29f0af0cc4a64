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
 *   gradY, y      [N, Cout, Ho, Wo] (NCHW) or [N, Cout, Lo] (NCL); y is what the forward operator returned
 *   x, filter     as the forward operator had them
 *   strides, pads, dilations, groups, cubeMathType   likewise
 *   outputMask    3 entries: whether to compute gradX, gradFilter, gradBias; none of them is fine too
 *   gradX, gradFilter, gradBias   shaped as x, filter and [Cout]; ignored and possibly null where outputMask is false
 *
 * All tensors share one dtype: ACL_FLOAT, ACL_FLOAT16 or ACL_BF16. Sums are taken in float32, those over batch and
 * space in blocks that are added up in float64, and rounded once. Results do not depend on the number of threads. All
 * but gradBias share one format, ACL_FORMAT_NCHW or ACL_FORMAT_NCL; gradBias may also be ACL_FORMAT_ND.
 *
 * Any strides >= 0 and offsets are accepted as long as the view lies inside its storageDims; inputs may repeat elements
 * (stride 0), outputs may not. What the forward operator accepts as empty is accepted: a gradient that has elements,
 * but no output to sum over, is 0. Tensors and arrays may be destroyed after phase 1; the data must live until phase 2
 * has run. The data of x is read for gradFilter only, that of filter for gradX only.
 *
 * Returns ACLNN_SUCCESS; ACLNN_ERR_PARAM_NULLPTR (161001) for a null gradY, y, x, filter, strides, pads, dilations,
 * outputMask, workspaceSize or executor, or a null gradient that outputMask chooses; ACLNN_ERR_PARAM_INVALID (161002)
 * for anything else that is wrong. aclGetRecentErrMsg() names the argument, what was expected and what came. Checks
 * come in the order of the aclnn operators: null pointers, dtypes, formats, shapes, attributes, the shapes of y and of
 * all gradients, empty tensors. After a failure *workspaceSize and *executor are as they were.
 */
__attribute__((visibility("default"))) aclnnStatus aclnnFusedConvTanhBackwardGetWorkspaceSize(
    const aclTensor *gradY, const aclTensor *y, const aclTensor *x, const aclTensor *filter, const aclIntArray *strides,
    const aclIntArray *pads, const aclIntArray *dilations, int64_t groups, int64_t cubeMathType,
    const aclBoolArray *outputMask, aclTensor *gradX, aclTensor *gradFilter, aclTensor *gradBias,
    uint64_t *workspaceSize, aclOpExecutor **executor);

/*
 * Phase 2: as aclnnFusedConvTanh. The gradients must share memory neither with each other nor with what is read for any
 * of them. An executor of aclnnFusedConvTanh is refused with ACLNN_ERR_PARAM_INVALID.
 */
__attribute__((visibility("default"))) aclnnStatus aclnnFusedConvTanhBackward(void *workspace, uint64_t workspaceSize,
                                                                              aclOpExecutor *executor,
                                                                              aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  /* MS_CONVTANH_ACLNNOP_ACLNN_FUSED_CONV_TANH_BACKWARD_H_ */
