"""Ctrl-C and SIGTERM while a command is being loaded and begins: it ends at once, without a word."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.patience import PATIENCE
from tests.support.ports import free_port

COMMAND = [sys.executable, "-X", "importtime", "-c", "from app.__main__ import main; main()"]
SMALL_PIPE = 4096


def interrupted(arguments: list[str], module: str, how: signal.Signals) -> tuple[int, str, str]:
    """How a command ends that gets a signal as soon as it has imported a module: its status and what it wrote.

    Python writes a line for each import, and waits where these are not read: the command comes no further.
    """
    reader, writer = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        fcntl.fcntl(writer, fcntl.F_SETPIPE_SZ, SMALL_PIPE)
    with open(reader, encoding="utf-8") as lines:
        process = subprocess.Popen(
            [*COMMAND, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=writer, text=True
        )
        os.close(writer)
        try:
            for line in lines:
                if re.fullmatch(rf"import time: .*\| +{re.escape(module)}\n", line):
                    break
            else:
                pytest.fail(f"{module} is not imported; the command ended with {process.wait(PATIENCE)}")
            process.send_signal(how)
            said = [line for line in lines if not line.startswith("import time:")]
            output, _ = process.communicate(timeout=PATIENCE)
        finally:
            process.kill()
            process.wait()
    return process.returncode, output, "".join(said)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("command", "module"),
    [
        ("serve", "typing"),
        ("serve", "typer"),
        ("serve", "pydantic_settings"),
        ("serve", "app.runtime.listening"),
        ("serve", "numpy"),
        ("serve", "app.storage"),
        ("top delays", "typer"),
        ("top delays", "httpx._models"),
        ("load FILE --board delays", "pyarrow.csv"),
        ("keys list", "sqlalchemy"),
        ("board list", "app.cli.resources"),
        ("demo", "numpy"),
        ("warm", "numba"),
    ],
)
def test_a_command_that_begins_ends_quietly(command: str, module: str, how: signal.Signals, tmp_path: Path) -> None:
    arguments = command.replace("FILE", str(tmp_path / "file.csv")).split()
    if arguments[0] in ("serve", "demo"):
        arguments += ["--port", str(free_port())]
    if arguments[0] in ("serve", "demo", "keys"):
        arguments += ["--data", str(tmp_path / "data")]
    if arguments[0] == "keys":
        # Without one the command ends before it opens anything.
        (tmp_path / "data").mkdir()
    assert interrupted(arguments, module, how) == (128 + how, "", "")


def test_what_is_to_be_ignored_is_ignored() -> None:
    """As SIGINT is for what a script puts in the background."""
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from app.runtime.interrupts import ending_at_once, interruptible\n"
        "with ending_at_once():\n"
        "    signal.raise_signal(signal.SIGINT)\n"
        "    with interruptible():\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "sys.exit(7)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (7, "")


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ("signal.raise_signal(signal.SIGINT)", 130, ""),
        ("signal.raise_signal(signal.SIGTERM)", 143, ""),
        ("with interruptible(): signal.raise_signal(signal.SIGINT)", 1, "KeyboardInterrupt\n"),
        ("with interruptible(): signal.raise_signal(signal.SIGTERM)", -signal.SIGTERM, ""),
        ("with interruptible(): pass\n    signal.raise_signal(signal.SIGINT)", 130, ""),
        # An exception in a finaliser goes nowhere.
        ("with interruptible(): Lost()", 130, ""),
        ("os.environ['X'] = 'y'", 0, ""),
    ],
)
def test_signals_mean_what_they_should(body: str, status: int, said: str) -> None:
    code = f"""
import os, signal, sys
from app.runtime.interrupts import ending_at_once, interruptible
class Lost:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
try:
  with ending_at_once():
    {body}
except KeyboardInterrupt:
  sys.exit("KeyboardInterrupt")
assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (status, said)
