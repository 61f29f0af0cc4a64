"""Times the operator on the 24 benchmark cases, paired with PyTorch eager `tanh(conv2d)` in one process.

Each case is first checked against float64. Then both sides run in turns, so that both see the same machine; what is
compared are medians. `ratio` is our time / PyTorch's: below 1 we are faster. `half` and `true` are our time with that
fusion mode forced. Memory is what the call needs beyond its inputs and output.
"""

import csv
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import torch
from rich import box
from rich.console import Console
from rich.progress import track
from rich.table import Table

import ms_convtanh
from ms_convtanh import native

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.reference import DTYPES, assert_close, conv_tanh  # noqa: E402 (what the tests trust)

TORCH_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
COLUMNS = ["case", "gflops", "us", "torch_us", "ratio", "half_us", "true_us", "workspace_mib", "limit_mib", "plan"]


def load_cases(dtypes: tuple[str, ...], pattern: str) -> list[dict[str, Any]]:
    cases = json.loads((ROOT / "tests/data/cases24.json").read_text())["cases"]
    return [case for case in cases if case["dtype"] in dtypes and pattern in case["name"]]


def to_torch(array: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    return torch.from_numpy(array.astype(np.float32)).to(dtype)


def interleaved(sides: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Median seconds of each side; the sides take turns."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    for run in sides.values():
        run()
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[next(iter(times))]) < 5:
        for name, run in sides.items():
            # PyTorch's idle workers spin for a while; let them sleep before the other side runs.
            time.sleep(0.002)
            run()
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def bench_case(case: dict[str, Any], seconds: float) -> dict[str, Any]:
    rng = np.random.default_rng(case["id"])
    x, conv_filter, bias = (
        rng.uniform(*case[f"{name}_range"], case[name]).astype(DTYPES[case["dtype"]])
        for name in ("x", "filter", "bias")
    )
    attributes = {name: case[name] for name in ("strides", "pads", "dilations", "groups")}

    def ours() -> np.ndarray:
        return native.fused_conv_tanh(x, conv_filter, bias, **attributes)

    def with_fusion(mode: str) -> Callable[[], np.ndarray]:
        def run() -> np.ndarray:
            with native.options(fusion=mode):
                return ours()

        return run

    assert_close(ours(), conv_tanh(x, conv_filter, bias, **attributes), case["dtype"])
    top, bottom, left, right = case["pads"]
    if (top, left) != (bottom, right):
        raise SystemExit(f"{case['name']}: PyTorch takes symmetric pads only")
    tx, tf, tb = (to_torch(array, TORCH_DTYPES[case["dtype"]]) for array in (x, conv_filter, bias))

    def peer() -> torch.Tensor:
        return torch.tanh(
            torch.nn.functional.conv2d(tx, tf, tb, case["strides"], (top, left), case["dilations"], case["groups"])
        )

    times = interleaved(
        {"ours": ours, "torch": peer, "half": with_fusion("half"), "true": with_fusion("true")}, seconds
    )
    plan = native.explain(case["x"], case["filter"], case["dtype"], True, **attributes)
    outputs = int(np.prod(ours().shape))
    flops = 2 * outputs * int(np.prod(case["filter"][1:]))
    return {
        "case": case["name"],
        "gflops": flops / times["ours"] / 1e9,
        "us": times["ours"] * 1e6,
        "torch_us": times["torch"] * 1e6,
        "ratio": times["ours"] / times["torch"],
        "half_us": times["half"] * 1e6,
        "true_us": times["true"] * 1e6,
        "workspace_mib": plan.workspace_bytes / 2**20,
        "limit_mib": outputs * 4 / 2**20 + 8,
        "plan": f"{plan.k1} {plan.fusion} {plan.threads}t {plan.tile_rows}x{plan.tile_cols}x{plan.tile_co}",
    }


def show(rows: list[dict[str, Any]]) -> None:
    table = Table(box=box.MARKDOWN)
    for column in COLUMNS:
        table.add_column(column, justify="left" if column in ("case", "plan") else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(f"{row[c]:.2f}" if isinstance(row[c], float) else str(row[c]) for c in COLUMNS))
    Console(width=150).print(table)


def run(cases: list[dict[str, Any]], seconds: float, csv_path: str | None) -> None:
    found = native.features()
    torch.set_num_threads(found.threads)
    print(
        f"ms_convtanh {ms_convtanh.__version__} ({found.k1}, {found.compiler}), torch {torch.__version__} "
        f"({torch.backends.cpu.get_cpu_capability()}), {found.threads} threads each"
    )
    rows = [bench_case(case, seconds) for case in track(cases, "cases", transient=True)]
    show(rows)
    ratios = [row["ratio"] for row in rows]
    print(f"geometric mean of ours / PyTorch: {statistics.geometric_mean(ratios):.3f}, worst {max(ratios):.3f}")
    over = [row["case"] for row in rows if row["workspace_mib"] > row["limit_mib"]]
    print(
        "memory beyond inputs and output: " + (f"OVER the limit in {over}" if over else "within the limit everywhere")
    )
    if csv_path:
        with open(csv_path, "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(rows)


@click.command(help=__doc__)
@click.option(
    "--dtype", "dtypes", multiple=True, type=click.Choice(list(TORCH_DTYPES)), default=["float32"], show_default=True
)
@click.option("--case", "pattern", default="", help="Only cases whose name contains this.")
@click.option(
    "--threads", default=None, type=click.IntRange(1), help="For both sides; default: all that are available."
)
@click.option("--seconds", default=4.0, show_default=True, help="Time for each case.")
@click.option("--csv", "csv_path", default=None, type=click.Path(dir_okay=False), help="Also write the table here.")
def main(dtypes: tuple[str, ...], pattern: str, threads: int | None, seconds: float, csv_path: str | None) -> None:
    cases = load_cases(dtypes, pattern)
    if not cases:
        raise click.UsageError("no such case")
    with native.options(num_threads=threads), torch.inference_mode():
        run(cases, seconds, csv_path)


if __name__ == "__main__":
    main()
