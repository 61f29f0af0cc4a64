"""A MindIR file as data: its operators, parameters and constants, and a copy that returns what every operator gives."""

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ms_convtanh._networks import graph_mode, tensor

COMMAND = "check"

# Keep the order of side effects, or hand a value on; MindSpore's own, with nothing to compute.
_ORDER = ("UpdateState",)
_SAME = ("Load", "Depend")
_DTYPES = {
    "FLOAT": np.float32,
    "FLOAT16": np.float16,
    "BFLOAT16": ml_dtypes.bfloat16,
    "DOUBLE": np.float64,
    "FLOAT64": np.float64,
    "INT32": np.int32,
    "INT64": np.int64,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "BOOL": np.bool_,
}


@dataclass(frozen=True)
class Node:
    """One operator of a graph."""

    layer: str  # of the network, such as c1-ConvTanh
    operator: str  # such as Conv2D
    attributes: Mapping[str, Any]
    inputs: tuple[str, ...]
    output: str


@dataclass(frozen=True)
class Graph:
    nodes: tuple[Node, ...]  # in an order in which they can run
    values: Mapping[str, Any]  # parameters and constants
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    same: Mapping[str, str]  # names that stand for another one's value
    names: Mapping[str, str]  # of inputs as the network has them


def _tensor(proto: Any, kinds: Any) -> NDArray[Any]:
    kind = kinds.Name(proto.data_type)
    if kind not in _DTYPES or proto.HasField("external_data"):
        raise ValueError(f"{COMMAND}: a MindIR tensor must be of a real dtype and in the file itself, got {kind}")
    return np.frombuffer(proto.raw_data, np.dtype(_DTYPES[kind])).reshape(tuple(proto.dims))


def _value(attribute: Any, schema: Any) -> Any:
    kind = schema.AttributeProto.AttributeType.Name(attribute.type)
    if kind in ("TUPLE", "LIST"):
        return tuple(_value(item, schema) for item in attribute.values)
    if kind in ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64", "BOOL"):
        number = attribute.ints[0] if attribute.ints else attribute.i  # an element of a tuple, or a value of its own
        return bool(number) if kind == "BOOL" else int(number)
    if kind in ("FLOAT", "DOUBLE"):
        return float(attribute.d if kind == "DOUBLE" else attribute.f)
    if kind == "STRING":
        return attribute.s.decode()
    if kind == "TENSORS" and len(attribute.tensors) == 1 and attribute.tensors[0].raw_data:
        return _tensor(attribute.tensors[0], schema.TensorProto.DataType)
    return None


def _layer_of(domain: str) -> str:
    """The layer in a scope such as Default/c1-ConvTanh/Custom-op0."""
    parts = [part for part in domain.split("/")[:-1] if part not in ("", "Default")]
    return "/".join(parts) or "network"


class Model:
    """A MindIR file.

    Raises:
        OSError: It cannot be read.
        ValueError: It is no MindIR file, is encrypted, or keeps its parameters in other files.
    """

    def __init__(self, path: str | Path) -> None:
        from google.protobuf.message import DecodeError

        from mindspore.train import mind_ir_pb2 as schema

        self._schema = schema
        self._proto = schema.ModelProto()
        try:
            self._proto.ParseFromString(Path(path).read_bytes())
        except DecodeError:
            raise ValueError(f"{COMMAND}: {path} must be a MindIR file that is not encrypted") from None
        if not self._proto.graph.node:
            raise ValueError(f"{COMMAND}: {path} must be a MindIR file with operators, got none")
        self.graph = self._read()

    def _read(self) -> Graph:
        schema, proto = self._schema, self._proto.graph
        primitives = {primitive.name: primitive for primitive in self._proto.primitives}
        values: dict[str, Any] = {
            parameter.name: _tensor(parameter, schema.TensorProto.DataType) for parameter in proto.parameter
        }
        same, nodes = {}, []
        for node in proto.node:
            output = node.output[0]
            if node.op_type == "Constant":
                values[output] = _value(node.attribute[0], schema)
                continue
            primitive = primitives.get(node.op_type.removeprefix("REF::"))
            operator = primitive.op_type if primitive is not None else node.op_type.removeprefix("REF::")
            if operator in _ORDER:
                values[output] = None
            elif operator in _SAME:
                same[output] = node.input[0]
            else:
                given = {} if primitive is None else {a.name: _value(a, schema) for a in primitive.attribute}
                if operator == "Custom":  # its name ends in <library>:<function>
                    operator = str(given.get("uniq_name", "")).rpartition(":")[2] or operator
                nodes.append(Node(_layer_of(node.domain), operator, given, tuple(node.input), output))
        return Graph(
            nodes=self._used(nodes, same, [output.name for output in proto.output]),
            values=values,
            inputs=tuple(value.name for value in proto.input),
            outputs=tuple(output.name for output in proto.output),
            same=same,
            names={value.name: value.name.split(":")[-1] for value in proto.input},
        )

    @staticmethod
    def _used(nodes: Sequence[Node], same: Mapping[str, str], outputs: Sequence[str]) -> tuple[Node, ...]:
        """The nodes that the outputs depend on: others only keep the order of loads."""
        by_output = {node.output: node for node in nodes}
        wanted, used = list(outputs), set()
        while wanted:
            name = wanted.pop()
            while name in same:
                name = same[name]
            if name in by_output and name not in used:
                used.add(name)
                wanted += by_output[name].inputs
        return tuple(node for node in nodes if node.output in used)

    def _returning(self, outputs: Sequence[str]) -> bytes:
        """The file with its graph returning the values of these names as a tuple."""
        schema, changed = self._schema, self._schema.ModelProto()
        changed.CopyFrom(self._proto)
        maker = next((p for p in changed.primitives if p.op_type == "MakeTuple"), None)
        if maker is None:
            maker = changed.primitives.add()
            maker.name, maker.op_type = f"MakeTuple:{len(changed.primitives)}", "MakeTuple"
            maker.prim_type = schema.PrimitiveProto.PrimType.PRIMITIVE
        node = changed.graph.node.add()
        node.op_type, node.name, node.domain = f"REF::{maker.name}", "every_node", "Default/MakeTuple-op"
        node.input.extend(outputs)
        node.output.append("every_node")
        shape = node.attribute.add()
        shape.name, shape.type = "shape", schema.AttributeProto.AttributeType.TUPLE
        del changed.graph.output[1:]
        changed.graph.output[0].name = "every_node"
        return changed.SerializeToString()

    def run(self, inputs: Sequence[NDArray[Any]]) -> dict[str, Any]:
        """What every node gives, by MindSpore, in one run of the graph with all of them returned.

        Raises:
            ValueError: The inputs do not fit.
            RuntimeError: MindSpore fails.
        """
        import mindspore as ms
        from mindspore import nn

        if len(inputs) != len(self.graph.inputs):
            names = [self.graph.names[name] for name in self.graph.inputs]
            raise ValueError(f"{COMMAND}: the network takes {len(names)} inputs, {names}, got {len(inputs)}")
        # Tuples are not returned as one: their elements are nodes of their own where they matter.
        outputs = [node.output for node in self.graph.nodes if node.operator != "MakeTuple"]
        with tempfile.TemporaryDirectory() as folder, graph_mode():
            path = os.path.join(folder, "model.mindir")
            Path(path).write_bytes(self._returning(outputs))
            results = nn.GraphCell(ms.load(path))(*map(tensor, inputs))
        return {name: as_numpy(result) for name, result in zip(outputs, results, strict=True)}


def as_numpy(value: Any) -> Any:
    """A tensor of MindSpore, or a tuple of them, with bfloat16 as ml_dtypes has it."""
    if isinstance(value, tuple | list):
        return tuple(as_numpy(item) for item in value)
    if str(value.dtype) == "BFloat16":
        import mindspore as ms

        return value.astype(ms.float32).asnumpy().astype(ml_dtypes.bfloat16)
    return value.asnumpy()
