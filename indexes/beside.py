"""Long work that only reads, done in a thread of its own while slices go on: a new base is laid out so."""

from __future__ import annotations

from collections.abc import Callable
from threading import Thread
from typing import Generic, TypeVar

T = TypeVar("T")


class Beside(Generic[T]):
    """Work that has begun. What it reads must not change before it is `done`."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._found: list[T] = []
        self._failed: BaseException | None = None
        self._thread = Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def _run(self, work: Callable[[], T]) -> None:
        try:
            self._found.append(work())
        except BaseException as error:
            self._failed = error

    def done(self, seconds: float) -> bool:
        """Whether it is done, after waiting for at most so long."""
        self._thread.join(seconds)
        return not self._thread.is_alive()

    @property
    def found(self) -> T:
        """What the work returned. Raises what it raised."""
        if self._failed is not None:
            raise self._failed
        return self._found[0]
