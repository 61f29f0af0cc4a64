"""The benchmark cases through MindSpore: y and its gradients against float64.

    python tests/ascend/mindspore_cases.py DEVICE MODE [NAME ...]

DEVICE is Ascend or CPU, MODE graph or pynative, a NAME that of a case (all without one). Prints a line for each case;
the first wrong result ends it with exit status 1. MS_CONVTANH_FUSION=true takes true fusion.
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

import mindspore as ms
from mindspore import nn

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/mindspore")]

from tensors import array, tensor  # noqa: E402

from ms_convtanh import fused_conv_tanh  # noqa: E402
from tests.problems import CASES  # noqa: E402
from tests.reference import (  # noqa: E402
    DTYPES,
    assert_close,
    assert_gradient_close,
    conv_tanh,
    conv_tanh_gradients,
)

SIDE = 40  # of images whose gradients are compared: float64 takes long


class Network(nn.Cell):
    def __init__(self, case: dict[str, Any]) -> None:
        super().__init__()
        self.strides, self.pads, self.dilations = case["strides"], case["pads"], case["dilations"]
        self.groups = case["groups"]

    def construct(self, x: Any, conv_filter: Any, bias: Any) -> Any:
        return fused_conv_tanh(x, conv_filter, bias, self.strides, self.pads, self.dilations, self.groups)


def check(case: dict[str, Any]) -> None:
    """Raises AssertionError for a wrong result."""
    rng, dtype, network = np.random.default_rng(case["id"]), case["dtype"], Network(case)
    operands = [
        rng.uniform(*case[f"{name}_range"], case[name]).astype(DTYPES[dtype]) for name in ("x", "filter", "bias")
    ]
    attributes = {name: case[name] for name in ("strides", "pads", "dilations", "groups")}
    assert_close(array(network(*map(tensor, operands))), conv_tanh(*operands, **attributes), dtype)

    operands[0] = np.ascontiguousarray(operands[0][:, :, :SIDE, :SIDE])
    y = array(network(*map(tensor, operands)))  # gradients depend on the y that was rounded
    gradients = ms.grad(network, (0, 1, 2))(*map(tensor, operands))
    expected = conv_tanh_gradients(np.ones(y.shape), y, *operands[:2], **attributes)
    for gradient, golden in zip(gradients, expected, strict=True):
        assert_gradient_close(array(gradient), golden, dtype)


def main(device: str, mode: str, *names: str) -> None:
    ms.set_device(device)
    if device == "Ascend":  # gradients are CANN's convolutions, which round float32 to HF32 if they may
        ms.device_context.ascend.op_precision.conv_allow_hf32(False)
    ms.set_context(mode={"graph": ms.GRAPH_MODE, "pynative": ms.PYNATIVE_MODE}[mode])
    for case in CASES:
        if not names or case["name"] in names:
            check(case)
            print(f"{device} {mode} {case['name']} ok", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
