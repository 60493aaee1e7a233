"""The command line in the test's process."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
import structlog
from typer.testing import CliRunner, Result

from app.cli.main import cli


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers = root.handlers[:]
    yield
    root.handlers[:] = handlers
    structlog.reset_defaults()


def run(*arguments: str, **env: str) -> Result:
    return CliRunner().invoke(cli, list(arguments), env={"COLUMNS": "250", "TERM": "dumb", **env})
