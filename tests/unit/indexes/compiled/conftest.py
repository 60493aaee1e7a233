"""A folder with modules of kernels and a cache of their own, and processes that use them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from tests.support.patience import PATIENCE

ROOT = Path(__file__).resolve().parents[4]

BEGIN = """
import json
from indexes.compiled import cache, library, targets
compiled = []
cache.observers.append(lambda made: compiled.append(made.kernel.rpartition(".")[2]))
def tell(**what):
    print(json.dumps({**what, "compiled": sorted(compiled)}), flush=True)
"""


class Workshop:
    """`write` makes a module, `run` a process that can import it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cache = folder / "cache"

    def write(self, name: str, source: str) -> None:
        (self.folder / f"{name}.py").write_text(dedent(source))

    def start(self, program: str, **env: str) -> subprocess.Popen[str]:
        """A process that runs `program`, which ends with `tell(...)`."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_")}
        path = os.pathsep.join([str(self.folder), str(ROOT)])
        made = {**plain, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "RANKCAST_CACHE": str(self.cache), **env}
        command = [sys.executable, "-c", BEGIN + dedent(program)]
        return subprocess.Popen(command, env=made, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def finish(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """What the process told; "compiled" are the kernels that it compiled."""
        out, err = process.communicate(timeout=2 * PATIENCE)
        assert process.returncode == 0, err
        told: dict[str, Any] = json.loads(out.splitlines()[-1])
        return told

    def run(self, program: str, **env: str) -> dict[str, Any]:
        """Start and finish."""
        return self.finish(self.start(program, **env))

    def files(self, kernel: str = "") -> list[Path]:
        """The files of compiled kernels of a name."""
        return sorted(path for path in self.cache.rglob("*.kernel") if f".{kernel}-" in path.name or not kernel)


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)
