"""The profiler: where the time of a call or of a network goes, and how near it comes to what the machine can do.

`ms-convtanh profile` is made of these functions. While nothing is profiled, the library's marks cost a load and a
branch for each block of output.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ms_convtanh import native
from ms_convtanh._compare import DTYPES
from ms_convtanh._networks import make_cell, require_mindspore, tensor
from ms_convtanh._problem import Ints
from ms_convtanh._profile_report import as_chrome_trace, as_flame_graph
from ms_convtanh._reports import explain
from ms_convtanh._trace import COMMAND, Event, Peaks, Trace, measure_peaks, recording

__all__ = [
    "Event",
    "Peaks",
    "Problem",
    "Profile",
    "ThreadTime",
    "as_chrome_trace",
    "as_flame_graph",
    "measure_peaks",
    "profile_case",
    "profile_network",
    "recording",
]

# Targets.
COMPUTE_TARGET = 0.85  # of the peak, for K1 of problems that the peak bounds
MEMORY_TARGET = 0.60  # of the bandwidth, for problems that it bounds
OVERHEAD_TARGET = 5e-6  # seconds

WORK = ("pack", "K1", "K2", "wait")


@dataclass(frozen=True)
class Problem:
    """Calls of one operator with equal shapes; medians over them. Times in seconds."""

    name: str
    calls: int
    phase1: float
    launch: float  # phase 2 without the run
    overhead: float  # phase 1, launch and, under MindSpore, what surrounds them in the library
    run: float
    pack: float  # these four: time of all threads, divided by their number
    k1: float
    k2: float
    wait: float
    flops: int  # counted in K1
    bytes: int  # of all tensors
    threads: int  # that took part
    k1_utilisation: float  # of the peak of the threads that were in K1, while they were
    bandwidth_utilisation: float  # bytes per second of the run, of the peak
    bound: str  # compute or memory: what limits it at best
    met: bool  # the target of its bound
    overhead_met: bool


@dataclass(frozen=True)
class ThreadTime:
    """What one thread did during all runs. Times in seconds; idle is what is left of the runs it took part in."""

    thread: int
    pack: float
    k1: float
    k2: float
    wait: float
    idle: float
    k1_utilisation: float


@dataclass(frozen=True)
class Profile:
    """A recording and what follows from it."""

    wall: float  # median seconds of one iteration
    framework: float  # median seconds of an iteration outside the library
    iterations: int
    peaks: Peaks
    problems: tuple[Problem, ...]  # in the order of their first call
    threads: tuple[ThreadTime, ...]
    events: tuple[Event, ...]
    dropped: int


@dataclass
class _Call:
    run: Event
    phase1: float = 0.0
    phase2: float = 0.0
    entry: float | None = None
    work: list[Event] | None = None

    @property
    def overhead(self) -> float:
        return (self.phase1 + self.phase2 if self.entry is None else self.entry) - self.run.seconds


def _inside(inner: Event, outer: Event) -> bool:
    return outer.start <= inner.start and inner.end <= outer.end


def _calls(events: Sequence[Event]) -> list[_Call]:
    """The runs with what belongs to each. Phases of one call are on one thread, work is on several."""
    calls = []
    by_thread: dict[int, dict[str, Event]] = defaultdict(dict)
    for event in events:  # by thread, then start: what surrounds a run comes before it
        last = by_thread[event.thread]
        last[event.phase] = event
        if event.phase != "run":
            continue
        call = _Call(event, work=[])
        phase2, entry = last.get("phase 2"), last.get("entry")
        if phase2 is not None and _inside(event, phase2):
            call.phase2 = phase2.seconds
            call.phase1 = last["phase 1"].seconds if "phase 1" in last else 0.0
        if entry is not None and _inside(event, entry):
            call.entry = entry.seconds
        calls.append(call)
    calls.sort(key=lambda call: call.run.start)
    starts = np.array([call.run.start for call in calls], np.int64)
    for event in events:
        if event.phase in WORK:
            index = int(np.searchsorted(starts, event.start, side="right")) - 1
            if index >= 0 and event.end <= calls[index].run.end:
                calls[index].work.append(event)  # type: ignore[union-attr]
    return calls


def _utilisation(work: Sequence[Event], peaks: Peaks, dtype: str) -> float:
    seconds = sum(event.seconds for event in work if event.phase == "K1")
    flops = sum(event.flops for event in work)
    return flops / (seconds * peaks.of(dtype) / peaks.threads) if seconds > 0 else 0.0


def _problem(name: str, calls: Sequence[_Call], peaks: Peaks, dtype: str) -> Problem:
    def total(call: _Call, phase: str) -> float:
        threads = len({event.thread for event in call.work or ()}) or 1
        return sum(event.seconds for event in call.work or () if event.phase == phase) / threads

    run = median(call.run.seconds for call in calls)
    flops = int(median(sum(event.flops for event in call.work or ()) for call in calls))
    size = calls[0].run.bytes
    utilisation = median(_utilisation(call.work or (), peaks, dtype) for call in calls)
    bandwidth = size / (run * peaks.bytes) if run > 0 else 0.0
    bound = "compute" if flops / peaks.of(dtype) >= size / peaks.bytes else "memory"
    overhead = median(call.overhead for call in calls)
    return Problem(
        name=name,
        calls=len(calls),
        phase1=median(call.phase1 for call in calls),
        launch=median(max(call.phase2 - call.run.seconds, 0.0) for call in calls),
        overhead=overhead,
        run=run,
        pack=median(total(call, "pack") for call in calls),
        k1=median(total(call, "K1") for call in calls),
        k2=median(total(call, "K2") for call in calls),
        wait=median(total(call, "wait") for call in calls),
        flops=flops,
        bytes=size,
        threads=int(median(len({event.thread for event in call.work or ()}) for call in calls)),
        k1_utilisation=utilisation,
        bandwidth_utilisation=bandwidth,
        bound=bound,
        met=utilisation > COMPUTE_TARGET if bound == "compute" else bandwidth > MEMORY_TARGET,
        overhead_met=overhead < OVERHEAD_TARGET,
    )


def _threads(calls: Sequence[_Call], peaks: Peaks, dtype: str) -> Iterator[ThreadTime]:
    work: dict[int, list[Event]] = defaultdict(list)
    runs: dict[int, float] = defaultdict(float)
    for call in calls:
        for thread in {event.thread for event in call.work or ()}:
            runs[thread] += call.run.seconds
        for event in call.work or ():
            work[event.thread].append(event)
    for thread, events in sorted(work.items()):
        pack, k1, k2, wait = (sum(event.seconds for event in events if event.phase == phase) for phase in WORK)
        idle = max(runs[thread] - pack - k1 - k2 - wait, 0.0)
        yield ThreadTime(thread, pack, k1, k2, wait, idle, _utilisation(events, peaks, dtype))


def _covered(events: Sequence[Event], start: int, end: int) -> float:
    """Seconds of [start, end] in which at least one of the events goes on."""
    covered, reached = 0, start
    for event in sorted(events, key=lambda event: event.start):
        first, last = max(event.start, reached), min(event.end, end)
        if last > first:
            covered += last - first
            reached = last
    return covered * 1e-9


_ITERATION = "iteration"


def _profile(run: Callable[[Trace], Any], repeat: int, dtype: str = "float32") -> Profile:
    """dtype: Whose peak K1 is compared with."""
    if repeat < 1:
        raise ValueError(f"{COMMAND}: repeat must be 1 or more, got {repeat}")
    peaks = measure_peaks()
    with recording() as trace:
        for _ in range(repeat):
            with trace.mark(_ITERATION):
                run(trace)
    calls = _calls(trace.events)
    by_name: dict[str, list[_Call]] = defaultdict(list)
    for call in calls:
        by_name[call.run.detail].append(call)
    inside = [event for event in trace.events if event.phase in ("entry", "phase 1", "phase 2", "run")]
    iterations = [event for event in trace.events if event.detail == _ITERATION]
    return Profile(
        wall=median(event.seconds for event in iterations),
        framework=median(event.seconds - _covered(inside, event.start, event.end) for event in iterations),
        iterations=len(iterations),
        peaks=peaks,
        problems=tuple(_problem(name, same, peaks, dtype) for name, same in by_name.items()),
        threads=tuple(_threads(calls, peaks, dtype)),
        events=tuple(trace.events),
        dropped=trace.dropped,
    )


def profile_case(
    x_shape: Sequence[int],
    filter_shape: Sequence[int],
    dtype: Any = "float32",
    bias: bool = True,
    strides: Ints = (1, 1),
    pads: Ints = (0, 0, 0, 0),
    dilations: Ints = (1, 1),
    groups: int = 1,
    *,
    backward: bool = False,
    repeat: int = 20,
) -> Profile:
    """Profiles calls of `ms_convtanh.native.fused_conv_tanh` on random data.

    Args:
        x_shape, filter_shape, dtype, bias, strides, pads, dilations, groups: As for `ms_convtanh.explain`.
        backward: Profile the gradients instead, of all that has one.
        repeat: Calls to record, after one that is not recorded.

    Raises:
        TypeError, ValueError: As `ms_convtanh.explain`; repeat below 1.
        RuntimeError: Another recording is going on.
    """
    explain(x_shape, filter_shape, dtype, bias, strides, pads, dilations, groups)  # refuses what the operator would
    kind: Any = DTYPES[dtype] if isinstance(dtype, str) else np.dtype(dtype)
    random = np.random.default_rng(0)
    x, w = (random.uniform(-1, 1, tuple(shape)).astype(kind) for shape in (x_shape, filter_shape))
    b = random.uniform(-1, 1, tuple(filter_shape)[:1]).astype(kind) if bias else None
    attributes = (strides, pads, dilations, groups)
    y = native.fused_conv_tanh(x, w, b, *attributes)

    def run(_: Trace) -> None:
        if backward:
            native.fused_conv_tanh_backward(y, y, x, w, *attributes, (True, True, bias))
        else:
            native.fused_conv_tanh(x, w, b, *attributes)

    run(Trace())
    return _profile(run, repeat, kind.name)


def _finish(value: Any) -> None:
    """Waits for tensors: MindSpore launches operators and goes on."""
    if isinstance(value, tuple | list):
        for item in value:
            _finish(item)
    elif hasattr(value, "asnumpy"):
        value.asnumpy()


@contextmanager
def _spans_of_cells(cell: Any, trace_of: list[Trace]) -> Iterator[None]:
    """Records each call of each inner cell, from its input to its result. Only PyNative mode calls these hooks."""
    handles = []
    starts: dict[int, list[int]] = defaultdict(list)
    for name, inner in cell.cells_and_names():
        if name:

            def before(owner: Any, inputs: Any) -> None:
                _finish(inputs)
                starts[id(owner)].append(time.monotonic_ns())

            def after(owner: Any, _inputs: Any, output: Any, name: str = name) -> None:
                _finish(output)
                trace_of[0].add(f"{name} ({type(owner).__name__})", starts[id(owner)].pop())

            handles += [inner.register_forward_pre_hook(before), inner.register_forward_hook(after)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def profile_network(
    network: Any,
    inputs: Sequence[NDArray[Any]],
    *,
    checkpoint: str | Path | None = None,
    mode: str = "graph",
    repeat: int = 20,
) -> Profile:
    """Profiles a network of MindSpore.

    Args:
        network: A mindspore.nn.Cell, a .mindir file, or module:function that returns a cell.
        inputs: Arrays in the order of the network's inputs.
        checkpoint: Of module:function.
        mode: "graph", or "pynative", in which the time of each cell is recorded as well; a MindIR needs "graph".
        repeat: Calls to record, after one that compiles and is not recorded.

    Raises:
        ValueError: An argument is not as described, or the checkpoint does not fit.
        OSError: A file cannot be read.
        RuntimeError: There is no MindSpore, it fails, or another recording is going on.
    """
    if mode not in ("graph", "pynative"):
        raise ValueError(f"{COMMAND}: mode must be graph or pynative, got {mode!r}")
    require_mindspore(COMMAND)
    import mindspore as ms
    from mindspore import nn

    if str(network).endswith(".mindir"):
        if mode != "graph" or checkpoint is not None:
            raise ValueError(f"{COMMAND}: a MindIR runs in graph mode and holds its parameters")
        if not Path(network).is_file():
            raise FileNotFoundError(f"{COMMAND}: there is no file {network}")
        cell = nn.GraphCell(ms.load(str(network)))
    else:
        cell = network if isinstance(network, nn.Cell) else make_cell(COMMAND, str(network), checkpoint)
    tensors = [tensor(array) for array in inputs]
    before = ms.get_context("mode")
    ms.set_context(mode=ms.GRAPH_MODE if mode == "graph" else ms.PYNATIVE_MODE)
    current = [Trace()]

    def run(trace: Trace) -> None:
        current[0] = trace
        _finish(cell(*tensors))

    try:
        with _spans_of_cells(cell, current) if mode == "pynative" else nullcontext():
            run(current[0])
            return _profile(run, repeat)
    finally:
        ms.set_context(mode=before)
