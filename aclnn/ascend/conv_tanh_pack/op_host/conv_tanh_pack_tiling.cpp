// The host tiling of ConvTanhPack: kernels/ascend/conv_tiling.h, handed to CANN.
#include "aclnn/ascend/common/host_tiling.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(ConvTanhPackTilingData)
TILING_DATA_FIELD_DEF_ARR(int64_t, msct::ascend::kNumbersOf<msct::ascend::PackTiling>, numbers);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(ConvTanhPack, ConvTanhPackTilingData)

static ge::graphStatus TilingConvTanhPack(gert::TilingContext* context) {
  return msct::ascend::set_tiling(context, &msct::ascend::Plan::pack);
}

static ge::graphStatus TilingParseConvTanhPack([[maybe_unused]] gert::TilingParseContext* context) {
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_OPTILING(ConvTanhPack)
    .Tiling(TilingConvTanhPack)
    .TilingParse<msct::ascend::NoCompileInfo>(TilingParseConvTanhPack);

}  // namespace optiling
