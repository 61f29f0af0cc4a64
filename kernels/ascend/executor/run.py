"""One operator call in the executor: NumPy arrays in, NumPy array out."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
from conv_common import Problem
from dispatcher import Route, launch

from .frontend import Kernel, load_kernel
from .memory import GlobalBuffer
from .types import BY_NUMPY, DataType, ExecutorError

NUMPY = {
    "float16": np.dtype(np.float16),
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float32": np.dtype(np.float32),
}
DATATYPES: dict[str, DataType] = {name: BY_NUMPY[dtype] for name, dtype in NUMPY.items()}


@cache
def kernels() -> dict[str, Kernel]:
    """The kernel files of kernels/ascend, bound to the executor."""
    folder = Path(__file__).parent.parent
    return {name: load_kernel(folder / f"{name}.py") for name in ("k0_pack", "k1_conv", "k2_tanh", "k12_fused")}


def run(
    problem: Problem, route: Route, x: np.ndarray, conv_filter: np.ndarray, bias: np.ndarray | None
) -> dict[str, Any]:
    """x, filter and bias of problem's shapes and dtype -> {"y": ..., and "x_packed", "filter_packed", "wst"}.

    Raises ExecutorError if a kernel does what hardware would get wrong, or leaves a part of y unwritten.
    """
    plan, compute = route.plan, NUMPY[route.plan.compute_dtype]
    sizes = {
        "x_packed": (plan.x_packed_bytes // compute.itemsize, compute),
        "filter_packed": (plan.filter_packed_bytes // compute.itemsize, compute),
        "wst": (plan.wst_bytes // 4, NUMPY["float32"]),
        "y": (problem.n * problem.co * problem.ho * problem.wo, NUMPY[problem.dtype]),
    }
    tensors: dict[str, Any] = {"x": x, "filter": conv_filter, "bias": bias}
    for name, (size, dtype) in sizes.items():
        tensors[name] = GlobalBuffer(name, np.zeros(size, dtype), written=False)
    launch(route, kernels(), DATATYPES, problem, tensors)
    if not tensors["y"].written.all():
        raise ExecutorError(f"y: {np.count_nonzero(~tensors['y'].written)} elements were not written by any core")
    results = {name: tensors[name].data for name in sizes}
    results["y"] = results["y"].reshape(problem.n, problem.co, problem.ho, problem.wo)
    return results
