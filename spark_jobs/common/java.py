"""The Java runtime for Spark: which of those on this machine is suitable.

Spark requires the module jdk.incubator.vector at its start. Some builds lack it, among them JDKs that come as Python
packages, so the version and the modules of each runtime are checked.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

OLDEST = 17
MODULE = "jdk.incubator.vector"

USUAL = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java/*",
    "/opt/jdk*",
    "/opt/homebrew/opt/openjdk*",
    "/usr/local/opt/openjdk*",
    "/home/linuxbrew/.linuxbrew/opt/openjdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)
"""Patterns of the folders in which packages and installers put a Java that may not be on PATH."""

_SECONDS = 30.0


class Java(NamedTuple):
    """A suitable runtime: the folder for JAVA_HOME and the feature version, such as 17."""

    home: Path
    version: int


class NoJava(Exception):
    """No suitable runtime; the message is one sentence, with the runtimes that were rejected."""


def find(environ: Mapping[str, str] = os.environ, usual: Sequence[str] = USUAL) -> Java:
    """The first suitable one of JAVA_HOME, PATH and the usual folders; of those the oldest, which Spark supports best.

    Raises `NoJava`.
    """
    passed: dict[str, str] = {}
    for executable in _named(environ):
        found = look(executable)
        if isinstance(found, Java):
            return found
        passed[str(executable)] = found
    here = [(executable, look(executable)) for executable in _lying(usual)]
    fitting = [found for _, found in here if isinstance(found, Java)]
    if fitting:
        return min(fitting, key=lambda java: java.version)
    passed |= {str(executable): found for executable, found in here if not isinstance(found, Java)}
    seen = ", ".join(f"{executable} {why}" for executable, why in list(passed.items())[:3]) or "no Java was found"
    raise NoJava(f"Spark needs Java {OLDEST} or newer: {seen}; `make setup` installs one or says how")


def look(executable: Path) -> Java | str:
    """The runtime of an executable, or why it is not suitable, as a part of a sentence."""
    settings = _ask(executable, "-XshowSettings:properties", "-version")
    if settings is None:
        return "does not start"
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)\s*$", settings, re.MULTILINE)
    home = re.search(r"^\s*java\.home = (.+?)\s*$", settings, re.MULTILINE)
    if not version or not home:
        return "is no working Java"
    if int(version[1]) < OLDEST:
        return f"is Java {version[1]}"
    modules = _ask(executable, "--list-modules") or ""
    if not re.search(rf"^{re.escape(MODULE)}(@|\s|$)", modules, re.MULTILINE):
        return f"lacks the module {MODULE}"
    return Java(Path(home[1]), int(version[1]))


def _ask(executable: Path, *options: str) -> str | None:
    """The output of an executable; None if it cannot be run or fails."""
    try:
        done = subprocess.run(
            [executable, *options], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True, errors="replace", timeout=_SECONDS, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _named(environ: Mapping[str, str]) -> Iterator[Path]:
    if environ.get("JAVA_HOME"):
        yield Path(environ["JAVA_HOME"]) / "bin" / "java"
    on_path = shutil.which("java", path=environ.get("PATH", ""))
    if on_path:
        yield Path(on_path)


def _lying(usual: Sequence[str]) -> Iterator[Path]:
    for pattern in usual:
        root = Path(pattern).expanduser()
        for folder in sorted(Path(root.anchor).glob(str(root.relative_to(root.anchor)))):
            executable = folder / "bin" / "java"
            if os.access(executable, os.X_OK):
                yield executable
