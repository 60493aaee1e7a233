"""Install what is pinned in ``requirements/`` into a virtual environment, and show how far it is.

A set of packages is installed on top of what is there, so a larger set costs only what a smaller one lacks. `uv` is
used where it is found, and pip otherwise or where uv fails, as it does where only pip knows the way to a mirror. Every
file is checked against the hashes of the locks. Modules are not compiled here: Python does it when they are first
imported, and most of them never are.

This runs on a bare Python, before anything is installed.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, TextIO

ROOT = Path(__file__).resolve().parent.parent
LOCKS = ROOT / "requirements"
PROJECT = ("-e", ".", "-e", "client")
EDITABLE = ("--config-settings", "editable_mode=compat")
"""The whole checkout is on the path, with benchmarks and tools, which an installation leaves out."""

BAR = 14
LINE_SECONDS = 10.0
"""How often a line is added where a line cannot be rewritten, as in the log of a build."""
REDRAW_SECONDS = 0.2
ERROR_LINES = 15

_PIN = re.compile(r"^([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==([^\s;\\]+)(?:\s*;\s*([^\\]+))?")
_WORK = re.compile(
    r"^(Collecting|Downloading|Building)(?: wheel for| editable for)? (?:\S*/)?([A-Za-z]\w*(?:[.-][A-Za-z]\w*)*)"
    r"(?:.*\(([\d.]+ ?\w+)\)$)?"
)
"""A line of pip or uv that names a package which it is about to see to, with its size where it says that."""
_REMARKS = ("WARNING: Location", "Requirement already satisfied", "Ignoring ")
_COMPARISON = re.compile(r"^(\w+)\s*(==|!=|<|>=)\s*'([^']*)'$")


class Phase(NamedTuple):
    """One call of the installer: what it is called, the locks that it reads, and further arguments."""

    name: str
    locks: Sequence[str]
    options: Sequence[str] = ()


BUILD = Phase("build tools", ("build",))
"""First of all: what has no wheel for this machine is built with them."""

SETS: dict[str, Sequence[Phase]] = {
    "runtime": (
        BUILD,
        Phase("runtime", ("runtime",)),
        # Its dependencies are not installed: it asks for pandas, which only its import needs, and we read its files.
        Phase("flights of the demo", ("demo",), ("--no-deps",)),
        Phase("rankcast and its client", (), (*EDITABLE, "--no-deps", *PROJECT)),
    ),
    "postgres": (BUILD, Phase("driver of PostgreSQL", ("postgres",))),
    "development": (BUILD, Phase("tests, linters, Spark", ("dev",))),
    "docs": (BUILD, Phase("documentation site", ("docs",))),
    "peers": (BUILD, Phase("what benchmarks compare with", ("peers",))),
    "audit": (Phase("bill of materials and advisories", ("audit",)),),
}
"""What can be asked for. Those after the first add to it, but `audit`, which has an environment of its own."""


class Failed(Exception):
    """Something could not be installed; the message says what and why."""


class Pin(NamedTuple):
    """A package of a lock: its name as in the folders of metadata, and its version."""

    name: str
    version: str


def pins(lock: Path) -> set[Pin]:
    """The packages of a lock that this machine needs."""
    found = (_PIN.match(line) for line in lock.read_text(encoding="utf-8").splitlines())
    return {Pin(_normal(one[1]), one[2]) for one in found if one and _applies(one[3])}


def installed(venv: Path) -> set[Pin]:
    """The packages of an environment, by their folders of metadata."""
    folders = (folder.name[: -len(".dist-info")] for folder in venv.glob("lib/python*/site-packages/*.dist-info"))
    return {Pin(_normal(name), version) for name, _, version in (folder.rpartition("-") for folder in folders)}


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _applies(marker: str | None) -> bool:
    """Whether a marker of a lock is true here; one of a form that is not in our locks is taken to be.

    Only the number of packages that is shown depends on it.
    """
    if marker is None:
        return True
    here = {
        "sys_platform": sys.platform,
        "implementation_name": sys.implementation.name,
        "platform_python_implementation": {"cpython": "CPython", "pypy": "PyPy"}.get(sys.implementation.name, ""),
        "python_full_version": ".".join(map(str, sys.version_info[:3])),
    }
    for part in marker.strip().split(" and "):
        comparison = _COMPARISON.match(part.strip())
        if comparison is None or comparison[1] not in here:
            continue
        mine, operator, value = here[comparison[1]], comparison[2], comparison[3]
        if operator in ("==", "!="):
            true = (mine == value) == (operator == "==")
        else:
            true = (_numbers(mine) < _numbers(value)) == (operator == "<")
        if not true:
            return False
    return True


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]


class Progress:
    """One line a phase that is rewritten on a terminal; elsewhere its beginning, one line each while, and its end."""

    def __init__(self, what: str, out: TextIO) -> None:
        self._what = what
        self._out = out
        self._terminal = out.isatty()
        self._began = self._last = time.monotonic()
        if not self._terminal:
            self._say(f"{what} ...")

    def show(self, share: float, doing: str) -> None:
        """Show the share that is done, from 0 to 1, and what is done now."""
        now = time.monotonic()
        if now - self._last < (REDRAW_SECONDS if self._terminal else LINE_SECONDS):
            return
        self._last = now
        seconds = f"{now - self._began:.0f} s"
        if self._terminal:
            bar = f"{'#' * round(share * BAR):.<{BAR}}"
            width = shutil.get_terminal_size().columns - 1
            self._out.write(f"\r\x1b[K{f'{self._what} [{bar}] {seconds} {doing}'[:width]}")
            self._out.flush()
        else:
            self._say(f"  {seconds}, {share:.0%}: {doing}")

    def end(self, how: str = "") -> None:
        """Finish the line with the time that it took."""
        text = f"{self._what}: {how or f'{time.monotonic() - self._began:.1f} s'}"
        self._say(f"\r\x1b[K{text}" if self._terminal else text)

    def _say(self, line: str) -> None:
        self._out.write(line + "\n")
        self._out.flush()


class Installer:
    """Installs phases into an environment with uv or pip. `log` holds what they say."""

    def __init__(self, venv: Path, uv: str | None, out: TextIO) -> None:
        self._venv = venv
        self._uv = uv
        self._out = out
        self._log = venv / "install.log"
        self._python = venv / "bin" / "python"
        self._environment = {
            **os.environ,
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIP_NO_INPUT": "1",
            "PYTHONUNBUFFERED": "1",
        }

    def prepare(self) -> None:
        """Make the environment unless it is there and works."""
        if _works(self._python):
            return
        progress = Progress(f"making {self._venv.name} with Python {sys.version.split()[0]}", self._out)
        if self._uv:
            again = ["--clear"] if self._venv.exists() else []
            command = [self._uv, "venv", "--quiet", *again, "--python", sys.executable, str(self._venv)]
            if subprocess.run(command, capture_output=True, check=False).returncode:
                self._uv = None
        if not self._uv:
            _need_ensurepip()
            done = subprocess.run(
                [sys.executable, "-m", "venv", "--clear", str(self._venv)], capture_output=True, text=True, check=False
            )
            if done.returncode:
                raise Failed(f"{self._venv} could not be made:\n{_tail(done.stderr + done.stdout)}")
        progress.end()

    def run(self, phase: Phase) -> None:
        """Install one phase. Raises Failed."""
        if self._uv:
            try:
                self._call(phase, "uv", [self._uv, "pip", "install", "--python", str(self._python)])
                return
            except Failed as failure:
                self._out.write(f"{failure}\nTrying again with pip.\n")
                self._uv = None
        if subprocess.run([self._python, "-c", "import pip"], capture_output=True, check=False).returncode:
            _need_ensurepip()
            subprocess.run([self._python, "-m", "ensurepip"], capture_output=True, check=False)
        self._call(phase, "pip", [str(self._python), "-m", "pip", "install", "--no-compile", "--progress-bar", "off"])

    def _call(self, phase: Phase, by: str, command: list[str]) -> None:
        locks = [LOCKS / f"{lock}.lock" for lock in phase.locks]
        wanted = {pin for lock in locks for pin in pins(lock)}
        missing = wanted - installed(self._venv)
        if wanted and not missing:
            return
        for lock in locks:
            command += ["-r", str(lock)]
        command += ["--no-build-isolation", *(["--require-hashes"] if locks else []), *phase.options]
        what = f"{len(missing)} package{'s' * (len(missing) != 1)} ({phase.name})" if missing else phase.name
        progress = Progress(f"installing {what} with {by}", self._out)
        said = Output()
        with self._log.open("a", encoding="utf-8") as log:
            log.write(f"$ {' '.join(command)}\n")
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                cwd=ROOT,
                env=self._environment,
            )
            reader = threading.Thread(target=said.read, args=(process, log), daemon=True)
            reader.start()
            try:
                while reader.is_alive():
                    reader.join(REDRAW_SECONDS)
                    done = len(missing & installed(self._venv)) if missing else 0
                    progress.show(said.share(done, len(missing)), said.doing(done, len(missing)))
                status = process.wait()
            except BaseException:
                process.terminate()
                process.wait()
                raise
        if status:
            progress.end("failed")
            raise Failed(f"{by} ended with status {status} (all that it said is in {self._log}):\n{_tail(said.text())}")
        progress.end()


class Output:
    """What an installer says, and how far it is by that: each package is first fetched, then unpacked."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._fetched = 0
        self._now = "fetching the index"
        self._unpacking = False

    def read(self, process: subprocess.Popen[str], log: TextIO) -> None:
        """Take in all lines until the installer ends."""
        assert process.stdout is not None
        for line in process.stdout:
            log.write(line)
            self._lines.append(line.strip())
            self.take(line.strip())

    def take(self, line: str) -> None:
        """Take in one line."""
        if line.startswith(("Collecting ", "Downloaded ")):
            self._fetched += 1
        if found := _WORK.match(line):
            verb = "building" if found[1] == "Building" else "fetching"
            self._now = f"{verb} {found[2]}" + (f" ({found[3]})" if found[3] else "")
        elif line.startswith(("Installing collected", "Prepared")):
            self._unpacking = True

    def share(self, done: int, total: int) -> float:
        """How much of the work is done, from 0 to 1; fetching is one half of it and unpacking the other."""
        return (min(total, max(done, self._fetched)) + done) / (2 * total) if total else 0.0

    def doing(self, done: int, total: int) -> str:
        """What it does now, in words."""
        if not total:
            return "building"
        return f"unpacking, {done} of {total} are there" if self._unpacking or done else self._now

    def text(self) -> str:
        return "\n".join(self._lines)


def _works(python: Path) -> bool:
    """Whether there is an environment with a Python that is new enough."""
    check = "import sys; sys.exit(sys.version_info < (3, 11) or sys.prefix == sys.base_prefix)"
    try:
        return subprocess.run([python, "-c", check], capture_output=True, check=False).returncode == 0
    except OSError:
        return False


def _need_ensurepip() -> None:
    try:
        import ensurepip
        import venv  # noqa: F401

        ensurepip.version()
    except ImportError:
        raise Failed(
            "This Python cannot make virtual environments. On Debian and Ubuntu: apt install python3-venv"
        ) from None


def _tail(text: str) -> str:
    """The last lines, without pip's remarks on each package that is there and each place where it looks."""
    lines = [line for line in text.splitlines() if line.strip() and not line.strip().startswith(_REMARKS)]
    return "\n".join(f"  {line}" for line in lines[-ERROR_LINES:])


def install(names: Sequence[str], venv: Path, uv: str | None, out: TextIO) -> None:
    """Install sets of packages by name. Raises Failed."""
    installer = Installer(venv, uv, out)
    installer.prepare()
    for phase in _phases(names):
        installer.run(phase)


def _phases(names: Sequence[str]) -> Iterator[Phase]:
    for name in names:
        yield from SETS[name]


def main(arguments: Sequence[str] | None = None, find: Callable[[str], str | None] = shutil.which) -> int:
    """0 when all is there, 1 when something could not be installed, which it says."""
    parser = argparse.ArgumentParser(prog="python -m tools.install", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("sets", nargs="+", choices=sorted(SETS), help="what to install, in this order")
    parser.add_argument("--venv", type=Path, default=ROOT / ".venv", help="the environment, made where it is not there")
    parser.add_argument("--installer", choices=("auto", "uv", "pip"), default="auto", help="auto: uv where it is found")
    given = parser.parse_args(arguments)
    uv = find("uv") if given.installer != "pip" else None
    if given.installer == "uv" and uv is None:
        parser.error("uv is not found")
    try:
        install(given.sets, given.venv.absolute(), uv, sys.stdout)
    except Failed as failure:
        print(failure, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\ninterrupted; the next call goes on from here", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
