"""The C++ host tiling computes the numbers of conv_common.py."""

import itertools
import json
import subprocess
from dataclasses import astuple
from pathlib import Path

import numpy as np
import pytest
from conv_common import (
    CONV_KEY,
    FUSED_KEY,
    PACK_KEY,
    TANH_KEY,
    Problem,
    make_tiling,
    size_of,
    tiling_key,
    tiling_values,
)
from dispatcher import make_problem

ROOT = Path(__file__).resolve().parents[2]
DTYPES = ("float32", "float16", "bfloat16")  # in the order of kernels/problem.h


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("tiling") / "tiling"
    sources = [ROOT / "tests/ascend/tiling_main.cc", ROOT / "kernels/ascend/conv_tiling.cc"]
    subprocess.run(
        ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", f"-I{ROOT}", *sources, "-o", program], check=True
    )
    return program


def problem_of(
    dtype: str, x: tuple[int, ...], conv_filter: tuple[int, ...], stride: int, pad: int, dilation: int, **rest: int
) -> Problem | None:
    """None if the filter does not fit into x."""
    both = {"strides": (stride, stride), "pads": (pad,) * 4, "dilations": (dilation, dilation)}
    try:
        return make_problem(x, conv_filter, dtype, **both, **rest)
    except ValueError:
        return None


def grid() -> list[Problem]:
    cases = json.loads((ROOT / "tests/data/cases24.json").read_text())["cases"]
    problems = [
        problem_of(case["dtype"], case["x"], case["filter"], case["strides"][0], case["pads"][0], case["dilations"][0])
        for case in cases
    ]
    shapes = [
        ((1, 1, 1, 1), 1, 1), ((2, 3, 17, 19), 8, 3), ((1, 16, 32, 300), 64, 3), ((3, 48, 9, 65), 130, 5),
        ((1, 64, 1, 4000), 16, 1), ((1, 300, 7, 7), 1000, 7),
    ]  # fmt: skip
    for dtype, (x, co, k), stride, dilation, bias in itertools.product(DTYPES, shapes, (1, 2, 3, 40), (1, 2), (0, 1)):
        for pad, math in ((0, 0), (k // 2, 2)):
            taps = (min(k, x[2]), k)
            problems.append(
                problem_of(dtype, x, (co, x[1], *taps), stride, pad, dilation, has_bias=bias, cube_math_type=math)
            )
    rng = np.random.default_rng(5)
    for _ in range(300):
        groups, per_group, co = (int(v) for v in rng.integers(1, (9, 40, 70)))
        k, stride, dilation, pad = (int(v) for v in rng.integers(1, (6, 5, 4, 5)))
        x = (int(rng.integers(1, 4)), groups * per_group, *(int(v) for v in rng.integers(5, 140, 2)))
        problems.append(
            problem_of(DTYPES[rng.integers(3)], x, (groups * co, per_group, k, k), stride, pad, dilation, groups=groups)
        )
    problems.append(problem_of("float16", (1, 1, 1 << 16, 1 << 16), (1, 1, 3, 3), 1, 1, 1))  # too large
    return [problem for problem in problems if problem is not None]


def numbers(problem: Problem, cores: int, fused: bool) -> list[int] | str:
    try:
        plan = make_tiling(problem, cores, fused)
    except ValueError as error:
        return str(error).replace("conv_tanh", "error")
    conv_key = FUSED_KEY if fused else CONV_KEY
    element = size_of(plan.compute_dtype)
    return [
        *tiling_values(plan.pack), tiling_key(PACK_KEY, plan.pack_key), plan.pack_blocks,
        *tiling_values(plan.conv), tiling_key(conv_key, plan.conv_key), plan.conv_blocks,
        *tiling_values(plan.tanh), tiling_key(TANH_KEY, plan.tanh_key), plan.tanh_blocks,
        DTYPES.index(plan.compute_dtype),
        plan.x_packed_bytes // element, plan.filter_packed_bytes // element, plan.wst_bytes // 4,
    ]  # fmt: skip


def test_host_tiling_is_that_of_conv_common(twin: Path) -> None:
    calls = [(p, cores, fused) for p in grid() for cores in (28, 32) for fused in (False, True)]
    assert len(calls) > 2000
    lines = [
        " ".join(map(str, (cores, DTYPES.index(problem.dtype), *astuple(problem)[1:], int(fused))))
        for problem, cores, fused in calls
    ]
    output = subprocess.run([twin], input="\n".join(lines) + "\n", capture_output=True, text=True, check=True).stdout
    for call, line in zip(calls, output.splitlines(), strict=True):
        got = line if line.startswith("error") else [int(word) for word in line.split()]
        assert got == numbers(*call), call
    assert any(line.startswith("error") for line in output.splitlines())
