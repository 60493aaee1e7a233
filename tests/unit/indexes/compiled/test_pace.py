"""Loading kernels leaves a busy process most of the time."""

from __future__ import annotations

import time

import pytest

from indexes.compiled import warming


@pytest.mark.parametrize(
    ("others", "share", "rest"), [(0.0, 0.2, 0.0), (0.0009, 0.2, 0.0), (0.009, 0.2, 0.04), (0.009, 1.0, 0.0)]
)
def test_it_rests_while_other_threads_are_busy(
    monkeypatch: pytest.MonkeyPatch, others: float, share: float, rest: float
) -> None:
    """Each piece takes 10 ms of this thread, in 20 ms by the wall; `others` is what others take."""
    clock = {"wall": 0.0, "own": 0.0, "all": 0.0}
    slept: list[float] = []
    monkeypatch.setattr(time, "perf_counter", lambda: clock["wall"])
    monkeypatch.setattr(time, "thread_time", lambda: clock["own"])
    monkeypatch.setattr(time, "process_time", lambda: clock["all"])
    monkeypatch.setattr(time, "sleep", slept.append)
    pace = warming._Pace(share)
    for _ in range(3):
        clock = {"wall": clock["wall"] + 0.02, "own": clock["own"] + 0.01, "all": clock["all"] + 0.01 + others}
        pace.rest()
    assert slept == pytest.approx([rest] * 3 if rest else [])
