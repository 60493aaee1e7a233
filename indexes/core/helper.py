"""A second thread for short work that has two independent halves, such as two kernels on disjoint data.

One thread helps the whole process, so that halves take no thread to start; while it is busy, the caller does both.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread

Work = Callable[[], object]


class Helper:
    """A long-lived thread that does the second half of the work of one caller at a time."""

    def __init__(self) -> None:
        self._busy = Lock()
        self._thread: Thread | None = None
        self._asked: SimpleQueue[Work] = SimpleQueue()
        self._answered: SimpleQueue[tuple[float, BaseException | None]] = SimpleQueue()

    def run_both(self, first: Work, second: Work) -> float:
        """Run two halves, the second in the helping thread if it is idle and there is a processor for it.

        Returns by how many seconds of its thread's time the second took longer than the first. Raises what one of them
        raised, once both have ended.
        """
        if processors() < 2 or not self._busy.acquire(blocking=False):
            first()
            second()
            return 0.0
        try:
            if self._thread is None:
                self._thread = Thread(target=self._serve, name="helper", daemon=True)
                self._thread.start()
            self._asked.put(second)
            began = time.thread_time()
            try:
                first()
            finally:
                mine = time.thread_time() - began
                its, failure = self._answered.get()
        finally:
            self._busy.release()
        if failure is not None:
            raise failure
        return max(0.0, its - mine)

    def _serve(self) -> None:
        while True:
            work, failure = self._asked.get(), None
            began = time.thread_time()
            try:
                work()
            except BaseException as error:
                failure = error
            del work
            self._answered.put((time.thread_time() - began, failure))


def processors() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_helper = Helper()


def run_both(first: Work, second: Work) -> float:
    """`Helper.run_both` of the helper of this process."""
    return _helper.run_both(first, second)


def _renew() -> None:
    """A forked process has no thread but its own."""
    global _helper
    _helper = Helper()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew)
