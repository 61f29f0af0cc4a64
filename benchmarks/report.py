"""Writes docs/FINAL_REPORT.md, docs/ANALYSIS.md and docs/ITER_REPORT.html from the runs in benchmarks/runs.

A run is a JSON file of `ms-convtanh bench`. The newest of each machine is reported; all of them make the history. No
number in these documents is written by hand. The costs on Ascend are those that benchmarks/pypto_costs.py wrote.
"""

import json
import math
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import jinja2
from markupsafe import Markup

from ms_convtanh._problem import Attributes
from ms_convtanh.benchmark import models, report, results
from ms_convtanh.benchmark.measure import FROZEN, HALF, TRUE, Record

ROOT = Path(__file__).resolve().parents[1]
Run = dict[str, Any]
Table = tuple[list[str], list[list[str]]]
COSTS = ROOT / "benchmarks/results/pypto_costs.json"


def read_runs(folder: Path) -> list[Run]:
    """All runs, oldest first, each with its file's name."""
    runs = [results.read(path) | {"file": path.stem} for path in sorted(folder.glob("*.json"))]
    return sorted(runs, key=lambda run: (run["machine"]["date"], run["file"]))


def machine_of(run: Run) -> tuple[str, str]:
    """What makes runs comparable: the CPU, and the kernels that it may use."""
    return run["machine"]["cpu"], run["machine"]["features"]["k1"]


def newest(runs: Sequence[Run], training: bool) -> dict[tuple[str, str], Run]:
    """The last run of each machine; quick ones only where there is no other."""
    found: dict[tuple[str, str], Run] = {}
    for run in runs:
        before = found.get(machine_of(run))
        if run["settings"]["training"] is training and (
            before is None or before["settings"]["quick"] or not run["settings"]["quick"]
        ):
            found[machine_of(run)] = run
    return found


def markdown(table: Table) -> str:
    titles, rows = table
    lines = [titles, ["---", *["---:"] * (len(titles) - 1)], *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def percent(value: float) -> str:
    return f"{100 * value:.0f} %"


def chosen_time(record: Record) -> Record | None:
    """Where the time goes in the plan that is chosen, if that was traced."""
    plan = record["plan"]
    return next(
        (part for part in record["time"] if (part["variant"], part["fusion"]) == (plan["k1"], plan["fusion"])), None
    )


def bottleneck(record: Record) -> str:
    """What limits a case: the roof above it, and the phase that takes most of the time."""
    part = chosen_time(record)
    text = report.bound_text(record)
    if part is None:
        return text
    phase = max(("pack", "k1", "k2", "wait"), key=lambda name: part[name])
    share = percent(part[phase] / part["run"])
    peak = f" at {percent(part['k1_utilisation'])} of the peak" if phase == "k1" else ""
    return f"{text}; {phase.upper() if phase != 'pack' and phase != 'wait' else phase} {share}{peak}"


def at_the_roof(run: Run) -> float:
    """What the geometric mean over the best peer would be if every case took the least time that the hardware allows;
    NaN without peers."""
    compared = [record for record in results.of_kind(run, "case") if results.best_peer(record)]
    reached = [results.time_of(record, results.best_peer(record)) / results.bound(record) for record in compared]
    return statistics.geometric_mean(reached) if reached else math.nan


def case_table(run: Run) -> Table:
    titles = ["case", "us", "best peer", "us", "speed-up", "of roof", "MERE", "MARE", "max ULP", "bottleneck", "HAP"]
    rows = []
    for record in results.of_kind(run, "case"):
        ours, best = record["sides"][record["ours"]], results.best_peer(record)
        errors = ours["accuracy"]
        rows.append(
            [
                record["name"],
                report.microseconds(ours["median"]),
                report.label(run, best),
                report.microseconds(results.time_of(record, best)),
                report.ratio(results.speedup(record)),
                percent(max(record["compute_bound"], record["memory_bound"]) / ours["median"]),
                report.small(errors["mere"]),
                report.small(errors["mare_large"]),
                report.small(errors["max_ulp"]),
                bottleneck(record),
                report.ratio(results.hap(record)),
            ]
        )
    return titles, rows


def sides_table(run: Run, kind: str) -> Table:
    """The time of every side in microseconds."""
    records = results.of_kind(run, kind)
    peers = report.peers_of(run, records)
    titles = ["", "ours", *(report.label(run, name) for name in peers), "best peer / ours"]
    rows = [
        [
            record["name"],
            report.microseconds(results.our_time(record)),
            *(report.microseconds(results.time_of(record, name)) or "-" for name in peers),
            report.ratio(results.speedup(record)),
        ]
        for record in records
    ]
    return titles, rows


# The analysis


def roofline_table(run: Run) -> Table:
    titles = ["case", "Gflop", "MB", "flop / byte", "roof", "roof us", "ours us", "of roof", "GFLOP/s", "GB/s"]
    rows = []
    for record in results.of_kind(run, "case"):
        roof, time = max(record["compute_bound"], record["memory_bound"]), results.our_time(record)
        rows.append(
            [
                record["name"],
                f"{record['flops'] / 1e9:.3f}",
                f"{record['bytes'] / 1e6:.2f}",
                f"{record['flops'] / record['bytes']:.1f}",
                report.bound_text(record),
                report.microseconds(roof),
                report.microseconds(time),
                percent(roof / time),
                f"{record['flops'] / time / 1e9:.1f}",
                f"{record['bytes'] / time / 1e9:.2f}",
            ]
        )
    return titles, rows


def sums_bytes(record: Record) -> int:
    """Of wsT, the float32 sums of the whole output."""
    return 4 * math.prod(record["y"])


def movement_table(run: Run) -> Table:
    titles = ["case", "least MB", "half: + MB", "half us", "true us", "half / true", "extra MB at the bandwidth, us"]
    rows = []
    for record in results.of_kind(run, "case"):
        extra = 2 * sums_bytes(record)  # written by K1, read by K2
        half, true = results.time_of(record, HALF), results.time_of(record, TRUE)
        rows.append(
            [
                record["name"],
                f"{record['bytes'] / 1e6:.2f}",
                f"{extra / 1e6:.2f}",
                report.microseconds(half),
                report.microseconds(true),
                report.ratio(half / true),
                report.microseconds(extra / run["peaks"]["bytes"]),
            ]
        )
    return titles, rows


def fusion_by_work(run: Run) -> Table:
    """Half / true by the number of products behind an output: what fusion can save against what there is to do."""
    groups: dict[str, list[float]] = {"up to 100": [], "100 to 1000": [], "above 1000": []}
    for record in results.of_kind(run, "case"):
        products = math.prod(record["filter"][1:])
        name = "up to 100" if products <= 100 else "100 to 1000" if products <= 1000 else "above 1000"
        groups[name].append(results.time_of(record, HALF) / results.time_of(record, TRUE))
    rows = [
        [name, str(len(values)), report.ratio(statistics.geometric_mean(values)), report.ratio(min(values))]
        for name, values in groups.items()
        if values
    ]
    return ["products per output", "cases", "half / true, geometric mean", "least"], rows


def time_table(run: Run) -> Table:
    titles = ["case", "variant", "fusion", "run us", "pack", "K1", "K2", "wait", "K1 of peak"]
    rows = []
    for record in results.of_kind(run, "case"):
        for part in record["time"]:
            shares = (percent(part[name] / part["run"]) for name in ("pack", "k1", "k2", "wait"))
            run_us = report.microseconds(part["run"])
            peak = percent(part["k1_utilisation"])
            rows.append([record["name"], part["variant"], part["fusion"], run_us, *shares, peak])
    return titles, rows


def shares_by_variant(run: Run) -> Table:
    """Each phase's share of all cases' time, for each variant and fusion mode."""
    parts: dict[tuple[str, str], list[Record]] = {}
    for record in results.of_kind(run, "case"):
        for part in record["time"]:
            parts.setdefault((part["variant"], part["fusion"]), []).append(part)
    rows = []
    for (variant, fusion), found in parts.items():
        shares = (statistics.fmean(part[name] / part["run"] for part in found) for name in ("pack", "k1", "k2", "wait"))
        rows.append([variant, fusion, str(len(found)), *map(percent, shares)])
    return ["variant", "fusion", "cases", "pack", "K1", "K2", "wait"], rows


def packing_table(run: Run) -> Table:
    """What it is worth to keep the filter packed."""
    titles = ["case", "weights", "products per weight", "us", "frozen us", "us / frozen us"]
    rows = []
    for record in results.of_kind(run, "case"):
        ours, frozen = results.our_time(record), results.time_of(record, FROZEN)
        weights = math.prod(record["filter"])
        times = (report.microseconds(ours), report.microseconds(frozen), report.ratio(ours / frozen))
        rows.append([record["name"], str(weights), f"{record['flops'] / 2 / weights:.0f}", *times])
    return titles, rows


def ascend_table(costs: Sequence[Record]) -> Table:
    """Half and true fusion in the cost model of PyPTO, and what half fusion moves more."""
    titles = ["case", "half: + MB", "K1 us", "K2 us", "half us", "true us", "half / true"]
    rows = []
    for cost in costs:
        model = models.make(cost["name"])
        (layer,) = model.layers
        assert isinstance(layer, models.ConvTanhLayer)
        y = Attributes.of(4, *layer.attributes.values()).y_shape(model.x.shape, layer.conv_filter.shape)
        k1, k2, true = (cost[name]["time_us"] for name in ("k1", "k2", "k12"))
        extra = f"{2 * sums_bytes({'y': y}) / 1e6:.2f}"
        times = (f"{time:.1f}" for time in (k1, k2, k1 + k2, true))
        rows.append([cost["name"], extra, *times, report.ratio((k1 + k2) / true)])
    return titles, rows


# The history


def _values(runs: Sequence[Run], name: str) -> list[float]:
    return [getattr(results.summary(run), name) for run in runs]


def history_plot(runs: Sequence[Run]) -> Markup:
    figure = report.figure(9, 3.6)
    left, right = figure.subplots(1, 2)
    places = range(len(runs))
    left.plot(places, _values(runs, "geometric_mean"), "o-", label="all cases")
    for dtype in ("float32", "float16", "bfloat16"):
        left.plot(places, [results.summary(run).by_dtype.get(dtype, math.nan) for run in runs], ".--", label=dtype)
    left.set_title("best peer / ours, geometric mean", fontsize=9)
    left.legend(fontsize=7)
    right.plot(places, _values(runs, "score"), "o-", color="#0a6b2d")
    right.set_title("score", fontsize=9)
    for axes in (left, right):
        axes.set_xticks(places, [run["file"] for run in runs], rotation=30, ha="right", fontsize=7)
        axes.grid(alpha=0.3)
    return Markup(report.svg_of(figure))


def history_table(runs: Sequence[Run]) -> Table:
    titles = ["run", "date", "commit", "cases", "accurate", "geometric mean", "worst", "worst case", "score"]
    rows = []
    for run in runs:
        found = results.summary(run)
        numbers = (f"{found.geometric_mean:.2f}", f"{found.worst:.2f}", found.worst_case, f"{found.score:.2f}")
        machine = run["machine"]
        rows.append([run["file"], machine["date"], machine["commit"], str(found.cases), str(found.accurate), *numbers])
    return titles, rows


def times_table(runs: Sequence[Run]) -> Table:
    """Our time of every case in every run, and how the last one compares with the first."""
    names = list(dict.fromkeys(record["name"] for run in runs for record in results.of_kind(run, "case")))
    rows = []
    for name in names:
        times = [
            next((results.our_time(record) for record in run["records"] if record["name"] == name), math.nan)
            for run in runs
        ]
        known = [time for time in times if not math.isnan(time)]
        rows.append([name, *(report.microseconds(time) or "-" for time in times), report.ratio(known[0] / known[-1])])
    return ["us", *(run["file"] for run in runs), "first / last"], rows


def write(runs: Sequence[Run], costs: Sequence[Record], folder: Path) -> None:
    """All three documents. costs: the entries of COSTS."""
    final, training = newest(runs, False), newest(runs, True)
    machines = [
        {"name": f"{cpu}, {variant}", "run": run, "training": training.get((cpu, variant))}
        for (cpu, variant), run in final.items()
    ]
    histories = []
    for machine in final:
        same = [run for run in runs if machine_of(run) == machine and results.of_kind(run, "case")]
        same = [run for run in same if not run["settings"]["quick"]] or same
        plot, tables = history_plot(same), (history_table(same), times_table(same))
        histories.append({"name": f"{machine[0]}, {machine[1]}", "plot": plot, "tables": tables})
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).with_name("templates")),
        autoescape=jinja2.select_autoescape(["html.j2"]),
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        undefined=jinja2.StrictUndefined,
    )
    parts = (case_table, sides_table, roofline_table, movement_table, fusion_by_work, time_table, shares_by_variant)
    names = {
        function.__name__: function
        for function in (*parts, packing_table, ascend_table, at_the_roof, markdown, percent)
    }
    shared = (report.peaks_text, report.summary_lines, report.absences, results.of_kind)
    names |= {function.__name__: function for function in shared}
    for name in ("FINAL_REPORT.md", "ANALYSIS.md", "ITER_REPORT.html"):
        text = environment.get_template(f"{name}.j2").render(
            machines=machines, histories=histories, costs=costs, **names
        )
        (folder / name).write_text(text, encoding="utf-8")


@click.command(help=__doc__)
@click.option("--results", "source", type=click.Path(path_type=Path), default=ROOT / "benchmarks/runs")
@click.option("--output", type=click.Path(path_type=Path), default=ROOT / "docs", help="Folder for the documents.")
def main(source: Path, output: Path) -> None:
    runs = read_runs(source)
    if not newest(runs, False):
        raise click.UsageError(f"{source} holds no run: ms-convtanh bench --output {source}/NAME makes one")
    write(runs, json.loads(COSTS.read_text(encoding="utf-8")), output)


if __name__ == "__main__":
    main()
