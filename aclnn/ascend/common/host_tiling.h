// What the host tilings of the four kernels share.
#ifndef MS_CONVTANH_ACLNN_ASCEND_COMMON_HOST_TILING_H_
#define MS_CONVTANH_ACLNN_ASCEND_COMMON_HOST_TILING_H_

#include <cstring>
#include <string>

#include "exe_graph/runtime/tiling_context.h"
#include "kernels/ascend/conv_tiling.h"
#include "log/log.h"
#include "register/op_def_registry.h"
#include "register/tilingdata_base.h"
#include "tiling/platform/platform_ascendc.h"

namespace msct {
namespace ascend {

struct NoCompileInfo {};

// All TilingData are int64_t numbers, in the order of the kernel's dataclass.
template <typename Tiling>
constexpr size_t kNumbersOf = sizeof(Tiling) / sizeof(int64_t);

// Plans the context's attribute `problem` for the Cube cores of this NPU and hands over one kernel's launch.
template <typename Tiling>
ge::graphStatus set_tiling(gert::TilingContext* context, Launch<Tiling> Plan::*kernel) {
  const auto* attributes = context->GetAttrs();
  OP_CHECK_NULL_WITH_CONTEXT(context, attributes);
  const auto* list = attributes->GetListInt(0);
  OP_CHECK_NULL_WITH_CONTEXT(context, list);
  ConvTanhProblem problem;
  bool fused = false;
  OP_CHECK_IF(!problem_of_list(list->GetData(), list->GetSize(), &problem, &fused),
              OP_LOGE(context, "problem must be a list of conv_tiling.h, got %zu numbers", list->GetSize()),
              return ge::GRAPH_FAILED);
  auto* platform_info = context->GetPlatformInfo();
  OP_CHECK_NULL_WITH_CONTEXT(context, platform_info);
  const int64_t cores = platform_ascendc::PlatformAscendC(platform_info).GetCoreNumAic();
  OP_CHECK_IF(cores < 1, OP_LOGE(context, "the number of Cube cores must be at least 1, got %ld", cores),
              return ge::GRAPH_FAILED);
  Plan plan;
  std::string error;
  OP_CHECK_IF(!make_tiling(problem, cores, fused, &plan, &error), OP_LOGE(context, "%s", error.c_str()),
              return ge::GRAPH_FAILED);

  const Launch<Tiling>& launch = plan.*kernel;
  auto* data = context->GetTilingData<Tiling>();
  OP_CHECK_NULL_WITH_CONTEXT(context, data);
  *data = launch.tiling;
  size_t* workspace = context->GetWorkspaceSizes(1);
  OP_CHECK_NULL_WITH_CONTEXT(context, workspace);
  workspace[0] = 0;
  context->SetTilingKey(launch.key);
  context->SetBlockDim(static_cast<uint32_t>(launch.blocks));
  return ge::GRAPH_SUCCESS;
}

}  // namespace ascend
}  // namespace msct

#endif  // MS_CONVTANH_ACLNN_ASCEND_COMMON_HOST_TILING_H_
