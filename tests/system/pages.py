"""The examples of a page of the documentation, to be run as they stand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.patience import PATIENCE

RANKCAST = Path(sys.executable).with_name("rankcast")


class Page:
    """One page: its text, and the blocks of it by language."""

    def __init__(self, name: str) -> None:
        self.text = (Path(__file__).resolve().parents[2] / "docs" / name).read_text(encoding="utf-8")

    def blocks(self, language: str) -> list[str]:
        return re.findall(rf"^```{language}\n(.*?)^```$", self.text, re.M | re.S)

    def commands(self) -> list[str]:
        """The requests of the page, in order."""
        return [command for block in self.blocks("bash") for command in block.strip().split("\n\n")]


def bash(command: str, **env: str) -> str:
    """What a command prints."""
    environment = {**os.environ, **env}
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=PATIENCE, check=False, env=environment
    )
    assert done.returncode == 0, f"{command}\n{done.stderr}"
    return done.stdout


def python(code: str, url: str) -> list[str]:
    """The lines that an example prints, told where the service is."""
    code = code.replace("http://127.0.0.1:8000", url)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout.splitlines()
