"""Measures models: verifies every side against float64, times them in turns, and adds what explains our time."""

import gc
import math
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

import numpy as np

from ms_convtanh import native
from ms_convtanh._compare import SMALL, THRESHOLDS, compare
from ms_convtanh._trace import Peaks
from ms_convtanh.benchmark.models import Array, ConvTanhLayer, Model
from ms_convtanh.benchmark.ours import Operator
from ms_convtanh.benchmark.peers import Peer, Prepared, Unsupported
from ms_convtanh.benchmark.timing import Side, take_turns
from ms_convtanh.profiler import Problem, profile_case

OURS, CELL, HALF, TRUE, FROZEN = "ours", "cell", "half", "true", "frozen"
NOT_PEERS = (OURS, CELL, HALF, TRUE, FROZEN)
LONGEST_CALL = 20.0  # seconds: a peer is left out of a model for which it would need longer
_TRACED_CALLS = 7

Record = dict[str, Any]  # as it is written to JSON


@dataclass(frozen=True)
class Budget:
    """How much time a run may take."""

    seconds: float  # of calls, for each side of each model
    explains: bool  # also where our time goes, for each kernel variant and fusion mode


def max_ulp(actual: Array, golden: Array) -> float:
    """The largest error in units of the last place of the result's dtype, over outputs that have not cancelled: those
    with |golden| >= 2^-7 of the largest."""
    magnitude = np.abs(golden)
    with np.errstate(over="ignore"):
        # NumPy knows no spacing of bfloat16: its numbers have 16 bits less than those of float32.
        unit = np.spacing(magnitude.astype(np.float16 if actual.dtype == np.float16 else np.float32)).astype(np.float64)
    unit *= 2.0**16 if actual.dtype.name == "bfloat16" else 1.0
    large = magnitude >= SMALL * magnitude.max(initial=0.0)
    return float((np.abs(actual.astype(np.float64) - golden) / unit).max(where=large, initial=0.0))


def accuracy(actual: Array, golden: Array, dtype: str) -> Record:
    """The errors of a result, and whether it meets the ecosystem's standard where sums have not cancelled."""
    found = compare(actual, golden, dtype=dtype)
    return {
        "passed": found.passed,
        "reason": found.reason,
        "mere": found.mere,
        "mare": found.mare,
        "mare_large": found.mare_large,
        "max_abs": found.max_abs,
    }


class PeerRates:
    """What peers needed for each operation so far, to foresee calls that take too long."""

    def __init__(self) -> None:
        self._best: dict[tuple[str, str], float] = {}

    def note(self, peer: str, model: Model, seconds: float) -> None:
        key, rate = (peer, model.dtype), seconds / model.flops
        self._best[key] = min(rate, self._best.get(key, math.inf))

    def foreseen(self, peer: str, model: Model) -> float:
        """At least so many seconds for one call."""
        return self._best.get((peer, model.dtype), 0.0) * model.flops


def _verified(model: Model, prepared: Prepared) -> Record:
    """The first call, which compiles what there is to compile.

    Raises:
        Unsupported: The result is another one, not only a less precise one.
    """
    y = prepared.output(prepared.run())
    if y.shape != model.golden.shape:
        raise Unsupported(f"its result has shape {list(y.shape)} instead of {list(model.golden.shape)}")
    found = accuracy(y, model.golden, model.dtype)
    # Peers may round often and use fast tanh: they count unless they compute something else.
    if not found["max_abs"] <= 16 * THRESHOLDS[model.dtype] * max(1.0, np.abs(model.golden).max(initial=0.0)):
        raise Unsupported(f"its result is wrong: {found['reason']}, largest error {found['max_abs']:.2g}")
    return found


def _first_sentence(error: Exception) -> str:
    """The first line that says something: MindSpore begins with rules and headings."""
    lines = [line.strip() for line in str(error).splitlines()]
    return next((line[:200] for line in lines if line and not line.startswith("-")), "no message")


def prepare(model: Model, peers: Sequence[Peer], threads: int, rates: PeerRates) -> tuple[dict[str, Side], Record]:
    """The peers that compute the model, and a record of each: its accuracy, or the reason why it is left out."""
    sides: dict[str, Side] = {}
    records: Record = {}
    for peer in peers:
        foreseen = rates.foreseen(peer.name, model)
        if foreseen > LONGEST_CALL:
            records[peer.name] = {"absent": f"one call would take {foreseen:.0f} s"}
            continue
        try:
            prepared = peer.prepare(model, threads)
            records[peer.name] = {"accuracy": _verified(model, prepared)}
            sides[peer.name] = Side(prepared.run)
        except Unsupported as reason:
            records[peer.name] = {"absent": str(reason)}
        except Exception as error:  # of whatever kind the peer raises
            records[peer.name] = {"absent": f"{type(error).__name__}: {_first_sentence(error)}"}
    return sides, records


@contextmanager
def _our_sides(model: Model) -> Iterator[tuple[dict[str, Side], Array | None]]:
    """The operator as it is, with both fusion modes forced, and with the filter kept packed; and its result. Networks
    are run by the cell alone."""
    if not model.is_case:
        yield {}, None
        return
    with closing(Operator(model)) as operator, closing(Operator(model, frozen=True)) as frozen:
        sides = {OURS: Side(operator), FROZEN: Side(frozen)}
        for fusion in (HALF, TRUE):
            sides[fusion] = Side(operator, partial(native.options, fusion=fusion))
        y = operator()
        for _ in range(2):
            if not np.array_equal(frozen().view(np.uint8), y.view(np.uint8)):
                raise RuntimeError(f"bench: {model.name}: a frozen filter changed the result; please report this")
        yield sides, y


def _time_of(problem: Problem) -> Record:
    names = ("run", "pack", "k1", "k2", "wait", "threads", "k1_utilisation")
    return {name: getattr(problem, name) for name in names}


def _explained(model: Model) -> Iterator[Record]:
    """Where the time goes: for the best variant in both fusion modes, for the others in the one that is chosen."""
    (layer,) = model.layers
    assert isinstance(layer, ConvTanhLayer)
    allowed = native.features().allowed
    wanted = [(allowed[0], HALF), (allowed[0], TRUE), *((variant, "auto") for variant in allowed[1:])]
    for variant, fusion in wanted:
        with native.options(max_isa=variant, fusion=fusion):
            shapes = (model.x.shape, layer.conv_filter.shape, model.dtype)
            plan = native.explain(*shapes, True, **layer.attributes)
            (problem,) = profile_case(*shapes, True, **layer.attributes, repeat=_TRACED_CALLS).problems
            yield {"variant": plan.k1, "fusion": plan.fusion, **_time_of(problem)}


def measure_model(
    model: Model, peers: Sequence[Peer], cell: Peer | None, peaks: Peaks, budget: Budget, rates: PeerRates
) -> Record:
    """One model on all sides.

    Raises:
        RuntimeError: Our result is wrong.
    """
    with _our_sides(model) as (sides, y):
        others = [cell, *peers] if cell is not None else list(peers)
        peer_sides, records = prepare(model, others, peaks.threads, rates)
        sides |= peer_sides
        ours = OURS if model.is_case else CELL
        if y is not None:
            records[OURS] = {"accuracy": accuracy(y, model.golden, model.dtype)}
            records[OURS]["accuracy"]["max_ulp"] = max_ulp(y, model.golden)
        if ours not in sides:
            raise RuntimeError(f"bench: {model.name}: {records[ours]['absent']}")
        if not records[ours]["accuracy"]["passed"]:
            raise RuntimeError(f"bench: {model.name}: our result is wrong: {records[ours]['accuracy']['reason']}")
        timings = take_turns(sides, budget.seconds)
    for name, timing in timings.items():
        records.setdefault(name, {}).update(asdict(timing))
        rates.note(name, model, timing.median)
    record: Record = {
        "name": model.name,
        "kind": "case" if model.is_case else "network",
        "dtype": model.dtype,
        "x": list(model.x.shape),
        "y": list(model.golden.shape),
        "flops": model.flops,
        "bytes": model.bytes,
        "compute_bound": model.flops / peaks.of(model.dtype),  # seconds
        "memory_bound": model.bytes / peaks.bytes,
        "ours": ours,
        "sides": records,
    }
    (layer, *others_of_model) = model.layers
    if not others_of_model and isinstance(layer, ConvTanhLayer):
        record["filter"] = list(layer.conv_filter.shape)
        record |= {name: list(value) if isinstance(value, tuple) else value for name, value in layer.attributes.items()}
        shapes = (model.x.shape, layer.conv_filter.shape, model.dtype)
        record["plan"] = asdict(native.explain(*shapes, True, **layer.attributes))
        record["time"] = list(_explained(model)) if budget.explains else []
    del sides, peer_sides
    gc.collect()  # compiled graphs hold cycles
    return record
