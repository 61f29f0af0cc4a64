"""Half against true fusion on an Ascend 950: device times of the benchmark cases, after a check of each result.

A time is that of one call: K0, K1 and K2 for half, K0 and K12 for true fusion. Calls are put on the stream while matrix
products keep the NPU busy, so that the time is the device's and not that of the host's launches; where the host was too
slow for that, it is marked with *. Needs CANN, pypto_pro, torch and torch_npu.
"""

import importlib
import json
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "kernels/ascend")]

import launcher  # noqa: E402
from dispatcher import make_problem, route  # noqa: E402

from tests.problems import CASES  # noqa: E402
from tests.reference import DTYPES, assert_close, conv_tanh  # noqa: E402

FUSIONS = ("half", "true")
HEAD_SIZE, HEAD_COUNT = 8192, 8  # of the products that keep the NPU busy: a few milliseconds each


def device_time(torch: Any, launch: Any, repeats: int) -> tuple[float, bool]:
    """(milliseconds of one launch() on the device, whether the host was ahead of it all the time)."""
    start, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
    square = torch.ones((HEAD_SIZE, HEAD_SIZE), dtype=torch.float16, device="npu")
    launch()  # compiles the kernels
    torch.npu.synchronize()
    for _ in range(HEAD_COUNT):
        torch.matmul(square, square)
    start.record()
    for _ in range(repeats):
        launch()
    end.record()
    ahead = not start.query()
    torch.npu.synchronize()
    return start.elapsed_time(end) / repeats, ahead


def measure(case: dict[str, Any], cores: int, repeats: int) -> dict[str, Any]:
    """One row of the table. Raises AssertionError for a wrong result."""
    torch = importlib.import_module("torch")
    rng = np.random.default_rng(case["id"])
    operands = [
        rng.uniform(*case[f"{name}_range"], case[name]).astype(DTYPES[case["dtype"]])
        for name in ("x", "filter", "bias")
    ]
    attributes = {name: case[name] for name in ("strides", "pads", "dilations", "groups")}
    golden = conv_tanh(*operands, **attributes)
    problem = make_problem(case["x"], case["filter"], case["dtype"], **attributes)
    row = {"case": case["name"]}
    for fusion in FUSIONS:
        call = launcher.Call(problem, route(problem, cores, fusion), *operands)
        call.launch()
        assert_close(call.results()["y"], golden, case["dtype"])
        milliseconds, ahead = device_time(torch, call.launch, repeats)
        row |= {f"{fusion}_us": 1000 * milliseconds, f"{fusion}_host_ahead": ahead}
    return row


@click.command(help=__doc__)
@click.option("--repeats", type=click.IntRange(1), default=20, show_default=True, help="Launches per time.")
@click.option("--json", "path", type=click.Path(dir_okay=False, path_type=Path), help="Also write the rows here.")
@click.option("--case", "names", multiple=True, metavar="NAME", help="These only; may be repeated.")
def main(repeats: int, path: Path | None, names: tuple[str, ...]) -> None:
    reason = launcher.missing()
    if reason:
        raise click.ClickException(f"half and true fusion are timed on an Ascend 950: {reason}")
    unknown = set(names) - {case["name"] for case in CASES}
    if unknown:
        raise click.UsageError(f"expected --case of tests/data/cases24.json, got {', '.join(sorted(unknown))}")
    cores, rows = launcher.cores(), []
    click.echo(f"{'case':26}{'half us':>12}{'true us':>12}{'true / half':>13}")
    for case in CASES:
        if names and case["name"] not in names:
            continue
        row = measure(case, cores, repeats)
        rows.append(row)
        half, true = (f"{row[f'{fusion}_us']:.1f}{' ' if row[f'{fusion}_host_ahead'] else '*'}" for fusion in FUSIONS)
        click.echo(f"{case['name']:26}{half:>12}{true:>12}{row['true_us'] / row['half_us']:>13.2f}")
    if path is not None:
        path.write_text(json.dumps({"cores": cores, "repeats": repeats, "cases": rows}, indent=2) + "\n")


if __name__ == "__main__":
    main()
