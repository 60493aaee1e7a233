"""What makes every kernel of the matchers ready: each is called once, on tiny matchers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from indexes.core import cutting
from indexes.core.arrays import Floats
from indexes.core.plan import applied
from indexes.core.subscription_engine import BULK
from indexes.matchers.commands import (
    AddSubscriptions,
    ChangeSubscription,
    ChangeSubscriptions,
    DeleteSubscriptions,
    Match,
    SetSubscription,
)
from indexes.matchers.config import MatcherConfig, Subscriptions
from indexes.matchers.engine import MatcherEngine
from indexes.matchers.kernels.table import MISSING
from indexes.matchers.kernels.winner_text import PIECES, WinnerTexts, most_bytes, write_answers
from indexes.matchers.packing import pack_indexes, unpack_indexes
from indexes.matchers.state import engine_of, indexes_of, matcher_of, state_of
from indexes.matchers.verification import verify

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


SERVED = 3
"""So many of the configurations are what a matcher has by default; the others name an index."""


def main() -> None:
    """Subscriptions and matches under the indexes that a matcher has by default."""
    cutting.exercise()
    for i, config in enumerate(CONFIGS[:SERVED]):
        exercise(MatcherEngine(config), 700 if i else BULK + 700)


def maintain() -> None:
    """Snapshots, rebuilds and verification of these."""
    for config in CONFIGS[:SERVED]:
        exercise_maintenance(_filled(MatcherEngine(config), 700))


def alternatives() -> None:
    """All of it under the indexes that a configuration can name."""
    for config in CONFIGS[SERVED:]:
        engine = MatcherEngine(config)
        exercise(engine, 700)
        exercise_maintenance(engine)


def warm() -> None:
    """Make every kernel ready."""
    for ready in GROUPS.values():
        ready()


def _filled(engine: MatcherEngine, n: int) -> MatcherEngine:
    """An engine with `n` subscriptions, s0 and so on."""
    names = pa.array([f"s{i}" for i in range(n)])
    engine.apply(AddSubscriptions(names, _some(np.random.default_rng(0), engine.config, n)))
    return engine


def exercise(engine: MatcherEngine, n: int) -> None:
    """Run the paths of an engine once that requests take, from a load of `n` subscriptions on."""
    rng, config = np.random.default_rng(0), engine.config
    d = len(config.dimensions)
    _filled(engine, n)
    _match(engine, rng)
    engine.matcher.rebuild()
    _match(engine, rng)
    engine.apply(AddSubscriptions(pa.array([f"t{i}" for i in range(1_500)]), _some(rng, config, 1_500)))
    for key in ("new", "s1"):
        engine.apply(SetSubscription(key, _some(rng, config, 1).rows[0]))
    engine.apply(ChangeSubscription("s2", {"a": (0.0, 0.5)}))
    engine.apply(ChangeSubscriptions([ChangeSubscription(key, {"a": (0.0, 0.5)}) for key in ("s3", "s4")]))
    engine.apply(DeleteSubscriptions([f"s{i}" for i in range(50)]))
    engine.apply(Match(np.repeat(rng.random((3, d)), 2, axis=1)))
    engine.subscriptions("s3", 3)
    _match(engine, rng)


def exercise_maintenance(engine: MatcherEngine) -> None:
    """Run once what maintenance and a start do with an engine that has a subscription s60."""
    captured = applied(engine.capture(journal=True, indexes=True))[0].captured
    assert captured is not None
    for checked in verify(captured):
        assert not checked.differences, checked.differences
    state = state_of(captured)
    fresh = matcher_of(state, unpack_indexes(pack_indexes(indexes_of(state))))
    engine.apply(DeleteSubscriptions(["s60"]))
    assert state.origin is not None
    fold, _ = applied(engine.fold(fresh, state.origin))
    assert fold.swapped
    _match(engine_of(state), np.random.default_rng(0))


def _some(rng: np.random.Generator, config: MatcherConfig, n: int) -> Subscriptions:
    lo = rng.random((n, len(config.dimensions)))
    hi = lo + rng.random(lo.shape) / 2
    hi[:, 0] = lo[:, 0] + SELECTIVE
    lo[: n // 100, 0], hi[: n // 100, 0] = -np.inf, np.inf
    return Subscriptions(lo, hi, rng.random((n, config.scores)))


def _match(engine: MatcherEngine, rng: np.random.Generator) -> None:
    """Points, and events that are ranges or lack a dimension."""
    d = len(engine.config.dimensions)
    events: Floats = np.repeat(rng.random((30, d)), 2, axis=1)
    events[10:20, 1] += 0.1
    events[20:, :2] = MISSING
    engine.match(events, 3, explain=True)
    found = engine.winners(events, 3)
    texts = WinnerTexts(
        found.sizes, found.sizes, *found.names, found.scores, np.frombuffer(b"0," * len(found.scores), np.uint8)
    )
    write_answers(np.empty(most_bytes(texts), np.uint8), np.empty(len(events), np.int64), PIECES, 1, 1, texts)


GROUPS: dict[str, Callable[[], None]] = {"main": main, "maintenance": maintain, "alternatives": alternatives}
"""Kernels that become ready together, by name; what each takes to become so."""
