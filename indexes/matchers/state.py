"""The state of a matcher by column: what a snapshot holds, and what a matcher is restored from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.core.arrays import Floats
from indexes.core.captured_ids import lifetimes_by_id, lifetimes_of
from indexes.core.ids import Packed
from indexes.matchers.config import MatcherConfig, Subscriptions
from indexes.matchers.engine import MatcherEngine
from indexes.matchers.kernels.table import record
from indexes.matchers.layout import Indexes, build_indexes
from indexes.matchers.matcher import Matcher
from indexes.matchers.plans.maintenance import Captured, Origin


class MatcherState(NamedTuple):
    """A matcher at `seq`: its subscriptions in order of creation. Sorted `ids` have their places as rows; `ttl` is in
    the order of ids, in seconds, NaN for none. `origin` says what rows the subscriptions had in the matcher that this
    was copied from, where that is known."""

    config: MatcherConfig
    seq: int
    ids: Packed
    subscriptions: Subscriptions
    ttl: Floats
    origin: Origin | None = None


def state_of(captured: Captured) -> MatcherState:
    """Order a capture by creation, in any thread. O(n log n)."""
    c = captured
    ids = c.ids.merged()
    ids = ids._replace(row=np.searchsorted(c.origin.rows, ids.row).astype(np.int32))
    rec, d = c.rec[c.origin.rows], len(c.config.dimensions)
    subscriptions = Subscriptions(rec[:, 0 : 2 * d : 2], rec[:, 1 : 2 * d : 2], rec[:, 2 * d :])
    return MatcherState(c.config, c.seq, ids, subscriptions, lifetimes_of(ids, c.ttl), c.origin)


def indexes_of(state: MatcherState) -> Indexes:
    """The indexes of a state, laid out. O(d n log n)."""
    return build_indexes(state.config, record(*state.subscriptions), np.arange(len(state.ttl), dtype=np.int32))


def matcher_of(state: MatcherState, indexes: Indexes | None = None, to_change: bool = True) -> Matcher:
    """The subscriptions of a state, over these indexes, which become part of it. O(d n), without them O(d n log n). See
    `Matcher.of`."""
    ids = state.ids._replace(row=state.ids.row.copy())
    return Matcher.of(state.config, ids, state.subscriptions, indexes, to_change)


def engine_of(state: MatcherState, indexes: Indexes | None = None) -> MatcherEngine:
    """The engine in that state; see `matcher_of`."""
    engine = MatcherEngine(state.config, state.seq, matcher_of(state, indexes))
    engine.ttl = lifetimes_by_id(state.ids, state.ttl)
    return engine
