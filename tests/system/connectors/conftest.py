"""How tests start connectors, which end with them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from tests.support.live import StartService
from tests.support.processes import Processes
from tests.system.connectors.carrying import Carry, Carrying, Running, StartConnector


@pytest.fixture
def start_connector(tmp_path: Path, processes: Processes) -> StartConnector:
    """Starts connectors: `start_connector("connect", ..., env={...})`, or `"publish"`."""

    def start(*command: str, env: Mapping[str, str] | None = None) -> Running:
        running = Running(tmp_path, *command, env=env)
        processes.append(running.process)
        return running

    return start


@pytest.fixture
def carry(start_service: StartService, start_connector: StartConnector, tmp_path: Path) -> Carry:
    """Carries a feed into a board: `carry(feed, *options)`."""
    return partial(Carrying, start_service, start_connector, tmp_path)
