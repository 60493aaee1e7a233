"""Connectors end with their test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.connectors.carrying import STARTED


@pytest.fixture(autouse=True)
def _nothing_goes_on() -> Iterator[None]:
    yield
    while STARTED:
        STARTED.pop().kill()
