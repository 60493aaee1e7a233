"""A small run of the connectors' benchmark: it ends, and its page has the cases. How fast is not asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.connect import run


def test_a_run_writes_its_page(tmp_path: Path) -> None:
    pytest.importorskip("nats")
    page = tmp_path / "connect.md"
    run.run(quick=True, out=page, say=lambda _: None)
    text = page.read_text()
    assert all(f"| {name} |" in text for name in ("bare httpx loop", *run.SOURCES.values()) if name not in _left(text))


def _left(text: str) -> str:
    """The sentence that names the brokers that were not there."""
    return next((line for line in text.splitlines() if line.startswith("Left out")), "")
