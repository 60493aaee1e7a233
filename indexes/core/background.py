"""Background threads for long computations that only read.

Threads are reused: to start one takes several thread switches, each of which waits for the GIL while another thread is
busy.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

T = TypeVar("T")

IDLE_SECONDS = 10.0
"""Seconds without work after which a thread ends."""


class BackgroundTask(Generic[T]):
    """A computation in a background thread. What it reads must not change before it is `done`."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._result: list[T] = []
        self._failure: BaseException | None = None
        self._running = Lock()
        self._running.acquire()
        self._done = False
        try:
            worker = _IDLE.pop()
        except IndexError:
            worker = _Worker()
        worker.tasks.put((self, work))

    def run(self, work: Callable[[], T]) -> None:
        """Compute, in the thread of this task."""
        try:
            self._result.append(work())
        except BaseException as error:
            self._failure = error
        finally:
            self._running.release()

    def done(self, seconds: float) -> bool:
        """Whether it has finished, after waiting for at most `seconds`."""
        self._done = self._done or self._running.acquire(timeout=seconds)
        return self._done

    @property
    def result(self) -> T:
        """What the computation returned. Raises what it raised."""
        if self._failure is not None:
            raise self._failure
        return self._result[0]


class _Worker:
    """A thread that runs one task after another; between tasks it is in `_IDLE`."""

    def __init__(self) -> None:
        self.tasks: SimpleQueue[tuple[BackgroundTask[Any], Callable[[], Any]]] = SimpleQueue()
        Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while True:
            try:
                task, work = self.tasks.get(timeout=IDLE_SECONDS)
            except Empty:
                try:
                    _IDLE.remove(self)
                except ValueError:
                    continue  # it was given a task just now
                return
            task.run(work)
            del task, work  # what a task holds is not kept until the next one
            _IDLE.append(self)


_IDLE: list[_Worker] = []
"""Threads that wait for a task."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_IDLE.clear)
