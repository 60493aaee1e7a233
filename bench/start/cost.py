"""What processes cost: their time by the wall, and that of the processors with all of their children.

A process that has ended is asked of the system, together with the children that it waited for. Of one that runs, the
tree below it is added up as Linux shows it in ``/proc``.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NamedTuple

from bench.process import Failed

TICKS = os.sysconf("SC_CLK_TCK")
TAIL_CHARACTERS = 2_000
END_SECONDS = 60.0
PAUSE = 0.02


class Cost(NamedTuple):
    """Seconds by the wall, and of processor time."""

    wall: float
    cpu: float

    def __add__(self, other: Cost) -> Cost:  # type: ignore[override]
        return Cost(self.wall + other.wall, self.cpu + other.cpu)


class _Process(NamedTuple):
    """A line of ``/proc/*/stat``: the parent, and processor seconds with those of children that were waited for."""

    parent: int
    cpu: float


def run(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str],
    log: Path,
    limit: float,
    text: str | None = None,
) -> Cost:
    """Run a command to its end; what it writes goes to `log`. Raises Failed when it fails or takes too long."""
    with log.open("wb") as output:
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE if text is not None else subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            if text is not None:
                assert process.stdin is not None
                process.stdin.write(text.encode())
                process.stdin.close()
            usage = _wait(process, began + limit)
        except BaseException:
            end_tree(process.pid)
            process.wait()
            raise
        wall = time.perf_counter() - began
    if process.returncode:
        raise Failed(f"{' '.join(command)} ended with status {process.returncode}:\n{_tail(log)}")
    return Cost(wall, usage)


def _wait(process: subprocess.Popen[bytes], until: float) -> float:
    """Processor seconds of a process and its children once it has ended. Raises Failed when it is late."""
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return usage.ru_utime + usage.ru_stime
        if time.perf_counter() > until:
            raise Failed(f"{process.args!r} has not ended in time")
        time.sleep(PAUSE)


class Running:
    """A command that runs on, read line by line."""

    def __init__(self, process: subprocess.Popen[str], log: Path, began: float) -> None:
        self.process = process
        self._log = log
        self._began = began
        self._lines: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        threading.Thread(target=self._read, args=(process.stdout,), daemon=True).start()

    def _read(self, output: IO[str]) -> None:
        with self._log.open("w", encoding="utf-8") as log:
            for line in output:
                log.write(line)
                log.flush()
                self._lines.put(line)
        self._lines.put(None)

    def cost(self) -> Cost:
        """From its start to now, with all that it has started."""
        return Cost(time.perf_counter() - self._began, tree_cpu(self.process.pid))

    def until(self, pattern: str, limit: float) -> tuple[re.Match[str], Cost]:
        """The first line that the pattern is found in, and what it had cost by then. Raises Failed."""
        end = self._began + limit
        while True:
            try:
                line = self._lines.get(timeout=max(0.0, end - time.perf_counter()))
            except queue.Empty:
                raise Failed(f"{pattern!r} was not said within {limit:.0f} s:\n{_tail(self._log)}") from None
            if line is None:
                status = self.process.wait()
                raise Failed(f"the process ended with status {status} before {pattern!r}:\n{_tail(self._log)}")
            if found := re.search(pattern, line):
                return found, self.cost()


@contextmanager
def running(command: Sequence[str], folder: Path, environment: Mapping[str, str], log: Path) -> Iterator[Running]:
    """A command that runs while the body does; ended with SIGTERM, with all that it has started."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )
    try:
        yield Running(process, log, began)
    finally:
        end_tree(process.pid)
        process.wait()


def tree_cpu(pid: int) -> float:
    """Processor seconds of a process and of all below it, also those that have ended."""
    processes = _processes()
    return sum(processes[one].cpu for one in _tree(processes, pid))


def end_tree(pid: int) -> None:
    """End a process with SIGTERM, then what it has left behind of all below it; what stays is killed."""
    tree = _tree(_processes(), pid)
    for some in (tree[:1], tree[1:]):
        for how in (signal.SIGTERM, signal.SIGKILL):
            _signal(some, how)
            end = time.monotonic() + END_SECONDS
            while any(map(_alive, some)) and time.monotonic() < end:
                time.sleep(PAUSE)


def _signal(pids: Sequence[int], how: signal.Signals) -> None:
    for pid in filter(_alive, pids):
        with suppress(ProcessLookupError):
            os.kill(pid, how)


def _processes() -> dict[int, _Process]:
    """All processes. Raises Failed where the system does not show them."""
    if not Path("/proc/self/stat").is_file():
        raise Failed("processes are measured by /proc, which Linux has")
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError):  # it has ended meanwhile
                fields = (folder / "stat").read_text().rpartition(")")[2].split()
                found[int(folder.name)] = _Process(int(fields[1]), sum(map(int, fields[11:15])) / TICKS)
    return found


def _tree(processes: Mapping[int, _Process], pid: int) -> list[int]:
    """A process and all below it."""
    below: dict[int, list[int]] = {}
    for one, process in processes.items():
        below.setdefault(process.parent, []).append(one)
    tree, at = ([pid] if pid in processes else []), 0
    while at < len(tree):
        tree += below.get(tree[at], ())
        at += 1
    return tree


def _alive(pid: int) -> bool:
    """Whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-TAIL_CHARACTERS:]
