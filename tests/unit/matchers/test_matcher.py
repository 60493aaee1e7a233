"""The engine against brute force: every mode, way to combine and index, while subscriptions come, go and change."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from indexes.matchers import layout as layout_module
from indexes.matchers.config import Kind, MatcherConfig, Subscriptions
from indexes.matchers.kernels import blocks as blocks_module
from indexes.matchers.kernels import cells as cells_module
from indexes.matchers.kernels import run_index as dynamic_module
from tests.unit.matchers.direct import DirectMatcher
from tests.unit.matchers.worlds import (
    KINDS,
    MODES,
    NAMES,
    Combine,
    Mode,
    columns,
    places,
    subscriptions,
    wanted,
    weights,
)


def won(
    matcher: DirectMatcher, asked: Sequence[Sequence[float | tuple[float, float] | None]], k: int
) -> list[list[tuple[int, float]]]:
    """The winners of the engine, by event."""
    given_events = [dict(zip(matcher.config.dimensions, event, strict=False)) for event in asked]
    found = matcher.match(matcher.events(given_events), k)
    return [
        list(zip(found.rows[t, :n].tolist(), found.scores[t, :n].tolist(), strict=True))
        for t, n in enumerate(found.found.tolist())
    ]


def names(numbers: Sequence[int]) -> Any:
    return pa.array([f"s{n}" for n in numbers], pa.string())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("mode", "combine"), MODES)
@given(
    d=st.integers(1, 3),
    world=st.lists(subscriptions, max_size=30),
    asked=st.lists(places, min_size=1, max_size=5),
    k=st.integers(1, 40),
)
@settings(max_examples=30)
def test_winners_are_those_of_brute_force(
    kind: Kind,
    mode: Mode,
    combine: Combine,
    d: int,
    world: list[tuple[list[tuple[Any, ...] | None], list[float]]],
    asked: Sequence[Sequence[float | tuple[float, float] | None]],
    k: int,
) -> None:
    config = MatcherConfig(NAMES[:d], mode, combine, kind)
    matcher = DirectMatcher(config)
    matcher.insert(names(range(len(world))), columns(config, world))
    known = dict(enumerate(world))
    assert won(matcher, asked, k) == [wanted(config, known, event, k) for event in asked]
    matcher.check()


@pytest.mark.parametrize("kind", KINDS[1:])
def test_an_exact_event_with_a_range_goes_along_a_dimension_in_which_it_is_a_point(kind: Kind) -> None:
    rng = np.random.default_rng(3)
    n = 3_000
    half = rng.random((n, 2)) * [0.2, 0.01]
    mid = rng.random((n, 2))
    config = MatcherConfig(NAMES[:2], "exact", "sum", kind)
    matcher = DirectMatcher(config)
    matcher.insert(names(range(n)), Subscriptions(mid - half, mid + half, rng.random((n, 1))))
    found = matcher.match(matcher.events([{"a": (0.2, 0.7), "b": 0.5}, {"a": 0.5, "b": (0.2, 0.7)}]), 500)
    for t, (a, b) in enumerate((((0.2, 0.7), (0.5, 0.5)), ((0.5, 0.5), (0.2, 0.7)))):
        ends = np.array([a, b])
        met = ((mid - half <= ends[:, 1]) & (mid + half >= ends[:, 0])).all(axis=1)
        rows = np.flatnonzero(met)
        assert found.rows[t, : found.found[t]].tolist() == rows[np.argsort(-matcher._rec[rows, 4])][:500].tolist()
    if kind == "sopt-r":
        assert (found.looked_at < n / 2).all()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("mode", "combine"), MODES)
def test_large_matchers_agree_with_each_other(kind: Kind, mode: Mode, combine: Combine) -> None:
    rng = np.random.default_rng(5)
    n, d = 6_000, 3
    config = MatcherConfig(NAMES, mode, combine, kind)
    half = rng.random((n, d)) / 2
    half[:, 0] /= 40
    mid = rng.random((n, d))
    scored = np.round(rng.random((n, config.scores)) * 2, 2)
    ours, other = (
        DirectMatcher(config),
        DirectMatcher(MatcherConfig(NAMES, mode, combine, "auto" if kind != "auto" else "ir")),
    )
    for matcher in (ours, other):
        matcher.insert(names(range(n)), Subscriptions(mid - half, mid + half, scored))
    points = np.repeat(rng.random((30, d)), 2, axis=1)
    a, b = ours.match(points, 20), other.match(points, 20)
    assert (a.found == b.found).all() and a.found.sum() > 100
    there = np.arange(20) < a.found[:, None]
    assert (a.rows[there] == b.rows[there]).all() and (a.scores[there] == b.scores[there]).all()
    ours.check()


def test_an_event_that_lacks_a_dimension_meets_only_what_is_unbounded_there() -> None:
    half_open = [(-inf, inf), (0.0, inf), (-inf, 5.0), None]
    for kind in KINDS:
        wanted: dict[Mode, list[int]] = {"exact": [0, 3], "relaxed": [0]}
        for mode, rows in wanted.items():
            config = MatcherConfig(("a", "b"), mode, index=kind)
            matcher = DirectMatcher(config)
            matcher.insert(names(range(4)), columns(config, [((None, i), (1.0, 1.0, 1.0)) for i in half_open]))
            assert [row for row, _ in won(matcher, [(None, None)], 9)[0]] == rows, (kind, mode)


def test_a_patch_merges_by_dimension() -> None:
    matcher = DirectMatcher(MatcherConfig(("a", "b"), "relaxed"))
    matcher.insert(names([0]), columns(matcher.config, [(((0, 1), None), (0.5, 0.0))]))
    with pytest.raises(ValueError, match="needs a weight"):
        matcher.patch("s0", intervals={"b": (2, 3)})
    with pytest.raises(ValueError, match="no interval"):
        matcher.patch("s0", weights={"b": 1.0})
    with pytest.raises(ValueError, match="has weights"):
        matcher.patch("s0", score=1.0)
    with pytest.raises(ValueError, match="no such dimension"):
        matcher.patch("s0", weights={"x": 1.0})
    with pytest.raises(KeyError):
        matcher.patch("s1", weights={"a": 1.0})
    matcher.patch("s0", intervals={"b": (2, 3)}, weights={"b": 0.25})
    assert won(matcher, [(1, 2)], 1) == [[(0, 0.75)]]
    event = matcher.events([{"a": 1, "b": 2}])
    met, added = matcher.matched(np.zeros(1, np.int32), event)
    assert met.tolist() == [[True, True]] and added.tolist() == [[0.5, 0.25]]
    matcher.patch("s0", intervals={"a": None})
    assert won(matcher, [(1, 2)], 1) == [[(0, 0.25)]]
    assert matcher.match(event, 1).looked_at[0] > 0


def test_what_cannot_be_stored_is_refused_and_changes_nothing() -> None:
    relaxed = DirectMatcher(MatcherConfig(("a",), "relaxed", "product"))
    exact = DirectMatcher(MatcherConfig(("a",), "exact"))
    one = columns(exact.config, [(((0, 1),), (1.0,))])
    exact.insert(names([0]), one)
    for bad in (
        one._replace(lo=one.hi, hi=one.lo),
        one._replace(scores=one.scores * inf),
        one._replace(lo=one.lo + inf),
    ):
        with pytest.raises(ValueError):
            exact.insert(names([1]), bad)
    with pytest.raises(ValueError, match="taken"):
        exact.insert(names([0]), one)
    with pytest.raises(KeyError):
        exact.delete(["s0", "s1"])
    with pytest.raises(ValueError, match="weights"):
        relaxed.insert(names([0]), one._replace(scores=-one.scores))
    huge = Subscriptions(np.zeros((1, 2)), np.ones((1, 2)), np.full((1, 2), 1e200))
    with pytest.raises(ValueError, match="not finite"):
        DirectMatcher(MatcherConfig(("a", "b"), "relaxed", "product")).insert(names([0]), huge)
    with pytest.raises(ValueError, match="lo must be"):
        exact.events([{"a": (2, 1)}])
    assert len(exact) == 1 and len(relaxed) == 0
    exact.check()


@pytest.mark.parametrize("mode", ["exact", "relaxed"])
def test_what_has_left_the_tail_is_found_once(mode: Mode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks_module, "TAIL", 3)
    matcher = DirectMatcher(MatcherConfig(("a", "b"), mode))
    for n in range(40):
        rows = matcher.hold(columns(matcher.config, [(((0, 1), (0, 1)), (1.0, 1.0))]))
        matcher.names.insert(names([n]), rows)
        assert [row for row, _ in won(matcher, [(0.5, 0.5)], 50)[0]] == list(range(n + 1))
        matcher.check()


class Changes(RuleBasedStateMachine):
    """One matcher, with tails and deltas of a few subscriptions, beside a dictionary."""

    @initialize(
        d=st.integers(1, 3),
        mode=st.sampled_from(MODES),
        kind=st.sampled_from(KINDS),
        world=st.lists(subscriptions, max_size=30),
    )
    def open(
        self,
        d: int,
        mode: tuple[Mode, Combine],
        kind: Kind,
        world: list[tuple[list[tuple[Any, ...] | None], list[float]]],
    ) -> None:
        self._was = [(m, name, getattr(m, name)) for m, name in SMALL]
        for module, name, _ in self._was:
            setattr(module, name, SMALL[module, name])
        self.config = MatcherConfig(NAMES[:d], *mode, kind)
        self.matcher = DirectMatcher(self.config)
        self.matcher.insert(names(range(len(world))), columns(self.config, world))
        self.known = dict(enumerate(world))

    def teardown(self) -> None:
        for module, name, value in getattr(self, "_was", []):
            setattr(module, name, value)

    @rule(more=st.lists(subscriptions, min_size=1, max_size=8))
    def insert(self, more: list[tuple[list[tuple[Any, ...] | None], list[float]]]) -> None:
        first = self.matcher.high
        numbers = range(first, first + len(more))
        assert self.matcher.insert(names(numbers), columns(self.config, more)).tolist() == list(numbers)
        self.known.update(zip(numbers, more, strict=True))

    @precondition(lambda self: self.known)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        gone = data.draw(st.lists(st.sampled_from(sorted(self.known)), unique=True, max_size=6))
        self.matcher.delete([f"s{n}" for n in gone])
        for n in gone:
            del self.known[n]

    @precondition(lambda self: self.known)
    @rule(data=st.data(), after=subscriptions)
    def change(self, data: st.DataObject, after: tuple[list[tuple[float, float] | None], list[float]]) -> None:
        n = data.draw(st.sampled_from(sorted(self.known)))
        self.matcher.change([f"s{n}"], columns(self.config, [after]))
        self.known[n] = after

    @precondition(lambda self: self.known)
    @rule(data=st.data(), weight=weights)
    def rescore(self, data: st.DataObject, weight: float) -> None:
        n = data.draw(st.sampled_from(sorted(self.known)))
        box, old = self.known[n]
        held = [j for j in range(len(self.config.dimensions)) if box[j] is not None]
        if not self.config.relaxed:
            self.matcher.patch(f"s{n}", score=weight)
            self.known[n] = box, [weight, *old[1:]]
        elif held:
            self.matcher.patch(f"s{n}", weights={NAMES[held[0]]: weight})
            self.known[n] = box, [weight if j == held[0] else w for j, w in enumerate(old)]

    @rule()
    def rebuild(self) -> None:
        self.matcher.rebuild()

    @rule(asked=st.lists(places, min_size=1, max_size=3), k=st.integers(1, 12))
    def ask(self, asked: list[list[float | tuple[float, float]]], k: int) -> None:
        assert won(self.matcher, asked, k) == [wanted(self.config, self.known, event, k) for event in asked]

    @invariant()
    def sound(self) -> None:
        if hasattr(self, "matcher"):
            self.matcher.check()


SMALL = {
    (dynamic_module, "TAIL"): 3,
    (dynamic_module, "GROWTH"): 3,
    (cells_module, "FEWEST"): 1,
    (cells_module, "SPREAD"): 2,
    (blocks_module, "TAIL"): 3,
    (blocks_module, "GROWTH"): 3,
    (layout_module, "SELECTIVE"): 0.5,
}

TestChanges = Changes.TestCase
TestChanges.settings = settings(max_examples=80, stateful_step_count=25)
