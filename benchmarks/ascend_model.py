"""Half against true fusion on an Ascend 957x, modelled from the plans of the kernels and the vendor's rates.

    python benchmarks/ascend_model.py      renews the table of docs/ASCEND.md

A core's time for a tile is that of the slowest of its units, which work side by side; a kernel's time is that of the
core with the most tiles. Nothing is added for launches, synchronisation, the first and the last tile, or waiting for
memory that cores share. So the table shows what limits each way, and no time that a machine would reach.

The rates are those of the platform files of PyPTO (hicann/pypto, framework/src/platform, 950PR_957x.ini).
"""

import ast
import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "kernels/ascend"))

from conv_common import CUBE_CORES, SUB_BLOCKS, Plan, ceil_div, round_up, size_of  # noqa: E402
from dispatcher import make_problem, route  # noqa: E402

DOCUMENT = ROOT / "docs/ASCEND.md"
BEGIN, END = "<!-- model of a 957x: written by benchmarks/ascend_model.py -->\n", "<!-- end of model -->\n"

MEGAHERTZ = 1650  # cube_freq
L2_RATE = 100  # bytes per cycle and core: l2_rate
L1_TO_L0_RATE = 256  # l1_to_l0_a_rate, l1_to_l0_b_rate
L0C_TO_UB_RATE = 128  # l0_c_to_ub_rate
FRACTAL = 16  # cube_m_size, cube_n_size, cube_k_size: products of 16 bits per cycle and axis
VECTOR_LANES = 32  # float32 per cycle and vector core: vec_calc_size


def vector_instructions() -> int:
    """Of tanh_tile, for each vector of z; one more casts the result. exp and div count as one, as any other."""
    tree = ast.parse((ROOT / "kernels/ascend/tile_stages.py").read_text())
    (function,) = (node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == "tanh_tile")
    return sum(isinstance(node, ast.Call) for node in ast.walk(function)) + 1


@dataclass(frozen=True)
class Stage:
    """The cycles of the busiest core by what it does; what takes longest is the stage's time."""

    cycles: dict[str, float]

    @property
    def limit(self) -> str:
        return max(self.cycles, key=lambda unit: self.cycles[unit])

    @property
    def microseconds(self) -> float:
        return self.cycles[self.limit] / MEGAHERTZ


def convolution(plan: Plan, y_bytes: int) -> tuple[Stage, int]:
    """K1, or K12 with all of tanh; and the bytes that all cores load into L1. For products of 16 bits."""
    conv, element = plan.conv, size_of(plan.compute_dtype)
    rows = round_up(min(conv.m, plan.conv_key["TileM"]), FRACTAL)
    columns = round_up(min(conv.p, plan.conv_key["TileN"]), FRACTAL)
    load = (rows + columns) * conv.k_total * element
    cycles = {
        "Cube": rows * columns * conv.k_total / FRACTAL**3,
        "load L1": load / L2_RATE,
        "load L0": max(rows, columns) * conv.k_total * element / L1_TO_L0_RATE,
    }
    if plan.fused:
        cycles["L0C to UB"] = rows * columns * 4 / L0C_TO_UB_RATE
        cycles["Vector"] = ceil_div(rows, SUB_BLOCKS) * columns * vector_instructions() / VECTOR_LANES
        cycles["store"] = rows * columns * y_bytes / L2_RATE
    else:
        cycles["store"] = rows * columns * 4 / L2_RATE
    rounds = ceil_div(conv.tiles, CUBE_CORES)
    return Stage({unit: rounds * value for unit, value in cycles.items()}), conv.tiles * load


def tanh(plan: Plan, y_bytes: int) -> Stage:
    """K2, whose two vector cores share the way to L2."""
    t = plan.tanh
    tile = t.tile_rows * t.tile_columns
    rounds = ceil_div(t.tiles, CUBE_CORES * SUB_BLOCKS)
    return Stage(
        {
            "Vector": rounds * tile * vector_instructions() / VECTOR_LANES,
            "load and store": rounds * tile * SUB_BLOCKS * (4 + y_bytes) / L2_RATE,
        }
    )


def row(case: dict[str, Any]) -> dict[str, Any]:
    """One case both ways."""
    attributes = {name: case[name] for name in ("strides", "pads", "dilations", "groups")}
    problem = make_problem(case["x"], case["filter"], case["dtype"], **attributes)
    half, true = (route(problem, CUBE_CORES, fusion).plan for fusion in ("half", "true"))
    element = size_of(case["dtype"])
    (k1, k1_load), (k12, k12_load), k2 = convolution(half, element), convolution(true, element), tanh(half, element)
    return {
        "case": case["name"].removesuffix(f"_{case['dtype']}"),
        "wst": 2 * half.wst_bytes,
        "k1_load": k1_load,
        "k12_load": k12_load,
        "k1": k1,
        "k2": k2,
        "k12": k12,
        "ratio": k12.microseconds / (k1.microseconds + k2.microseconds),
    }


def table(rows: Iterable[dict[str, Any]]) -> str:
    lines = [
        "| Case, float16 | wsT, both ways | K1 into L1 | K12 into L1 "
        "| K1 us | K2 us | K12 us | true / half | K1's limit | K12's limit |",
        "|---|--:|--:|--:|--:|--:|--:|--:|---|---|",
    ]
    for r in rows:
        sizes = (f"{r[name] / 1e6:.1f} MB" for name in ("wst", "k1_load", "k12_load"))
        times = (f"{r[name].microseconds:.1f}" for name in ("k1", "k2", "k12"))
        cells = (r["case"], *sizes, *times, f"{r['ratio']:.2f}", r["k1"].limit, r["k12"].limit)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def rows() -> list[dict[str, Any]]:
    """Of the cases in float16; bfloat16 has the same plans."""
    cases = json.loads((ROOT / "tests/data/cases24.json").read_text())["cases"]
    return [row(case) for case in cases if case["dtype"] == "float16"]


def main() -> None:
    text = table(rows())
    page = DOCUMENT.read_text()
    before, rest = page.split(BEGIN)
    DOCUMENT.write_text(f"{before}{BEGIN}\n{text}\n{END}{rest.split(END)[1]}")
    print(text, end="")


if __name__ == "__main__":
    main()
