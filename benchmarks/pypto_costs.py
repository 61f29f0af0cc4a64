"""Half against true fusion of the benchmark cases in the cost model of PyPTO 0.2.0, for docs/ASCEND.md.

The costs are of the full cases. Each case is also verified pass by pass, with the height of x cut down so far that the
interpreter has at most 2048 columns per image to go through. Results go to benchmarks/results/pypto_costs.json case by
case, and from there into the table of docs/ASCEND.md. Needs the extra ms_convtanh[pypto].
"""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.progress import track

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "kernels/ascend")]

from conv_common import Problem  # noqa: E402
from dispatcher import make_problem  # noqa: E402
from pypto_layout import DTYPES, make_plan  # noqa: E402
from pypto_sim import PROGRAMS, Simulator  # noqa: E402

CASES = ROOT / "tests/data/cases24.json"
RESULTS = ROOT / "benchmarks/results/pypto_costs.json"
DOCUMENT = ROOT / "docs/ASCEND.md"
BEGIN, END = "<!-- pypto costs: written by make pyptocosts -->\n", "<!-- end of pypto costs -->\n"
VERIFIED_COLUMNS = 2048


def problem_of(case: dict[str, Any]) -> Problem:
    attributes = {name: case[name] for name in ("strides", "pads", "dilations", "groups")}
    return make_problem(case["x"], case["filter"], case["dtype"], True, **attributes)


def reduced(problem: Problem) -> Problem:
    """The problem with fewer rows, both pads kept, so that an image of z has at most VERIFIED_COLUMNS columns."""
    ho = min(problem.ho, max(1, VERIFIED_COLUMNS // make_plan(problem).conv.pitch))
    if ho == problem.ho:
        return problem
    reach = (ho - 1) * problem.stride_h + problem.dilation_h * (problem.kh - 1) + 1
    return dataclasses.replace(problem, ho=ho, hi=reach - problem.pad_top - problem.pad_bottom)


def verify(simulator: Simulator, problem: Problem, case: dict[str, Any]) -> None:
    """All three programs; raises SystemExit with what failed."""
    q, dtype = problem, DTYPES[problem.dtype]
    rng = np.random.default_rng(case["id"])
    shapes = ("x", (q.n, q.ci, q.hi, q.wi)), ("filter", (q.co, q.ci // q.groups, q.kh, q.kw)), ("bias", (q.co,))
    operands = [rng.uniform(*case[f"{name}_range"], shape).astype(dtype) for name, shape in shapes]
    k1 = simulator.run_k1(q, *operands)
    runs = {"k1": k1, "k2": simulator.run_k2(q, k1.output), "k12": simulator.run_k12(q, *operands)}
    failures = [f"{case['name']} {name}: {failure}" for name, run in runs.items() for failure in run.failures()]
    if failures:
        raise SystemExit("\n".join(failures))


def measure(simulator: Simulator, case: dict[str, Any]) -> dict[str, Any]:
    problem = problem_of(case)
    small = reduced(problem)
    verify(simulator, small, case)
    costs = {name: dataclasses.asdict(simulator.cost(name, problem)) for name in PROGRAMS}
    return {"id": case["id"], "name": case["name"], "verified_x": [small.n, small.ci, small.hi, small.wi], **costs}


def table(results: list[dict[str, Any]]) -> str:
    """The results in Markdown. A share of time of all cores is weighted over K1 and K2 for half fusion."""
    lines = [
        "| Case | K1 us | K2 us | half us | half use | true us | true use | true / half | verified x |",
        "|---|--:|--:|--:|--:|--:|--:|--:|---|",
    ]
    for row in results:
        k1, k2, k12 = (row[name] for name in PROGRAMS)
        half = k1["time_us"] + k2["time_us"]
        use = sum(k["time_us"] * k["utilisation"] for k in (k1, k2)) / half
        lines.append(
            f"| {row['name']} | {k1['time_us']:.1f} | {k2['time_us']:.1f} | {half:.1f} | {use:.0%} | "
            f"{k12['time_us']:.1f} | {k12['utilisation']:.0%} | {k12['time_us'] / half:.2f} | "
            f"{' x '.join(map(str, row['verified_x']))} |"
        )
    return "\n".join(lines) + "\n"


def with_table(document: str, results: list[dict[str, Any]]) -> str:
    """The document with the table between its two marks renewed."""
    before, rest = document.split(BEGIN)
    return before + BEGIN + "\n" + table(results) + "\n" + END + rest.split(END)[1]


@click.command(help=__doc__)
@click.option("--case", "ids", type=int, multiple=True, help="Only this case, by its number; may be repeated.")
def main(ids: tuple[int, ...]) -> None:
    cases = [case for case in json.loads(CASES.read_text())["cases"] if not ids or case["id"] in ids]
    results = {row["id"]: row for row in json.loads(RESULTS.read_text())} if RESULTS.exists() else {}
    RESULTS.parent.mkdir(exist_ok=True)
    with Simulator() as simulator:
        for case in track(cases, "PyPTO simulation"):
            results[case["id"]] = measure(simulator, case)
            rows = [results[key] for key in sorted(results)]
            RESULTS.write_text("[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n")
    DOCUMENT.write_text(with_table(DOCUMENT.read_text(), rows))
    click.echo(table(rows))


if __name__ == "__main__":
    main()
