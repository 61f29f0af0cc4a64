"""What the benchmarks share: cases, inputs, turn-taking timing and the table."""

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
sys.path.insert(0, str(ROOT))  # for tests.reference: benchmarks trust what the tests trust

TORCH_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}

Row = dict[str, Any]


def arrays(case: dict[str, Any]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """x, filter and bias in the case's ranges."""
    from tests.reference import DTYPES

    rng = np.random.default_rng(case["id"])
    x, conv_filter, bias = (
        rng.uniform(*case[f"{name}_range"], case[name]).astype(DTYPES[case["dtype"]])
        for name in ("x", "filter", "bias")
    )
    return x, conv_filter, bias


def attributes(case: dict[str, Any]) -> dict[str, Any]:
    return {name: case[name] for name in ("strides", "pads", "dilations", "groups")}


def flops(case: dict[str, Any], outputs: int) -> int:
    """Of the convolution: a multiplication and an addition for each product."""
    return 2 * outputs * int(np.prod(case["filter"][1:]))


def to_torch(array: np.ndarray, dtype: str) -> torch.Tensor:
    return torch.from_numpy(array.astype(np.float32)).to(TORCH_DTYPES[dtype])


def torch_conv_tanh(case: dict[str, Any], x: Any, conv_filter: Any, bias: Any) -> torch.Tensor:
    top, bottom, left, right = case["pads"]
    if (top, left) != (bottom, right):
        raise SystemExit(f"{case['name']}: PyTorch takes symmetric pads only")
    return torch.tanh(
        torch.nn.functional.conv2d(
            x, conv_filter, bias, case["strides"], (top, left), case["dilations"], case["groups"]
        )
    )


def interleaved(sides: dict[str, Callable[[], Any]], seconds: float) -> dict[str, float]:
    """Median seconds of each side; the sides take turns, so that all see the same machine."""
    times: dict[str, list[float]] = {name: [] for name in sides}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times[next(iter(times))]) < 5:
        for name, run in sides.items():
            # PyTorch's idle workers spin for several milliseconds; let them sleep before the next side runs.
            time.sleep(0.02)
            run()
            start = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(values) for name, values in times.items()}


def show(rows: list[Row]) -> None:
    table = Table(box=box.MARKDOWN)
    for column, value in rows[0].items():
        table.add_column(column, justify="left" if isinstance(value, str) else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(f"{value:.2f}" if isinstance(value, float) else str(value) for value in row.values()))
    Console(width=160).print(table)


def command(bench_case: Callable[[dict[str, Any], float], Row], doc: str, dtypes: list[str]) -> click.Command:
    """A command that runs bench_case(case, seconds) on cases; its rows have a `ratio`, ours / the best peer."""

    @click.command(help=doc)
    @click.option("--dtype", "chosen", multiple=True, type=click.Choice(list(TORCH_DTYPES)), default=dtypes)
    @click.option("--case", "pattern", default="", help="Only cases whose name contains this.")
    @click.option("--threads", default=None, type=click.IntRange(1), help="For all sides; default: all available.")
    @click.option("--seconds", default=4.0, show_default=True, help="Time for each case.")
    @click.option("--csv", "csv_path", default=None, type=click.Path(dir_okay=False), help="Also write the table here.")
    def main(chosen: tuple[str, ...], pattern: str, threads: int | None, seconds: float, csv_path: str | None) -> None:
        cases = json.loads((ROOT / "tests/data/cases24.json").read_text())["cases"]
        cases = [case for case in cases if case["dtype"] in chosen and pattern in case["name"]]
        if not cases:
            raise click.UsageError("no such case")
        with native.options(num_threads=threads):
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
        if csv_path:
            with open(csv_path, "w", newline="") as file:
                writer = csv.DictWriter(file, list(rows[0]))
                writer.writeheader()
                writer.writerows(rows)

    return main
