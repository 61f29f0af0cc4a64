"""Timing of several sides in turns, so that all of them see the same machine."""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import numpy as np

PAUSE = 0.005  # seconds: idle workers of other libraries (OpenMP) spin for about that long after their last call
_TURN = 0.004  # seconds that a side measures in a turn
_MOST_IN_A_TURN = 20
_ENOUGH = 200  # samples
_SPREAD = 0.004  # of the median's standard error, at which more samples tell nothing new
_LEAST = 15  # samples before that counts


@dataclass(frozen=True)
class Timing:
    """Seconds of one call."""

    median: float
    p10: float
    p90: float
    samples: int

    @classmethod
    def of(cls, values: list[float]) -> "Timing":
        low, middle, high = np.percentile(values, (10, 50, 90))
        return cls(float(middle), float(low), float(high), len(values))


@dataclass
class Side:
    """Something to time. context surrounds each of its turns and is not timed."""

    run: Callable[[], Any]
    context: Callable[[], AbstractContextManager[Any]] = nullcontext
    samples: list[float] = field(default_factory=list)
    spent: float = 0.0

    def call(self) -> float:
        start = time.perf_counter()
        self.run()
        seconds = time.perf_counter() - start
        self.spent += seconds
        return seconds

    def settled(self) -> bool:
        """Whether the median is known well enough. Its standard error is about 1.25 deviations / sqrt(samples)."""
        count = len(self.samples)
        if count < _LEAST:
            return False
        low, middle, high = np.percentile(self.samples, (16, 50, 84))
        return bool(count >= _ENOUGH or 1.25 * (high - low) / 2 / count**0.5 < _SPREAD * middle)

    def take_turn(self, seconds: float) -> None:
        """Adds samples: the first call only if it is too slow to be made twice."""
        with self.context():
            first = self.call()  # finds other libraries' data in the caches
            if first > seconds:
                self.samples.append(first)
                return
            for _ in range(min(max(1, int(_TURN / max(first, 1e-9))), _MOST_IN_A_TURN)):
                self.samples.append(self.call())


def take_turns(sides: Mapping[str, Side], seconds: float) -> dict[str, Timing]:
    """Times the sides in turns until all medians have settled; a side that has spent its seconds drops out before.

    Each turn of a side begins with a call that is not counted. A side that needs longer than `seconds` for one call is
    called once.
    """
    waiting = list(sides.values())
    while waiting and not all(side.settled() for side in waiting):
        for side in waiting:
            time.sleep(PAUSE)
            side.take_turn(seconds)
        waiting = [side for side in waiting if side.spent < seconds]
    return {name: Timing.of(side.samples) for name, side in sides.items()}
