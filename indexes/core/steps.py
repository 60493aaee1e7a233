"""Work in steps: a generator that yields between pieces of some milliseconds, so that others have their turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from itertools import chain
from typing import TypeVar

from indexes.core.background import BackgroundTask

T = TypeVar("T")

WAIT = 0.005
"""Seconds that a step waits for another thread."""


def run_all(steps: Generator[None, None, T]) -> T:
    """Run a generator to its end; returns its value."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def in_background(work: Callable[[], T], apart: bool) -> Generator[None, None, T]:
    """Run work in one step, or, where it is to be done `apart`, in a thread of its own. Returns and raises as it."""
    if not apart:
        return work()
    task = BackgroundTask(work)
    while not task.done(WAIT):
        yield
    return task.result


def in_halves(work: Callable[[int], Iterator[None]], apart: bool) -> Generator[None, None, None]:
    """Run the halves 0 and 1 of some work, which are independent, the second in a thread of its own where it is to be
    done `apart`. Raises as they do."""
    if not apart:
        yield from chain(work(0), work(1))
        return
    task = BackgroundTask(lambda: deque(work(1), 0))
    yield from work(0)
    while not task.done(WAIT):
        yield
    task.result  # noqa: B018 -- raises what the work raised
