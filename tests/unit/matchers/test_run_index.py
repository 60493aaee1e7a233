"""Room for changes of a large base is made beside it, and put in place in one step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from indexes.matchers.kernels import run_index
from indexes.matchers.kernels.run_index import RunIndex


@pytest.mark.parametrize("relaxed", [False, True])
def test_a_base_gets_room_for_changes_in_a_step_of_its_own(relaxed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_index, "AT_ONCE", 64)
    rng = np.random.default_rng(1)
    d, n = 2, 500
    lo = rng.integers(0, 50, (n, d)).astype(float)
    weights = rng.integers(0, 9, (n, d if relaxed else 1)).astype(float)
    ends = np.stack([lo, lo + rng.integers(0, 9, (n, d))], axis=2).reshape(n, 2 * d)
    rec: Any = np.ascontiguousarray(np.concatenate([ends, weights], axis=1))
    rows = np.arange(n - 10, dtype=np.int32)
    index, other = (RunIndex.build(rec, rows, d, relaxed) for _ in range(2))
    before = index.arrays
    assert index.crowded(1)
    (step,) = index.relieved(rec, 1)
    assert index.arrays is before
    index.check(rec, rows)
    step()
    room = index.arrays
    assert room is not before and not index.crowded(1)
    index.check(rec, rows)
    for each in (index, other):
        each.remove(rec, rows[:40])
        each.add(rec, np.arange(n - 10, n, dtype=np.int32))
        each.check(rec, np.arange(40, n, dtype=np.int32))
    assert index.arrays is room, "nothing was moved by the first change"
    assert all(np.array_equal(a, b) for a, b in zip(index.arrays.used, other.arrays.used, strict=True))
    small = RunIndex.build(rec, rows[:60], d, relaxed)
    assert not small.crowded(1)
