"""Runs the kernels on an Ascend 950 through PyPTO Pro's own JIT. Needs CANN, pypto_pro, torch and torch_npu.

    import launcher
    from dispatcher import make_problem, route
    problem = make_problem(x.shape, conv_filter.shape, "float16", pads=(1, 1, 1, 1))
    y = launcher.run(problem, route(problem, launcher.cores()), x, conv_filter, bias)["y"]

The arguments and the result are those of executor.run.run, so that the same tests run on either.
"""

from __future__ import annotations

import importlib
import importlib.util
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from dispatcher import Problem, Route, launch

KERNELS = ("k0_pack", "k1_conv", "k2_tanh", "k12_fused")


def missing() -> str:
    """What keeps the kernels from running here, or an empty string."""
    for name in ("pypto_pro", "torch", "torch_npu"):
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed"
    torch = importlib.import_module("torch")
    importlib.import_module("torch_npu")
    if not torch.npu.is_available():
        return "torch_npu finds no NPU"
    device = torch.npu.get_device_name()
    return "" if "Ascend950" in device else f"the NPU is {device}, the kernels are for Ascend950"


def cores() -> int:
    """The AIC cores of the device."""
    return int(importlib.import_module("pypto_pro.runtime.platform").get_platform_info().cube_core_num)


@cache
def kernels() -> dict[str, Any]:
    """The kernels of this folder, as PyPTO Pro's @pl.jit made them."""
    found = {}
    for name in KERNELS:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).parent / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found[name] = getattr(module, name)
    return found


class Call:
    """One call with everything on the device. Its launches can be repeated, each with the same results.

    x, filter and bias: arrays of problem's shapes and dtype; bias may be None.
    """

    def __init__(
        self, problem: Problem, route: Route, x: np.ndarray, conv_filter: np.ndarray, bias: np.ndarray | None
    ) -> None:
        torch = importlib.import_module("torch")
        importlib.import_module("torch_npu")
        plan = route.plan
        self.problem, self.route = problem, route
        self._numpy_io = x.dtype
        self._numpy_compute = np.dtype(np.float16) if plan.compute_dtype == "float16" else x.dtype
        types = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}

        def to_device(array: np.ndarray | None) -> Any:
            if array is None:
                return None
            # torch does not know NumPy's bfloat16: pass the bits.
            bits = array.view(np.int16) if array.dtype.itemsize == 2 else array
            return torch.from_numpy(np.ascontiguousarray(bits)).npu().view(types[problem.dtype])

        def empty(size: int, dtype: str) -> Any:
            return torch.empty(max(size, 1), dtype=types[dtype], device="npu")

        element = self._numpy_compute.itemsize
        self._tensors = {
            "x": to_device(x),
            "filter": to_device(conv_filter),
            "bias": to_device(bias),
            "x_packed": empty(plan.x_packed_bytes // element, plan.compute_dtype),
            "filter_packed": empty(plan.filter_packed_bytes // element, plan.compute_dtype),
            "wst": empty(plan.wst_bytes // 4, "float32"),
            "y": empty(problem.n * problem.co * problem.ho * problem.wo, problem.dtype),
        }

    def launch(self) -> None:
        """Puts all kernels of the route on the current stream and returns at once."""
        pl = importlib.import_module("pypto_pro.language")
        datatypes = {"float16": pl.DT_FP16, "bfloat16": pl.DT_BF16, "float32": pl.DT_FP32}
        launch(self.route, kernels(), datatypes, self.problem, self._tensors)

    def results(self) -> dict[str, np.ndarray]:
        """Waits for the device -> {"y": ..., and "x_packed", "filter_packed", "wst"}."""
        torch = importlib.import_module("torch")
        torch.npu.synchronize()

        def to_host(name: str, dtype: np.dtype) -> np.ndarray:
            tensor = self._tensors[name]
            return tensor.view(torch.int16).cpu().numpy().view(dtype) if dtype.itemsize == 2 else tensor.cpu().numpy()

        q = self.problem
        results = {name: to_host(name, self._numpy_compute) for name in ("x_packed", "filter_packed")}
        results["wst"] = to_host("wst", np.dtype(np.float32))
        results["y"] = to_host("y", self._numpy_io).reshape(q.n, q.co, q.ho, q.wo)
        return results


def run(
    problem: Problem, route: Route, x: np.ndarray, conv_filter: np.ndarray, bias: np.ndarray | None
) -> dict[str, np.ndarray]:
    """x, filter and bias of problem's shapes and dtype -> {"y": ..., and "x_packed", "filter_packed", "wst"}."""
    call = Call(problem, route, x, conv_filter, bias)
    call.launch()
    return call.results()
