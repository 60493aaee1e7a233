"""The start of a task in a worker: with the job's own code and niceness.

On a cluster the code comes as a zip on the worker's path. Numba cannot cache compiled code of modules inside a zip, so
it is unpacked to a folder named by its hash, which the next job of the same code finds again.
Only this module and its packages are imported from the zip, so it must not import any other of the project.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PACKAGES = ("formats", "indexes", "spark_jobs")


@dataclass(frozen=True)
class Task:
    """A function for `mapInArrow` and its like, named as "module:function" and imported only once it runs.

    It is called with the batches and then `arguments`, which may hold Spark broadcasts. `code` is the file name of the
    zip, if there is one; `nice` is the least niceness to run at.
    """

    target: str
    arguments: tuple[Any, ...] = ()
    code: str | None = None
    nice: int = 0

    def __call__(self, batches: Iterator[Any]) -> Iterator[Any]:
        prepare(self.code, self.nice)
        module, function = self.target.split(":")
        yield from getattr(importlib.import_module(module), function)(batches, *self.arguments)


def prepare(code: str | None, nice: int) -> None:
    """Set the niceness of this process, and let imports find the unpacked code. Idempotent."""
    if hasattr(os, "getpriority") and os.getpriority(os.PRIO_PROCESS, 0) < nice:
        os.setpriority(os.PRIO_PROCESS, 0, nice)
    if code is None:
        return
    archive = next((Path(entry) for entry in sys.path if Path(entry).name == code), None)
    if archive is None:
        raise RuntimeError(f"{code} did not come with the task")
    folder = str(unpack(archive))
    if folder not in sys.path:
        sys.path.insert(0, folder)
        importlib.invalidate_caches()
        for package in ("spark_jobs", "spark_jobs.common"):
            sys.modules[package].__path__ = [str(Path(folder, *package.split(".")))]


def unpack(archive: Path) -> Path:
    """The folder with the files of the zip; safe against concurrent calls of other processes."""
    home = Path(tempfile.gettempdir()) / f"rankcast-code-{os.getuid()}"
    home.mkdir(mode=0o700, exist_ok=True)
    about = home.lstat()
    if about.st_uid != os.getuid() or about.st_mode & 0o077 or home.is_symlink():
        raise RuntimeError(f"{home} is open to others: delete it")
    folder = home / archive.stem
    if not folder.is_dir():
        draft = Path(tempfile.mkdtemp(dir=home))
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(draft)
        with suppress(OSError):  # another process has renamed its own
            draft.rename(folder)
        shutil.rmtree(draft, ignore_errors=True)
    return folder
