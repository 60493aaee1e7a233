"""The programs in `examples/` run against a service and print what their docstrings say."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import httpx
import pytest

from tests.support.live import LiveService, StartService
from tests.support.patience import PATIENCE

FOLDER = Path(__file__).resolve().parents[2] / "examples"
PROGRAMS = sorted(path for path in FOLDER.glob("*.py") if path.name != "__init__.py")


@pytest.fixture(scope="module")
def service(start_service: StartService) -> LiveService:
    return start_service()


def promised(program: Path) -> str:
    """What a program prints, by the end of its docstring."""
    _, _, text = (ast.get_docstring(ast.parse(program.read_text()), clean=True) or "").partition("Prints:\n")
    return dedent(text).strip()


def test_there_is_one_for_each_resource() -> None:
    assert len(PROGRAMS) >= 5
    readme = (FOLDER / "README.md").read_text()
    assert all(f"[{program.name}]({program.name})" in readme for program in PROGRAMS)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: path.stem)
def test_it_prints_what_it_promises(program: Path, service: LiveService) -> None:
    for _ in range(2):  # a second run finds nothing of the first one in its way
        done = subprocess.run(
            [sys.executable, program],
            env={**os.environ, "RANKCAST_URL": service.url},
            capture_output=True,
            text=True,
            timeout=2 * PATIENCE,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.strip() == promised(program) != ""
    left = [name for kind in ("boards", "matchers", "relays", "maps", "feeds")
            for name in httpx.get(f"{service.url}/v1/{kind}").json()["items"]]  # fmt: skip
    assert left == []
