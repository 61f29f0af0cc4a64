// K0: x, padded and split by the strides, and filter with the bias, as K1 and K12 read them.
#include "../../common/op_definition.h"

namespace ops {

class ConvTanhPack : public OpDef {
 public:
  explicit ConvTanhPack(const char* name) : OpDef(name) {
    const std::vector<ge::DataType> tensors = {ge::DT_FLOAT16, ge::DT_BF16, ge::DT_FLOAT, ge::DT_FLOAT};
    const std::vector<ge::DataType> products = {ge::DT_FLOAT16, ge::DT_BF16, ge::DT_FLOAT, ge::DT_FLOAT16};
    describe(this->Input("x"), REQUIRED, tensors);
    describe(this->Input("filter"), REQUIRED, tensors);
    describe(this->Input("bias"), OPTIONAL, tensors);
    describe(this->Output("x_packed"), REQUIRED, products);
    describe(this->Output("filter_packed"), REQUIRED, products);
    this->Attr("problem").AttrType(REQUIRED).ListInt();
    OpAICoreConfig config = config_of("k0_pack");
    this->AICore().AddConfig("ascend950", config);
  }
};

OP_ADD(ConvTanhPack);

}  // namespace ops
