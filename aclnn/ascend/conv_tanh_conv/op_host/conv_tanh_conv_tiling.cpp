// The host tiling of ConvTanhConv: kernels/ascend/conv_tiling.h, handed to CANN.
#include "aclnn/ascend/common/host_tiling.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(ConvTanhConvTilingData)
TILING_DATA_FIELD_DEF_ARR(int64_t, msct::ascend::kNumbersOf<msct::ascend::ConvTiling>, numbers);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(ConvTanhConv, ConvTanhConvTilingData)

static ge::graphStatus TilingConvTanhConv(gert::TilingContext* context) {
  return msct::ascend::set_tiling(context, &msct::ascend::Plan::conv);
}

static ge::graphStatus TilingParseConvTanhConv([[maybe_unused]] gert::TilingParseContext* context) {
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_OPTILING(ConvTanhConv)
    .Tiling(TilingConvTanhConv)
    .TilingParse<msct::ascend::NoCompileInfo>(TilingParseConvTanhConv);

}  // namespace optiling
