"""The examples in docstrings, of every module that has some."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]

FOLDERS = {
    "app": "",
    "bench": "",
    "client/rankcast_client": "client",
    "formats": "",
    "indexes": "",
    "spark_jobs": "",
    "tools": "",
}
"""The folders of the code, and where the names of their modules begin."""

MODULES = sorted(
    ".".join(path.relative_to(ROOT / begin).with_suffix("").parts)
    for folder, begin in FOLDERS.items()
    for path in (ROOT / folder).rglob("*.py")
    if ">>> " in path.read_text()
)


def test_examples_are_found() -> None:
    assert {"app.webhooks.signing", "rankcast_client.lists"} <= set(MODULES)


@pytest.mark.parametrize("name", MODULES)
def test_examples_hold(name: str) -> None:
    found = doctest.testmod(import_module(name))
    assert found.attempted > 0, "an example that no test finds"
    assert found.failed == 0
