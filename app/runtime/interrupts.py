"""Handlers of SIGINT and SIGTERM while there is nothing to clean up.

Python raises KeyboardInterrupt wherever it happens to be. In the middle of an import that gives a traceback through
libraries, or an unrelated error. This module is loaded before any other, so it imports next to nothing.
"""

from __future__ import annotations

import os
import signal
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import FrameType
    from typing import Any

INTERRUPTED = 128 + signal.SIGINT
"""The exit status of a command that was ended by Ctrl-C."""

_SHOW_CURSOR = b"\x1b[?25h"


class _Handlers:
    """Handlers of signals in a `with`. Signals are the main thread's: in another one it changes nothing."""

    def __init__(self) -> None:
        self._before: list[tuple[signal.Signals, Any]] = []

    def _set(self, number: signal.Signals, handler: Any) -> None:
        try:
            self._before.append((number, signal.signal(number, handler)))
        except ValueError:
            return

    def __exit__(self, *_: object) -> None:
        while self._before:
            signal.signal(*self._before.pop())


class ending_at_once(_Handlers):  # noqa: N801
    """SIGINT and SIGTERM end the process with 130 and 143, without a word, as long as this lasts.

    A handler, and not the system's default: to that, the first process of a container is immune. What the process was
    told to ignore when it was started, as SIGINT where a script puts it in the background, it goes on to ignore.
    """

    def __enter__(self) -> None:
        for number in (signal.SIGINT, signal.SIGTERM):
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._set(number, _end)


class interruptible(_Handlers):  # noqa: N801
    """Within `ending_at_once`: for as long as this lasts SIGINT is a KeyboardInterrupt again, and SIGTERM the system's.

    For work that has to clean up, or to report, when it is interrupted.
    """

    def __enter__(self) -> None:
        self._report = sys.unraisablehook
        for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGTERM, signal.SIG_DFL)):
            if signal.getsignal(number) is _end:
                sys.unraisablehook = self._hook
                self._set(number, usual)

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        sys.unraisablehook = self._report

    def _hook(self, lost: sys.UnraisableHookArgs) -> None:
        """A KeyboardInterrupt in a callback of the interpreter, where nobody can catch it, ends the process."""
        if issubclass(lost.exc_type, KeyboardInterrupt):
            _end(signal.SIGINT, None)
        self._report(lost)


def end_now(status: int) -> None:
    """End the process without waiting for its threads, which may be in the middle of a library's work."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            # Nobody reads it any more.
            continue
    os._exit(status)


def _end(number: int, _: FrameType | None) -> None:
    if sys.stderr.isatty():
        # A progress bar may have hidden it.
        os.write(sys.stderr.fileno(), _SHOW_CURSOR)
    os._exit(128 + number)
