"""Every scored interval index against brute force, and the bounds that the paper proves."""

from __future__ import annotations

from itertools import islice
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bench.matchers.scored import INDEXES, IntervalTree, IRTree, ScoredRTree, SegmentTree, SoptRTree
from indexes.compiled.masks import BLOCK
from indexes.compiled.simd import LANES
from indexes.matchers.kernels import arrangement, bitset
from indexes.matchers.kernels import run_index as dynamic_module
from indexes.matchers.kernels.answers import HOLES, LEAVES
from indexes.matchers.kernels.order import rank_order
from tests.oracles.matchers import meets, top_stabbed
from tests.unit.matchers.worlds import events, intervals, scored_intervals, scores

worlds = st.lists(scored_intervals, max_size=40)


def build(kind: str, world: list[tuple[float, float, float]]) -> Any:
    columns = np.array(world, np.float64).reshape(-1, 3).T
    make: Any = INDEXES[kind]
    index = make(*columns) if kind not in ("ir", "interval") else make(*columns, spacing=4)
    return index


def asked(event: float | tuple[float, float] | None) -> float | tuple[float, float]:
    return nan if event is None else event


def big_world(n: int, seed: int, spread: float = 0.02) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Short intervals, so that a point meets few of them and R-trees have holes."""
    rng = np.random.default_rng(seed)
    lo = rng.random(n)
    hi = lo + rng.random(n) * spread
    return lo, hi, np.round(rng.random(n), 2) if seed % 2 else 1 - (hi - lo)


@pytest.mark.parametrize("kind", INDEXES)
@given(world=worlds, asks=st.lists(events, min_size=1, max_size=6), k=st.integers(1, 50))
@settings(max_examples=60)
def test_the_k_best_that_an_event_meets_come_in_order(
    kind: str, world: list[tuple[float, float, float]], asks: list[float | tuple[float, float] | None], k: int
) -> None:
    index = build(kind, world)
    known = dict(enumerate(world))
    for event in asks:
        assert index.top(asked(event), k).tolist() == top_stabbed(known, event, k)


@pytest.mark.parametrize("kind", INDEXES)
@given(world=worlds, event=events)
@settings(max_examples=40)
def test_getnext_goes_through_all_that_an_event_meets(
    kind: str, world: list[tuple[float, float, float]], event: float | tuple[float, float] | None
) -> None:
    reading = build(kind, world).stab(asked(event))
    wanted = top_stabbed(dict(enumerate(world)), event, len(world))
    assert [reading.getnext() for _ in wanted] == wanted
    assert reading.getnext() is None and reading.getnext() is None


@pytest.mark.parametrize("kind", INDEXES)
@pytest.mark.parametrize("seed", [0, 1])
def test_large_indexes_of_many_levels_agree_with_brute_force(kind: str, seed: int) -> None:
    n = 2 * BLOCK * BLOCK + 17
    lo, hi, score = big_world(n, seed)
    index = INDEXES[kind](lo, hi, score)
    for q in np.random.default_rng(seed).random(12).tolist():
        for event in (q, (q, q + 0.001), (q - 0.3, q)):
            first, last = event if isinstance(event, tuple) else (event, event)
            met = np.flatnonzero((lo <= last) & (hi >= first))
            wanted = met[np.argsort(-score[met], kind="stable")]
            assert index.top(event, 20).tolist() == wanted[:20].tolist(), event
            assert list(islice(index.stab(event), 40)) == wanted[:40].tolist(), event


@pytest.mark.parametrize("seed", range(4))
def test_a_query_of_a_sopt_r_tree_meets_at_most_k_holes(seed: int) -> None:
    lo, hi, score = big_world(3_000, seed, 0.2 if seed > 1 else 0.01)
    index = SoptRTree(lo, hi, score)
    for q in [*np.random.default_rng(seed).random(30).tolist(), *lo[:5].tolist(), *hi[:5].tolist()]:
        for k in (1, 5, 20):
            found = len(index.top(q, k))
            assert index.seen[0, HOLES] <= found + (found < k)
            assert index.seen[0, LEAVES] <= 2 * found + 1


def test_a_scored_r_tree_meets_more_holes_than_a_sopt_r_tree() -> None:
    world = big_world(20_000, 1, 0.001)
    holes = []
    for kind in (ScoredRTree, SoptRTree):
        index = kind(*world)
        index.top(0.5, 20)
        holes.append(index.seen[0, HOLES])
    assert holes[0] > 5 * holes[1]


@given(world=worlds)
@settings(max_examples=60)
def test_the_constraint_graph_has_at_most_3n_edges_and_orders_what_intersects(
    world: list[tuple[float, float, float]],
) -> None:
    columns = np.array(world, np.float64).reshape(-1, 3)
    ranked = columns[rank_order(columns[:, 2], np.arange(len(world), dtype=np.int32))]
    slabs = arrangement.slabs_of(ranked[:, 0].copy(), ranked[:, 1].copy())
    graph = arrangement.constraint_graph(slabs)
    assert graph.edges <= 3 * len(world)
    order = arrangement.arrangement(slabs, graph).tolist()
    assert sorted(order) == list(range(len(world)))
    place = {rank: i for i, rank in enumerate(order)}
    for i, one in enumerate(ranked):
        for j in range(i):
            if meets(tuple(one[:2]), tuple(ranked[j, :2])):
                assert place[j] < place[i]


@given(world=worlds)
@settings(max_examples=60)
def test_an_ir_tree_takes_little_more_space_than_an_interval_tree(world: list[tuple[float, float, float]]) -> None:
    columns = np.array(world * 9, np.float64).reshape(-1, 3).T
    lists = IntervalTree(columns[0], columns[1], columns[2], spacing=4)
    trees = IRTree(columns[0], columns[1], columns[2], spacing=4)
    assert lists.entries == len(world) * 9
    assert trees.entries <= (1 + 2 / (LANES - 1)) * lists.entries


def test_a_packed_r_tree_takes_little_more_space_than_its_intervals_and_a_segment_tree_much_more() -> None:
    world = big_world(100_000, 0)
    sopt, segment = SoptRTree(*world), SegmentTree(*world)
    assert sopt.nbytes <= 22 * 100_000
    assert segment.nbytes > 3 * sopt.nbytes


def test_what_is_no_interval_is_refused() -> None:
    for lo, hi, score in [
        (1, 0, 1),
        (nan, 0, 1),
        (0, nan, 1),
        (inf, inf, 1),
        (-inf, -inf, 1),
        (0, 1, nan),
        (0, 1, inf),
    ]:
        with pytest.raises(ValueError):
            SoptRTree([lo], [hi], [score])


@given(st.sets(st.integers(0, 5_000)), st.lists(st.integers(0, 5_000)))
@settings(max_examples=40)
def test_a_bitset_knows_what_follows_and_what_precedes(members: set[int], others: list[int]) -> None:
    words, at = bitset.empty_set(5_001)
    for i in [*members, *others]:
        bitset.insert(words, at, i)
    for i in others:
        bitset.delete(words, at, i)
    left = members - set(others)
    bitset.check(words, at, left)
    for i in [0, 63, 64, 5_000, *others[:5]]:
        assert bitset.following(words, at, i, 5_001) == min((m for m in left if m >= i), default=-1)
        assert bitset.preceding(words, at, i) == max((m for m in left if m <= i), default=-1)


class Changes(RuleBasedStateMachine):
    """Insertions, deletions, re-scorings and moves of one index, with small tails and deltas."""

    @initialize(kind=st.sampled_from([kind for kind, cls in INDEXES.items() if cls.changeable]), world=worlds)
    def open(self, kind: str, world: list[tuple[float, float, float]]) -> None:
        self._was = dynamic_module.TAIL, dynamic_module.GROWTH
        dynamic_module.TAIL, dynamic_module.GROWTH = 3, 3
        self.kind = kind
        self.index = build(kind, world)
        self.known = dict(enumerate(world))

    def teardown(self) -> None:
        if hasattr(self, "_was"):
            dynamic_module.TAIL, dynamic_module.GROWTH = self._was

    @rule(added=st.lists(scored_intervals, min_size=1, max_size=12))
    def insert(self, added: list[tuple[float, float, float]]) -> None:
        for one in added:
            self.known[self.index.insert(*one)] = one

    @precondition(lambda self: self.known)
    @rule(data=st.data(), n=st.integers(1, 8))
    def delete(self, data: st.DataObject, n: int) -> None:
        for _ in range(min(n, len(self.known))):
            row = data.draw(st.sampled_from(sorted(self.known)))
            self.index.delete(row)
            del self.known[row]

    @precondition(lambda self: self.known)
    @rule(data=st.data(), score=st.lists(scores, min_size=1, max_size=8))
    def rescore(self, data: st.DataObject, score: list[float]) -> None:
        rows = data.draw(st.lists(st.sampled_from(sorted(self.known)), unique=True, max_size=len(score)))
        changed = [(*self.known[row][:2], s) for row, s in zip(rows, score, strict=False)]
        self._change(rows, changed)

    @precondition(lambda self: self.known)
    @rule(data=st.data(), where=intervals)
    def move(self, data: st.DataObject, where: tuple[float, float]) -> None:
        row = data.draw(st.sampled_from(sorted(self.known)))
        self._change([row], [(*where, self.known[row][2])])

    def _change(self, rows: list[int], changed: list[tuple[float, float, float]]) -> None:
        if rows:
            self.index.change(rows, *np.array(changed).T)
            self.known.update(zip(rows, changed, strict=True))

    @precondition(lambda self: isinstance(getattr(self, "index", None), ScoredRTree))
    @rule()
    def compact(self) -> None:
        self.index.compact()

    @rule(event=events, k=st.integers(1, 30))
    def ask(self, event: Any, k: Any) -> None:
        wanted = top_stabbed(self.known, event, k)
        assert self.index.top(asked(event), k).tolist() == wanted
        assert list(islice(self.index.stab(asked(event)), k)) == wanted

    @invariant()
    def sound(self) -> None:
        if hasattr(self, "index"):
            self.index.check(np.array(sorted(self.known), np.int32))


TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=60, stateful_step_count=25)
