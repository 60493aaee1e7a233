"""When processes end that tests of the whole service start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.processes import Processes


@pytest.fixture(scope="module", autouse=True)
def end_of_module(processes: Processes) -> Iterator[None]:
    """What fixtures of a module start ends with it."""
    first = len(processes)
    yield
    processes.end("module", first)


@pytest.fixture(autouse=True)
def end_of_test(end_of_module: None, processes: Processes) -> Iterator[None]:
    """What a test and its own fixtures start ends with it, so that idle services take nothing from the next ones."""
    first = len(processes)
    yield
    processes.end("test", first)
