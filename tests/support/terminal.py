"""A command on a terminal of its own, and what the terminal shows."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
import threading
from collections.abc import Sequence

HOME = "\x1b[H"
"""What a full-screen program sends before each frame."""

_CONTROLLED = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execvp(sys.argv[1], sys.argv[1:])
"""
"""Runs a command with its terminal as the one that controls the session: only there Ctrl-C becomes a signal."""

_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """Runs a command on a pseudo-terminal of so many columns and lines, in a `with`, whose end kills it."""

    def __init__(self, command: Sequence[str], columns: int, lines: int) -> None:
        self._output = bytearray()
        self._lock = threading.Lock()
        self._master, slave = os.openpty()
        self.resize(columns, lines)
        # Both would overrule the terminal's own size.
        env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
        self.process = subprocess.Popen(
            [sys.executable, "-c", _CONTROLLED, *command],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=env | {"TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(slave)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        os.close(self._master)

    def _read(self) -> None:
        while True:
            try:
                some = os.read(self._master, 65_536)
            except OSError:
                # Linux says so where others read nothing: no process has the terminal open any more.
                return
            if not some:
                return
            with self._lock:
                self._output += some

    def resize(self, columns: int, lines: int) -> None:
        """Give the terminal another size."""
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, keys: str) -> None:
        """Types on its keyboard."""
        os.write(self._master, keys.encode())

    @property
    def output(self) -> str:
        """All that was written so far, control sequences included."""
        with self._lock:
            return self._output.decode(errors="replace")

    @property
    def frame(self) -> list[str]:
        """The lines of the last whole frame of a full-screen program, without colours; none before there is one."""
        frames = self.output.split(HOME)
        return _ESCAPE.sub("", frames[-2]).splitlines() if len(frames) > 2 else []
