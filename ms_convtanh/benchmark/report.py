"""A run as one HTML page with plots that needs nothing else, and as tables for a terminal."""

import io
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ms_convtanh._compare import THRESHOLDS
from ms_convtanh._extras import require
from ms_convtanh.benchmark import results
from ms_convtanh.benchmark.measure import FROZEN, HALF, NOT_PEERS, OURS, TRUE, Record

COMMAND = "bench"
_OURS, _PEER, _BEST, _GREY = "#0a6b2d", "#4a6fa5", "#b3261e", "#999999"
_PHASES = {"pack": "#c98bb9", "k1": "#5aa469", "k2": "#86c994", "wait": "#d96c5f"}


def microseconds(seconds: float | None) -> str:
    """Three digits or more, "" for what was not measured."""
    if seconds is None or math.isnan(seconds):
        return ""
    return f"{seconds * 1e6:.0f}" if seconds >= 1e-4 else f"{seconds * 1e6:.3g}"


def ratio(value: float) -> str:
    return "" if math.isnan(value) else f"{value:.2f}"


def small(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"


def label(run: Mapping[str, Any], name: str | None) -> str:
    """What a side is called."""
    return {OURS: "ms_convtanh", None: "none"}.get(name) or run["peers"].get(name, {}).get("label", name)


def peers_of(run: Mapping[str, Any], records: Sequence[Record]) -> list[str]:
    """The peers that were measured at least once, in their order."""
    return [n for n in run["peers"] if n not in NOT_PEERS and any("median" in r["sides"].get(n, {}) for r in records)]


def plan_text(record: Record) -> str:
    plan = record.get("plan")
    if plan is None:
        return ""
    tile = f"{plan['tile_rows']}x{plan['tile_cols']}x{plan['tile_co']}x{plan['tile_ci']}"
    return f"{plan['k1']} {plan['fusion']} {plan['threads']}t {tile}{' direct' if plan['direct'] else ''}"


def bound_text(record: Record) -> str:
    """What limits the record at best."""
    return "compute" if record["compute_bound"] >= record["memory_bound"] else "memory"


def peaks_text(run: Mapping[str, Any]) -> str:
    """What the machine was measured to do at best."""
    peaks = run["peaks"]
    matrix = f", {peaks['bfloat16'] / 1e9:.1f} in bfloat16" if peaks["bfloat16"] > peaks["flops"] else ""
    return f"{peaks['flops'] / 1e9:.1f} GFLOP/s in float32{matrix}, {peaks['bytes'] / 1e9:.1f} GB/s"


def svg_of(figure: Any) -> str:
    """A figure of matplotlib as SVG, the same bytes for the same numbers."""
    text = io.StringIO()
    with require(COMMAND, "matplotlib", "tools").rc_context({"svg.hashsalt": "ms_convtanh"}):
        figure.savefig(text, format="svg", metadata={"Date": None})
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def figure(width: float, height: float) -> Any:
    """A figure of matplotlib, in inches, for svg_of."""
    return require(COMMAND, "matplotlib.figure", "tools").Figure(figsize=(width, height), layout="constrained")


def _height(count: int) -> float:
    return 1.8 + 0.24 * count


def _legend_below(made: Any) -> None:
    made.legend(fontsize=7, ncols=4, loc="outside lower center")


def _named_rows(axes: Any, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(axis="x", alpha=0.3)


def _times_plot(run: Mapping[str, Any], records: Sequence[Record]) -> str:
    made = figure(9, _height(len(records)))
    axes = made.subplots()
    markers = "os^vDPX"
    for index, name in enumerate(peers_of(run, records)):
        points = [
            (results.time_of(r, name) * 1e6, y) for y, r in enumerate(records) if "median" in r["sides"].get(name, {})
        ]
        axes.plot(*zip(*points, strict=True), markers[index % len(markers)], ms=5, alpha=0.7, label=label(run, name))
    for y, record in enumerate(records):
        side = record["sides"][record["ours"]]
        axes.plot([side["p10"] * 1e6, side["p90"] * 1e6], [y, y], "-", color=_OURS, lw=2)
    axes.plot(
        [results.our_time(r) * 1e6 for r in records], range(len(records)), "*", ms=10, color=_OURS, label="ms_convtanh"
    )
    axes.set_xscale("log")
    axes.set_xlabel("us, median; ours with the 10th to 90th percentile")
    _legend_below(made)
    _named_rows(axes, [r["name"] for r in records])
    return svg_of(made)


def _speedup_plot(run: Mapping[str, Any], records: Sequence[Record]) -> str:
    made = figure(9, _height(len(records)))
    axes = made.subplots()
    values = [results.speedup(record) for record in records]
    axes.barh(range(len(records)), values, color=[_OURS if value >= 1 else _BEST for value in values])
    for y, (record, value) in enumerate(zip(records, values, strict=True)):
        axes.text(value, y, f" {value:.2f}x  {label(run, results.best_peer(record))}", va="center", fontsize=7)
    axes.axvline(1, color="black", lw=0.8)
    axes.set_xlim(0, 1.4 * max(values))
    axes.set_xlabel("best peer's time / ours")
    _named_rows(axes, [r["name"] for r in records])
    return svg_of(made)


def _roofline_plot(run: Mapping[str, Any], records: Sequence[Record]) -> str:
    peaks = run["peaks"]
    made = figure(9, 4.5)
    axes = made.subplots()
    intensities = [record["flops"] / record["bytes"] for record in records]
    tops = {"measured roofline": peaks["flops"]}
    if peaks["bfloat16"] > peaks["flops"]:
        tops["matrix unit, bfloat16"] = peaks["bfloat16"]
    ends = [min(*intensities, 1) / 2, max(*intensities, max(tops.values()) / peaks["bytes"]) * 2]
    for (text, top), style in zip(tops.items(), ("-", "--"), strict=False):
        xs = sorted([*ends, top / peaks["bytes"]])
        axes.plot(xs, [min(top, x * peaks["bytes"]) / 1e9 for x in xs], style, color="black", label=text)
    for dtype, marker in zip(THRESHOLDS, "osD", strict=True):
        chosen = [record for record in records if record["dtype"] == dtype]
        for name, colour, text in ((None, _OURS, "ms_convtanh"), ("best", _PEER, "best peer")):
            times = [results.our_time(r) if name is None else results.time_of(r, results.best_peer(r)) for r in chosen]
            rates = [record["flops"] / time / 1e9 for record, time in zip(chosen, times, strict=True)]
            places = [record["flops"] / record["bytes"] for record in chosen]
            axes.plot(places, rates, marker, color=colour, alpha=0.75, label=f"{text}, {dtype}" if chosen else None)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("operations / byte")
    axes.set_ylabel("GFLOP/s")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    return svg_of(made)


def _accuracy_plot(run: Mapping[str, Any], records: Sequence[Record]) -> str:
    made = figure(9, _height(len(records)))
    axes = made.subplots()
    for name, shape, text in (
        ("mere", "o", "MERE / T"),
        ("mare_large", "^", "MARE / 10 T, sums that have not cancelled"),
    ):
        factor = 1 if name == "mere" else 10
        values = [r["sides"][r["ours"]]["accuracy"][name] / (factor * THRESHOLDS[r["dtype"]]) for r in records]
        axes.plot(values, range(len(records)), shape, color=_OURS if factor == 1 else _PEER, label=text)
    axes.axvline(1, color=_BEST, lw=1, label="limit")
    axes.set_xscale("log")
    axes.set_xlabel("share of what the standard allows")
    _legend_below(made)
    _named_rows(axes, [r["name"] for r in records])
    return svg_of(made)


def _phases_plot(run: Mapping[str, Any], records: Sequence[Record]) -> str:
    """Where the best variant's time goes in both fusion modes."""
    rows = [(f"{record['name']} {part['fusion']}", part) for record in records for part in record["time"][:2]]
    made = figure(9, _height(len(rows)))
    axes = made.subplots()
    left = [0.0] * len(rows)
    for phase, colour in _PHASES.items():
        shares = [part[phase] / part["run"] for _, part in rows]
        axes.barh(range(len(rows)), shares, left=left, color=colour, label=phase)
        left = [a + b for a, b in zip(left, shares, strict=True)]
    axes.set_xlim(0, 1.05)
    axes.set_xlabel("share of the run, average over threads")
    _legend_below(made)
    _named_rows(axes, [name for name, _ in rows])
    return svg_of(made)


def table(
    run: Mapping[str, Any], records: Sequence[Record], *, brief: bool = False
) -> tuple[list[str], list[list[str]]]:
    """Titles and rows: a line for each record. brief: without the columns that a terminal has no room for."""
    peers = [] if brief else peers_of(run, records)
    titles = ["case", "us", "p10-p90", "best peer", "speed-up", *(f"/ {label(run, name)}" for name in peers)]
    titles += ["GFLOP/s", "GB/s", "of roof", "HAP", "MERE", "MARE", "max ULP", "plan"]
    rows = []
    for record in records:
        ours = record["sides"][record["ours"]]
        errors = ours["accuracy"]
        roof = max(record["compute_bound"], record["memory_bound"])
        rows.append(
            [
                record["name"],
                microseconds(ours["median"]),
                f"{microseconds(ours['p10'])}-{microseconds(ours['p90'])}",
                label(run, results.best_peer(record)),
                ratio(results.speedup(record)),
                *(ratio(results.speedup(record, name)) for name in peers),
                f"{record['flops'] / ours['median'] / 1e9:.1f}",
                f"{record['bytes'] / ours['median'] / 1e9:.2f}",
                f"{roof / ours['median']:.0%} {bound_text(record)}",
                ratio(results.hap(record)),
                small(errors.get("mere", errors.get("max_relative"))),
                small(errors.get("mare_large")),
                small(errors.get("max_ulp")),
                plan_text(record),
            ]
        )
    if brief:
        left_out = {"p10-p90", "GB/s", "MARE", "max ULP"}
        kept = [index for index, title in enumerate(titles) if title not in left_out]
        return [titles[i] for i in kept], [[row[i] for i in kept] for row in rows]
    return titles, rows


def fusion_table(records: Sequence[Record]) -> tuple[list[str], list[list[str]]]:
    """Half and true fusion of the cases, and with the filter kept packed."""
    titles = ["case", "half us", "true us", "half / true", "chosen", "frozen us"]
    rows = []
    for record in records:
        half, true, frozen = (results.time_of(record, side) for side in (HALF, TRUE, FROZEN))
        times = (microseconds(half), microseconds(true), ratio(half / true))
        rows.append([record["name"], *times, record["plan"]["fusion"], microseconds(frozen)])
    return titles, rows


def absences(run: Mapping[str, Any]) -> list[str]:
    """What was not measured, and why."""
    lines = [f"{peer['label']}: {peer['absent']}" for peer in run["peers"].values() if "absent" in peer]
    by_reason: dict[tuple[str, str], list[str]] = {}
    for record in run["records"]:
        for name, side in record["sides"].items():
            if "absent" in side:
                by_reason.setdefault((label(run, name), side["absent"]), []).append(record["name"])
    return lines + [f"{name}, {', '.join(cases)}: {reason}" for (name, reason), cases in by_reason.items()]


TITLES = {"case": "Cases", "network": "Networks", "training": "Forward and backward"}


def summary_lines(run: Mapping[str, Any]) -> list[str]:
    """The run in a few sentences."""
    lines = []
    for kind, title in TITLES.items():
        found = results.summary(run, kind)
        if found.cases == 0:
            continue
        words = f"{title}: {found.accurate} of {found.cases} accurate"
        if not math.isnan(found.geometric_mean):
            words += f"; best peer / ours: geometric mean {found.geometric_mean:.2f}"
            words += f", worst {found.worst:.2f} ({found.worst_case})"
            words += "".join(
                f", {dtype} {value:.2f}" for dtype, value in found.by_dtype.items() if len(found.by_dtype) > 1
            )
        if not math.isnan(found.score):
            words += f"; score {found.score:.2f}"
        lines.append(words)
    return lines


def as_html(run: Mapping[str, Any]) -> str:
    """The whole run as a page that loads nothing from elsewhere.

    Raises:
        RuntimeError: jinja2 or matplotlib is missing.
    """
    jinja2 = require(COMMAND, "jinja2", "tools")
    markup = require(COMMAND, "markupsafe", "tools").Markup
    sections = []
    for kind, title in TITLES.items():
        records = results.of_kind(run, kind)
        if not records:
            continue
        compared = [record for record in records if results.best_peer(record)]
        plots = [("Time", _times_plot(run, records))]
        if compared:
            plots += [("Speed-up over the best peer", _speedup_plot(run, compared))]
            plots += [("Roofline", _roofline_plot(run, compared))]
        if kind != "training":
            plots += [("Accuracy", _accuracy_plot(run, records))]
        if kind == "case" and all(record["time"] for record in records):
            plots += [("Where our time goes, half and true fusion", _phases_plot(run, records))]
        sections.append(
            {
                "title": title,
                "table": table(run, records),
                "fusion": fusion_table(records) if kind == "case" else None,
                "plots": [(name, markup(svg)) for name, svg in plots],
            }
        )
    template = Path(__file__).with_name("report.html.j2").read_text(encoding="utf-8")
    return (
        jinja2.Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
        .from_string(template)
        .render(run=run, peaks=peaks_text(run), summary=summary_lines(run), sections=sections, absences=absences(run))
    )
