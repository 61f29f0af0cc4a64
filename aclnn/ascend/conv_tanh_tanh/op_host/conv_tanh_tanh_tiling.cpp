// The host tiling of ConvTanhTanh: kernels/ascend/conv_tiling.h, handed to CANN.
#include "aclnn/ascend/common/host_tiling.h"

namespace optiling {

BEGIN_TILING_DATA_DEF(ConvTanhTanhTilingData)
TILING_DATA_FIELD_DEF_ARR(int64_t, msct::ascend::kNumbersOf<msct::ascend::TanhTiling>, numbers);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(ConvTanhTanh, ConvTanhTanhTilingData)

static ge::graphStatus TilingConvTanhTanh(gert::TilingContext* context) {
  return msct::ascend::set_tiling(context, &msct::ascend::Plan::tanh);
}

static ge::graphStatus TilingParseConvTanhTanh([[maybe_unused]] gert::TilingParseContext* context) {
  return ge::GRAPH_SUCCESS;
}

IMPL_OP_OPTILING(ConvTanhTanh)
    .Tiling(TilingConvTanhTanh)
    .TilingParse<msct::ascend::NoCompileInfo>(TilingParseConvTanhTanh);

}  // namespace optiling
