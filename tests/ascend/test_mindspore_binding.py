"""MindSpore's own generators for Ascend, applied to the operator package and to the binding; they run on CPUs too."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("mindspore", reason="MindSpore is not installed")

import mindspore as ms
from mindspore import nn, ops
from mindspore.ops.operations import _custom_ops_utils as generators
from mindspore.train import mind_ir_pb2

from ms_convtanh import ConvTanh, _custom, _custom_ascend, _library, _opp, fused_conv_tanh
from ms_convtanh._problem import Attributes
from tests.reference import conv_tanh, conv_tanh_gradients

INCLUDE = _library.PATH.parents[1] / "include"
API_TYPES = [
    "aclTensor*", "aclTensor*", "aclTensor*", "aclIntArray*", "aclIntArray*", "aclIntArray*", "int64_t", "int64_t",
    "aclTensor*", "uint64_t*", "aclOpExecutor**",
]  # fmt: skip


@pytest.fixture(scope="module")
def vendor(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return _opp.lay_out(tmp_path_factory.mktemp("opp"))[0]


@pytest.fixture
def package(vendor: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The vendor package as a user with CANN names it."""
    monkeypatch.setenv("ASCEND_OPP_PATH", str(tmp_path / "opp"))
    monkeypatch.setenv("ASCEND_CUSTOM_OPP_PATH", str(vendor))
    return vendor


def test_prototype_is_found(package: Path) -> None:
    assert generators.CustomInfoGenerator("aclnnFusedConvTanh").get_aclnn_api_types() == API_TYPES


def test_binding_agrees_with_the_prototype() -> None:
    info = _custom_ascend.registration()
    types = generators.CustomCodeGenerator().get_api_types_by_reg_info(info)
    assert types[:-2] == API_TYPES[:-2]


def test_description_agrees_with_the_binding(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Context:
        @staticmethod
        def get_instance() -> "Context":
            return Context()

        def get_ascend_soc_version(self) -> str:
            return "ascend950"

    monkeypatch.setattr(generators, "MSContext", Context)
    described = generators.CustomInfoGenerator("FusedConvTanh").generate_custom_reg_op()
    bound = _custom_ascend.registration()
    for part in ("inputs", "outputs"):
        assert [operand["name"] for operand in described[part]] == [operand["name"] for operand in bound[part]]
    assert [(a["name"], a["type"]) for a in described["attr"]] == [(a["name"], a["type"]) for a in bound["attr"]]
    assert {row[0][0] for row in described["dtype_format"]} == {row[0][0] for row in bound["dtype_format"]}


def test_generated_callback_drives_the_library(package: Path, tmp_path: Path) -> None:
    info = _custom_ascend.registration()
    types = generators.CustomInfoGenerator("aclnnFusedConvTanh").get_aclnn_api_types()
    text = generators.CustomCodeGenerator().generate_callback_by_types("aclnnFusedConvTanh", info, types)
    callback, driver = tmp_path / "callback.so", tmp_path / "driver"
    (tmp_path / "callback.cc").write_text(text)
    compile_ = ["g++", "-std=c++17", f"-I{INCLUDE}"]
    subprocess.run([*compile_, "-shared", "-fPIC", tmp_path / "callback.cc", "-o", callback], check=True)
    source = Path(__file__).with_name("callback_driver.cc")
    subprocess.run([*compile_, source, "-ldl", "-o", driver], check=True)
    output = subprocess.run([driver, callback, _library.PATH], check=True, capture_output=True, text=True).stdout

    x = (-0.2 + 0.01 * np.arange(40)).reshape(1, 2, 4, 5)
    conv_filter = (-0.5 + 0.02 * np.arange(54)).reshape(3, 2, 3, 3)
    expected = conv_tanh(x, conv_filter, np.array([0.1, 0.2, 0.3]), strides=[1, 2], pads=[1, 0, 1, 1])
    np.testing.assert_allclose(np.array(output.split(), float), expected.reshape(-1), rtol=1e-6, atol=1e-6)


def _pretend_ascend(monkeypatch: pytest.MonkeyPatch) -> None:
    real = ms.context.get_context
    monkeypatch.setattr(ms.context, "get_context", lambda key: "Ascend" if key == "device_target" else real(key))


def _make_cell() -> Any:
    return ConvTanh(2, 3, 3)(ms.Tensor(np.ones((1, 2, 8, 8), np.float32)))


def _call_functional() -> Any:
    return fused_conv_tanh(ms.Tensor(np.ones((1, 2, 8, 8), np.float32)), ms.Tensor(np.ones((3, 2, 3, 3), np.float32)))


@pytest.mark.parametrize("call", [_make_cell, _call_functional])
def test_what_is_missing_is_named(
    call: Callable[[], Any], package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _pretend_ascend(monkeypatch)
    monkeypatch.delenv("ASCEND_OPP_PATH")
    with pytest.raises(RuntimeError, match=r"Ascend needs CANN: ASCEND_OPP_PATH is not set; source CANN's set_env\.sh"):
        call()
    monkeypatch.setenv("ASCEND_OPP_PATH", str(tmp_path))
    monkeypatch.setattr(_custom_ascend.mindspore, "__file__", str(tmp_path / "__init__.py"))
    with pytest.raises(RuntimeError, match="needs a MindSpore with its Ascend plug-in"):
        call()
    plugin = tmp_path / "lib/plugin/ascend"
    plugin.mkdir(parents=True)
    (plugin / "libmindspore_extension_ascend_aclnn.so").touch()
    with pytest.raises(RuntimeError, match=r"needs the operator package: .* ms-convtanh opp"):
        call()


@pytest.fixture
def ascend(package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MindSpore's front end for Ascend, with a CANN of headers alone. Nothing can run: the device is still the CPU."""
    (tmp_path / "include").symlink_to(INCLUDE)
    library = package / "op_api/lib/libcust_opapi.so"
    library.parent.mkdir(exist_ok=True)
    library.touch()
    _pretend_ascend(monkeypatch)


class Network(nn.Cell):
    """Both interfaces, with and without a bias."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = ConvTanh(3, 4, (3, 3), stride=(2, 1), pad_mode="same", dilation=(1, 2), has_bias=True)
        self.filter = ms.Parameter(ms.Tensor(np.ones((2, 2, 3), np.float32)), name="filter")

    def construct(self, x: Any) -> Any:
        y = self.cell(x).reshape((2, 4, -1))
        return fused_conv_tanh(y, self.filter, None, [2], [1, 0], 1, 2)


def _export(network: Any, *inputs: Any) -> Any:
    ms.export(network, *inputs, file_name="network", file_format="MINDIR")
    model = mind_ir_pb2.ModelProto()
    model.ParseFromString(Path("network.mindir").read_bytes())
    return model


def _constant(node: Any) -> Any:
    """The value of a Constant node: an int, or a tuple of ints."""
    (attribute,) = node.attribute
    return tuple(value.ints[0] for value in attribute.values) if attribute.values else attribute.i


def test_graph_has_the_call_of_the_prototype(ascend: None) -> None:
    """The operands, then the attributes: MindSpore makes one argument of aclnnFusedConvTanhGetWorkspaceSize of each."""
    model = _export(Network(), ms.Tensor(np.ones((2, 3, 7, 8), np.float32)))
    constants = {node.output[0]: node for node in model.graph.node if node.op_type == "Constant"}
    first, second = (node for node in model.graph.node if "Custom" in node.op_type)
    assert [_constant(constants[name]) for name in first.input[3:]] == [(2, 1), (1, 1, 2, 2), (1, 2), 1, 0]
    assert [_constant(constants[name]) for name in second.input[3:]] == [(2,), (1, 0), (1,), 2, 0]
    dims = [[*node.attribute[0].tensors[0].dims] for node in (first, second)]
    assert dims == [[2, 4, 4, 8], [2, 2, 16]]
    for primitive in (p for p in model.primitives if p.op_type == "Custom"):
        attributes = {a.name: a for a in primitive.attribute}
        assert attributes["reg_op_name"].s == b"aclnnFusedConvTanh"
        assert [value.strings[0].decode() for value in attributes["custom_inputs_type"].values] == API_TYPES[:-2]


def test_graph_of_gradients(ascend: None) -> None:
    """MindSpore's own operators for a convolution's gradients, and none that nothing needs."""

    class Gradients(nn.Cell):
        def __init__(self) -> None:
            super().__init__()
            self.network = ConvTanh(3, 4, 3, has_bias=True)
            self.gradients = ms.grad(self.network, None, self.network.trainable_params())

        def construct(self, x: Any) -> Any:
            return self.gradients(x)

    model = _export(Gradients(), ms.Tensor(np.ones((1, 3, 7, 8), np.float32)))
    operators = {node.op_type.split("::")[-1].split(":")[0] for node in model.graph.node}
    assert {"Custom", "Conv2DBackpropFilter"} <= operators
    assert "Conv2DBackpropInput" not in operators


@pytest.mark.parametrize("mode", [ms.GRAPH_MODE, ms.PYNATIVE_MODE])
def test_calls_come_as_far_as_the_missing_device(ascend: None, mode: int) -> None:
    """Both modes hand MindSpore's backend the aclnn function, which the CPU's cannot run."""
    ms.set_context(mode=mode)
    with pytest.raises(RuntimeError, match="For 'Custom' on CPU, .*'aclnnFusedConvTanh'"):
        Network()(ms.Tensor(np.ones((2, 3, 7, 8), np.float32)))
    ms.set_context(mode=ms.PYNATIVE_MODE)


def test_arguments_are_checked_before_the_call(ascend: None) -> None:
    x, conv_filter = ms.Tensor(np.ones((1, 3, 7, 8), np.float32)), ms.Tensor(np.ones((4, 2, 3, 3), np.float32))
    with pytest.raises(ValueError, match=r"filter.shape\[1\] must equal x.shape\[1\] / groups = 3, got 2"):
        fused_conv_tanh(x, conv_filter)
    network = ConvTanh(3, 4, 3, pad_mode="valid")
    network.set_inputs(ms.Tensor(shape=[1, 3, None, 8], dtype=ms.float32))
    ms.set_context(mode=ms.GRAPH_MODE)
    with pytest.raises(ValueError, match="shapes must be static on Ascend"):
        network(x)
    ms.set_context(mode=ms.PYNATIVE_MODE)


def test_pynative_mode_runs_a_graph_of_one_node(monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator) -> None:
    """With MindSpore's convolution in the operator's place: its values and its gradients come through."""
    monkeypatch.setattr(_custom, "FusedConvTanh", stand_in)
    call = _custom._graph_of_one((4, (1, 2), (1, 1, 1, 1), (1, 1), 1, "pad"))
    x, conv_filter, bias = (
        rng.uniform(-1, 1, shape).astype(np.float32) for shape in ((2, 3, 6, 7), (4, 3, 3, 3), (4,))
    )
    operands = [ms.Tensor(array) for array in (x, conv_filter, bias)]
    attributes = {"strides": [1, 2], "pads": [1, 1, 1, 1]}
    y = conv_tanh(x, conv_filter, bias, **attributes)
    np.testing.assert_allclose(call(*operands).asnumpy(), y, rtol=1e-5, atol=1e-5)
    expected = conv_tanh_gradients(np.ones(y.shape), y, x, conv_filter, **attributes)
    for gradient, golden in zip(ms.grad(call, (0, 1, 2))(*operands), expected, strict=True):
        np.testing.assert_allclose(gradient.asnumpy(), golden, rtol=1e-4, atol=1e-4)


def stand_in(geometry: Any, has_bias: bool, in_graph: bool) -> Any:
    def run(x: Any, weight: Any, bias: Any, strides: Any, pads: Any, dilations: Any, groups: Any, math: Any) -> Any:
        return ops.tanh(ops.conv2d(x, weight, bias, strides, "pad", pads[::2], dilations, groups))

    return run


def test_vendor_packages_in_the_order_of_cann(tmp_path: Path) -> None:
    (tmp_path / "vendors").mkdir()
    (tmp_path / "vendors/config.ini").write_text("load_priority=first, second\n")
    environment = {"ASCEND_CUSTOM_OPP_PATH": "/a:/b", "ASCEND_OPP_PATH": str(tmp_path)}
    vendors = tmp_path / "vendors"
    expected = [Path("/a"), Path("/b"), vendors / "first", vendors / "second"]
    assert _custom_ascend.vendor_packages(environment) == expected
    assert _custom_ascend.vendor_packages({}) == []


@pytest.mark.parametrize("rank", [3, 4])
def test_gradients_are_those_of_the_operator(rank: int, rng: np.random.Generator) -> None:
    """Against float64; [N, C, L] is [N, C, 1, L]."""
    attributes = {"strides": [2, 2], "pads": [1, 0, 0, 1], "dilations": [1, 1], "groups": 2}
    height, taps = (9, 3) if rank == 4 else (1, 1)
    if rank == 3:
        attributes |= {"strides": [1, 2], "pads": [0, 0, 0, 1]}
    x = rng.uniform(-1, 1, (2, 4, height, 8)).astype(np.float32)
    conv_filter = rng.uniform(-0.5, 0.5, (6, 2, taps, 3)).astype(np.float32)
    bias = rng.uniform(-0.5, 0.5, 6).astype(np.float32)
    y = conv_tanh(x, conv_filter, bias, **attributes).astype(np.float32)
    grad_y = rng.uniform(-1, 1, y.shape).astype(np.float32)
    expected = conv_tanh_gradients(grad_y, y, x, conv_filter, **attributes)
    tensors, given = [x, conv_filter, bias, y, grad_y], list(attributes.values())
    if rank == 3:
        tensors = [array.squeeze(2) if array.ndim == 4 else array for array in tensors]
        given = [[2], [0, 1], [1], 2]
    operands = [ms.Tensor(array) for array in tensors]
    attributes_given = Attributes.of(rank, *given)
    values = _custom_ascend.call_values((rank, *given, "pad"))
    got = _custom_ascend.gradients(attributes_given)(*operands[:3], *values, *operands[3:])
    assert got[3:] == values
    for gradient, golden in zip(got[:3], expected, strict=True):
        np.testing.assert_allclose(gradient.asnumpy().reshape(golden.shape), golden, rtol=1e-4, atol=1e-4)


def test_pads_of_pad_modes() -> None:
    """Those of nn.Conv2d: an odd pad's larger half behind."""
    arguments = ((1, 1, 7, 8), (4, 3), (1, 2), (1, 2))
    pads = {mode: _custom_ascend.explicit_pads.fn(mode, (1, 2, 3, 4), *arguments) for mode in ("pad", "valid", "same")}
    assert pads == {"pad": (1, 2, 3, 4), "valid": (0, 0, 0, 0), "same": (1, 2, 1, 2)}
    with pytest.raises(ValueError, match="needs a static height and width"):
        _custom_ascend.explicit_pads.fn("same", 0, (1, 1, -1, 8), *arguments[1:])
