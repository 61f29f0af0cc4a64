"""The cores: which code runs where, and in which order.

A launch with block_dim b runs b cores one after the other; cores of one launch do not talk to each other. A core is a
Cube ("AIC") and two vector cores ("AIV0", "AIV1"). Each runs the whole kernel and enters only its own sections. They run
in threads of which one is active at a time: it hands over when it waits for an event that is not set.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from .memory import Buffer
from .ordering import Ordering
from .types import ExecutorError, MemorySpace

CUBE = "AIC"
VECTORS = ("AIV0", "AIV1")


class Actor:
    """One Cube or vector core."""

    def __init__(self, core: Core, name: str, block: int, block_dim: int) -> None:
        self.core = core
        self.name = name
        self.block = block
        self.block_dim = block_dim
        self.section = ""
        self.turn = threading.Semaphore(0)
        self.waits_for: Callable[[], bool] | None = None
        self.done = False
        self.error: BaseException | None = None

    @property
    def cube(self) -> bool:
        return self.name == CUBE

    @property
    def number(self) -> int:
        """A number of its own in the launch, from 1."""
        return 3 * self.block + 1 + (0 if self.cube else 1 + VECTORS.index(self.name))

    def wait(self, ready: Callable[[], bool]) -> None:
        """Lets the others run until ready()."""
        while not ready():
            self.waits_for = ready
            self.core.finished_turn.release()
            self.turn.acquire()
            if self.core.aborted:
                raise ExecutorError("aborted")
        self.waits_for = None


class Core:
    """One AI core: its actors, its memories, the order of its operations."""

    def __init__(self, buffers: dict[tuple[str, MemorySpace], Buffer], block: int, block_dim: int) -> None:
        self.buffers = buffers
        for buffer in buffers.values():
            buffer.reset()
        self.ordering = Ordering()
        self.actors = [Actor(self, name, block, block_dim) for name in (CUBE, *VECTORS)]
        self.finished_turn = threading.Semaphore(0)
        self.aborted = False

    def run(self, program: Callable[[], None]) -> None:
        threads = [threading.Thread(target=self._act, args=(actor, program), daemon=True) for actor in self.actors]
        for thread in threads:
            thread.start()
        while not all(actor.done for actor in self.actors):
            runnable = [a for a in self.actors if not a.done and (a.waits_for is None or a.waits_for())]
            if not runnable:
                waiting = ", ".join(actor.name for actor in self.actors if not actor.done)
                self._abort()
                raise ExecutorError(f"deadlock: {waiting} wait for events that nobody sets")
            runnable[0].turn.release()
            self.finished_turn.acquire()
            failed = next((actor.error for actor in self.actors if actor.error is not None), None)
            if failed is not None:
                self._abort()
                raise failed
        self.ordering.check_end()

    def _act(self, actor: Actor, program: Callable[[], None]) -> None:
        actor.turn.acquire()
        current.actor = actor
        try:
            if not self.aborted:
                program()
        except BaseException as error:
            if not self.aborted:
                actor.error = error
        actor.done = True
        self.finished_turn.release()

    def _abort(self) -> None:
        self.aborted = True
        for actor in self.actors:
            actor.turn.release()


def make_buffers() -> dict[tuple[str, MemorySpace], Buffer]:
    """The memories of one core. They are reset and used again for the next."""
    owners = {space: (CUBE,) for space in MemorySpace} | {MemorySpace.Vec: VECTORS}
    return {(owner, space): Buffer(space) for space in MemorySpace for owner in owners[space]}


class _Current(threading.local):
    actor: Actor


current = _Current()
