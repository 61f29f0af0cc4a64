// K2: y = tanh(wsT) on the Vector cores, rounded once.
#include "aclnn/ascend/common/op_definition.h"

namespace ops {

class ConvTanhTanh : public OpDef {
 public:
  explicit ConvTanhTanh(const char* name) : OpDef(name) {
    const std::vector<ge::DataType> sums = {ge::DT_FLOAT, ge::DT_FLOAT, ge::DT_FLOAT};
    const std::vector<ge::DataType> tensors = {ge::DT_FLOAT16, ge::DT_BF16, ge::DT_FLOAT};
    describe(this->Input("wst"), REQUIRED, sums);
    describe(this->Output("y"), REQUIRED, tensors);
    run_on_ascend950(this, "k2_tanh");
  }
};

OP_ADD(ConvTanhTanh);

}  // namespace ops
