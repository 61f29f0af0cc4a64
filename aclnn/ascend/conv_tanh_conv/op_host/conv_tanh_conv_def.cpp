// K1: the convolution on the Cube cores, float32 wsT [N, Cout, spatial].
#include "../../common/op_definition.h"

namespace ops {

class ConvTanhConv : public OpDef {
 public:
  explicit ConvTanhConv(const char* name) : OpDef(name) {
    const std::vector<ge::DataType> products = {ge::DT_FLOAT16, ge::DT_BF16, ge::DT_FLOAT};
    const std::vector<ge::DataType> sums = {ge::DT_FLOAT, ge::DT_FLOAT, ge::DT_FLOAT};
    describe(this->Input("x_packed"), REQUIRED, products);
    describe(this->Input("filter_packed"), REQUIRED, products);
    describe(this->Output("wst"), REQUIRED, sums);
    this->Attr("problem").AttrType(REQUIRED).ListInt();
    OpAICoreConfig config = config_of("k1_conv");
    this->AICore().AddConfig("ascend950", config);
  }
};

OP_ADD(ConvTanhConv);

}  // namespace ops
