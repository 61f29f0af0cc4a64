"""fused_conv_tanh on tensors: results, graphs, errors."""

import inspect
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import reference
from reference import DTYPES, random_problem
from tensors import MS_DTYPES, array, random_tensor, tensor

import mindspore as ms
from mindspore import Tensor, nn, ops

import ms_convtanh
from ms_convtanh import fused_conv_tanh, native

CASES = json.loads((Path(__file__).parents[1] / "data/cases24.json").read_text())["cases"]

# x, filter, strides, pads, dilations, groups
GEOMETRIES = {
    "plain": ((2, 3, 9, 11), (4, 3, 3, 3), [1, 1], [0, 0, 0, 0], [1, 1], 1),
    "all_different": ((1, 4, 13, 17), (6, 2, 3, 2), [2, 3], [1, 2, 3, 0], [2, 1], 2),
    "depthwise": ((2, 8, 10, 9), (16, 1, 3, 5), [1, 1], [1, 2], [1, 1], 8),
    "one_axis": ((2, 4, 30), (6, 2, 5), [2], [3, 1], [2], 2),
}


class Functional(nn.Cell):
    """fused_conv_tanh inside a network, where its attributes are constants of the graph."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__()
        self.strides = attributes.get("strides", [1, 1])
        self.pads = attributes.get("pads", [0, 0, 0, 0])
        self.dilations = attributes.get("dilations", [1, 1])
        self.groups = attributes.get("groups", 1)

    def construct(self, x: Tensor, conv_filter: Tensor, bias: Any = None) -> Tensor:
        return fused_conv_tanh(x, conv_filter, bias, self.strides, self.pads, self.dilations, self.groups)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_cases24(case: dict[str, Any], rng: np.random.Generator) -> None:
    """Feature: the 24 benchmark cases. Description: both modes. Expectation: float64 within the precision standard."""
    dtype = case["dtype"]
    x = rng.uniform(*case["x_range"], case["x"]).astype(DTYPES[dtype])
    conv_filter = rng.uniform(*case["filter_range"], case["filter"]).astype(DTYPES[dtype])
    bias = rng.uniform(*case["bias_range"], case["bias"]).astype(DTYPES[dtype])
    attributes = {name: case[name] for name in ("strides", "pads", "dilations", "groups")}
    golden = reference.conv_tanh(x, conv_filter, bias, **attributes)
    for mode in (ms.PYNATIVE_MODE, ms.GRAPH_MODE):
        ms.set_context(mode=mode)
        y = Functional(**attributes)(tensor(x), tensor(conv_filter), tensor(bias))
        assert y.dtype == MS_DTYPES[dtype]
        reference.assert_close(array(y), golden, dtype)
    ms.set_context(mode=ms.PYNATIVE_MODE)


@pytest.mark.parametrize("bias", [False, True], ids=["no_bias", "bias"])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("geometry", GEOMETRIES.values(), ids=GEOMETRIES)
def test_same_as_native(mode: str, geometry: Any, dtype: str, bias: bool, rng: np.random.Generator) -> None:
    """Feature: attributes, dtypes, bias. Description: odd geometries. Expectation: the bits of the NumPy view."""
    x, conv_filter, b = random_problem(rng, *geometry[:2], dtype, bias)
    attributes = dict(zip(("strides", "pads", "dilations", "groups"), geometry[2:], strict=True))
    y = Functional(**attributes)(tensor(x), tensor(conv_filter), tensor(b))
    expected = native.fused_conv_tanh(x, conv_filter, b, **attributes)
    assert y.shape == expected.shape
    assert y.dtype == MS_DTYPES[dtype]
    np.testing.assert_array_equal(array(y), expected.astype(np.float32))


def test_every_ceiling_and_fusion(mode: str, ceiling: str, fusion: str, rng: np.random.Generator) -> None:
    """Feature: options. Description: every variant and fusion mode. Expectation: float64 within the standard."""
    x, conv_filter, bias = random_problem(rng, (2, 19, 23, 21), (35, 19, 3, 3), "float32")
    golden = reference.conv_tanh(x, conv_filter, bias, pads=(1, 1, 1, 1))
    assert ms_convtanh.features().k1 == ceiling
    y = Functional(pads=[1, 1, 1, 1])(tensor(x), tensor(conv_filter), tensor(bias))
    reference.assert_close(array(y), golden, "float32")


def test_signature() -> None:
    """Feature: interface. Description: names and defaults. Expectation: those documented, and NumPy's names."""
    parameters = inspect.signature(fused_conv_tanh).parameters
    assert {name: p.default for name, p in parameters.items() if name not in ("x", "conv_filter")} == {
        "bias": None,
        "strides": [1, 1],
        "pads": [0, 0, 0, 0],
        "dilations": [1, 1],
        "groups": 1,
    }
    assert list(parameters) == list(inspect.signature(native.fused_conv_tanh).parameters)


def test_plain_call(mode: str) -> None:
    """Feature: functional form. Description: called outside any cell. Expectation: runs, ints stand for all entries."""
    x, w = random_tensor(1, 1, 3, 8, 8), random_tensor(2, 4, 3, 3, 3)
    assert fused_conv_tanh(x, w).shape == (1, 4, 6, 6)
    y = fused_conv_tanh(x, conv_filter=w, pads=(1, 1, 1, 1), strides=2)
    np.testing.assert_array_equal(y.asnumpy(), fused_conv_tanh(x, w, None, [2, 2], 1).asnumpy())


def test_inside_jit(pynative: None) -> None:
    """Feature: @ms.jit. Description: several calls among other operators. Expectation: as eager calls."""

    @ms.jit
    def network(x: Tensor, w: Tensor, b: Tensor) -> Tensor:
        y = fused_conv_tanh(x, w, b, strides=[2, 2], pads=[1, 1, 1, 1])
        return ops.relu(y) + fused_conv_tanh(-x, w, strides=[2, 2], pads=[1, 1, 1, 1])

    x, w, b = random_tensor(1, 2, 3, 9, 9), random_tensor(2, 4, 3, 3, 3), random_tensor(3, 4)
    attributes = {"strides": [2, 2], "pads": [1, 1, 1, 1]}
    eager = ops.relu(fused_conv_tanh(x, w, b, **attributes)) + fused_conv_tanh(-x, w, **attributes)
    np.testing.assert_array_equal(network(x, w, b).asnumpy(), eager.asnumpy())


def test_transposed_and_sliced_tensors(mode: str) -> None:
    """Feature: views. Description: inputs that are transposed or sliced. Expectation: as their copies."""
    x, w = random_tensor(1, 2, 9, 8, 3), random_tensor(2, 8, 3, 3, 3)

    class Network(nn.Cell):
        def construct(self, x: Tensor, w: Tensor) -> Tensor:
            return fused_conv_tanh(x.transpose(0, 3, 1, 2)[:, :, 1:], w[::2])

    expected = native.fused_conv_tanh(x.asnumpy().transpose(0, 3, 1, 2)[:, :, 1:], w.asnumpy()[::2])
    np.testing.assert_array_equal(Network()(x, w).asnumpy(), expected)


def test_empty_batch(pynative: None) -> None:
    """Feature: empty tensors. Description: a batch of none. Expectation: an empty result."""
    y = fused_conv_tanh(Tensor(shape=(0, 3, 8, 8), dtype=ms.float32, init=None), random_tensor(2, 4, 3, 3, 3))
    assert y.shape == (0, 4, 6, 6)


X, W = random_tensor(1, 1, 4, 8, 8), random_tensor(2, 6, 4, 3, 3)
ERRORS = {
    "float64": (TypeError, (X.astype(ms.float64), W), {}, "x.dtype must be float32, float16 or bfloat16, got float64"),
    "mixed": (TypeError, (X, W.astype(ms.float16)), {}, "conv_filter.dtype must be x.dtype = float32, got float16"),
    "mixed_bias": (TypeError, (X, W, Tensor([0.0] * 6, ms.float16)), {}, "bias.dtype must be x.dtype = float32"),
    "strides_type": (TypeError, (X, W), {"strides": [1, 1.5]}, "strides must be of int, got float 1.5"),
    "groups_type": (TypeError, (X, W), {"groups": 1.0}, "groups must be of int, got float 1.0"),
    "channels": (ValueError, (X[:, :3], W), {}, r"filter.shape\[1\] must equal x.shape\[1\] / groups = 3, got 4"),
    "rank": (ValueError, (X[0], W), {}, "filter must be 3-dimensional, got"),
    "bias": (ValueError, (X, W, random_tensor(3, 5)), {}, r"bias.shape\[0\] must equal filter.shape\[0\] = 6, got 5"),
    "strides": (ValueError, (X, W), {"strides": [0, 1]}, r"strides must be from 1 .* got \[0, 1\]"),
    "pads": (ValueError, (X, W), {"pads": [0, -1, 0, 0]}, "pads must be from 0"),
    "groups": (ValueError, (X, W), {"groups": 5}, "groups must divide"),
    "kernel": (ValueError, (X, W), {"dilations": [1, 4]}, "dilated kernel along width must fit"),
}


@pytest.mark.parametrize(("kind", "operands", "attributes", "message"), ERRORS.values(), ids=ERRORS)
def test_errors(mode: str, kind: type[Exception], operands: Any, attributes: Any, message: str) -> None:
    """Feature: errors. Description: wrong arguments. Expectation: the documented exception, before anything runs."""
    with pytest.raises(kind, match=f"fused_conv_tanh: {message}"):
        Functional(**attributes)(*operands)


@pytest.mark.parametrize("x", [np.ones((1, 1, 2, 2), np.float32), [[[[1.0]]]], 1])
def test_not_a_tensor(pynative: None, x: Any) -> None:
    """Feature: errors. Description: an array instead of a tensor. Expectation: TypeError."""
    with pytest.raises(TypeError, match=r"fused_conv_tanh: x must be a mindspore\.Tensor"):
        fused_conv_tanh(x, W)


@pytest.mark.parametrize(
    ("target", "message"),
    [("GPU", "the device target must be CPU, got GPU"), ("Ascend", "Ascend needs CANN: ASCEND_OPP_PATH is not set")],
)
def test_other_devices(mode: str, target: str, message: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Feature: device target. Description: not the CPU. Expectation: an error that says what is needed, no fallback."""
    real = ms.context.get_context
    monkeypatch.delenv("ASCEND_OPP_PATH", raising=False)
    monkeypatch.setattr(ms.context, "get_context", lambda key: target if key == "device_target" else real(key))
    with pytest.raises(RuntimeError, match=f"fused_conv_tanh: {message}"):
        fused_conv_tanh(X, W)
