// K2: y = tanh(wsT) on the Vector cores, rounded once.
#include "../../common/op_definition.h"

namespace ops {

class ConvTanhTanh : public OpDef {
 public:
  explicit ConvTanhTanh(const char* name) : OpDef(name) {
    const std::vector<ge::DataType> sums = {ge::DT_FLOAT, ge::DT_FLOAT, ge::DT_FLOAT};
    const std::vector<ge::DataType> tensors = {ge::DT_FLOAT16, ge::DT_BF16, ge::DT_FLOAT};
    describe(this->Input("wst"), REQUIRED, sums);
    describe(this->Output("y"), REQUIRED, tensors);
    this->Attr("problem").AttrType(REQUIRED).ListInt();
    OpAICoreConfig config = config_of("k2_tanh");
    this->AICore().AddConfig("ascend950", config);
  }
};

OP_ADD(ConvTanhTanh);

}  // namespace ops
