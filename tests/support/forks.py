"""Services that are forked off a process which has loaded modules and kernels already.

That is nearly all that a start takes, and it is the same each time. What a service does from its arguments on, it does
itself.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(["tests.support.loaded"])


class Forked:
    """`rankcast` with these arguments in a process of its own, with what tests ask of a `subprocess.Popen`."""

    def __init__(self, arguments: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        self._process = _server.Process(target=_run, args=(list(arguments), dict(env), log))
        self._process.start()

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        status = self._process.exitcode
        if status is None:
            raise subprocess.TimeoutExpired("rankcast", timeout or 0.0)
        return status

    def send_signal(self, how: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, how)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _run(arguments: list[str], env: dict[str, str], log: Path) -> None:
    from app.cli.main import main
    from tests.support.clocks import go_by_setting

    with log.open("wb") as output:
        for number in (1, 2):
            os.dup2(output.fileno(), number)
    os.environ.clear()
    os.environ.update(env)
    go_by_setting()
    sys.argv = ["rankcast", *arguments]
    main()
