"""Once the kernels of matchers are warm, none is compiled while they are used, also after a start from a snapshot."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from formats import matcher_commands, matchers, parts
from formats.folder import Folder
from indexes.core.subscription_engine import BULK
from indexes.matchers.commands import AddSubscriptions, ChangeSubscription, DeleteSubscriptions, Match, SetSubscription
from indexes.matchers.config import MatcherConfig, Subscriptions
from indexes.matchers.engine import MatcherEngine
from indexes.matchers.packing import pack_indexes, unpack_indexes
from indexes.matchers.state import engine_of, indexes_of, matcher_of, state_of
from indexes.matchers.warm import warm
from tests.support.compiling import compiled
from tests.support.values import UNCOMPILED
from tests.unit.matchers.worlds import KINDS, MODES


@pytest.mark.skipif(UNCOMPILED, reason="nothing is compiled")
def test_nothing_is_compiled_while_matchers_are_used(tmp_path: Path) -> None:
    warm()
    with compiled() as kernels:
        for i, ((mode, combine), kind) in enumerate(product(MODES, KINDS)):
            dimensions = ("a", "b", "c")[: 3 if (i + i // len(KINDS)) % 2 else 1]
            use(MatcherConfig(dimensions, mode, combine, kind), tmp_path / f"{mode}{combine}{kind}")
    assert not kernels


def use(config: MatcherConfig, path: Path) -> None:
    """Commands, a rebuild and a start from a snapshot, twice."""
    rng, d = np.random.default_rng(1), len(config.dimensions)

    def some(n: int) -> Subscriptions:
        lo = rng.random((n, d))
        hi = lo + rng.random((n, d)) / 30
        lo[::7, 0], hi[::5, 0] = -np.inf, np.inf
        return Subscriptions(lo, hi, rng.random((n, config.scores)))

    engine = MatcherEngine(config)
    for n, start in ((30_000, 0), (BULK + 1, 30_000), (100, 40_000)):
        command = AddSubscriptions(pa.array([f"s{i}" for i in range(start, start + n)]), some(n), {0: 5.0})
        logged = matcher_commands.decode([(part.name, part.payload) for part in matcher_commands.encode(command, n)])
        assert isinstance(logged, AddSubscriptions)
        engine.apply(logged)
    for again in range(2):
        events = np.repeat(rng.random((40, d)), 2, axis=1)
        events[20:30, 1] += 0.1
        events[30:, 0], events[30:, 1] = np.inf, -np.inf
        engine.apply(Match(events, 30, explain=True))
        engine.apply(SetSubscription("new", some(1).rows[0]))
        engine.apply(ChangeSubscription("s3", {"a": (0.0, 1.0)}))
        engine.apply(DeleteSubscriptions([f"s{i}" for i in range(500, 900)]))
        plan = engine.capture(journal=True, indexes=True)
        plan.execute(1.0)
        plan.publish()
        assert plan.captured is not None
        state = state_of(plan.captured)
        image, snapshot = Folder.at(path / f"image{again}"), Folder.at(path / f"snapshot{again}")
        parts.write_image(image, "matchers/m", 1, pack_indexes(indexes_of(state)))
        packed = parts.read_image(image)
        assert packed is not None and state.origin is not None
        engine.apply(DeleteSubscriptions(["s7"]))
        fold = engine.fold(matcher_of(state, unpack_indexes(packed)), state.origin)
        fold.execute(1.0)
        fold.publish()
        with snapshot.draft() as draft:
            about = matchers.write_state(draft, "m", state)
            draft.publish({})
        again_packed = parts.read_image(image)
        assert again_packed is not None
        engine = engine_of(matchers.read_state(snapshot, "m", about), unpack_indexes(again_packed))
