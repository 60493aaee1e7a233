"""A small run of the replicas' benchmark: it ends, and its page has every case. How fast is not asked."""

from __future__ import annotations

from pathlib import Path

from bench.replicas import run


def test_a_run_writes_its_page(tmp_path: Path) -> None:
    page = tmp_path / "replicas.md"
    run.run(quick=True, out=page, say=lambda _: None)
    text = page.read_text()
    assert all(f"| {case} |" in text for case in run.CASES.values())
    assert "promotion and first write" in text
    assert "| a new replica |" in text
    assert "| promoted by hand |" in text or "no PostgreSQL answers" in text
