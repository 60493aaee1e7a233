"""Writing to a connection without waiting for its client."""

from __future__ import annotations

from collections.abc import Callable


class Outlet:
    """Writes to one connection: `write` takes bytes as they go over the wire, and may be called while it is `open`.

    Whether it is depends on several objects of the server, so the result of `may` is cached: the server shuts the
    outlet whenever it might change, as when the write buffer is full, and `is_open` calls `may` again.
    """

    __slots__ = ("_may", "open", "write")

    def __init__(self, may: Callable[[], bool], write: Callable[[bytes], None]) -> None:
        self._may = may
        self.write = write
        self.open = False
        """The cached result; False where it is not known."""

    def is_open(self) -> bool:
        """Whether `write` may be called."""
        if not self.open:
            self.open = self._may()
        return self.open

    def shut(self) -> None:
        """Drop the cached result."""
        self.open = False

    def retire(self) -> None:
        """Shut for good: the connection now carries another response."""
        self._may = _never
        self.open = False


def _never() -> bool:
    return False


def _write_nothing(data: bytes) -> None:
    """Never called: the outlet does not open."""


WAITS = Outlet(_never, _write_nothing)
"""An outlet that never opens, for servers that cannot write without waiting."""
