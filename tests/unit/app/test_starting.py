"""A service that listens before it has replayed its log."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from app.errors import LogUnavailable
from app.main import create_app
from app.settings import Settings
from app.write_path.writer import Writer
from tests.support.app_client import AppClient
from tests.support.patience import PATIENCE, wait_until
from tests.support.service_fixtures import URL

LIMIT = PATIENCE


def test_health_is_told_while_the_log_is_replayed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replayed, recover = threading.Event(), Writer.recover

    def slow(self: Writer, *given: Any) -> int:
        assert replayed.wait(LIMIT)
        return recover(self, *given)

    monkeypatch.setattr(Writer, "recover", slow)
    app = create_app(Settings(data=tmp_path / "data"), listen_first=True)
    with AppClient(app, base_url=URL) as client:
        assert client.get("/healthz").status_code == 200
        assert client.get("/metrics").status_code == 200
        for method, path in (("GET", "/readyz"), ("GET", "/v1/boards"), ("PUT", "/v1/boards/b")):
            answer = client.request(method, path)
            assert answer.status_code == 503
            assert "retry-after" in answer.headers
        replayed.set()
        wait_until(lambda: client.get("/readyz").status_code == 200)
        assert client.get("/v1/boards").json() == {"items": [], "next": None}


def test_a_replay_is_given_up_when_the_service_is_to_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given_up = threading.Event()

    def endless(self: Writer, progress: Any, *given: Any) -> int:
        began = time.monotonic()
        try:
            while time.monotonic() - began < LIMIT:
                progress(1, 2)
                time.sleep(0.01)
        except Exception:
            given_up.set()
            raise
        return 0

    monkeypatch.setattr(Writer, "recover", endless)
    with AppClient(create_app(Settings(data=tmp_path / "data"), listen_first=True), base_url=URL) as client:
        assert client.get("/readyz").status_code == 503
    assert given_up.is_set()


def test_a_log_that_cannot_be_replayed_ends_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: Writer, *given: Any) -> int:
        raise LogUnavailable("row 7 of the log is damaged")

    monkeypatch.setattr(Writer, "recover", broken)
    app = create_app(Settings(data=tmp_path / "data"), listen_first=True)
    ended = threading.Event()
    app.state.lifecycle.failed = ended.set
    with AppClient(app, base_url=URL) as client:
        assert ended.wait(LIMIT)
        assert client.get("/readyz").status_code == 503
        assert client.get("/healthz").status_code == 200
    assert str(app.state.lifecycle.error) == "row 7 of the log is damaged"
