"""Times the operator on the benchmark cases, paired with PyTorch eager `tanh(conv2d)` in one process.

Each case is first checked against float64. Then the sides run in turns; what is compared are medians. `ratio` is our
time / PyTorch's: below 1 we are faster. `half_us` and `true_us` are our time with that fusion mode forced.
`workspace_mib` is what the call needs beyond its inputs and output, `limit_mib` what it may need: the float32 result of
half fusion and 8 MiB.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from common import Row, arrays, attributes, command, flops, interleaved, to_torch, torch_conv_tanh

from ms_convtanh import native


def bench_case(case: dict[str, Any], seconds: float) -> Row:
    from tests.reference import assert_close, conv_tanh

    operands = arrays(case)
    torch_operands = [to_torch(array, case["dtype"]) for array in operands]

    def ours() -> np.ndarray:
        return native.fused_conv_tanh(*operands, **attributes(case))

    def with_fusion(mode: str) -> Callable[[], np.ndarray]:
        def run() -> np.ndarray:
            with native.options(fusion=mode):
                return ours()

        return run

    def peer() -> torch.Tensor:
        with torch.inference_mode():
            return torch_conv_tanh(case, *torch_operands)

    y = ours()
    assert_close(y, conv_tanh(*operands, **attributes(case)), case["dtype"])
    times = interleaved(
        {"ours": ours, "torch": peer, "half": with_fusion("half"), "true": with_fusion("true")}, seconds
    )
    plan = native.explain(case["x"], case["filter"], case["dtype"], True, **attributes(case))
    return {
        "case": case["name"],
        "gflops": flops(case, y.size) / times["ours"] / 1e9,
        "us": times["ours"] * 1e6,
        "torch_us": times["torch"] * 1e6,
        "ratio": times["ours"] / times["torch"],
        "half_us": times["half"] * 1e6,
        "true_us": times["true"] * 1e6,
        "workspace_mib": plan.workspace_bytes / 2**20,
        "limit_mib": y.size * 4 / 2**20 + 8,
        "plan": f"{plan.k1} {plan.fusion} {plan.threads}t {plan.tile_rows}x{plan.tile_cols}x{plan.tile_co}",
    }


if __name__ == "__main__":
    command(bench_case, __doc__, ["float32"])()
