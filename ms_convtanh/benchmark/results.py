"""What follows from the measured records: speed-ups, the operator's score, a summary, and a comparison of two runs."""

import csv
import io
import json
import math
import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ms_convtanh.benchmark.measure import NOT_PEERS, Record

FORMAT = 1  # of the JSON files
REGRESSION = 1.1  # times the old median, and outside of both spreads


def best_peer(record: Record) -> str | None:
    """The fastest peer, None if there is none."""
    times = {
        name: side["median"] for name, side in record["sides"].items() if name not in NOT_PEERS and "median" in side
    }
    return min(times, key=lambda name: times[name]) if times else None


def time_of(record: Record, side: str | None) -> float:
    """Median seconds; NaN where it was not measured."""
    return float(record["sides"].get(side, {}).get("median", math.nan))


def our_time(record: Record) -> float:
    return time_of(record, record["ours"])


def speedup(record: Record, side: str | None = None) -> float:
    """The side's time over ours; of the best peer without a side."""
    return time_of(record, side or best_peer(record)) / our_time(record)


def bound(record: Record) -> float:
    """Seconds that the hardware needs at least: the larger of operations / peak and bytes / bandwidth, as measured.

    Bytes that stay in caches move faster than the memory's bandwidth: where a side beats the bound, its time takes the
    bound's place.
    """
    measured = [time for time in (our_time(record), time_of(record, best_peer(record))) if not math.isnan(time)]
    return min(max(record["compute_bound"], record["memory_bound"]), *measured)


def hap(record: Record) -> float:
    """How far ours is from the baseline towards the hardware's bound:
    (T_base - T_hw) / ((T_cand - T_hw) + (T_base - T_hw)), the best peer being the baseline. 0.5 is as fast as that one,
    1 as fast as the hardware allows."""
    base, ours, least = time_of(record, best_peer(record)), our_time(record), bound(record)
    if math.isnan(base):
        return math.nan
    distance = (ours - least) + (base - least)
    return (base - least) / distance if distance > 0 else 0.5


def is_accurate(record: Record) -> bool:
    return bool(record["sides"][record["ours"]]["accuracy"]["passed"])


def score(cases: Iterable[Record]) -> float:
    """The operator's score in the ecosystem's acceptance: 100 * (0.2 + mean over cases of (0.3 + 0.5 * HAP)), where
    inaccurate cases count 0. NaN without a baseline."""
    points = [0.3 + 0.5 * hap(record) if is_accurate(record) else 0.0 for record in cases]
    return 100 * (0.2 + statistics.fmean(points)) if points else math.nan


def _geometric_mean(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return statistics.geometric_mean(known) if known else math.nan


def of_kind(run: Mapping[str, Any], kind: str) -> list[Record]:
    return [record for record in run["records"] if record["kind"] == kind]


@dataclass(frozen=True)
class Summary:
    """Of the cases of one run."""

    cases: int
    accurate: int
    geometric_mean: float  # of the speed-ups over the best peer
    by_dtype: dict[str, float]
    by_peer: dict[str, float]
    worst: float
    worst_case: str
    score: float


def summary(run: Mapping[str, Any], kind: str = "case") -> Summary:
    """Of the records of one kind; NaN and "" where there is nothing to compare with."""
    cases = of_kind(run, kind)
    speedups = {record["name"]: speedup(record) for record in cases if best_peer(record)}
    worst = min(speedups, key=lambda name: speedups[name], default="")
    dtypes = dict.fromkeys(record["dtype"] for record in cases)
    peers = dict.fromkeys(name for record in cases for name in record["sides"] if name not in NOT_PEERS)
    return Summary(
        cases=len(cases),
        accurate=sum(map(is_accurate, cases)),
        geometric_mean=_geometric_mean(speedups.values()),
        by_dtype={d: _geometric_mean(speedup(r) for r in cases if r["dtype"] == d and best_peer(r)) for d in dtypes},
        by_peer={peer: _geometric_mean(speedup(record, peer) for record in cases) for peer in peers},
        worst=speedups.get(worst, math.nan),
        worst_case=worst,
        score=score(cases) if speedups and kind == "case" else math.nan,
    )


@dataclass(frozen=True)
class Change:
    """A record in two runs."""

    name: str
    old: float  # seconds
    new: float
    regressed: bool  # slower by more than 10 % and beyond both spreads

    @property
    def ratio(self) -> float:
        return self.new / self.old


def changes(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[Change]:
    """Of the records that both runs have."""
    before = {(record["kind"], record["name"]): record for record in old["records"]}
    found = []
    for record in new["records"]:
        other = before.get((record["kind"], record["name"]))
        if other is None:
            continue
        then, now = other["sides"][other["ours"]], record["sides"][record["ours"]]
        regressed = now["median"] > REGRESSION * then["median"] and now["p10"] > then["p90"]
        found.append(Change(record["name"], then["median"], now["median"], regressed))
    return found


def read(path: str | Path) -> dict[str, Any]:
    """A run, as write() wrote it.

    Raises:
        OSError: It cannot be read.
        ValueError: It is not such a file.
    """
    try:
        run = json.loads(Path(path).read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"bench: {path} must be a JSON file of ms-convtanh bench: {error}") from error
    found = run.get("format") if isinstance(run, dict) else None
    if found != FORMAT:
        raise ValueError(f"bench: {path} must be a JSON file of ms-convtanh bench in format {FORMAT}, got {found}")
    run["peaks"].setdefault("bfloat16", run["peaks"]["flops"])  # runs of earlier versions have none
    return run


def to_json(run: Mapping[str, Any]) -> str:
    return json.dumps(run, indent=1) + "\n"


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")


def to_csv(run: Mapping[str, Any]) -> str:
    """A line for each record: shapes, our time and accuracy, the speed-up over each peer."""
    peers = list(dict.fromkeys(name for record in run["records"] for name in record["sides"] if name not in NOT_PEERS))
    rows = []
    for record in run["records"]:
        ours, plan = record["sides"][record["ours"]], record.get("plan", {})
        errors = ours["accuracy"]
        row = {
            "name": record["name"],
            "kind": record["kind"],
            "dtype": record["dtype"],
            "us": ours["median"] * 1e6,
            "us_p10": ours["p10"] * 1e6,
            "us_p90": ours["p90"] * 1e6,
            "samples": ours["samples"],
            "gflops": record["flops"] / ours["median"] / 1e9,
            "gbytes": record["bytes"] / ours["median"] / 1e9,
            "of_bound": max(record["compute_bound"], record["memory_bound"]) / ours["median"],
            "best_peer": best_peer(record),
            "speedup": speedup(record),
            "hap": hap(record),
            **{f"us_{side}": time_of(record, side) * 1e6 for side in ("cell", "half", "true", "frozen", *peers)},
            **{name: errors.get(name) for name in ("passed", "mere", "mare", "mare_large", "max_ulp")},
            **{f"plan_{name}": value for name, value in plan.items()},
        }
        rows.append({k: _rounded(v) if isinstance(v, float) and math.isfinite(v) else v for k, v in row.items()})
    columns = list(dict.fromkeys(column for row in rows for column in row))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: "" if isinstance(v, float) and math.isnan(v) else v for k, v in row.items()} for row in rows)
    return text.getvalue()
