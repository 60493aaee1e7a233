"""Small disks, to be filled, and processes whose files may not grow."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MIB = 1 << 20


@contextmanager
def small_disk(place: Path, size: int) -> Iterator[Path]:
    """A disk of so many bytes, mounted at a new folder. Where none can be mounted, the test is skipped."""
    place.mkdir()
    try:
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", place],
            capture_output=True,
            text=True,
            check=False,
        )
        told = mounted.stderr.strip() if mounted.returncode else ""
    except FileNotFoundError as error:
        told = str(error)
    if told:
        if os.environ.get("CI") == "true" and os.geteuid() == 0:
            pytest.fail(f"no disk can be mounted: {told}")
        pytest.skip(f"no disk can be mounted: {told}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", place], check=True)


def used(disk: Path) -> int:
    """Bytes."""
    return shutil.disk_usage(disk).used


def fill(disk: Path, leave: int) -> Path:
    """Leave so many bytes free; returns the file that takes up the rest.

    The service writes meanwhile: what was free a moment ago may be taken, which is as good as filled.
    """
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as out:
        while (left := shutil.disk_usage(disk).free - leave) > 0:
            try:
                out.write(b"x" * min(left, MIB))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise
    return filler


def starve(pid: int, hungry: bool) -> None:
    """Let no file of a process grow any more, or let them grow again."""
    _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096 if hungry else hard, hard))


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk of its own."""
    with small_disk(tmp_path / "disk", 24 * MIB) as place:
        yield place
