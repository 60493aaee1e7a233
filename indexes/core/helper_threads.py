"""Helper threads of the process, which take a share of another thread's work if the machine has the processors for it.

A thread with work to share asks whether a helper is free, and does the work alone otherwise.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import TypeAlias

Work: TypeAlias = Callable[[], None]


class HelperThread:
    """A long-lived thread that runs one piece of work at a time, and starts with the first."""

    def __init__(self) -> None:
        self._taken = threading.Lock()
        self._begun: SimpleQueue[Work | None] = SimpleQueue()
        self._ended: SimpleQueue[BaseException | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def begin(self, work: Work) -> bool:
        """Begin a piece of work, after which `end` has to be called; false, with nothing begun, if it is busy."""
        if not self._taken.acquire(blocking=False):
            return False
        if self._stopped:
            self._taken.release()
            return False
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="helper", daemon=True)
            self._thread.start()
        self._begun.put(work)
        return True

    def end(self) -> BaseException | None:
        """Wait until the piece of work is done; returns what it raised."""
        failure = self._ended.get()
        self._taken.release()
        return failure

    def stop(self) -> None:
        """End the thread for good, after its current work."""
        with self._taken:
            self._stopped = True
            self._begun.put(None)

    def _run(self) -> None:
        while (work := self._begun.get()) is not None:
            try:
                work()
            except BaseException as error:
                self._ended.put(error)
            else:
                self._ended.put(None)
            del work


_threads: tuple[HelperThread, ...] = ()


def provide(count: int) -> None:
    """Set the number of helpers. Work of former helpers is finished."""
    global _threads
    before, _threads = _threads, tuple([HelperThread() for _ in range(count)])
    for thread in before:
        thread.stop()


def threads() -> tuple[HelperThread, ...]:
    """The helpers of this process."""
    return _threads


def run_both(first: Callable[[], object], second: Callable[[], object]) -> float:
    """Run two independent halves of some work, the second in a helper thread if one is free.

    Returns by how many seconds of its thread's time the second took longer than the first. Raises what one of them
    raised, once both have ended.
    """
    spent = 0.0

    def timed() -> None:
        nonlocal spent
        began = time.thread_time()
        try:
            second()
        finally:
            spent = time.thread_time() - began

    helper = next((one for one in _threads if one.begin(timed)), None)
    if helper is None:
        first()
        second()
        return 0.0
    began = time.thread_time()
    try:
        first()
    finally:
        mine = time.thread_time() - began
        failure = helper.end()
    if failure is not None:
        raise failure
    return max(0.0, spent - mine)


def _renew() -> None:
    """Replace the helpers in a forked process, in which their threads do not exist."""
    global _threads
    _threads = tuple([HelperThread() for _ in _threads])


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
