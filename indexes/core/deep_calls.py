"""Room for the frames of deep calls."""

from __future__ import annotations

from collections.abc import Callable

LARGE_FRAME = 70_000
"""Values on the stack of a frame, of eight bytes each, none of which is touched."""


def with_room(run: Callable[[], None]) -> None:
    """Call with room for the frames of all that it calls in turn.

    CPython keeps frames in chunks of 16 KB, which it maps when a call finds no room and unmaps when that call returns.
    Imports and a compiler's passes lie deep in each other, so that many calls go back and forth across such a border:
    thousands of pages. A frame that takes more than 512 KB by itself gets a chunk of a megabyte, of which the rest is
    for the others, and which is not touched unless it is used.
    """

    def call() -> None:
        run()

    call.__code__ = call.__code__.replace(co_stacksize=LARGE_FRAME)
    call()
