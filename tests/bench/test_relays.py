"""A small run of the relays' kernels: it ends, and every contender decided the same. How fast is not asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.relays import kernels
from bench.relays.prototype import VARIABLE
from bench.report import Report


def test_the_kernels_run_without_the_prototype_and_say_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    report = Report(lambda _: None, judging=False)
    kernels.Bench(report, kernels.Size(300, (6, 16), 400, (2, 4), 5, 2, 1), tmp_path).show()
    page = report.page()
    assert "The prototype is not there" in page
    assert page.count("| slabs |") == page.count("| numpy scan |") == 2
    assert page.count("measured") == 3
