"""Which operation has certainly ended before which: vector clocks over the pipes of one core.

A pipe executes its operations in order; different pipes do not wait for each other unless told to. What tells them:

- a mutex id (auto_mutex): an operation waits for all earlier ones of other pipes that used the same id,
- the unit flag of an Acc tile (phase): FIX waits for the Final matmul, M for the Final store,
- set_cross_core and wait_cross_core between the Cube and the vector cores.

Every access to on-chip memory is checked against the earlier ones to the same bytes: a read has to come after the write
it reads, a write after all reads and writes of what it replaces.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .types import ExecutorError, Pipe

PipeId = tuple[str, Pipe]  # actor ("AIC", "AIV0", "AIV1") and pipe
Clock = dict[PipeId, int]


def join(into: Clock, other: Clock) -> None:
    for pipe, time in other.items():
        if time > into.get(pipe, 0):
            into[pipe] = time


@dataclass
class Region:
    """The bytes of one tile, and who touched them last."""

    name: str
    start: int
    stop: int
    signature: tuple[object, ...]
    written: tuple[PipeId, int, int] | None = None  # pipe, its time, barriers of that pipe so far
    order: int = 0  # of the last write, over all regions
    reads: Clock = field(default_factory=dict)


class Ordering:
    """The clocks of one core: its Cube and its two vector cores."""

    def __init__(self) -> None:
        self.clocks: dict[PipeId, Clock] = {}
        self.barriers: dict[PipeId, int] = {}
        self.mutexes: dict[tuple[str, int], Clock] = {}
        self.unit_flags: dict[tuple[str, int], tuple[bool, Clock]] = {}
        self.events: dict[tuple[str, str, int], list[Clock]] = {}
        self.writes = 0

    def clock(self, pipe: PipeId) -> Clock:
        return self.clocks.setdefault(pipe, {pipe: 0})

    def begin(self, pipe: PipeId, mutexes: set[int]) -> int:
        """A new operation on a pipe, behind the earlier users of its mutex ids; returns its time."""
        clock = self.clock(pipe)
        for mutex in mutexes:
            join(clock, self.mutexes.get((pipe[0], mutex), {}))
        clock[pipe] += 1
        return clock[pipe]

    def end(self, pipe: PipeId, mutexes: set[int]) -> None:
        for mutex in mutexes:
            join(self.mutexes.setdefault((pipe[0], mutex), {}), self.clock(pipe))

    def barrier(self, pipe: PipeId) -> None:
        self.barriers[pipe] = self.barriers.get(pipe, 0) + 1

    def _require(self, pipe: PipeId, earlier: PipeId, time: int, what: str) -> None:
        if earlier != pipe and self.clock(pipe).get(earlier, 0) < time:
            raise ExecutorError(
                f"{what}: {pipe[0]} {pipe[1].name} does not wait for {earlier[0]} {earlier[1].name} "
                "(no common mutex id, unit flag or event orders them)"
            )

    def read(self, pipe: PipeId, region: Region, regions: list[Region]) -> None:
        """A read of a region by the current operation of a pipe."""
        for other in regions:
            if other.start >= region.stop or region.start >= other.stop or other.written is None:
                continue
            if other is not region and other.order > region.order and other.signature != region.signature:
                raise ExecutorError(f"{region.name} is read after {other.name} was written over it: live tiles overlap")
            self._require(pipe, other.written[0], other.written[1], f"{region.name} is read while it may be written")
        region.reads[pipe] = self.clock(pipe)[pipe]

    def write(self, pipe: PipeId, region: Region, regions: list[Region]) -> None:
        """A write of a region by the current operation of a pipe."""
        barriers = self.barriers.get(pipe, 0)
        for other in regions:
            if other.start >= region.stop or region.start >= other.stop:
                continue
            for reader, time in other.reads.items():
                self._require(pipe, reader, time, f"{region.name} is written while {other.name} may be read")
            if other.written is None:
                continue
            writer, time, epoch = other.written
            self._require(pipe, writer, time, f"{region.name} is written while {other.name} may be written")
            if writer == pipe and pipe[1] is Pipe.MTE2 and epoch == barriers and not other.reads:
                raise ExecutorError(f"{region.name} is loaded twice and not read in between: bar_mte2() is missing")
            if other is not region:  # its data is gone; what comes next is ordered behind this write
                other.reads.clear()
                other.written = None
        region.reads.clear()
        self.writes += 1
        region.written, region.order = (pipe, self.clock(pipe)[pipe], barriers), self.writes

    def matmul_flag(self, pipe: PipeId, address: int, final: bool) -> None:
        """A matmul with a phase waits for unit flag 0; Final sets it."""
        key = (pipe[0], address)
        flag, clock = self.unit_flags.get(key, (False, {}))
        if flag:
            raise ExecutorError("phase: matmul on an Acc tile whose Final result is not stored yet would hang")
        join(self.clock(pipe), clock)
        if final:
            self.unit_flags[key] = (True, dict(self.clock(pipe)))

    def store_flag(self, pipe: PipeId, address: int, final: bool) -> None:
        """A store with a phase waits for unit flag 1; Final clears it."""
        key = (pipe[0], address)
        flag, clock = self.unit_flags.get(key, (False, {}))
        if not flag:
            raise ExecutorError("phase: store of an Acc tile without a Final matmul would hang")
        join(self.clock(pipe), clock)
        if final:
            self.unit_flags[key] = (False, dict(self.clock(pipe)))

    def set_event(self, pipe: PipeId, receivers: list[str], event: int) -> None:
        for receiver in receivers:
            queue = self.events.setdefault((pipe[0], receiver, event), [])
            if len(queue) == 15:
                raise ExecutorError(f"set_cross_core: event {event} is set 16 times and not waited for")
            queue.append(dict(self.clock(pipe)))

    def ready(self, receiver: str, senders: list[str], event: int) -> bool:
        return all(self.events.get((sender, receiver, event)) for sender in senders)

    def take_event(self, pipe: PipeId, senders: list[str], event: int) -> None:
        for sender in senders:
            join(self.clock(pipe), self.events[sender, pipe[0], event].pop(0))

    def check_end(self) -> None:
        """Nothing may be left pending when the kernel ends."""
        for (sender, receiver, event), queue in self.events.items():
            if queue:
                raise ExecutorError(f"event {event} from {sender} to {receiver} is still set at the kernel's end")
        if any(flag for flag, _ in self.unit_flags.values()):
            raise ExecutorError("phase: a Final matmul is not stored at the kernel's end")
