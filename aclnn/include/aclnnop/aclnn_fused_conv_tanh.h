/*
 * y = tanh(conv2d(x, filter, bias)), the aclnn two-phase operator.
 *
 * The same header serves the embedded CPU library and the CANN operator package. Declarations stay on this exact form:
 * MindSpore reads the prototype out of the installed header.
 */
#ifndef MS_CONVTANH_ACLNNOP_ACLNN_FUSED_CONV_TANH_H_
#define MS_CONVTANH_ACLNNOP_ACLNN_FUSED_CONV_TANH_H_

#include "aclnn/aclnn_base.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Phase 1: checks every argument, plans, and returns the workspace size in bytes and an executor.
 *
 *   x             [N, Cin, H, W] (NCHW) or [N, Cin, L] (NCL)
 *   filter        [Cout, Cin / groups, Kh, Kw] or [Cout, Cin / groups, K]
 *   biasOptional  [Cout], or null
 *   strides       [h, w] or [l]; each > 0
 *   pads          4-D: [top, bottom, left, right], or [h, w] for both sides; 3-D: [left, right] or [l]; each >= 0.
 *                 Padding is by zeros, which take part in the sum: a NaN or Inf filter tap gives NaN there.
 *   dilations     [h, w] or [l]; each > 0
 *   groups        divides Cin and Cout
 *   cubeMathType  0 KEEP_DTYPE, 1 ALLOW_FP32_DOWN_PRECISION, 2 USE_FP16, 3 USE_HF32: how far float32 products may be
 *                 rounded. CPU kernels compute at KEEP_DTYPE precision for all four, but for 1 and 3 with AMX.
 *   y             [N, Cout, Ho, Wo] or [N, Cout, Lo], Ho = (H + top + bottom - dilation * (Kh - 1) - 1) / stride + 1
 *
 * All tensors share one dtype: ACL_FLOAT, ACL_FLOAT16 or ACL_BF16; sums and tanh are computed in float32 and rounded
 * once. x, filter and y share one format, ACL_FORMAT_NCHW or ACL_FORMAT_NCL; the bias may also be ACL_FORMAT_ND.
 *
 * Any strides >= 0 and offsets are accepted as long as the view lies inside its storageDims; inputs may repeat elements
 * (stride 0), y may not. The padded input must hold the dilated kernel. N = 0, Cout = 0 and other outputs without
 * elements are accepted; x and filter may be empty only if y is. Tensors and arrays may be destroyed after phase 1; the
 * data must live until phase 2 has run, and need not be there before phase 2.
 *
 * Returns ACLNN_SUCCESS; ACLNN_ERR_PARAM_NULLPTR (161001) for a null x, filter, strides, pads, dilations, y,
 * workspaceSize or executor; ACLNN_ERR_PARAM_INVALID (161002) for anything else that is wrong. aclGetRecentErrMsg()
 * names the argument, what was expected and what came. Checks come in the order of the aclnn operators: null pointers,
 * dtypes, formats, shapes, attributes, y's shape, empty tensors. After a failure *workspaceSize and *executor are as
 * they were.
 */
__attribute__((visibility("default"))) aclnnStatus aclnnFusedConvTanhGetWorkspaceSize(
    const aclTensor *x, const aclTensor *filter, const aclTensor *biasOptional, const aclIntArray *strides,
    const aclIntArray *pads, const aclIntArray *dilations, int64_t groups, int64_t cubeMathType, aclTensor *y,
    uint64_t *workspaceSize, aclOpExecutor **executor);

/*
 * Phase 2: launches on the stream and frees the executor, unless aclSetAclOpExecutorRepeatable was called on it.
 *
 *   workspace      at least the size that phase 1 returned; null only if that is 0
 *   stream         work is queued on it; null runs the operator before returning
 *
 * Data must be aligned to its elements (2 or 4 bytes). y must not share memory with the inputs or the workspace: this
 * is refused where it is certain, that is, for views without gaps.
 *
 * Returns ACLNN_SUCCESS; ACLNN_ERR_INNER_NULLPTR (561103) for a null executor; ACLNN_ERR_PARAM_NULLPTR for a null
 * workspace where one is needed, or null data; ACLNN_ERR_PARAM_INVALID for a workspace that is too small, shared
 * memory, data that is not aligned, or an executor that is not alive; ACLNN_ERR_RUNTIME_ERROR (361001) for a stream
 * that is not alive. A refused launch leaves the executor alive. A failure while the work runs on a stream is returned
 * by aclrtSynchronizeStream.
 */
__attribute__((visibility("default"))) aclnnStatus aclnnFusedConvTanh(void *workspace, uint64_t workspaceSize,
                                                                      aclOpExecutor *executor, aclrtStream stream);

#ifdef __cplusplus
}
#endif

#endif  /* MS_CONVTANH_ACLNNOP_ACLNN_FUSED_CONV_TANH_H_ */
