"""A computation in a thread of its own, for long work that only reads."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class BackgroundTask(Generic[T]):
    """A running computation. What it reads must not change before it is `done`."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._result: list[T] = []
        self._failure: BaseException | None = None
        self._thread = Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], T]) -> None:
        try:
            self._result.append(work())
        except BaseException as error:
            self._failure = error

    def done(self, seconds: float) -> bool:
        """Whether it has finished, after waiting for at most `seconds`."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def result(self) -> T:
        """What the computation returned. Raises what it raised."""
        if self._failure is not None:
            raise self._failure
        return self._result[0]
