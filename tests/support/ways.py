"""Requests of sockets that two services get, one by the fast path and the other by the slow path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgpack
import pytest

from app.api.together.lane import Lane
from tests.support.asker import socket_of
from tests.support.running import Running
from tests.support.service_fixtures import Start


def rows(running: Running) -> int:
    """The last row of the log."""
    return running.service.writer.last_lsn


Windows = list[list[dict[str, Any]]]


def answers_of(running: Running, windows: Windows, packed: bool) -> list[list[str | bytes]]:
    """The answers to windows of frames as they came, in order of their refs; each window comes at once."""
    found: list[list[str | bytes]] = []
    with socket_of(running.client) as asker:
        for window in windows:
            if packed:
                asker.socket.send_all_bytes([msgpack.packb(frame) for frame in window])
                some: list[Any] = [asker.socket.receive_bytes() for _ in window]
                some.sort(key=lambda answer: msgpack.unpackb(answer)["ref"])
            else:
                asker.socket.send_all(window)
                some = [asker.socket.receive_text() for _ in window]
                some.sort(key=lambda answer: json.loads(answer)["ref"])
            found.append(some)
    return found


class Ways:
    """Two services with the same in them: one by the fast path, the other by the slow path."""

    def __init__(self, start: Start, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._start, self._folder, self._monkeypatch = start, folder, monkeypatch

    def compare(
        self,
        making: list[tuple[str, str, Any]],
        windows: Windows,
        packed: bool,
        shown: str,
        fewer_rows: bool = True,
    ) -> None:
        """Send windows of requests to both, byte by byte with the same answers, and see that `shown` is the same, and
        no more rows of the log, or with `fewer_rows` fewer.
        """
        found = []
        for name in ("together", "usual"):
            running: Running = self._start(data=self._folder / name)
            for method, path, body in making:
                assert running.client.request(method, path, json=body).status_code < 300, path
            if name == "usual":
                self._monkeypatch.setattr(Lane, "take", lambda self, short: False)
            before = rows(running)
            answers = answers_of(running, windows, packed)
            found.append((answers, rows(running) - before, running.client.get(shown).json()["items"]))
        (some, fewer, state), (those, more, other) = found
        for window, got, wanted in zip(windows, some, those, strict=True):
            for frame, answer, expected in zip(window, got, wanted, strict=True):
                assert answer == expected, frame
        assert state == other
        assert fewer < 0.8 * more if fewer_rows else fewer <= more


@pytest.fixture
def ways(start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ways:
    return Ways(start, tmp_path, monkeypatch)
