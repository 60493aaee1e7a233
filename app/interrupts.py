"""What SIGINT and SIGTERM do while nothing is under way that would have to be put in order first.

Python turns SIGINT into a KeyboardInterrupt wherever it happens to be. In the middle of an import that is a traceback
through the libraries, or an error that has little to do with it.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTERRUPTED = 128 + signal.SIGINT
"""The exit status of a command that was ended by Ctrl-C."""

_ENDS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def ending_at_once() -> Iterator[None]:
    """SIGINT and SIGTERM end the process with 130 and 143, without a word, as long as this lasts.

    A handler, and not the system's default: to that, the first process of a container is immune.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = [(end, signal.signal(end, _end)) for end in _ENDS]
    try:
        yield
    finally:
        for end, handler in before:
            signal.signal(end, handler)


def hide_lost_interrupts() -> None:
    """Let a KeyboardInterrupt that nobody can catch, as it came in a callback of the interpreter, end the process."""
    report = sys.unraisablehook

    def hook(unraisable: sys.UnraisableHookArgs) -> None:
        if issubclass(unraisable.exc_type, KeyboardInterrupt):
            _end(signal.SIGINT, None)
        report(unraisable)

    sys.unraisablehook = hook


def _end(number: int, _: FrameType | None) -> None:
    os._exit(128 + number)
