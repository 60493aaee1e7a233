"""Work in steps: generators that yield every few milliseconds, so that their caller can do other work in between."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from itertools import chain
from typing import TypeVar

from indexes.core.background import BackgroundTask

T = TypeVar("T")

WAIT = 0.005
"""Seconds that a step waits for a thread."""


def run_all(steps: Generator[None, None, T]) -> T:
    """Run a generator to its end; returns its value."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def perform(work: Callable[[], T], threaded: bool) -> Generator[None, None, T]:
    """Run work in one step, or in a thread of its own if `threaded`. Returns and raises what it does."""
    return (yield from _awaited(BackgroundTask(work))) if threaded else work()


def in_halves(work: Callable[[int], Iterator[None]], threaded: bool) -> Generator[None, None, None]:
    """Run the halves 0 and 1 of some work, which are independent, the second in a thread of its own if `threaded`.
    Raises what they raise."""
    if not threaded:
        yield from chain(work(0), work(1))
        return
    second = BackgroundTask(lambda: deque(work(1), 0))
    yield from work(0)
    yield from _awaited(second)


def _awaited(task: BackgroundTask[T]) -> Generator[None, None, T]:
    """Wait for a task. Returns and raises what its work does."""
    while not task.done(WAIT):
        yield
    return task.result
