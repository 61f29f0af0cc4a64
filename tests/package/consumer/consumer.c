/* A C99 program as a user would build it: y = tanh(x * w + b) for one element, through both phases. */
#include <stdio.h>
#include <stdlib.h>

#include "acl/acl.h"
#include "aclnnop/aclnn_fused_conv_tanh.h"
#include "ms_convtanh/ms_convtanh.h"

static int failed(const char *call, int status) {
  if (status != 0) fprintf(stderr, "%s returned %d: %s\n", call, status, aclGetRecentErrMsg());
  return status != 0;
}

static aclTensor *tensor(float *data, uint64_t rank) {
  const int64_t ones[4] = {1, 1, 1, 1};
  const aclFormat format = rank == 4 ? ACL_FORMAT_NCHW : ACL_FORMAT_ND;
  return aclCreateTensor(ones, rank, ACL_FLOAT, ones, 0, format, ones, rank, data);
}

int main(void) {
  float x = 0.5f, w = 3.0f, b = -1.0f, y = 0.0f;
  const int64_t ones[2] = {1, 1}, zeros[4] = {0, 0, 0, 0};
  aclrtStream stream = NULL;
  if (failed("aclInit", aclInit(NULL)) || failed("aclrtSetDevice", aclrtSetDevice(0)) ||
      failed("aclrtCreateStream", aclrtCreateStream(&stream))) {
    return 1;
  }
  aclTensor *tensors[4] = {tensor(&x, 4), tensor(&w, 4), tensor(&b, 1), tensor(&y, 4)};
  aclIntArray *strides = aclCreateIntArray(ones, 2);
  aclIntArray *pads = aclCreateIntArray(zeros, 4);
  aclIntArray *dilations = aclCreateIntArray(ones, 2);

  uint64_t size = 0;
  aclOpExecutor *executor = NULL;
  if (failed("aclnnFusedConvTanhGetWorkspaceSize",
             aclnnFusedConvTanhGetWorkspaceSize(tensors[0], tensors[1], tensors[2], strides, pads, dilations, 1, 0,
                                                tensors[3], &size, &executor))) {
    return 1;
  }
  void *workspace = size > 0 ? malloc(size) : NULL;
  if (failed("aclnnFusedConvTanh", aclnnFusedConvTanh(workspace, size, executor, stream)) ||
      failed("aclrtSynchronizeStream", aclrtSynchronizeStream(stream))) {
    return 1;
  }
  printf("%s %.9g\n", msctGetVersion(), y);

  free(workspace);
  for (int i = 0; i < 4; ++i) aclDestroyTensor(tensors[i]);
  aclDestroyIntArray(strides);
  aclDestroyIntArray(pads);
  aclDestroyIntArray(dilations);
  aclrtDestroyStream(stream);
  aclrtResetDevice(0);
  return aclFinalize();
}
