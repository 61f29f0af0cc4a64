// The host tiling of ConvTanhFused: kernels/ascend/conv_tiling.h, handed to CANN.
#include "aclnn/ascend/common/host_tiling.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(ConvTanhFusedTilingData)
TILING_DATA_FIELD_DEF_ARR(int64_t, msct::ascend::kNumbersOf<msct::ascend::ConvTiling>, numbers);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(ConvTanhFused, ConvTanhFusedTilingData)

static ge::graphStatus TilingConvTanhFused(gert::TilingContext* context) {
  return msct::ascend::set_tiling(context, &msct::ascend::Plan::conv);
}

static ge::graphStatus TilingParseConvTanhFused([[maybe_unused]] gert::TilingParseContext* context) {
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_OPTILING(ConvTanhFused)
    .Tiling(TilingConvTanhFused)
    .TilingParse<msct::ascend::NoCompileInfo>(TilingParseConvTanhFused);

}  // namespace optiling
