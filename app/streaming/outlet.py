"""By what a server writes to one connection at once, where nothing has to wait for its client."""

from __future__ import annotations

from collections.abc import Callable


class Outlet:
    """`write` writes bytes as they go over the wire; it may be called while the outlet is `open`.

    To find out whether it is takes a look at several objects of the server, so what was found is kept: the server shuts
    the outlet whenever it might have changed, as when its write buffer is full, and `is_open` looks again.
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
        """Look again before the next write."""
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
"""That of a server without a way to write at once."""
