"""The benchmark: the operator beside other libraries, on 24 layers and on whole networks.

`ms-convtanh bench` is made of these functions.
"""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

from ms_convtanh._networks import graph_mode
from ms_convtanh._trace import Peaks, measure_peaks
from ms_convtanh.benchmark import machine, training
from ms_convtanh.benchmark.measure import Budget, PeerRates, measure_model
from ms_convtanh.benchmark.models import case_names, make, network_names
from ms_convtanh.benchmark.peers import CELL, PEERS, Peer
from ms_convtanh.benchmark.results import FORMAT
from ms_convtanh.profiler import profile_case

__all__ = ["NAMES", "PEER_NAMES", "TRAINING_NAMES", "run"]

NAMES = (*case_names(), *network_names())
TRAINING_NAMES = training.NAMES
PEER_NAMES = tuple(peer.name for peer in PEERS)
FULL, QUICK = Budget(1.0, True), Budget(0.1, False)


def _available(peers: Sequence[Peer]) -> tuple[list[Peer], dict[str, dict[str, str]]]:
    """The peers that are installed, and a note on each."""
    found, notes = [], {}
    for peer in peers:
        try:
            notes[peer.name] = {"label": peer.label, "version": peer.version()}
            found.append(peer)
        except ImportError as error:
            notes[peer.name] = {"label": peer.label, "absent": str(error)}
    return found, notes


def _overhead() -> float:
    """Seconds that both phases take around the computing of a 1x1x8x8 problem, whose plan is known."""
    (problem,) = profile_case((1, 1, 8, 8), (1, 1, 1, 1), repeat=1000).problems
    return problem.overhead


def _raise_peaks(run: dict[str, Any], peaks: Peaks) -> Peaks:
    """The highest peaks measured so far, on which the records rest: other programs can only lower a measurement."""
    again = measure_peaks()
    highest = Peaks(
        max(peaks.flops, again.flops),
        max(peaks.bytes, again.bytes),
        again.threads,
        max(peaks.bfloat16, again.bfloat16),
    )
    for record in run["records"]:
        record["compute_bound"] *= peaks.of(record["dtype"]) / highest.of(record["dtype"])
        record["memory_bound"] *= peaks.bytes / highest.bytes
    run["peaks"] = asdict(highest)
    return highest


def run(
    names: Sequence[str] = NAMES,
    peers: Sequence[str] = PEER_NAMES,
    *,
    quick: bool = False,
    of_training: bool = False,
    progress: Callable[[Sequence[str]], Any] = list,
    keep: Callable[[dict[str, Any]], None] = lambda run: None,
) -> dict[str, Any]:
    """Measures models, and returns everything about the run as plain data.

    Every result is compared with float64 before it is timed; sides take turns; absent peers are noted with the reason.
    `ms_convtanh.benchmark.results` has what follows from the data.

    Args:
        names: Of NAMES, or of TRAINING_NAMES.
        peers: Of PEER_NAMES. Those that are not installed are noted.
        quick: A tenth of the time, and not where our time goes.
        of_training: Forward and backward of the cases, and train steps of the networks for which there is one.
        progress: Given the names, yields them; shows how far the run is.
        keep: Given the run so far after each model, so that what ends the run loses no finished ones.

    Raises:
        ValueError: An unknown name, or one that there is no training of.
        RuntimeError: A result of ours is wrong; networks are asked for and there is no MindSpore.
    """
    known = TRAINING_NAMES if of_training else NAMES
    for kind, given, allowed in (("case", names, known), ("peer", peers, PEER_NAMES)):
        for name in given:
            if name not in allowed:
                raise ValueError(f"bench: {kind} must be one of {', '.join(allowed)}, got {name!r}")
    facts = machine.facts()
    found, notes = _available([peer for peer in PEERS if peer.name in peers])
    cells, cell_notes = _available([CELL])
    cell = cells[0] if cells else None
    if cell is None and set(names) & set(network_names()):
        raise RuntimeError(
            f"bench: networks need MindSpore, pip install 'ms_convtanh[mindspore]': {cell_notes['cell']['absent']}"
        )
    budget, peaks, rates = QUICK if quick else FULL, measure_peaks(), PeerRates()
    run: dict[str, Any] = {
        "format": FORMAT,
        "machine": facts,
        "settings": {"quick": quick, "training": of_training, "seconds": budget.seconds},
        "peaks": asdict(peaks),
        "overhead": _overhead(),
        "peers": notes | cell_notes,
        "records": [],
    }
    with graph_mode() if cell is not None else nullcontext():
        for name in progress(names):
            if of_training:
                record = training.measure_training(name, found, peaks, budget)
            else:
                record = measure_model(make(name), found, cell, peaks, budget, rates)
            run["records"].append(record)
            peaks = _raise_peaks(run, peaks)
            keep(run)
    return run
