// K12: K1 and K2 in one kernel, without wsT.
#include "../../common/op_definition.h"

namespace ops {

class ConvTanhFused : public OpDef {
 public:
  explicit ConvTanhFused(const char* name) : OpDef(name) {
    const std::vector<ge::DataType> products = {ge::DT_FLOAT16, ge::DT_BF16, ge::DT_FLOAT, ge::DT_FLOAT16};
    const std::vector<ge::DataType> tensors = {ge::DT_FLOAT16, ge::DT_BF16, ge::DT_FLOAT, ge::DT_FLOAT};
    describe(this->Input("x_packed"), REQUIRED, products);
    describe(this->Input("filter_packed"), REQUIRED, products);
    describe(this->Output("y"), REQUIRED, tensors);
    this->Attr("problem").AttrType(REQUIRED).ListInt();
    OpAICoreConfig config = config_of("k12_fused");
    this->AICore().AddConfig("ascend950", config);
  }
};

OP_ADD(ConvTanhFused);

}  // namespace ops
