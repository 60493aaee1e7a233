"""Room for changes of a matcher takes no memory before it is used."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from indexes.core.aligned import HUGE_BYTES
from indexes.matchers.config import MatcherConfig, Subscriptions
from indexes.matchers.matcher import Matcher
from tests.unit.indexes.resident import leave_garbage, resident_bytes

M = 1_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="pages apart are those of Linux")
def test_room_for_changes_takes_no_memory() -> None:
    rng = np.random.default_rng(1)
    lo = rng.random((M, 1))
    matcher = Matcher(MatcherConfig(("x",), "exact", index="scored-r"))
    leave_garbage()
    matcher.take_up(matcher.lay_out(Subscriptions(lo, lo + 0.01, rng.random((M, 1)))))
    runs = matcher.indexes.runs
    assert runs is not None
    columns = {name: getattr(runs.arrays, name) for name in ("lo", "hi", "score", "place")}
    for name, column in {**columns, "rec": matcher._rec}.items():
        used = M * column.itemsize * (3 if name == "rec" else 1)
        assert column.nbytes > 1.3 * used
        assert resident_bytes(column) < 1.15 * used + HUGE_BYTES // 2, name
    assert resident_bytes(matcher._stale) == 0
