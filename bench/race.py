"""Times of several ways to the same answers, in alternating rounds.

They are those of the thread, so that other work on the machine counts as little as it can.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any, NamedTuple


class Contender(NamedTuple):
    """One way to answer so many events at once. `by_the_wall` counts time that passes elsewhere: in another process.
    `start` makes the state that `run` takes, which does not count."""

    name: str
    run: Callable[..., Any]
    events: int
    note: str = ""
    by_the_wall: bool = False
    start: Callable[[], Any] | None = None


class Raced(NamedTuple):
    """Microseconds an event in each round, and what the last run returned."""

    micros: list[float]
    made: Any

    @property
    def middle(self) -> float:
        return median(self.micros)


def raced(contenders: Sequence[Contender], rounds: int) -> list[Raced]:
    """Run all contenders one after the other, that many times; a first run of each is not counted."""
    for one in contenders:
        _run(one)
    times: list[list[float]] = [[] for _ in contenders]
    made: list[Any] = [None for _ in contenders]
    for _ in range(rounds):
        for i, one in enumerate(contenders):
            # What a round made is freed before the next one, as a service does: fresh memory costs more than old.
            made[i] = None
            took, made[i] = _run(one)
            times[i].append(took)
    return [Raced(mine, of) for mine, of in zip(times, made, strict=True)]


def race(contenders: Sequence[Contender], rounds: int) -> list[list[float]]:
    """Microseconds an event of each contender in each round."""
    return [one.micros for one in raced(contenders, rounds)]


def micros(run: Callable[[], Any], events: int, rounds: int) -> list[float]:
    """Microseconds an event in each round of one way alone."""
    return race([Contender("", run, events)], rounds)[0]


def _run(one: Contender) -> tuple[float, Any]:
    state = () if one.start is None else (one.start(),)
    clock = time.perf_counter if one.by_the_wall else time.thread_time
    began = clock()
    made = one.run(*state)
    return (clock() - began) / one.events * 1e6, made
