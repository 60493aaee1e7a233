"""The engine with indexed fields of the payload against brute force.

Payloads that move objects in and out of filters, lists checked after each step, and the same board again from its log
and from its state.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from dataclasses import dataclass, replace
from math import nan
from tempfile import TemporaryDirectory
from typing import Any, cast

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from formats.board_commands import decode, encode
from formats.boards import read_state, write_state
from formats.folder import Folder
from indexes.boards import filters
from indexes.boards.commands import (
    DELETE,
    UPDATE,
    UPSERT,
    AddSubscriptions,
    Command,
    DeleteSubscriptions,
    Events,
    SetSubscription,
)
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.regions import Region, Regions
from indexes.boards.state import board_of, state_of
from indexes.boards.verification import verify
from indexes.core.commands import Refused
from tests.unit.boards.helpers import captured, same_columns

INF = float("inf")
KEYS = [f"o{i}" for i in range(8)]
ASKS = [f"s{i}" for i in range(8)]
at = st.integers(0, 4).map(float)
ys = st.integers(-2, 3).map(float)
VALUES = ['"IAH"', '"ORD"', "1", "null", "true", '{"a":[1,2]}']
WRITTEN = {"1": ["1", "1.0", "1e0"], '{"a":[1,2]}': ['{"a":[1,2.0]}']}
"""Other ways in which payloads may write some of the values."""
members = st.sampled_from([None, *VALUES]).flatmap(
    lambda text: st.sampled_from([text] if text is None else WRITTEN.get(text, [text]))
)
filters_wanted = st.sampled_from([None, None, *VALUES[:4]])


@dataclass
class Thing:
    id: str
    x: tuple[float, ...]
    y: float
    created: int
    payload: bytes | None


@dataclass
class Ask:
    sides: tuple[float, ...]
    k: int
    where: tuple[str | None, ...]
    offset: int = 0


class Engine(RuleBasedStateMachine):
    """One board with `d` range attributes and some indexed fields, the truth beside it."""

    d = 1
    fields: tuple[str, ...] = ("to",)

    def place(self, x: tuple[float, ...]) -> Any:
        return x[0] if self.d == 1 else x

    @initialize(order=st.sampled_from(["asc", "desc"]), ks=st.sampled_from([(1,), (1, 3), (2, 30)]))
    def start(self, order: Any, ks: tuple[int, ...]) -> None:
        names = tuple(f"x{i}" for i in range(self.d))
        self.config = BoardConfig(names, "y", order, ks, index="kd-tree", indexed=self.fields)
        self.board = BoardEngine(self.config)
        self.sign = -1 if order == "desc" else 1
        self.created = 0
        self.things: dict[str, Thing] = {}
        self.asks: dict[str, Ask] = {}
        self.lists: dict[str, list[Thing]] = {}
        self.live: dict[str, int] = {}
        self.heard: dict[int, list[tuple[Any, ...]]] = {}
        self.logged: list[Any] = []

    # The truth

    def passes(self, thing: Thing, ask: Ask) -> bool:
        if not all(l <= x <= r for x, l, r in zip(thing.x, ask.sides[::2], ask.sides[1::2], strict=True)):
            return False
        payload = {} if thing.payload is None else json.loads(thing.payload)
        for name, want in zip(self.fields, ask.where or [None] * len(self.fields), strict=True):
            if want is not None:
                wanted = json.loads(want)
                has = payload.get(name, ...) if isinstance(payload, dict) else ...
                # Python's True is 1.
                if has != wanted or isinstance(has, bool) != isinstance(wanted, bool):
                    return False
        return True

    def key(self, thing: Thing) -> tuple[float, int]:
        return self.sign * thing.y, thing.created

    def top(self, ask: Ask, depth: int) -> list[Thing]:
        return sorted((thing for thing in self.things.values() if self.passes(thing, ask)), key=self.key)[:depth]

    def shown(self, things: list[Thing]) -> list[tuple[Any, ...]]:
        return [(t.id, self.place(t.x), t.y, t.created, t.payload) for t in things]

    # Commands

    def run(self, command: Any) -> Any:
        plan, slices = self.board.apply(command, keep_tiles=10**6)
        if plan.count:
            self.logged.append([(part.name, part.payload) for part in encode(plan.command, plan.count)])
        for part in slices:
            for change in part.changes:
                self.follow(change, part)
            for _, live in part.gone:
                self.live = {key: slot for key, slot in self.live.items() if slot != live}
        return plan

    def follow(self, change: Any, part: Any) -> None:
        """The wire's rule for a change; a list whose offset is another is told whole."""
        key = next(key for key, live in self.live.items() if live == change.live)
        if change.live in part.shifted:
            self.heard[change.live] = [tuple(item) for item in self.board.visible_list(change.live)]
            return
        offset = self.asks[key].offset
        old = {item[0]: item for item in self.heard[change.live]}
        names = {entry.id for entry in change.entries}
        now = [item for item in self.heard[change.live] if item[0] not in names]
        for entry in change.entries:
            assert (entry.old is None and entry.id not in old) or tuple(entry.old) == old[entry.id]
        for entry in sorted((e for e in change.entries if e.new_rank), key=lambda e: e.new_rank):
            now.insert(entry.new_rank - 1 - offset, tuple(entry.object))
        self.heard[change.live] = now

    def reaches(self, tile: Any, ask: Ask) -> bool:
        """The wire's rule: sides, then for each field those that want anything or this value."""
        if tile.k != ask.k + ask.offset:
            return False
        tile_sides = tile[1:5] if self.d == 1 else tile.sides
        for i in range(self.d):
            l, r = ask.sides[2 * i : 2 * i + 2]
            l_outer, l_inner, r_inner, r_outer = tile_sides[4 * i : 4 * i + 4]
            west = l_outer is None or (l != -INF and l_outer < l)
            east = r_outer is None or (r != INF and r < r_outer)
            inner = (l == -INF if l_inner is None else l <= l_inner) and (r == INF if r_inner is None else r >= r_inner)
            if not (west and east and inner):
                return False
        wants = zip(tile.where, ask.where or (None,) * len(self.fields), strict=True)
        return all(reach.any if want is None else want == reach.value for reach, want in wants)

    def tell(self, plan: Any, exact: bool) -> None:
        reached: Counter[tuple[str, str, bool]] = Counter()
        for _, tile in plan.tiles:
            takers = [key for key, ask in self.asks.items() if self.reaches(tile, ask)]
            assert takers, "a tile reaches no one"
            for key in takers:
                reached[key, tile.object.id, tile.gone] += 1
                seen = tile.object
                self.lists[key] = [thing for thing in self.lists[key] if thing.id != seen.id]
                if not tile.gone:
                    x = (seen.x,) if self.d == 1 else seen.x
                    self.lists[key].append(Thing(seen.id, x, seen.y, seen.created, seen.payload))
                    self.lists[key].sort(key=self.key)
                    self.lists[key] = self.lists[key][: self.asks[key].k + self.asks[key].offset]
        assert not exact or all(n == 1 for n in reached.values()), "an object was told twice"

    def events(self, rows: list[tuple[int, str, tuple[float | None, ...], float | None, Any]], **more: Any) -> None:
        x = np.array([[nan if value is None else value for value in row[2]] for row in rows])
        y = np.array([nan if row[3] is None else row[3] for row in rows])
        payload = {i: row[4] for i, row in enumerate(rows) if row[4] != ()}
        ops = np.array([row[0] for row in rows], np.uint8)
        plan = self.run(Events(ops, [row[1] for row in rows], x[:, 0] if self.d == 1 else x, y, payload, **more))
        for op, key, place, rank, text in rows:
            if op == DELETE:
                del self.things[key]
            elif key not in self.things:
                self.things[key] = Thing(key, place, rank, self.created, text or None)  # type: ignore[arg-type]
                self.created += 1
            else:
                thing = replace(self.things[key])
                thing.x = tuple(old if new is None else new for old, new in zip(thing.x, place, strict=True))
                thing.y = thing.y if rank is None else rank
                thing.payload = thing.payload if text == () else text
                self.things[key] = thing
        self.tell(plan, len(rows) == 1)

    def payload(self, data: Any) -> Any:
        kind = data.draw(st.sampled_from(["kept", "object", "object", "object", "other", "none"]))
        if kind == "kept":
            return ()
        if kind == "none":
            return None
        if kind == "other":
            return data.draw(st.sampled_from([b"1", b'["to"]', b'{"for":1}']))
        given = {name: data.draw(members) for name in self.fields}
        text = ",".join(f'"{name}":{value}' for name, value in given.items() if value is not None)
        return f"{{{text}}}".encode()

    @rule(data=st.data(), key=st.sampled_from(KEYS), y=ys)
    def upsert(self, data: Any, key: str, y: float) -> None:
        self.events([(UPSERT, key, data.draw(st.tuples(*[at] * self.d)), y, self.payload(data))])

    @rule(data=st.data(), y=st.none() | ys)
    def update(self, data: Any, y: float | None) -> None:
        if self.things:
            key = data.draw(st.sampled_from(sorted(self.things)))
            self.events([(UPDATE, key, data.draw(st.tuples(*[st.none() | at] * self.d)), y, self.payload(data))])

    @rule(data=st.data())
    def delete(self, data: Any) -> None:
        if self.things:
            self.events([(DELETE, data.draw(st.sampled_from(sorted(self.things))), (None,) * self.d, None, ())])

    @rule(data=st.data(), batch=st.booleans())
    def many(self, data: Any, batch: bool) -> None:
        rows: list[Any] = []
        there = set(self.things)
        for key in data.draw(st.lists(st.sampled_from(KEYS), min_size=2, max_size=6)):
            if key in there and data.draw(st.booleans()):
                there.discard(key)
                rows.append((DELETE, key, (None,) * self.d, None, ()))
            else:
                there.add(key)
                rows.append((UPSERT, key, data.draw(st.tuples(*[at] * self.d)), data.draw(ys), self.payload(data)))
        self.events(rows, batch=batch)

    def ask(self, data: Any) -> Ask:
        pair = st.tuples(st.sampled_from([-INF, 0.0, 1.0, 2.0]), st.sampled_from([2.0, 3.0, INF]))
        sides = tuple(end for _ in range(self.d) for end in data.draw(pair))
        depth = data.draw(st.sampled_from(self.config.ks))
        offset = data.draw(st.sampled_from([0, 0, depth - 1]))
        where = tuple(data.draw(st.tuples(*[filters_wanted] * len(self.fields))))
        return Ask(sides, depth - offset, where if any(text is not None for text in where) else (), offset)

    def taken(self, key: str, ask: Ask) -> None:
        self.asks[key] = ask
        self.lists[key] = [replace(thing) for thing in self.top(ask, ask.k + ask.offset)]

    @rule(data=st.data(), key=st.sampled_from(ASKS))
    def put_subscription(self, data: Any, key: str) -> None:
        ask = self.ask(data)
        self.run(SetSubscription(key, Region("box", ask.sides), ask.k, offset=ask.offset, where=ask.where))
        self.taken(key, ask)

    @rule(data=st.data(), key=st.sampled_from(ASKS), filtered=st.booleans())
    def patch_subscription(self, data: Any, key: str, filtered: bool) -> None:
        """A filter that is given replaces the one before it whole; one that is left out stays, and so do ranges."""
        if key in self.asks:
            ask, given = replace(self.asks[key]), self.ask(data)
            if filtered:
                ask.where = given.where
                self.run(SetSubscription(key, where=given.where))
            else:
                ask.sides = given.sides
                self.run(SetSubscription(key, Region("box", given.sides)))
            self.taken(key, ask)

    @rule(data=st.data())
    def subscribe_many(self, data: Any) -> None:
        free = [key for key in ASKS if key not in self.asks]
        if not free:
            return
        keys = data.draw(st.lists(st.sampled_from(free), unique=True, min_size=1))
        asks = [self.ask(data) for _ in keys]
        where: tuple[Any, ...] = ()
        if any(ask.where for ask in asks):
            rows = [ask.where or (None,) * len(self.fields) for ask in asks]
            where = tuple(pa.array(column, pa.string()) for column in zip(*rows, strict=True))
        columns = Regions.of([Region("box", ask.sides) for ask in asks], self.d)
        ks, offsets = (np.array(column, np.int32) for column in zip(*((a.k, a.offset) for a in asks), strict=True))
        self.run(AddSubscriptions(pa.array(keys), columns, ks, offset=offsets, where=where))
        for key, ask in zip(keys, asks, strict=True):
            self.taken(key, ask)

    @rule(key=st.sampled_from(ASKS))
    def unsubscribe(self, key: str) -> None:
        self.run(DeleteSubscriptions([key]))
        self.asks.pop(key, None)

    @rule(key=st.sampled_from(ASKS))
    def watch(self, key: str) -> None:
        if key in self.asks and key not in self.live:
            live = self.live[key] = self.board.watch(key)
            self.board.want_tiles(live, True)
            self.heard[live] = [tuple(item) for item in self.board.visible_list(live)]

    @rule()
    def come_back(self) -> None:
        """A board of the state on disk goes on as this one."""
        state = state_of(captured(self.board))
        with TemporaryDirectory() as made:
            folder = Folder.at(made) / "s"
            draft = folder.draft()
            about = write_state(draft, "b", state)
            draft.publish({"about": about})
            found = read_state(folder, "b", folder.verify()["about"])
        same_columns(found, state)
        assert found.texts == state.texts
        self.board = board_of(found)
        self.live, self.heard = {}, {}

    @precondition(lambda self: hasattr(self, "board"))
    @invariant()
    def lists_are_exact(self) -> None:
        self.board.check()
        for key, ask in self.asks.items():
            truth = self.shown(self.top(ask, ask.k + ask.offset))
            region = Region("box", ask.sides)
            assert [tuple(item) for item in self.board.top(region, ask.k, ask.offset, ask.where)] == truth[ask.offset :]
            assert self.shown(self.lists[key]) == truth
            if key in self.live:
                assert self.heard[self.live[key]] == truth[ask.offset :]
        views = self.board.subscriptions(None, 100)
        assert {view.id: (view.region.sides, view.k, view.where, view.offset) for view in views} == {
            key: (ask.sides, ask.k, ask.where, ask.offset) for key, ask in self.asks.items()
        }

    def teardown(self) -> None:
        """Replaying the log gives the same state; and verification finds it so."""
        if not hasattr(self, "board"):
            return
        assert not [found for checked in verify(captured(self.board, indexes=True)) for found in checked.differences]
        again = BoardEngine(self.config)
        for parts in self.logged:
            again.replay(cast("Command", decode(parts)))
        again.check()
        one, other = state_of(captured(again)), state_of(captured(self.board))
        same_columns(one, other)
        assert one.texts == other.texts


class TwoRanges(Engine):
    d = 2
    fields = ("to", "carrier")


effort = settings(
    max_examples=int(os.environ.get("RANKCAST_EXAMPLES", "20")),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],
)
TestOneAndOne = Engine.TestCase
TestOneAndOne.settings = effort
TestTwoAndTwo = TwoRanges.TestCase
TestTwoAndTwo.settings = effort


def board(*fields: str) -> BoardEngine:
    return BoardEngine(BoardConfig(("x",), "y", ks=(1, 2), index="kd-tree", indexed=fields))


def put(*objects: tuple[str, Any], **more: Any) -> Events:
    n = len(objects)
    payload = {i: None if value is None else json.dumps(value).encode() for i, (_, value) in enumerate(objects)}
    return Events(
        np.zeros(n, np.uint8), [key for key, _ in objects], np.zeros(n), np.arange(n).astype(float), payload, **more
    )


def one(key: str, value: Any) -> Events:
    return put((key, {"to": value}))


def wants(made: BoardEngine, text: str | None) -> list[str]:
    return [item.id for item in made.top(Region("box", (-INF, INF)), 2, where=() if text is None else (text,))]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1.0"),
        (1.0, "1"),
        (-0.0, "0"),
        (10**20, "1e20"),
        ({"b": 1, "a": 2}, '{"a":2.0,"b":1}'),
        ("größe", '"größe"'),
    ],
)
def test_equal_values_have_one_text_and_code(value: Any, text: str) -> None:
    assert filters.text_of(value) == filters.text_of(json.loads(text))


def test_what_has_another_type_is_another_value() -> None:
    values: list[Any] = [1, "1", True, "true", None, "null", [], {}, "", 0, False]
    texts = {filters.text_of(value) for value in values}
    assert len({filters.code_of(text) for text in texts}) == 11


def test_codes_stay_as_logs_and_snapshots_have_them() -> None:
    assert [filters.code_of(text) for text in ('"IAH"', "1", "null")] == CODES


CODES = [2172862204813424.0, 1885061132909794.0, 930842623297936.0]


@pytest.fixture
def few_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The texts "a" and "b" share a code."""
    monkeypatch.setattr(filters, "code_of", lambda text: {'"a"': 7.0, '"b"': 7.0}.get(text, float(len(text))))


@pytest.mark.usefixtures("few_codes")
def test_a_second_value_with_a_code_in_use_is_refused() -> None:
    made = board("from", "to")
    made.apply(one("o1", "a"))
    for command in (
        one("o2", "b"),
        put(("o2", {"from": "b"})),
        SetSubscription("s", k=1, where=(None, '"b"')),
        AddSubscriptions(
            pa.array(["s"]), Regions.empty(1, 1), np.array([1], np.int32), where=(pa.array(['"b"']), pa.array(['"x"']))
        ),
    ):
        with pytest.raises(Refused) as refused:
            made.apply(command)
        (fault,) = refused.value.faults
        assert (fault.field.split(".")[0], fault.reason) == (
            "payload" if isinstance(command, Events) else "where",
            "another value has the same code",
        )
        assert fault.field.split(".")[1] in ("from", "to")
    assert wants(made, None) == ["o1"] and made.subscription_count == 0
    assert made.top(Region("box", (-INF, INF)), 2, where=(None, '"b"')) == []
    made.check()


@pytest.mark.usefixtures("few_codes")
def test_two_values_of_one_command_clash_too() -> None:
    made = board("to")
    with pytest.raises(Refused):
        made.apply(put(("o1", {"to": "a"}), ("o2", {"to": "b"})))
    plan, _ = made.apply(put(("o1", {"to": "a"}), ("o2", {"to": "b"}), ("o3", {"to": "a"}), skip=True))
    assert [(fault.index, fault.field) for fault in plan.faults] == [(1, "payload.to")]
    assert wants(made, '"a"') == ["o1", "o3"]
    made.check()


@pytest.mark.usefixtures("few_codes")
def test_a_code_that_nobody_has_any_more_is_free() -> None:
    made = board("to")
    made.apply(one("o1", "a"))
    made.apply(SetSubscription("s", k=1, where=('"a"',)))
    made.apply(put(("o1", None)))
    with pytest.raises(Refused):
        made.apply(one("o2", "b"))
    made.apply(DeleteSubscriptions(["s"]))
    made.apply(one("o2", "b"))
    assert wants(made, '"b"') == ["o2"]
    made.check()


def test_a_command_that_is_taken_back_leaves_no_code() -> None:
    made = board("to")
    made.apply(one("o1", "IAH"))
    for command in (one("o1", "ORD"), one("o2", "JFK"), SetSubscription("s", k=1, where=('"SFO"',))):
        made.prepare(command).cancel()
    made.check()
    assert list(made.filters.texts.values()) == ['"IAH"']
    made.apply(one("o1", "ORD"))
    made.check()
    assert list(made.filters.texts.values()) == ['"ORD"']


def test_what_was_accepted_before_a_snapshot_is_taken_has_its_text() -> None:
    """A value that goes with the next command, accepted before the capture has its turn."""
    made = board("to")
    made.apply(SetSubscription("s", k=1, where=('"IAH"',)))
    capture = made.capture()
    gone = made.prepare(DeleteSubscriptions(["s"]))
    while not capture.done:
        capture.execute(1.0)
        capture.publish()
    assert capture.captured is not None
    assert list(state_of(capture.captured).texts.values()) == ['"IAH"']
    view = made.subscription("s")
    assert view is not None and view.where == ('"IAH"',)
    gone.execute(1.0)
    gone.publish()
    assert made.filters.texts == {}


def test_many_subscriptions_with_filters_in_one_command() -> None:
    made = board("to")
    n = 5_000
    where = pa.array([None if i % 3 == 0 else f'"v{i % 7}"' for i in range(n)])
    regions = Regions.empty(1, n)
    made.apply(AddSubscriptions(pa.array([f"s{i}" for i in range(n)]), regions, np.ones(n, np.int32), where=(where,)))
    made.check()
    assert len(made.filters.texts) == 7
    views = {view.id: view.where for view in made.subscriptions(None, n)}
    assert views["s3"] == () and views["s8"] == ('"v1"',)
