"""Times forward and backward on the benchmark cases, paired with PyTorch autograd in both of its layouts.

Gradients of x, filter and bias are first checked against float64. Then the sides run in turns; what is compared are
medians. `ratio` is our time / the better of PyTorch's two: below 1 we are faster.
"""

from typing import Any

import numpy as np
import torch
from common import Row, arrays, attributes, command, flops, interleaved, to_torch, torch_conv_tanh

from ms_convtanh import native


def autograd(case: dict[str, Any], operands: tuple[np.ndarray, ...], layout: torch.memory_format) -> Any:
    x, conv_filter, bias = (to_torch(array, case["dtype"]) for array in operands)
    x, conv_filter = x.to(memory_format=layout), conv_filter.to(memory_format=layout)
    leaves = [tensor.requires_grad_() for tensor in (x, conv_filter, bias)]

    def run(grad_y: torch.Tensor) -> torch.Tensor:
        for leaf in leaves:
            leaf.grad = None
        y = torch_conv_tanh(case, *leaves)
        y.backward(grad_y)
        return y

    return run


def bench_case(case: dict[str, Any], seconds: float) -> Row:
    from tests.reference import DTYPES, assert_gradient_close, conv_tanh_gradients

    operands = x, conv_filter, _ = arrays(case)
    y = native.fused_conv_tanh(*operands, **attributes(case))
    grad_y = np.random.default_rng(case["id"]).uniform(-1, 1, y.shape).astype(DTYPES[case["dtype"]])

    def ours() -> Any:
        y = native.fused_conv_tanh(*operands, **attributes(case))
        return native.fused_conv_tanh_backward(grad_y, y, x, conv_filter, **attributes(case))

    sides = {"ours": ours}
    for name, layout in (("torch", torch.contiguous_format), ("channels_last", torch.channels_last)):
        run = autograd(case, operands, layout)
        torch_grad_y = to_torch(grad_y, case["dtype"]).to(memory_format=layout)
        sides[name] = lambda run=run, grad=torch_grad_y: run(grad)

    goldens = conv_tanh_gradients(grad_y, y, x, conv_filter, **attributes(case))
    for gradient, golden in zip(ours(), goldens, strict=True):
        assert_gradient_close(gradient, golden, case["dtype"])
    times = interleaved(sides, seconds)
    best = min(times["torch"], times["channels_last"])
    return {
        "case": case["name"],
        "gflops": 3 * flops(case, y.size) / times["ours"] / 1e9,
        "us": times["ours"] * 1e6,
        "torch_us": times["torch"] * 1e6,
        "channels_last_us": times["channels_last"] * 1e6,
        "ratio": times["ours"] / best,
    }


if __name__ == "__main__":
    command(bench_case, __doc__, ["float32", "bfloat16"])()
