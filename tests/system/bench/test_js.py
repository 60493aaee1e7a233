"""The benchmark of the JavaScript client in small: its page, and what it would say of a client that falls behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.js import run as js
from bench.report import Report
from tests.support.node import node

TINY = (js.Size("websocket", 100, 1, 2, 50), js.Size("sse", 20, 2, 2, 10))


def test_a_run_writes_its_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node()
    monkeypatch.setattr(js, "QUICK", TINY)
    page = tmp_path / "js.md"
    js.run(quick=True, out=page, say=lambda _: None)
    text = page.read_text(encoding="utf-8")
    assert "`rankcast bench js --quick`" in text and "Wrong" not in text
    assert "200 of 200 changes, 0 squashed, 0 reconnects" in text
    assert "80 of 80 changes, 0 squashed, 0 reconnects" in text


def test_what_is_squashed_missing_or_late_is_missed() -> None:
    size = js.Size("websocket", 10, 1, 2, 5)
    times = {"opened": 1.0, "cpu": 1.0, "seconds": 2.0, "server_cpu": 1.0, "answer_ms": {"mean": 1.0, "p99": 1.0}}
    wrongs = {"wrong": [], "refused": [], "missing": 0, "squashed": 0, "reconnects": 0}
    found = {
        **times,
        **wrongs,
        "changes": 20,
        "memory": 1,
        "lags": [[n, n * 100.0] for n in range(20)],
        "answered": [[n, n + 5.0] for n in range(20)],
        "busy": 0.5,
    }
    for change, expected in (({}, [True, False]), ({"squashed": 1}, [False, False]), ({"changes": 19}, [False, False])):
        report = Report(lambda _: None)
        js.show(report, size, {**found, **change})
        assert [met for _, _, met in report.verdicts] == expected
