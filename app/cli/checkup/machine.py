"""The machine: free disk, limits, Java, compiled kernels."""

from __future__ import annotations

import resource
import shutil
import subprocess
from collections.abc import Iterator

from app.cli.checkup.finding import Finding, Place
from app.storage.gate import FULL, free

LITTLE = 1 << 30
"""Free bytes below which a disk is nearly full."""

FEW_FILES = 4_096
"""Open files that allow few connections."""

_SECONDS = 20.0


def check_machine(place: Place) -> Iterator[Finding]:
    """The findings."""
    data = place.data.absolute()
    # One that is not there yet is made on the disk of what it is in.
    room = free(next(folder for folder in (data, *data.parents) if folder.exists()))
    found = f"{room / 1e9:.1f} GB free for the data directory"
    if room < FULL:
        yield Finding("disk", "error", found, "make room: nothing is written before")
    elif room < LITTLE:
        yield Finding("disk", "warning", found, "make room, or move the data directory")
    else:
        yield Finding("disk", "ok", found)
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < FEW_FILES:
        yield Finding("files", "warning", f"a process may open {hard}", "raise nofile: each connection takes one")
    else:
        yield Finding("files", "ok", f"a process may open {'any' if hard == resource.RLIM_INFINITY else hard}")
    yield _java()
    yield _kernels()


def _java() -> Finding:
    java = shutil.which("java")
    if java is None:
        return Finding("java", "ok", "none on the path", "only jobs on Spark need one")
    try:
        done = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return Finding("java", "warning", f"{java} does not answer ({type(error).__name__})", "jobs on Spark need it")
    lines = (done.stderr or done.stdout).splitlines()
    # Settings that Java takes from the environment are reported ahead of it.
    return Finding("java", "ok", next((line for line in lines if " version " in line), java))


def _kernels() -> Finding:
    from app.runtime.kernels import compiles
    from indexes.compiled import targets, warming

    if not compiles():
        return Finding("kernels", "warning", "compiling is off", "unset NUMBA_DISABLE_JIT")
    missing = [group for group in warming.GROUPS if not warming.is_ready(group)]
    if any(group.main for group in missing):
        names = ", ".join(group.name for group in missing if group.main)
        return Finding("kernels", "warning", f"not compiled for {targets.current()}: {names}", "rankcast warm")
    rest = f", {len(missing)} groups on first use" if missing else ""
    return Finding("kernels", "ok", f"compiled for {targets.current()}{rest}")
