"""Ports for the servers that tests start: nobody else is given one between its choice and the server's `bind`.

The system gives ports of its own range to outgoing connections, so one that was free a moment ago may be taken, and a
client that tries a port there while its server is down may even reach itself. So these lie below that range, and each
process of tests has a block of them for itself, as long as it holds the lock of a file.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import socket
import tempfile
from functools import cache
from pathlib import Path
from typing import IO

_FIRST, _LAST, _EACH = 20_000, 32_000, 400
_locks: list[IO[str]] = []
"""Open as long as the process lives."""


@cache
def _ports() -> itertools.cycle[int]:
    """The ports of this process, over and over."""
    folder = Path(tempfile.gettempdir()) / f"rankcast-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    for first in range(_FIRST, _LAST, _EACH):
        lock = (folder / str(first)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        _locks.append(lock)
        return itertools.cycle(range(first, first + _EACH))
    raise AssertionError(f"all ports from {_FIRST} to {_LAST} are taken by other tests that run now")


def free_port() -> int:
    """A port that nobody listens on now, and that none of the last hundreds of calls returned."""
    for port in itertools.islice(_ports(), _EACH):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise AssertionError("no port is free")
