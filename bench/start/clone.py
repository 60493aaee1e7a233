"""Fresh clones of commits, and the steps from a clone to a running service as each commit has them."""

from __future__ import annotations

import http.client
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from app.runtime.listening import free_port
from bench.process import CHECKOUT, HOST, Failed
from bench.start.cost import Cost, Running, run, running

INSTALL_SECONDS = 1_800.0
COMPILE_SECONDS = 3_600.0
START_SECONDS = 300.0
POLL_SECONDS = 0.005
LOOK_SECONDS = 0.1

FIRST_LIST = r"first list after ([\d.]+) s"
"""What the demo says when the first list is there."""

_KEPT = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LD_LIBRARY_PATH",
    "PATH",
    "SSL_CERT_FILE",
    "TERM",
    "TMPDIR",
    "TZ",
    "XDG_CONFIG_HOME",
)
_OF_INSTALLERS = re.compile(r"^(PIP_(?!CACHE)|UV_(?!CACHE)|\w+_PROXY$|\w+_proxy$)")


class EntryPoint(NamedTuple):
    """A compiled entry point: its name, its specialisations, processor seconds to compile them."""

    kernel: str
    specialisations: int
    cpu: float


class Clone:
    """A fresh clone with nothing installed, in a folder of its own that also holds its caches and logs."""

    def __init__(self, commit: str, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "rankcast"
        self.venv = self.root / ".venv"
        for command in (
            ["git", "clone", "--quiet", "--no-checkout", str(CHECKOUT), str(self.root)],
            ["git", "-C", str(self.root), "checkout", "--quiet", "--detach", commit],
        ):
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise Failed(f"{commit} could not be cloned from {CHECKOUT}: {done.stderr.strip()}")
        self.commit = _git(self.root, "rev-parse", "--short=12", "HEAD")
        makefile = (self.root / "Makefile").read_text(encoding="utf-8")
        self.compiles_first = re.search(r"^install:", makefile, re.MULTILINE) is None
        """Whether `make run` installs everything and compiles every kernel before the service starts."""

    def environment(self, cache: str, **more: str) -> dict[str, str]:
        """What a command of the clone sees: the user's installers with empty caches, and kernels in this folder."""
        kept = {name: value for name, value in os.environ.items() if name in _KEPT or _OF_INSTALLERS.match(name)}
        caches = {
            "PIP_CACHE_DIR": str(self.folder / "pip"),
            "UV_CACHE_DIR": str(self.folder / "uv"),
            "RANKCAST_CACHE": str(self.cache(cache)),
        }
        return {**kept, **caches, **more}

    def cache(self, name: str) -> Path:
        """The folder of a cache of kernels."""
        return self.folder / f"kernels-{name}"

    def install(self, installer: str) -> Cost:
        """What `make run` installs, with `pip` or `uv`, into an environment that is not there yet."""
        shutil.rmtree(self.venv, ignore_errors=True)
        what = [str(self.venv.relative_to(self.root) / ".installed")] if self.compiles_first else ["install"]
        command = ["make", *what, f"PYTHON={_python()}", f"INSTALLER={installer}"]
        return run(command, self.root, self.environment("none"), self.folder / "install.log", INSTALL_SECONDS)

    def warm(self, cache: str, report: Path | None = None) -> Cost:
        """`rankcast warm` into a cache; with `report` the cost of each entry point is written there, if it can be."""
        options = ["--report", str(report)] if report is not None and self._can_report() else []
        return run(
            [self._rankcast, "warm", *options],
            self.root,
            self.environment(cache),
            self.folder / f"warm-{cache}.log",
            COMPILE_SECONDS,
        )

    def first_list(self, cache: str) -> Cost:
        """The demo from the start of its process to the first list, on an empty data directory."""
        port = free_port()
        data = self.folder / f"data-{cache}"
        command = [self._rankcast, "demo", "--port", str(port), "--data", str(data)]
        with running(command, self.root, self.environment(cache), self.folder / f"demo-{cache}.log") as demo:
            if self.compiles_first:
                return _first_answer(demo, port)
            return demo.until(FIRST_LIST, COMPILE_SECONDS)[1]

    def ready(self, cache: str, number: int) -> Cost:
        """A service on an empty data directory, from the start of its process to the first 200 of `/readyz`."""
        return time_to_ready([self._rankcast], self.root, self.environment(cache), self.folder / f"serve-{number}")

    @property
    def _rankcast(self) -> str:
        return str(self.venv / "bin" / "rankcast")

    def _can_report(self) -> bool:
        command = [self._rankcast, "warm", "--help"]
        shown = subprocess.run(
            command, cwd=self.root, env=self.environment("none"), capture_output=True, text=True, check=False
        )
        return "--report" in shown.stdout


def time_to_ready(rankcast: list[str], root: Path, environment: dict[str, str], folder: Path) -> Cost:
    """`rankcast serve` on an empty data directory until `/readyz` answers 200. Raises Failed."""
    port = free_port()
    command = [*rankcast, "serve", "--host", HOST, "--port", str(port), "--data", str(folder / "data")]
    folder.mkdir(parents=True)
    with running(command, root, environment, folder / "log") as server:
        return _poll(server, port, "/readyz", lambda answer: True, POLL_SECONDS, START_SECONDS)


def _first_answer(demo: Running, port: int) -> Cost:
    """Until a list of the demo's board has objects."""
    return _poll(demo, port, "/v1/boards/delays/top?k=5", _has_objects, LOOK_SECONDS, START_SECONDS + COMPILE_SECONDS)


def _has_objects(answer: Any) -> bool:
    return any(bool(value) for value in answer.values() if isinstance(value, list))


def _poll(process: Running, port: int, path: str, enough: Callable[[Any], bool], pause: float, limit: float) -> Cost:
    """What a process has cost once a path is answered 200 with what is enough. Raises Failed."""
    end = time.monotonic() + limit
    while time.monotonic() < end:
        if process.process.poll() is not None:
            raise Failed(f"the process ended with status {process.process.returncode} before {path} was answered")
        connection = http.client.HTTPConnection(HOST, port, timeout=10.0)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status == 200 and enough(json.loads(body)):
                return process.cost()
        except (OSError, http.client.HTTPException):
            pass
        finally:
            connection.close()
        time.sleep(pause)
    raise Failed(f"{path} was not answered within {limit:.0f} s")


def entry_points(report: Path) -> list[EntryPoint]:
    """The entry points of a report of `rankcast warm`, the dearest first; none where there is no report."""
    if not report.is_file():
        return []
    found = [json.loads(line) for line in report.read_text(encoding="utf-8").splitlines() if line.strip()]
    parsed = [EntryPoint(one["kernel"], int(one["specialisations"]), float(one["cpu"])) for one in found]
    return sorted(parsed, key=lambda one: -one.cpu)


def disk(folder: Path) -> int:
    """Bytes that a folder takes on the disk."""
    return sum(path.lstat().st_blocks * 512 for path in _all(folder))


def files(folder: Path, ending: str) -> int:
    """How many files below a folder end so."""
    return sum(path.name.endswith(ending) for path in _all(folder))


def _all(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        yield from (Path(parent, name) for name in (*folders, *names))


def _python() -> str:
    """The interpreter that this one's environment was made from."""
    return os.path.realpath(sys.executable)


def _git(root: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True
    ).stdout.strip()
