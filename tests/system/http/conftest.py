"""One service for most of these tests; each takes boards of its own on it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.live import LiveService, StartService
from tests.system.http.talk import Talk
from tests.system.http.told import closing

__all__ = ["closing"]


@pytest.fixture(scope="session")
def shared(start_service: StartService) -> LiveService:
    """A service with the default settings, that nobody stops or locks."""
    return start_service(as_user=True, until="session")


@pytest.fixture
def talk(shared: LiveService) -> Iterator[Talk]:
    """Requests to the shared service."""
    talk = Talk(shared.url)
    yield talk
    talk.close()
    assert shared.process.poll() is None, f"the service died:\n{shared.log.read_text()[-4000:]}"
