// Shape and dtype of FusedConvTanh's y. Sizes that are not known yet are -1, and -2 stands for an unknown rank.
#include "kernels/output_size.h"
#include "log/log.h"
#include "register/op_impl_registry.h"

namespace ops {
namespace {

enum Attribute { kStrides, kPads, kDilations };

ge::graphStatus infer_shape(gert::InferShapeContext* context) {
  const gert::Shape* x = context->GetInputShape(0);
  const gert::Shape* filter = context->GetInputShape(1);
  gert::Shape* y = context->GetOutputShape(0);
  const auto* attributes = context->GetAttrs();
  OP_CHECK_NULL_WITH_CONTEXT(context, x);
  OP_CHECK_NULL_WITH_CONTEXT(context, filter);
  OP_CHECK_NULL_WITH_CONTEXT(context, y);
  OP_CHECK_NULL_WITH_CONTEXT(context, attributes);
  if (x->GetDimNum() == 1 && x->GetDim(0) == -2) {
    *y = *x;
    return ge::GRAPH_SUCCESS;
  }
  const size_t rank = x->GetDimNum();
  OP_CHECK_IF(rank != 3 && rank != 4, OP_LOGE(context, "x must be 3- or 4-dimensional, got %zu dimensions", rank),
              return ge::GRAPH_FAILED);
  OP_CHECK_IF(filter->GetDimNum() != rank,
              OP_LOGE(context, "filter must be %zu-dimensional, got %zu dimensions", rank, filter->GetDimNum()),
              return ge::GRAPH_FAILED);
  const size_t axes = rank - 2;
  const auto* strides = attributes->GetListInt(kStrides);
  const auto* pads = attributes->GetListInt(kPads);
  const auto* dilations = attributes->GetListInt(kDilations);
  OP_CHECK_NULL_WITH_CONTEXT(context, strides);
  OP_CHECK_NULL_WITH_CONTEXT(context, pads);
  OP_CHECK_NULL_WITH_CONTEXT(context, dilations);
  const bool each_side = pads->GetSize() == 2 * axes;
  OP_CHECK_IF(
      strides->GetSize() != axes || dilations->GetSize() != axes || (pads->GetSize() != axes && !each_side),
      OP_LOGE(context, "strides, pads and dilations must have %zu, %zu (or %zu) and %zu numbers, got %zu, %zu, %zu",
              axes, axes, 2 * axes, axes, strides->GetSize(), pads->GetSize(), dilations->GetSize()),
      return ge::GRAPH_FAILED);

  y->SetDimNum(rank);
  y->SetDim(0, x->GetDim(0));
  y->SetDim(1, filter->GetDim(0));
  for (size_t axis = 0; axis < axes; ++axis) {
    const int64_t size = x->GetDim(axis + 2), taps = filter->GetDim(axis + 2);
    const int64_t before = pads->GetData()[each_side ? 2 * axis : axis];
    const int64_t after = pads->GetData()[each_side ? 2 * axis + 1 : axis];
    const bool known = size >= 0 && taps >= 0;
    y->SetDim(axis + 2,
              known ? msct::output_size(size, before, after, taps, dilations->GetData()[axis], strides->GetData()[axis])
                    : -1);
  }
  return ge::GRAPH_SUCCESS;
}

ge::graphStatus infer_dtype(gert::InferDataTypeContext* context) {
  context->SetOutputDataType(0, context->GetInputDataType(0));
  return ge::GRAPH_SUCCESS;
}

}  // namespace

IMPL_OP_INFERSHAPE(FusedConvTanh).InferShape(infer_shape).InferDataType(infer_dtype);

}  // namespace ops
