// msctGetVersion and msctGetInfo.
#include <string>

#include "aclnn/opdev/op_errno.h"
#include "aclnn/src/error.h"
#include "aclnn/src/keep.h"
#include "aclnn/src/options.h"
#include "aclnn/src/tuning.h"
#include "kernels/cpu/registry.h"
#include "kernels/dispatch/features.h"
#include "kernels/dispatch/plan.h"
#include "ms_convtanh/ms_convtanh.h"

namespace msct {
namespace {

// The names of the K1 variants that run with these features.
const char* variants_for(uint32_t features) {
  std::string names;
  for (const K1Variant& variant : k1_variants()) {
    if ((variant.features & ~features) != 0) continue;
    names += (names.empty() ? "" : ",") + std::string(variant.name);
  }
  return keep(names);
}

// A middle layer of a residual network: [1, 64, 56, 56], 64 filters of 3x3, contiguous, padded to the same size.
ConvTanhProblem large_problem() {
  ConvTanhProblem problem = {};
  problem.dtype = DType::kFloat32;
  problem.n = problem.groups = 1;
  problem.ci = problem.co = 64;
  problem.hi = problem.wi = problem.ho = problem.wo = 56;
  problem.kh = problem.kw = 3;
  problem.stride_h = problem.stride_w = problem.dilation_h = problem.dilation_w = 1;
  problem.pad_top = problem.pad_bottom = problem.pad_left = problem.pad_right = 1;
  const int64_t image[4] = {64 * 56 * 56, 56 * 56, 56, 1}, filter[4] = {64 * 9, 9, 3, 1};
  for (int i = 0; i < 4; ++i) {
    problem.x_strides[i] = problem.y_strides[i] = image[i];
    problem.filter_strides[i] = filter[i];
  }
  return problem;
}

}  // namespace
}  // namespace msct

const char* msctGetVersion() { return MSCT_VERSION; }

const char* msctGetCpuModel() { return msct::cpu_model().c_str(); }

aclnnStatus msctGetInfo(msctInfo* info) {
  using namespace msct;
  return guarded(ACLNN_ERR_INNER, __func__, [&]() -> int32_t {
    if (int32_t status = check_not_null(ACLNN_ERR_PARAM_NULLPTR, "msctGetInfo", {{"info", info}})) return status;
    DispatchOptions options;
    if (int32_t status = current_options("msctGetInfo", &options)) return status;
    const Plan plan = make_plan(options, large_problem());
    const std::string fusion = option_text(kFusion);
    *info = {};
    info->detected = variants_for(detected_features());
    info->allowed = variants_for(options.features);
    info->built = variants_for(~uint32_t{0});
    info->k1 = plan.k1->name;
    info->k2 = plan.k2->name;
    info->max_isa = keep(option_text(kMaxIsa));
    info->fusion = fusion.empty() ? "auto" : keep(fusion);
    info->threads = plan.threads;
#if defined(__clang__)
    info->compiler = "clang " __clang_version__;
#else
    info->compiler = "g++ " __VERSION__;
#endif
    std::string ignored;
    info->tuning = current_tuning(&ignored) == nullptr ? "" : keep(option_text(kTuning));
    info->tuningIgnored = keep(ignored);
    return ACLNN_SUCCESS;
  });
}
