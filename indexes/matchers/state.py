"""A matcher at rest, by column: what a snapshot holds, and all that a matcher is made of again."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from indexes.ids import Packed, merge_packed, pack
from indexes.matchers.engine import MatcherEngine
from indexes.matchers.layout import Indexes, build_indexes
from indexes.matchers.matcher import Matcher
from indexes.matchers.model import MatcherConfig, Subscriptions
from indexes.matchers.table import record
from indexes.matchers.upkeep import Captured, Origin

Float64 = npt.NDArray[np.float64]


class MatcherState(NamedTuple):
    """A matcher at `seq`: its subscriptions in order of creation. Sorted `ids` have their places as rows; `ttl` is in
    the order of ids, in seconds, NaN for none. `origin` says what rows the subscriptions had in the matcher that this
    was copied from, where that is known."""

    config: MatcherConfig
    seq: int
    ids: Packed
    subscriptions: Subscriptions
    ttl: Float64
    origin: Origin | None = None


def state_of(captured: Captured) -> MatcherState:
    """Put what was captured in order, in any thread. O(n log n)."""
    c = captured
    recent = pack(pa.array(list(c.recent), pa.string()), np.fromiter(c.recent.values(), np.int32, len(c.recent)))
    ids = merge_packed(c.ids, recent)
    ids = ids._replace(row=np.searchsorted(c.origin.rows, ids.row).astype(np.int32))
    rec, d = c.rec[c.origin.rows], len(c.config.dimensions)
    subscriptions = Subscriptions(rec[:, 0 : 2 * d : 2], rec[:, 1 : 2 * d : 2], rec[:, 2 * d :])
    ttl = np.full(len(ids.row), np.nan)
    if c.ttl:
        limited = pack(pa.array(list(c.ttl), pa.string()), np.arange(len(c.ttl), dtype=np.int32))
        ttl[_places(ids, limited)] = np.fromiter(c.ttl.values(), np.float64, len(c.ttl))[limited.row]
    return MatcherState(c.config, c.seq, ids, subscriptions, ttl, c.origin)


def _places(ids: Packed, some: Packed) -> npt.NDArray[np.int64]:
    """Where some of the sorted ids stand, in their order."""
    found: npt.NDArray[np.int64] = pc.index_in(_texts(some), _texts(ids)).to_numpy().astype(np.int64)
    return found


def _texts(ids: Packed) -> pa.LargeStringArray:
    offset, text = np.ascontiguousarray(ids.offset), np.ascontiguousarray(ids.text)
    return pa.LargeStringArray.from_buffers(len(ids.row), pa.py_buffer(offset), pa.py_buffer(text))


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
    limited = np.flatnonzero(~np.isnan(state.ttl))
    names = engine.matcher.names
    engine.ttl = {names.name(int(state.ids.row[i])): float(state.ttl[i]) for i in limited.tolist()}
    return engine
