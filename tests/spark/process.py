"""A job of Spark as a process of its own, which a test can kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

from tests.support.patience import PATIENCE


class JobProcess:
    """A module of `spark_jobs` with these arguments, and all that it starts, on a local master."""

    def __init__(self, module: str, *arguments: object) -> None:
        command = [sys.executable, "-m", module, *map(str, arguments), "--master", "local[2]"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )

    def end(self, seconds: float = PATIENCE) -> dict[str, Any]:
        """Its last line."""
        out, err = self.process.communicate(timeout=seconds)
        assert self.process.returncode == 0, (out, err[-4000:])
        last: dict[str, Any] = json.loads(out.splitlines()[-1])
        return last

    def kill(self) -> None:
        """It and Spark's Java at once."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()
