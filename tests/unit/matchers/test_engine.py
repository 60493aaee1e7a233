"""The engine behind the writer.

Commands accepted ahead of their turn, applied in slices, told, and taken back, beside a history of what should stand at
each seq.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from threading import current_thread, main_thread
from typing import Any, NamedTuple, TypeAlias
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from indexes.core.commands import Refused
from indexes.core.plan import applied
from indexes.matchers.alternatives import lists as lists_module
from indexes.matchers.commands import (
    AddSubscriptions,
    Change,
    ChangeSubscription,
    ChangeSubscriptions,
    DeleteSubscriptions,
    Match,
    SetSubscription,
)
from indexes.matchers.config import Kind, MatcherConfig, Subscriptions, faults_of
from indexes.matchers.engine import MatcherEngine
from indexes.matchers.forms import Form, columns_of, form_of
from indexes.matchers.kernels.blocks import BlockIndex
from indexes.matchers.kernels.run_index import RunIndex
from indexes.matchers.kernels.table import MAX
from indexes.matchers.state import engine_of, matcher_of, state_of
from indexes.matchers.verification import verify
from tests.support.slices import execute_slice, in_step
from tests.support.values import present
from tests.unit.matchers.direct import events_of
from tests.unit.matchers.worlds import (
    KINDS,
    MODES,
    NAMES,
    Combine,
    Mode,
    intervals,
    places,
    subscriptions,
    wanted,
    weights,
)
from tests.unit.matchers.worlds import columns as columns_of_boxes

IDS = [f"s{n}" for n in range(12)]
ids = st.sampled_from(IDS)
ttls = st.sampled_from([None, None, 5.0])
Part: TypeAlias = tuple[int, tuple[float, float] | None, float, float | None]
"""A change of a subscription: a dimension's number, its interval, its weight or the score, and a time limit."""
parts = st.tuples(st.integers(0, 2), st.one_of(st.none(), intervals), weights, ttls)
REVERSED_ENDS: tuple[Part, ...] = ((0, (3.0, 2.0), 0.5, None), (1, (3.0, 2.0), 0.5, None))
reversed_ends = st.sampled_from(REVERSED_ENDS)
SMALL = {
    "indexes.matchers.kernels.run_index.TAIL": 2,
    "indexes.matchers.kernels.run_index.GROWTH": 2,
    "indexes.matchers.kernels.run_index.AT_ONCE": 4,
    "indexes.matchers.kernels.run_index.RANKED_AT_ONCE": 4,
    "indexes.matchers.kernels.cells.FEWEST": 1,
    "indexes.matchers.kernels.cells.SPREAD": 2,
    "indexes.matchers.kernels.blocks.TAIL": 2,
    "indexes.matchers.kernels.blocks.GROWTH": 2,
    "indexes.matchers.kernels.blocks.AT_ONCE": 4,
    "indexes.matchers.layout.SELECTIVE": 0.5,
    "indexes.core.subscription_engine.BULK": 3,
    "indexes.core.pending_subscriptions.STRIDE": 16,
    "indexes.matchers.plans.maintenance.FOLD": 2,
    "indexes.core.ids.MERGE_AT": 3,
}


class Known(NamedTuple):
    """A subscription as the history has it: its age, and by dimension its interval or None, and its weight."""

    age: int
    box: tuple
    weights: tuple
    ttl: float | None


def known(
    config: MatcherConfig,
    age: int,
    subscription: tuple[list[tuple[float, float] | None], list[float]],
    ttl: float | None = None,
) -> Known:
    """What engines keep of a subscription of the worlds: in exact mode no interval is an unbounded one."""
    box, weight = subscription
    d = len(config.dimensions)
    if config.relaxed:
        return Known(age, tuple(box[:d]), tuple(w if i else 0.0 for i, w in zip(box, weight[:d], strict=False)), ttl)
    return Known(age, tuple(i or (-np.inf, np.inf) for i in box[:d]), (weight[0],), ttl)


def columns(config: MatcherConfig, those: list[Known]) -> Subscriptions:
    """Known subscriptions as columns."""
    return columns_of_boxes(config, [(k.box, k.weights) for k in those])


class Story(RuleBasedStateMachine):
    """`history[seq]` is what stands there, by id; its last entry is what the next command meets."""

    @initialize(d=st.integers(1, 3), mode=st.sampled_from(MODES), kind=st.sampled_from(KINDS))
    def open(self, d: int, mode: tuple[Mode, Combine], kind: Kind) -> None:
        self.patches = ExitStack()
        for name, value in SMALL.items():
            self.patches.enter_context(patch(name, value))
        self.patches.enter_context(in_step())
        self.config = MatcherConfig(NAMES[:d], *mode, kind)
        self.engine = MatcherEngine(self.config)
        self.history: list[Any] = [{}]
        self.queue: deque[Any] = deque()
        self.begun = None
        self.born = 0
        self.answers: dict[Any, Any] = {}
        self.heard: list[Any] = []
        self.folding: Any = None

    def teardown(self) -> None:
        if hasattr(self, "patches"):
            self.patches.close()

    @property
    def latest(self) -> dict[str, Known]:
        return self.history[-1]

    def accept(
        self, command: Any, refused: list[tuple[str, int | None]], changes: list[tuple[str, Known | None]]
    ) -> Any:
        """Prepare a command; it is refused for these (kind, index), or makes these changes (id, known or None)."""
        before = self.engine.next_seq
        if refused and not getattr(command, "skip", False):
            with pytest.raises(Refused) as told:
                self.engine.prepare(command)
            assert sorted((f.kind, f.index) for f in told.value.faults) == sorted(refused)
            assert self.engine.next_seq == before
            return None
        plan = self.engine.prepare(command)
        assert plan.count == len(changes) and plan.first_seq == before
        for key, after in changes:
            now = dict(self.latest)
            if after is None:
                now.pop(key, None)
            elif key != "":
                now[key] = after
            self.history.append(now)
        assert self.engine.next_seq == len(self.history)
        if plan.count:
            self.queue.append(plan)
        return plan

    @rule(rows=st.lists(st.tuples(ids, subscriptions, ttls), min_size=1, max_size=9), skip=st.booleans())
    def add(self, rows: list[tuple[str, tuple[list[Any], list[Any]], float | None]], skip: bool) -> None:
        made = [known(self.config, self.born + i, one, ttl) for i, (_, one, ttl) in enumerate(rows)]
        self.born += len(rows)
        keys = [key for key, *_ in rows]
        bad = {i for i, key in enumerate(keys) if key in self.latest or key in keys[:i]}
        good = [i for i in range(len(rows)) if i not in bad]
        limits = {i: one.ttl for i, one in enumerate(made) if one.ttl is not None}
        command = AddSubscriptions(pa.array(keys), columns(self.config, made), limits, skip)
        changes = [(keys[i], made[i]) for i in good]
        plan = self.accept(command, [("taken", i) for i in bad], list(changes) if skip or not bad else [])
        if plan is not None and bad:
            assert plan.positions == good and [f.index for f in plan.faults] == sorted(bad)

    @rule(key=ids, one=subscriptions, ttl=ttls)
    def put(self, key: str, one: tuple[list[tuple[float, float] | None], list[float]], ttl: None) -> None:
        before = self.latest.get(key)
        age = self.born if before is None else before.age
        self.born += 1
        after = known(self.config, age, one, ttl)
        command = SetSubscription(key, columns(self.config, [after]).rows[0], ttl)
        plan = self.accept(command, [], [(key, after)] if before != after else [])
        assert plan.outcomes == [(key, columns(self.config, [after]).rows[0], ttl, plan.last_seq, before is None)]

    @rule(key=ids, change=parts)
    def patch(self, key: str, change: Part) -> None:
        command, before = self.changing(key, change), self.latest.get(key)
        if before is None:
            self.accept(command, [("missing", None)], [])
            return
        after = self.changed(before, change)
        self.accept(command, [], [(key, after)] if before != after else [])

    def changing(self, key: str, change: Part) -> ChangeSubscription:
        """The command that changes a part of a subscription."""
        j, interval, weight, ttl = change
        name = self.config.dimensions[j % len(self.config.dimensions)]
        if self.config.relaxed:
            return ChangeSubscription(key, {name: interval}, {name: weight if interval else None}, ttl=ttl)
        return ChangeSubscription(key, {name: interval}, score=weight, ttl=ttl)

    def changed(self, before: Known, change: Part) -> Known:
        """What that makes of a subscription."""
        j, interval, weight, ttl = change
        j %= len(self.config.dimensions)
        box, held = list(before.box), list(before.weights)
        box[j] = interval if self.config.relaxed else interval or (-np.inf, np.inf)
        held[j if self.config.relaxed else 0] = weight if interval or not self.config.relaxed else 0.0
        return Known(before.age, tuple(box), tuple(held), before.ttl if ttl is None else ttl)

    @rule(
        rows=st.lists(st.tuples(ids, st.one_of(parts, st.tuples(subscriptions, ttls), reversed_ends)), max_size=9),
        again=st.booleans(),
    )
    def change_many(self, rows: list[tuple[str, Any]], again: bool) -> None:
        """Some put and some patched, in order, and again as the log has them."""
        now, changes, outcomes = dict(self.latest), list[tuple[str, Any]](), list[Any]()
        asked, bad = list[Any](), list[tuple[str, int]]()
        for at, (key, said) in enumerate(rows):
            before = now.get(key)
            if len(said) == 2:
                (box, weight), ttl = said
                after = known(self.config, self.born if before is None else before.age, (box, weight), ttl)
                asked.append(SetSubscription(key, columns(self.config, [after]).rows[0], ttl))
                self.born += 1
            else:
                asked.append(self.changing(key, said))
                if before is None or said in REVERSED_ENDS:
                    bad.append(("missing" if before is None else "invalid", at))
                    outcomes.append(None)
                    continue
                after = self.changed(before, said)
            if before != after:
                changes.append((key, after))
            now[key] = after
            row = columns(self.config, [after]).rows[0]
            outcomes.append((key, row, after.ttl, len(self.history) - 1 + len(changes), before is None))
        command: Any = ChangeSubscriptions(asked)
        if again:
            plan = self.engine.prepare(command)
            plan.cancel()
            command = plan.command
        plan = self.accept(command, [], changes)
        assert [(fault.kind, fault.index) for fault in plan.faults] == ([] if again else bad)
        assert again or plan.outcomes == outcomes
        assert list(plan.lifetimes()) == [(key, after.ttl) for key, after in changes]

    @rule(keys=st.lists(ids, max_size=6), must_exist=st.booleans())
    def delete(self, keys: list[str], must_exist: bool) -> None:
        there = [key for key in dict.fromkeys(keys) if key in self.latest]
        refused = must_exist and set(keys) - set(there)
        command = DeleteSubscriptions(keys, must_exist)
        self.accept(command, [("missing", None)] if refused else [], [] if refused else [(key, None) for key in there])

    @rule(asked=st.lists(places, min_size=1, max_size=4), k=st.integers(1, 8), notify=st.booleans())
    def match(self, asked: list[list[float | tuple[float, float] | None]], k: int, notify: bool) -> None:
        d = len(self.config.dimensions)
        values, faults = events_of(self.config, [dict(zip(NAMES[:d], one, strict=False)) for one in asked])
        assert not faults
        command = Match(values, k, explain=True, payload={0: b"1"})
        if notify:
            plan = self.accept(command, [], [("", None)] * len(asked))
        else:
            plan = self.engine.ask(command)
            self.queue.append(plan)
        self.answers[id(plan)] = asked, len(self.history) - 1

    @rule(more=st.integers(1, 12))
    def go_on(self, more: int) -> None:
        """Apply what comes next, some slices of it."""
        for _ in range(more):
            if not self.queue:
                return
            plan = self.begun = self.queue[0]
            execute_slice(plan)
            heard = plan.publish()
            self.tell(heard)
            if plan.done:
                self.queue.popleft()
                self.begun = None
                self.check_answer(plan)

    def tell(self, heard: None) -> None:
        if heard is not None:
            assert heard.last_seq == self.engine.seq
            self.heard += [(win.seq, win.id, win.rank, win.score) for win in heard.wins]
            self.heard += heard.gone

    def check_answer(self, plan: Any) -> None:
        if id(plan) not in self.answers:
            return
        asked, seq = self.answers.pop(id(plan))
        assert plan.last_seq == seq
        assert len(plan.results) == len(asked) == len(plan.response_fields()["results"])
        for event, result in zip(asked, plan.results, strict=True):
            expected = self.winners(self.history[seq], event, plan.command.k)
            assert [(won.id, won.score) for won in result.winners] == expected

    def winners(self, stands: dict[str, Known], event: list[float], k: int) -> list[Any]:
        by_age = sorted(stands, key=lambda key: stands[key].age)
        world = {n: (stands[key].box, stands[key].weights) for n, key in enumerate(by_age)}
        return [(by_age[n], score) for n, score in wanted(self.config, world, event, k)]

    @rule()
    def fail(self) -> None:
        """The log cannot be written: what has not begun is taken back."""
        while self.queue and self.queue[-1] is not self.begun:
            plan = self.queue.pop()
            plan.cancel()
            del self.history[plan.first_seq :]
            self.answers.pop(id(plan), None)
            if self.folding is plan:
                self.folding = None
        assert self.engine.next_seq == len(self.history)

    @rule(rows=st.lists(st.tuples(ids, subscriptions), min_size=4, max_size=9), steps=st.integers(1, 4))
    def give_up_checking(self, rows: list[tuple[str, tuple[list[Any], list[Any]]]], steps: int) -> None:
        made = [known(self.config, 0, one) for _, one in rows]
        command = AddSubscriptions(pa.array([key for key, _ in rows]), columns(self.config, made))
        for checking in (command, DeleteSubscriptions(IDS)):
            check, sent = self.engine.prepare_steps(checking), None
            try:
                for _ in range(steps):
                    work = check.send(sent)
                    sent = work() if work is not None else None
            except (StopIteration, Refused) as end:
                if isinstance(end, StopIteration):
                    end.value.cancel()
            check.close()
        assert self.engine.next_seq == len(self.history)

    @rule()
    def rebuild(self) -> None:
        """The next step of one: copy, lay out aside, fold in."""
        if self.folding is None:
            self.folding = self.engine.capture(journal=True, indexes=True)
            self.queue.append(self.folding)
        elif self.folding not in self.queue:
            plan = self.folding
            if getattr(plan, "captured", None) is not None:
                for checked in verify(plan.captured):
                    assert not checked.differences, checked.differences
                state = state_of(plan.captured)
                self.fresh = matcher_of(state), state.origin
            elif plan.swapped or plan.abandoned:
                self.folding = None
                return
            self.folding = self.engine.fold(self.fresh[0], present(self.fresh[1]))
            self.queue.append(self.folding)

    @rule(key=ids)
    def watch(self, key: str) -> None:
        # Who stands depends on how far plans have come, which the clock decides: a name drawn from these could not be
        # drawn again.
        if key in self.history[self.engine.seq]:
            self.engine.watch(key)
        else:
            with pytest.raises(KeyError):
                self.engine.watch(key)

    @invariant()
    def stands_as_the_history_says(self) -> None:
        if not hasattr(self, "engine"):
            return
        stands = self.history[self.engine.seq]
        views = self.engine.subscriptions(None, 100)
        assert [view.id for view in views] == sorted(stands)
        for view in views:
            assert view == self.engine.subscription(view.id)
            assert view.ttl == stands[view.id].ttl
            assert view.form == form_of(self.config, columns(self.config, [stands[view.id]]).rows[0])
        event = [3.0] * len(self.config.dimensions)
        values, _ = events_of(self.config, [dict(zip(self.config.dimensions, event, strict=True))])
        found = self.engine.match(values, 5)[0]
        assert [(won.id, won.score) for won in found.winners] == self.winners(stands, event, 5)
        assert self.engine.watched <= stands.keys()
        self.engine.matcher.check()
        if not self.queue:
            self.engine.check()
            assert self.engine.seq == len(self.history) - 1


TestStory = Story.TestCase
TestStory.settings = settings(max_examples=100, stateful_step_count=30, deadline=None)


def add(engine: MatcherEngine, keys: list[str], form: Form) -> Any:
    subscription, faults = columns_of(engine.config, [form] * len(keys))
    assert not faults
    return engine.apply(AddSubscriptions(pa.array(keys), subscription))[0]


def test_live_winners_hear_of_events_and_of_their_end() -> None:
    engine = MatcherEngine(MatcherConfig(("age", "credit"), "relaxed"))
    add(engine, ["a", "b"], Form({"age": (20, 35)}, {"age": 0.7}))
    engine.watch("b")
    values, _ = events_of(engine.config, [{"age": 1}, {"age": (30, np.inf), "credit": 5}])
    plan, heard = engine.apply(Match(values, payload={1: b"{}"}))
    (win,) = heard[0].wins
    assert win == (4, "b", {"age": (30.0, np.inf), "credit": 5.0}, b"{}", 2, 0.7)
    assert plan.response_fields()["results"][0] == {"winners": []}
    assert engine.apply(DeleteSubscriptions(["a", "b"]))[1][0].gone == [(6, "b")]
    assert not engine.watched
    with pytest.raises(KeyError):
        engine.watch("b")


@pytest.mark.parametrize(
    ("mode", "change", "field"),
    [
        ("relaxed", ChangeSubscription("a", {"x": (0, 1)}), "intervals.x"),
        ("relaxed", ChangeSubscription("a", {"credit": (0, 1)}), "weights.credit"),
        ("relaxed", ChangeSubscription("a", {"age": (2, 1)}), "intervals.age"),
        ("relaxed", ChangeSubscription("a", weights={"credit": 1.0}), "weights.credit"),
        ("relaxed", ChangeSubscription("a", weights={"age": -1.0}), "weights.age"),
        ("relaxed", ChangeSubscription("a", {"age": (0, 1)}, {"age": None}), "weights.age"),
        ("relaxed", ChangeSubscription("a", {"age": None}, {"age": 1.0}), "weights.age"),
        ("relaxed", ChangeSubscription("a", score=1.0), "score"),
        ("exact", ChangeSubscription("a", weights={"age": 1.0}), "weights"),
        ("exact", ChangeSubscription("a", score=np.inf), "score"),
        ("exact", ChangeSubscription("b", score=1.0), "id"),
    ],
)
def test_a_refused_change_names_its_field_and_changes_nothing(
    mode: Mode, change: ChangeSubscription, field: str
) -> None:
    engine = MatcherEngine(MatcherConfig(("age", "credit"), mode))
    relaxed = mode == "relaxed"
    add(engine, ["a"], Form({"age": (20, 35)}, {"age": 0.7} if relaxed else None, None if relaxed else 1.0))
    before = engine.subscription("a")
    with pytest.raises(Refused) as refused:
        engine.prepare(change)
    assert [fault.field for fault in refused.value.faults] == [field]
    assert (engine.next_seq, engine.subscription("a")) == (2, before)
    engine.check()


def test_what_cannot_be_is_told_by_index_and_field() -> None:
    config = MatcherConfig(("age", "credit"), "relaxed", "product")
    forms = [Form({"age": (0, 1)}, {"credit": 1.0}), Form({"x": (0, 1)}, {"x": 1.0}), Form({}, {}, 1.0)]
    _, faults = columns_of(config, forms)
    assert {(fault.index, fault.field) for fault in faults} == {
        (0, "weights.age"),
        (0, "weights.credit"),
        (1, "intervals.x"),
        (1, "weights.x"),
        (2, "score"),
    }
    _, faults = columns_of(MatcherConfig(("age",), "exact"), [Form({}), Form({}, {"age": 1.0}, 1.0)])
    assert [(fault.index, fault.field) for fault in faults] == [(0, "score"), (1, "weights")]
    _, faults = events_of(config, [{"age": 1}, {"age": (2, 1), "x": 1}])
    assert [(fault.index, fault.field) for fault in faults] == [(1, "values.age"), (1, "values.x")]
    huge, _ = columns_of(config, [Form({"age": (0, 1), "credit": (0, 1)}, {"age": 1e200, "credit": 1e200})])
    with pytest.raises(Refused, match="not finite"):
        MatcherEngine(config).prepare(AddSubscriptions(pa.array(["a"]), huge))
    with pytest.raises(Refused, match=r"values\.age"):
        MatcherEngine(config).prepare(Match(np.array([[np.nan, 1.0, 0.0, 0.0]])))


def test_a_state_makes_the_same_engine_again() -> None:
    rng = np.random.default_rng(2)
    config = MatcherConfig(("a", "b"), "relaxed")
    engine = MatcherEngine(config, 7)
    keys = [f"s{n}" for n in rng.permutation(6_000)]
    lo = rng.random((6_000, 2))
    some = Subscriptions(lo, lo + 0.1, np.round(rng.random((6_000, 2)), 1))
    engine.apply(AddSubscriptions(pa.array(keys), some, {5: 1.5, 20: 2.5}))
    engine.apply(DeleteSubscriptions(keys[10:900:3]))
    engine.apply(AddSubscriptions(pa.array(["late"]), some.take([0]), {0: 9.0}))
    plan = engine.capture()
    plan.execute(1.0)
    plan.publish()
    again = engine_of(state_of(present(plan.captured)))
    again.check()
    assert (again.seq, again.next_seq, again.ttl) == (engine.seq, engine.next_seq, engine.ttl)
    assert again.ttl == {keys[5]: 1.5, keys[20]: 2.5, "late": 9.0}
    values = np.repeat(rng.random((20, 2)), 2, axis=1)
    for one, other in zip(engine.match(values, 50), again.match(values, 50), strict=True):
        assert one.winners == other.winners


def test_one_change_does_not_touch_the_whole_table(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the indexes are laid out nor the ids merged nor the table copied for one of many."""
    rng = np.random.default_rng(2)
    engine = MatcherEngine(MatcherConfig(("a", "b"), "exact"))
    lo = rng.random((20_000, 2))
    engine.apply(
        AddSubscriptions(
            pa.array([f"s{n}" for n in range(20_000)]), Subscriptions(lo, lo + 0.1, rng.random((20_000, 1)))
        )
    )
    table, arrays = engine.matcher._rec, engine.matcher.indexes.blocks.arrays
    engine.apply(ChangeSubscription("s7", {"a": (0.0, 1.0)}, score=2.0))
    engine.apply(DeleteSubscriptions(["s8"]))
    assert engine.matcher._rec is table and engine.matcher.indexes.blocks.arrays is arrays
    engine.check()


@pytest.mark.parametrize(
    ("kind", "mode", "d"),
    [("auto", "exact", 1), ("auto", "exact", 2), ("auto", "relaxed", 2), ("sopt-r", "relaxed", 2), ("ir", "exact", 2)],
)
def test_what_takes_long_is_done_beside_and_put_in_place_step_by_step(
    kind: Kind, mode: Mode, d: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merges of large deltas, and moves of all lists to where there is more room. It changes no answer."""
    for name, value in (
        ("kernels.run_index.TAIL", 16),
        ("kernels.run_index.GROWTH", 2),
        ("kernels.run_index.AT_ONCE", 64),
        ("kernels.run_index.RANKED_AT_ONCE", 24),
        ("kernels.cells.FEWEST", 1),
        ("kernels.cells.SPREAD", 16),
        ("kernels.blocks.TAIL", 16),
        ("kernels.blocks.GROWTH", 2),
        ("kernels.blocks.AT_ONCE", 64),
        ("plans.subscriptions.AT_A_TIME", 8),
        ("layout.SELECTIVE", 0.5),
    ):
        monkeypatch.setattr(f"indexes.matchers.{name}", value)
    here, beside = [0], [0]

    def note(size: int) -> None:
        (here if current_thread() is main_thread() else beside).append(size)

    def noting(function: Callable[..., Any], size_of: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*given: Any) -> np.ndarray | dict[str, np.ndarray] | None:
            note(size_of(*given))
            return function(*given)

        return noted

    monkeypatch.setattr(RunIndex, "_arranged", noting(RunIndex._arranged, lambda *given: len(given[3])))
    monkeypatch.setattr(BlockIndex, "_fill", noting(BlockIndex._fill, lambda *given: len(given[3])))
    rng = np.random.default_rng(7)
    engine = MatcherEngine(MatcherConfig(("a", "b")[:d], mode, index=kind))

    def some(n: int) -> Subscriptions:
        lo = rng.integers(0, 40, (n, d)).astype(float)
        return Subscriptions(lo, lo + rng.integers(0, 9, (n, d)), rng.integers(0, 9, (n, engine.config.scores)) / 8)

    engine.apply(AddSubscriptions(pa.array([f"s{i}" for i in range(1_000)]), some(1_000)))
    engine.matcher.rebuild()
    engine.apply(SetSubscription("s0", some(1).rows[0], None))
    here.clear()
    beside.clear()
    monkeypatch.setattr(lists_module, "_blocks", noting(lists_module._blocks, lambda n, *_: 16 * n))
    events = np.repeat(rng.integers(0, 48, (4, d)).astype(float), 2, axis=1)
    for turn in range(60):
        command: Any = AddSubscriptions(pa.array([f"t{turn}-{i}" for i in range(6)]), some(6))
        if turn % 3 == 0:
            command = SetSubscription(f"s{turn}", some(1).rows[0], None)
        plan: Any = engine.prepare(command)
        while not plan.done:
            before = engine.match(events, 5)
            seq = engine.seq
            execute_slice(plan)
            plan.publish()
            after = engine.match(events, 5)
            assert engine.seq > seq or [one.winners for one in after] == [one.winners for one in before]
    assert max(here, default=0) <= 64
    assert max(beside) > 64
    engine.check()
    plan = engine.capture()
    plan.execute(1.0)
    plan.publish()
    fresh = engine_of(state_of(present(plan.captured)))
    assert [one.winners for one in engine.match(events, 50)] == [one.winners for one in fresh.match(events, 50)]


def test_a_first_load_lets_reads_go_between_and_is_seen_whole() -> None:
    rng = np.random.default_rng(2)
    engine = MatcherEngine(MatcherConfig(("a", "b"), "relaxed"))
    n = 40_000
    lo = rng.random((n, 2))
    command = AddSubscriptions(
        pa.array([f"s{i}" for i in range(n)]), Subscriptions(lo, lo + 0.1, rng.random((n, 2))), {0: 1.0}
    )
    steps, waits, sent = engine.prepare_steps(command), 0, None
    while True:
        try:
            work = steps.send(sent)
        except StopIteration as stop:
            plan = stop.value
            break
        waits += 1
        sent = work() if work is not None else None
    assert waits >= 3
    slices, seen = 0, set()
    while not plan.done:
        assert plan.work > 0.001, "it is not done on the loop"
        plan.execute(0.001)
        plan.publish()
        slices += 1
        seen.add((engine.seq, engine.subscription_count))
    assert slices > 1 and seen == {(0, 0), (n, n)}
    assert len(engine.match(np.full((1, 4), 0.5), 20)[0].winners) == 20


def test_of_many_changes_those_with_faults_are_left_out() -> None:
    """What is wrong with a subscription as a whole is found among others, and those behind meet what was before."""
    engine = MatcherEngine(MatcherConfig(("age", "credit"), "relaxed", "product"))
    plan, _ = engine.apply(
        ChangeSubscriptions(
            [
                SetSubscription("a", [0.0, 1.0, 0.0, 1.0, 1e200, 0.5]),
                SetSubscription("b", [1.0, 0.0, 0.0, 1.0, 1.0, 1.0]),
                ChangeSubscription("a", weights={"credit": 1e200}),
                ChangeSubscription("b", weights={"credit": 2.0}),
                ChangeSubscription("a", ttl=5.0),
            ]
        )
    )
    assert [(fault.index, fault.field, fault.kind) for fault in plan.faults] == [
        (1, "intervals.age", "invalid"),
        (2, "weights", "invalid"),
        (3, "id", "missing"),
    ]
    row = [0.0, 1.0, 0.0, 1.0, 1e200, 0.5]
    assert plan.outcomes == [("a", row, None, 1, True), None, None, None, ("a", row, 5.0, 2, False)]
    assert [(view.id, view.ttl) for view in engine.subscriptions(None, 9)] == [("a", 5.0)]
    with pytest.raises(Refused) as refused:
        engine.apply(SetSubscription("b", [1.0, 0.0, 0.0, 1.0, 1.0, 1.0]))
    assert [(fault.field, fault.index) for fault in refused.value.faults] == [("intervals.age", None)]
    assert engine.seq == 2
    engine.check()


def test_changes_that_were_accepted_before_a_rebuild_meet_their_rows() -> None:
    """A rebuild that has its turn before them numbers rows again: the first one is no more."""
    engine = MatcherEngine(MatcherConfig(("age",), "exact"))
    n = 40
    lo = np.arange(n, dtype=np.float64).reshape(-1, 1)
    engine.apply(AddSubscriptions(pa.array([f"s{i}" for i in range(n)]), Subscriptions(lo, lo, lo)))
    engine.apply(DeleteSubscriptions(["s0"]))
    copied, _ = applied(engine.capture(journal=True))
    state = state_of(present(copied.captured))
    fold = engine.fold(matcher_of(state), present(state.origin))
    changes: list[Change] = [SetSubscription(f"s{i}", [100.0 + i, 100.0 + i, 1.0]) for i in (7, 30, n)]
    plan = engine.prepare(ChangeSubscriptions(changes))
    assert applied(fold)[0].swapped
    applied(plan)
    wanted = {f"s{i}": 100.0 + i if i in (7, 30, n) else float(i) for i in range(1, n + 1)}
    for key, place in wanted.items():
        view = engine.subscription(key)
        assert view is not None and view.form.intervals["age"] == (place, place)
        assert [won.id for won in engine.match(np.full((1, 2), place))[0].winners] == [key]
    engine.check()


odd = st.sampled_from([-np.inf, -MAX, -1.0, -0.0, 0.0, 0.5, 1.0, 2.0, 1e200, 1e300, 1e301, MAX, np.inf, np.nan])


@pytest.mark.parametrize("d", [1, 2])
@pytest.mark.parametrize("combine", ["sum", "max", "product"])
@pytest.mark.parametrize("mode", ["exact", "relaxed"])
@given(data=st.data())
def test_faults_are_seen_at_once_or_looked_for(mode: Any, combine: Any, d: int, data: st.DataObject) -> None:
    config = MatcherConfig(NAMES[:d], mode, combine)
    width = 2 * d + config.scores
    table = np.array(data.draw(st.lists(st.lists(odd, min_size=width, max_size=width), max_size=3))).reshape(-1, width)
    assert faults_of(config, table) == Subscriptions.of_table(config, table).faults(config)
