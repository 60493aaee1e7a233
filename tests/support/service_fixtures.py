"""A service of its own for each test, in this process, on a data directory that is thrown away."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.main import create_app
from app.service import Service
from app.settings import Settings
from tests.support.app_client import AppClient
from tests.support.databases import KINDS, FreshDatabase, fresh
from tests.support.fake_maintenance import FakeMaintenance
from tests.support.running import Running

URL = "http://127.0.0.1"

MakeClient = Callable[..., AppClient]
Start = Callable[..., Running]


@pytest.fixture(autouse=True)
def _kernels_when_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of these tests need no kernel, so that none is loaded or compiled before its first call."""
    monkeypatch.setattr("app.runtime.kernels.compiles", lambda: False)


def ends_its_line(answer: httpx.Response) -> None:
    """Every answer in JSON is whole lines, whatever a test asks for."""
    json = answer.headers.get("content-type") in ("application/json", "application/problem+json")
    if json and answer.request.method != "HEAD":
        assert answer.read().endswith(b"\n"), answer.request.url


@pytest.fixture
def make_client(tmp_path: Path) -> Iterator[MakeClient]:
    """`make_client(**settings)` starts a service and gives a client of it."""
    with ExitStack() as stack:

        def make(**given: Any) -> AppClient:
            app = create_app(Settings(**{"data": tmp_path / "data", **given}))
            client = AppClient(app, base_url=URL, raise_server_exceptions=False)
            client.event_hooks["response"] = [ends_its_line]
            return stack.enter_context(client)

        yield make


@pytest.fixture
def client(make_client: MakeClient) -> AppClient:
    """A client of a service with the default settings."""
    return make_client()


@pytest.fixture(params=KINDS)
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FreshDatabase]:
    """An empty database of either kind."""
    with fresh(request.param, tmp_path) as made:
        yield made


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[FreshDatabase]:
    """An empty database on PostgreSQL."""
    with fresh("postgresql", tmp_path) as made:
        yield made


@pytest.fixture
def work(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeMaintenance]:
    """A stand-in that does the work of the jobs of every service that is made in the test."""
    fake = FakeMaintenance()
    make = Service.__init__

    def with_fake(self: Service, *given: Any) -> None:
        make(self, *given)
        self.maintenance = fake  # type: ignore[assignment, unused-ignore]

    monkeypatch.setattr(Service, "__init__", with_fake)
    yield fake
    fake.go.set()


@pytest.fixture
def start(make_client: MakeClient, monkeypatch: pytest.MonkeyPatch) -> Start:
    """`start(**settings)` starts a service with all that jobs do."""
    services: list[Service] = []
    make = Service.__init__

    def seen(self: Service, *given: Any) -> None:
        make(self, *given)
        services.append(self)

    monkeypatch.setattr(Service, "__init__", seen)

    def begin(**given: Any) -> Running:
        return Running(make_client(**given), services[-1])

    return begin
