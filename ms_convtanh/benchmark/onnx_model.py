"""A model in ONNX."""

from typing import Any

from ms_convtanh.benchmark.models import Array, AveragePool, ConvTanhLayer, Dense, Flatten, Model

_OPSET, _IR = 22, 10  # the first with a bfloat16 Conv, and the file format that goes with it


def onnx_model(model: Model) -> bytes:
    """The model as an ONNX file's bytes; its input is x, its output y."""
    from onnx import TensorProto, helper

    names = {"float32": "FLOAT", "float16": "FLOAT16", "bfloat16": "BFLOAT16"}
    element = getattr(TensorProto, names[model.dtype])
    nodes: list[Any] = []
    constants: list[Any] = []
    value = "x"

    def constant(array: Array) -> str:
        name = f"w{len(constants)}"
        constants.append(helper.make_tensor(name, element, array.shape, array.tobytes(), raw=True))
        return name

    def add(operator: str, *operands: str, **attributes: Any) -> str:
        output = f"v{len(nodes)}"
        nodes.append(helper.make_node(operator, [value, *operands], [output], **attributes))
        return output

    for layer in model.layers:
        if isinstance(layer, ConvTanhLayer):
            top, bottom, left, right = layer.pads
            attributes = {"strides": layer.strides, "dilations": layer.dilations, "group": layer.groups}
            operands = constant(layer.conv_filter), constant(layer.bias)
            value = add("Conv", *operands, pads=[top, left, bottom, right], **attributes)
            value = add("Tanh")
        elif isinstance(layer, Dense):
            value = add("Gemm", constant(layer.weight), constant(layer.bias), transB=1)
            value = add("Tanh") if layer.tanh else value
        elif isinstance(layer, AveragePool):
            value = add("AveragePool", kernel_shape=[2, 2], strides=[2, 2])
        elif isinstance(layer, Flatten):
            value = add("Flatten")
        else:
            value = add("DepthToSpace", blocksize=layer.scale)
    nodes[-1].output[0] = "y"
    x = helper.make_tensor_value_info("x", element, model.x.shape)
    y = helper.make_tensor_value_info("y", element, None)
    graph = helper.make_graph(nodes, model.name, [x], [y], constants)
    imports = [helper.make_opsetid("", _OPSET)]
    return helper.make_model(graph, opset_imports=imports, ir_version=_IR).SerializeToString()
