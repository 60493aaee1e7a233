"""Spark's jobs as processes: the service imports none of them, and runs without Java.

A job prints its progress as lines of JSON on its standard output, and logs on its standard error.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.runtime import logs
from app.settings import Settings
from app.write_path.jobs import JobFailed

CHECKOUT = Path(__file__).resolve().parents[2]

LINE = 16 << 20
"""Longest line in bytes: the last one of an audit lists differences."""

LAST_WORDS = 40
"""Lines of a failed job's standard error that are logged."""

PATIENCE = 5.0
"""Seconds from SIGTERM to SIGKILL."""

log = logs.get("spark")


async def run(
    settings: Settings, module: str, arguments: list[str], report: Callable[[float, str], None]
) -> dict[str, Any]:
    """Run ``python -m spark_jobs.<module>`` to its end; return its last line of JSON.

    Cancellation ends the job with all its processes; if this process is killed, the job ends by itself. Raises
    `JobFailed` with the job's reason.
    """
    command = [settings.spark_python or sys.executable, "-m", f"spark_jobs.{module}", *arguments]
    command += ["--master", settings.spark_master, "--nice", "10", "--until-stdin-ends"]
    for option in settings.spark_options:
        command += ["--conf", option]
    environment = dict(os.environ)
    if settings.java_home is not None:
        if not os.access(settings.java_home / "bin" / "java", os.X_OK):
            raise JobFailed(f"Spark cannot be started: java_home is {settings.java_home}, where there is no bin/java")
        environment["JAVA_HOME"] = str(settings.java_home)
    try:
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=PIPE,
            stdout=PIPE,
            stderr=PIPE,
            cwd=CHECKOUT,
            env=environment,
            limit=LINE,
            start_new_session=True,
        )
    except OSError as error:
        raise JobFailed(f"Spark cannot be started: {error.strerror or error}") from error
    words: deque[str] = deque(maxlen=LAST_WORDS)
    listening = asyncio.create_task(_listen(process, words))
    try:
        last = await _follow(process, report)
        code = await process.wait()
    finally:
        if process.returncode is None:
            await _end(process)
        await listening
    if code == 0:
        return last
    log.warning("spark job failed", module=module, code=code, output="\n".join(words))
    how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
    raise JobFailed(str(last.get("error") or f"the Spark job {how}"), {k: v for k, v in last.items() if k != "error"})


async def _follow(process: Process, report: Callable[[float, str], None]) -> dict[str, Any]:
    """Pass on the progress; return the last other line."""
    last: dict[str, Any] = {}
    assert process.stdout is not None
    async for line in process.stdout:
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if not isinstance(message, dict):
            continue
        if "progress" in message:
            report(float(message["progress"]), str(message.get("step", "")))
        else:
            last = message
    return last


async def _listen(process: Process, words: deque[str]) -> None:
    assert process.stderr is not None
    while piece := await process.stderr.read(1 << 16):
        words.extend(piece.decode(errors="replace").splitlines())


async def _end(process: Process) -> None:
    for how in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(process.pid, how)
        except ProcessLookupError:
            return
        try:
            await asyncio.wait_for(process.wait(), PATIENCE)
            return
        except TimeoutError:
            continue
