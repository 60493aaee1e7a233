"""Node for the tests of the JavaScript client. Where it is missing they are skipped, and with ``CI=true`` fail."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import NoReturn

import pytest

PACKAGE = Path(__file__).resolve().parents[2] / "client-js"
OLDEST = 20


@cache
def _found() -> tuple[str | None, str]:
    """Node's path, or why there is none."""
    node = shutil.which("node")
    if node is None:
        return None, "no node on the PATH: install Node 20 or newer"
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout
    number = re.match(r"v(\d+)\.", version)
    if number is None or int(number[1]) < OLDEST:
        return None, f"node is {version.strip()}: install Node {OLDEST} or newer"
    return node, ""


def node() -> str:
    """The path of Node."""
    path, why = _found()
    return path if path is not None else missing(why)


def typescript() -> Path:
    """TypeScript's compiler, which `make js` installs."""
    compiler = PACKAGE / "node_modules" / "typescript" / "bin" / "tsc"
    return compiler if compiler.exists() else missing("no TypeScript: make js installs it")


def missing(why: str) -> NoReturn:
    """Skip the test, or fail it where all must be there."""
    if os.environ.get("CI") == "true":
        pytest.fail(why)
    pytest.skip(why)
