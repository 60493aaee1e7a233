"""Times of several ways to the same answers, in alternating rounds.

They are those of the thread, so that other work on the machine counts as little as it can.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Contender(NamedTuple):
    """One way to answer so many events at once. `by_the_wall` counts time that passes elsewhere: in another process."""

    name: str
    run: Callable[[], Any]
    events: int
    note: str = ""
    by_the_wall: bool = False


def race(contenders: Sequence[Contender], rounds: int) -> list[list[float]]:
    """Microseconds an event of each contender in each round; a first run of each is not counted."""
    for one in contenders:
        one.run()
    times: list[list[float]] = [[] for _ in contenders]
    for _ in range(rounds):
        for one, mine in zip(contenders, times, strict=True):
            clock = time.perf_counter if one.by_the_wall else time.thread_time
            began = clock()
            one.run()
            mine.append((clock() - began) / one.events * 1e6)
    return times


def micros(run: Callable[[], Any], events: int, rounds: int) -> list[float]:
    """Microseconds an event in each round of one way alone."""
    return race([Contender("", run, events)], rounds)[0]
