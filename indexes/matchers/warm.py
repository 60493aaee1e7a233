"""Compile every kernel of the matchers, or load it from the disk, before the first user asks."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indexes.matchers.commands import AddSubscriptions, ChangeSubscription, DeleteSubscriptions, Match, SetSubscription
from indexes.matchers.engine import BULK, MatcherEngine
from indexes.matchers.model import MatcherConfig, Subscriptions
from indexes.matchers.packing import pack_indexes, unpack_indexes
from indexes.matchers.state import engine_of, indexes_of, matcher_of, state_of
from indexes.matchers.table import MISSING
from indexes.matchers.upkeep import Captured
from indexes.matchers.verify import verify

Float64 = npt.NDArray[np.float64]

CONFIGS = (
    MatcherConfig(("a",), "exact"),
    MatcherConfig(("a", "b"), "exact"),
    MatcherConfig(("a", "b"), "relaxed"),
    MatcherConfig(("a", "b"), "exact", index="sopt-r"),
    MatcherConfig(("a", "b"), "relaxed", index="scored-r"),
    MatcherConfig(("a",), "exact", index="ir"),
    MatcherConfig(("a", "b"), "relaxed", index="interval"),
    MatcherConfig(("a",), "exact", index="segment"),
)
"""Together they take every kernel. What arrays it is given does not depend on the number of dimensions."""

SELECTIVE = 1e-3
"""Lengths of intervals in dimension a, short enough for an index of its own."""


def warm() -> None:
    """Make every kernel ready. Well below a second from the cache; cold, about a minute."""
    for i, config in enumerate(CONFIGS):
        exercise(MatcherEngine(config), 700 if i else BULK + 700)


def exercise(engine: MatcherEngine, n: int) -> None:
    """Run every path of an engine once, from a load of `n` subscriptions on."""
    rng, config = np.random.default_rng(0), engine.config
    d = len(config.dimensions)
    names = [f"s{i}" for i in range(n)]
    engine.apply(AddSubscriptions(pa.array(names), _some(rng, config, n)))
    _match(engine, rng)
    engine.matcher.rebuild()
    _match(engine, rng)
    engine.apply(AddSubscriptions(pa.array([f"t{i}" for i in range(1_500)]), _some(rng, config, 1_500)))
    for key in ("new", "s1"):
        engine.apply(SetSubscription(key, _some(rng, config, 1)))
    engine.apply(ChangeSubscription("s2", {"a": (0.0, 0.5)}))
    engine.apply(DeleteSubscriptions(names[:50]))
    engine.apply(Match(np.repeat(rng.random((3, d)), 2, axis=1)))
    engine.subscriptions("s3", 3)
    _match(engine, rng)
    captured = _captured(engine)
    for checked in verify(captured):
        assert not checked.differences, checked.differences
    state = state_of(captured)
    fresh = matcher_of(state, unpack_indexes(pack_indexes(indexes_of(state))))
    engine.apply(DeleteSubscriptions(["s60"]))
    assert state.origin is not None
    fold = engine.fold(fresh, state.origin)
    fold.paint(1.0)
    fold.settle()
    assert fold.swapped
    _match(engine_of(state), rng)


def _some(rng: np.random.Generator, config: MatcherConfig, n: int) -> Subscriptions:
    lo = rng.random((n, len(config.dimensions)))
    hi = lo + rng.random(lo.shape) / 2
    hi[:, 0] = lo[:, 0] + SELECTIVE
    lo[: n // 100, 0], hi[: n // 100, 0] = -np.inf, np.inf
    return Subscriptions(lo, hi, rng.random((n, config.scores)))


def _match(engine: MatcherEngine, rng: np.random.Generator) -> None:
    """Points, and events that are ranges or lack a dimension."""
    d = len(engine.config.dimensions)
    events: Float64 = np.repeat(rng.random((30, d)), 2, axis=1)
    events[10:20, 1] += 0.1
    events[20:, :2] = MISSING
    engine.match(events, 3, explain=True)


def _captured(engine: MatcherEngine) -> Captured:
    plan = engine.capture(journal=True, indexes=True)
    plan.paint(1.0)
    plan.settle()
    assert plan.captured is not None
    return plan.captured


if __name__ == "__main__":
    warm()
