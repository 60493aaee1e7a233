"""Writing to one connection at once, where nothing has to wait for its client."""

from __future__ import annotations

from collections.abc import Callable


class Outlet:
    """What writes to a connection: `write` takes bytes as they go over the wire, and may be called while the outlet is
    `open`.

    Whether it is depends on several objects of the server, so the answer of `may` is kept: the server shuts the outlet
    whenever that might change, as when its write buffer is full, and `is_open` asks again.
    """

    __slots__ = ("_may", "open", "write")

    def __init__(self, may: Callable[[], bool], write: Callable[[bytes], None]) -> None:
        self._may = may
        self.write = write
        self.open = False
        """Whether it is known that `write` would write now."""

    def is_open(self) -> bool:
        """Whether `write` would write now."""
        if not self.open:
            self.open = self._may()
        return self.open

    def shut(self) -> None:
        """Ask again before the next write."""
        self.open = False

    def retire(self) -> None:
        """Never open again: the server writes to the connection for somebody else."""
        self._may = _never
        self.open = False


def _never() -> bool:
    return False


def _write_nothing(data: bytes) -> None:
    """Never called: the outlet does not open."""


WAITS = Outlet(_never, _write_nothing)
"""The outlet of a connection whose server has no way to write at once: it never opens."""
