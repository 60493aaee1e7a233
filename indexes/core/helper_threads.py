"""Threads that take part in the work of another thread, where the machine has the processors for it.

They are the process's, as its processors are: whoever has work that can be shared asks whether one is free, and does
it alone otherwise.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from queue import SimpleQueue


class HelperThread:
    """A long-lived thread that runs one piece of work at a time, and starts with the first. `prepare` is called in it
    before."""

    def __init__(self, prepare: Callable[[], None] = lambda: None) -> None:
        self._prepare = prepare
        self._taken = threading.Lock()
        self._begun: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._ended: SimpleQueue[BaseException | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def begin(self, work: Callable[[], None]) -> bool:
        """Begin a piece of work, which `end` is called for; whether the thread was free to."""
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
        """End the thread, after what it is at, for good."""
        with self._taken:
            self._stopped = True
            self._begun.put(None)

    def _run(self) -> None:
        self._prepare()
        while (work := self._begun.get()) is not None:
            try:
                work()
            except BaseException as error:
                self._ended.put(error)
            else:
                self._ended.put(None)
            del work


_threads: tuple[HelperThread, ...] = ()


def provide(count: int, prepare: Callable[[], None] = lambda: None) -> None:
    """Let there be so many helpers from now on. What those before are at is finished."""
    global _threads
    before, _threads = _threads, tuple([HelperThread(prepare) for _ in range(count)])
    for thread in before:
        thread.stop()


def threads() -> tuple[HelperThread, ...]:
    """The helpers of this process."""
    return _threads
