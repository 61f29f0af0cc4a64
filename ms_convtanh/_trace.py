"""What the library's threads do when, as it records it, and what the machine does at best."""

import ctypes
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from typing import Any

from ms_convtanh import _library

COMMAND = "profile"

_recording = threading.Lock()  # there is one recorder in a process


@dataclass(frozen=True)
class Event:
    """A stretch of one thread's time."""

    phase: str  # framework, entry (by MindSpore), phase 1, phase 2, run, pack, K1, K2 or wait
    detail: str  # operator and shapes of a run, the cell's name for framework, else ""
    thread: int  # as gettid() gives it
    start: int  # nanoseconds of CLOCK_MONOTONIC
    end: int
    flops: int  # of K1, 2 for each multiply-add
    bytes: int  # of all tensors of a run

    @property
    def seconds(self) -> float:
        return (self.end - self.start) * 1e-9


@dataclass(frozen=True)
class Peaks:
    """What the machine does at best, measured with all threads at once."""

    flops: float  # float32 operations per second in registers, 2 for a multiply-add
    bytes: float  # per second, read and written, of a copy beyond the caches
    threads: int
    bfloat16: float = 0.0  # as flops, of bfloat16 products summed in float32: a matrix unit's where there is one

    def of(self, dtype: str) -> float:
        """Operations per second that K1 can reach at best in a dtype, by vectors or by the matrix unit, which takes
        three products of bfloat16 for one of float16 and six for one of float32."""
        products = {"bfloat16": 1, "float16": 3, "float32": 6}[dtype]
        return max(self.flops, self.bfloat16 / products)


class _TraceEvent(ctypes.Structure):
    """msctTraceEvent of profile.h."""

    _fields_ = (
        ("phase", ctypes.c_char_p),
        ("detail", ctypes.c_char_p),
        ("thread", ctypes.c_int64),
        ("start", ctypes.c_int64),
        ("end", ctypes.c_int64),
        ("flops", ctypes.c_int64),
        ("bytes", ctypes.c_int64),
    )


class _Peaks(ctypes.Structure):
    """msctPeaks of profile.h."""

    _fields_ = (
        ("flops", ctypes.c_double),
        ("bytes", ctypes.c_double),
        ("threads", ctypes.c_int64),
        ("bfloat16_flops", ctypes.c_double),
    )


@cache
def _functions() -> Any:
    library = _library.load()
    count = ctypes.POINTER(ctypes.c_uint64)
    library.msctTraceRead.argtypes = [ctypes.POINTER(_TraceEvent), ctypes.c_uint64, count, count]
    library.msctMeasurePeaks.argtypes = [ctypes.POINTER(_Peaks)]
    return library


def measure_peaks() -> Peaks:
    """Measures for about a fifth of a second, with the instruction sets and threads that the options allow.

    Raises:
        ValueError: An environment variable of the library has an unknown value.
        RuntimeError: There is no memory for it.
    """
    peaks = _Peaks()
    _library.raise_for_status(_functions().msctMeasurePeaks(ctypes.byref(peaks)), COMMAND)
    return Peaks(peaks.flops, peaks.bytes, peaks.threads, peaks.bfloat16_flops)


class Trace:
    """A recording. events and dropped are there once it has ended."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.dropped = 0  # events for which the library had no room
        self._marks: list[Event] = []

    @contextmanager
    def mark(self, name: str) -> Iterator[None]:
        """Records a stretch of this thread's own time as framework."""
        start = time.monotonic_ns()
        try:
            yield
        finally:
            self.add(name, start)

    def add(self, name: str, start: int) -> None:
        """Records the time from start, of time.monotonic_ns(), to now."""
        self._marks.append(Event("framework", name, threading.get_native_id(), start, time.monotonic_ns(), 0, 0))

    def read(self) -> None:
        library, count, dropped = _functions(), ctypes.c_uint64(), ctypes.c_uint64()
        counts = (ctypes.byref(count), ctypes.byref(dropped))
        _library.raise_for_status(library.msctTraceRead(None, 0, *counts), COMMAND)
        events = (_TraceEvent * count.value)()
        _library.raise_for_status(library.msctTraceRead(events, len(events), *counts), COMMAND)
        self.dropped = dropped.value
        native = [
            Event(e.phase.decode(), e.detail.decode(), e.thread, e.start, e.end, e.flops, e.bytes) for e in events
        ]
        self.events = sorted([*self._marks, *native], key=lambda event: (event.thread, event.start, -event.end))


@contextmanager
def recording() -> Iterator[Trace]:
    """Records all calls of the process inside the with block.

    Raises:
        RuntimeError: Another recording is going on.
    """
    if not _recording.acquire(blocking=False):
        raise RuntimeError(f"{COMMAND}: another recording is going on in this process")
    try:
        trace = Trace()
        _library.raise_for_status(_functions().msctTraceStart(), COMMAND)
        try:
            yield trace
        finally:
            _functions().msctTraceStop()
        trace.read()
    finally:
        _recording.release()
