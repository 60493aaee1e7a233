"""As `test_explain`, for boards with several range attributes and with indexed fields.

What is said of an event is what it then does, against brute force, with regions of every shape, filters and ties.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, replace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings

from indexes.boards.commands import DELETE, UPDATE, UPSERT, AddSubscriptions, Configure, Events
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.plans.explain import Boxes, ClassEffect, Explanation
from indexes.boards.regions import Region, Regions
from indexes.boards.results import ObjectView, Reach, RegionTile, TileView
from indexes.boards.space import explain
from indexes.core.commands import Refused
from tests.oracles.regions import INF, Where
from tests.unit.boards.explained import foretold, sides_of, state
from tests.unit.boards.helpers import applied
from tests.unit.boards.regions import regions

EFFORT = settings(max_examples=int(os.environ.get("RANKCAST_EXAMPLES", "80")), deadline=None)
KEYS = [f"o{i}" for i in range(14)]
at = st.integers(0, 5).map(float)
ys = st.integers(-2, 4).map(float)
values = st.sampled_from([None, '"IAH"', '"ORD"', "1", "null"])
FIELDS = ("to", "by")


@dataclass
class Thing:
    id: str
    x: tuple[float, ...]
    y: float
    created: int
    payload: bytes | None


@dataclass(frozen=True)
class Ask:
    region: Where
    k: int
    where: tuple[str | None, ...]


@dataclass
class World:
    """What is true of a board with so many fields."""

    order: str
    fields: int
    things: dict[str, Thing]
    asks: dict[str, Ask]
    created: int = 0

    def key(self, thing: Thing) -> tuple[float, int]:
        return (-thing.y if self.order == "desc" else thing.y), thing.created

    def passes(self, thing: Thing, ask: Ask) -> bool:
        payload = {} if thing.payload is None else json.loads(thing.payload)
        has = [payload.get(name, ...) for name in FIELDS[: self.fields]]
        wanted = [... if text is None else json.loads(text) for text in ask.where]
        return all(want is ... or want == found for want, found in zip(wanted, has, strict=True))

    def top(self, ask: Ask) -> list[Thing]:
        inside = [one for one in self.things.values() if ask.region.holds(one.x) and self.passes(one, ask)]
        return [replace(one) for one in sorted(inside, key=self.key)[: ask.k]]

    def happen(self, op: int, key: str, x: tuple[float | None, ...], y: float | None, payload: Any) -> None:
        if op == DELETE:
            del self.things[key]
            return
        thing = self.things.get(key)
        if thing is None:
            assert None not in x and y is not None
            self.things[key] = Thing(key, x, y, self.created, payload or None)  # type: ignore[arg-type]
            self.created += 1
            return
        self.things[key] = Thing(
            key,
            tuple(old if new is None else new for old, new in zip(thing.x, x, strict=True)),
            thing.y if y is None else y,
            thing.created,
            thing.payload if payload == () else payload,
        )

    def codes(self, thing: Thing) -> list[Any]:
        payload = {} if thing.payload is None else json.loads(thing.payload)
        return [json.dumps(payload[name]) if name in payload else None for name in FIELDS[: self.fields]]

    def kind(self, was: Thing | None, now: Thing | None) -> str:
        if was is None or now is None:
            return "insertion" if was is None else "deletion"
        if (was.x, self.codes(was)) != (now.x, self.codes(now)):
            return "move"
        if was.y != now.y:
            return "better" if self.key(now) < self.key(was) else "worse"
        return "payload" if was.payload != now.payload else "nothing"


Event = tuple[int, str, tuple[float | None, ...], float | None, Any]


def an_event(
    board: BoardEngine, op: int, key: str, x: tuple[float | None, ...], y: float | None, payload: Any = ()
) -> Events:
    nan = float("nan")
    place = np.array([[nan if value is None else value for value in x]])
    rank = np.array([nan if y is None else y])
    one = len(board.config.range_attributes) == 1
    return Events(
        np.array([op], np.uint8), [key], place[:, 0] if one else place, rank, {} if payload == () else {0: payload}
    )


def config(d: int, fields: int, order: Any = "asc", ks: tuple[int, ...] = (2,)) -> BoardConfig:
    names = tuple(f"x{i}" for i in range(d))
    return BoardConfig(names, "y", order, ks, index="kd-tree", indexed=FIELDS[:fields])


@st.composite
def payloads(draw: Any, fields: int) -> Any:
    if not fields:
        return draw(st.sampled_from([(), (), b"1", None]))
    given = {name: draw(values) for name in FIELDS[:fields]}
    text = ",".join(f'"{name}":{value}' for name, value in given.items() if value is not None)
    return draw(st.sampled_from([(), None, f"{{{text}}}".encode(), f"{{{text}}}".encode()]))


@st.composite
def cases(draw: Any, dimensions: Any = ((2, 0), (2, 0), (3, 0), (1, 1), (1, 2), (2, 2))) -> Any:
    d, fields = draw(st.sampled_from(dimensions))
    ks = draw(st.sampled_from([(1,), (2,), (1, 3), (2, 40)]))
    world = World(draw(st.sampled_from(["asc", "desc"])), fields, {}, {})
    things: list[Event] = []
    for key in draw(st.lists(st.sampled_from(KEYS), unique=True, min_size=draw(st.sampled_from([0, 8])))):
        payload = draw(payloads(fields))
        things.append((UPSERT, key, draw(st.tuples(*[at] * d)), draw(ys), None if payload == () else payload))
    for n in range(draw(st.sampled_from([0, 6, 25, 60]))):
        where = tuple(draw(values) for _ in range(fields))
        # Boards with fields take ranges only.
        region = draw(regions(d).filter(lambda one: not fields or one.shape == "box"))
        world.asks[f"s{n:02}"] = Ask(region, draw(st.sampled_from(ks)), where)
    events: list[Event] = []
    there = sorted(key for _, key, *_ in things)
    for _ in range(draw(st.integers(1, 4))):
        op = draw(st.sampled_from([UPSERT, UPSERT, UPDATE, DELETE] if there else [UPSERT]))
        key = draw(st.sampled_from(there if op != UPSERT else KEYS))
        new = key not in there
        x = draw(st.tuples(*[at if new else st.none() | at] * d))
        y, payload = draw(ys if new else st.none() | ys), draw(payloads(fields))
        if op == DELETE:
            x, y, payload = (None,) * d, None, ()
            there = [other for other in there if other != key]
        elif new:
            there = sorted([*there, key])
        events.append((op, key, x, y, payload))
    return config(d, fields, world.order, ks), world, things, events


def the_board(made: BoardConfig, world: World, things: list[Event]) -> BoardEngine:
    board = BoardEngine(made)
    for thing in things:
        board.apply(an_event(board, *thing))
        world.happen(*thing)
    if world.asks:
        columns = Regions.of([Region(*_sides(ask)) for ask in world.asks.values()], len(made.range_attributes))
        k = np.array([ask.k for ask in world.asks.values()], np.int32)
        where: Any = ()
        if made.indexed and any(text is not None for ask in world.asks.values() for text in ask.where):
            where = tuple(
                pa.array(column, pa.string()) for column in zip(*(a.where for a in world.asks.values()), strict=True)
            )
        board.apply(AddSubscriptions(pa.array(list(world.asks)), columns, k, where=where))
        for key in list(world.asks)[::3]:
            board.watch(key)
    return board


def _sides(ask: Ask) -> tuple[str, tuple[float, ...]]:
    return ask.region.shape, ask.region.sides


def inside(shape: str, sides: Any, where: tuple[Reach, ...], ask: Ask) -> bool:
    """The wire's rule of who is on a tile; sides that are None or infinite are unbounded."""
    if shape != ask.region.shape:
        return False
    wants = zip(where, ask.where, strict=True) if where else ()
    if not all(reach.any if want is None else reach.value == want for reach, want in wants):
        return False
    mine = ask.region.sides
    if shape != "box":
        return all(low <= side <= high for low, high, side in zip(sides[::2], sides[1::2], mine, strict=True))
    for i in range(len(mine) // 2):
        l, r = mine[2 * i : 2 * i + 2]
        l_outer, l_inner, r_inner, r_outer = (
            None if s is None or abs(s) == INF else s for s in sides[4 * i : 4 * i + 4]
        )
        west, east = l_outer is None or l_outer < l, r_outer is None or r < r_outer
        inner = (l == -INF if l_inner is None else l <= l_inner) and (r == INF if r_inner is None else r >= r_inner)
        if not (west and east and inner):
            return False
    return True


def in_boxes(one: ClassEffect, boxes: Boxes, world: World) -> dict[str, int]:
    """In how many of the boxes each subscription of the class is."""
    rows = list(zip(boxes.sides.tolist(), boxes.where or [()] * len(boxes), strict=True))
    mine = {key: ask for key, ask in world.asks.items() if (ask.k, ask.region.shape) == (one.k, one.shape)}
    return {key: sum(inside(one.shape, *row, ask) for row in rows) for key, ask in mine.items()}


def tiles_of(one: ClassEffect, kind: str, ranged: int) -> list[Any]:
    """A class's tiles as the event sends them."""
    exposed: list[Any] = []
    for item in one.exposed:
        for t, row in enumerate(item.tiles.sides.tolist()):
            sides = tuple(None if np.isinf(side) else side for side in row)
            where = () if item.tiles.where is None else item.tiles.where[t]
            if ranged > 1:
                exposed.append(RegionTile(one.k, one.shape, sides, item.object, False, where))
            else:
                exposed.append(TileView(one.k, *sides_of(row), item.object, False, where))
    if kind != "move":
        return [*one.tiles, *exposed]
    return [*(t for t in one.tiles if t.gone), *exposed, *(t for t in one.tiles if not t.gone)]


def class_of(tile: Any) -> tuple[int, str]:
    return tile.k, tile.shape if isinstance(tile, RegionTile) else "box"


def whole_state(board: BoardEngine) -> Any:
    """Also where the painter would look first, and its trees to the last bit."""
    o, work = board.painter.objects.arrays, board.painter.work
    trees = [a.tobytes() for a in (*o.tree, o.x, o.y, o.c, o.row, *board.painter.subscriptions.arrays[0])]
    return state(board), trees, work.ahead.reach.tolist(), work.behind.reach.tolist(), board.filters.texts.copy()


def viewed(thing: Thing | None, d: int) -> ObjectView | None:
    if thing is None:
        return None
    return ObjectView(thing.id, thing.x[0] if d == 1 else thing.x, thing.y, thing.created, thing.payload)


@EFFORT
@given(cases())
def test_an_event_does_what_was_said_and_saying_it_leaves_no_trace(case: Any) -> None:
    made, world, things, events = case
    board = the_board(made, world, things)
    board.painter.objects.reserve(len(KEYS), len(KEYS) + 1)
    d = len(made.range_attributes)
    for event in events:
        key = event[1]
        old = {ask: world.top(world.asks[ask]) for ask in world.asks}
        was = replace(world.things[key]) if key in world.things else None
        before = whole_state(board)
        said = foretold(board, an_event(board, *event))
        assert whole_state(board) == before
        board.check()

        counted = board.painter.work.stats.copy()
        plan = applied(board, an_event(board, *event), 10**6)
        counted = board.painter.work.stats - counted
        world.happen(*event)
        # A move is two halves, and between them the object is nowhere.
        others = replace(world, things={id: thing for id, thing in world.things.items() if id != key})
        between = {ask: others.top(world.asks[ask]) for ask in world.asks}
        now, new = world.things.get(key), {ask: world.top(world.asks[ask]) for ask in world.asks}
        assert (said.kind, said.seq) == (world.kind(was, now), plan.first_seq - 1)
        assert (said.before, said.after) == (viewed(was, d), viewed(now, d))
        assert (said.near_before, said.near_after) == (None, None)

        assert said.tile_count == plan.tile_count == sum(one.tile_count for one in said.classes)
        done = [tile for _, tile in plan.tiles]
        shapes = {(ask.k, ask.region.shape) for ask in world.asks.values()} | {(k, "box") for k in made.ks}
        assert {(one.k, one.shape) for one in said.classes} == shapes and len(said.classes) == len(shapes)
        for one in said.classes:
            mine = [tile for tile in done if class_of(tile) == (one.k, one.shape)]
            assert tiles_of(one, said.kind, d) == mine and one.tile_count == len(mine)
            check_class(one, world, old, new if said.kind != "move" else between, new, key, mine)
        hit = {ask for ask in world.asks if old[ask] != new[ask]}
        assert said.affected == len(hit)
        if len({(ask.k, ask.region.shape) for ask in world.asks.values()}) == 1:
            calls = max(said.classes, key=lambda one: sum(one.calls)).calls
            assert list(calls) == counted.tolist()


def check_class(one: ClassEffect, world: World, old: Any, exposing: Any, new: Any, key: str, tiles: list[Any]) -> None:
    """Where the object is, who takes its place, and who is on which tiles."""
    for boxes, lists in ((one.before, old), (one.after, new)):
        found = in_boxes(one, boxes, world)
        assert found == {ask: int(key in [t.id for t in lists[ask]]) for ask in found}
    heard = set()
    for tile in tiles:
        sides = tile.sides if isinstance(tile, RegionTile) else tile[1:5]
        heard |= {
            ask for ask in in_boxes(one, one.before, world) if inside(one.shape, sides, tile.where, world.asks[ask])
        }
    assert one.reached == len(heard)
    takes: dict[str, set[str]] = {}
    for ask in in_boxes(one, one.before, world):
        for thing in exposing[ask]:
            if thing.id != key and thing.id not in [t.id for t in old[ask]]:
                takes.setdefault(thing.id, set()).add(ask)
    ordered = sorted(takes, key=lambda id: world.key(world.things[id]))
    assert [item.object.id for item in one.exposed] == ordered
    for item in one.exposed:
        found = in_boxes(one, item.tiles, world)
        assert {ask for ask, n in found.items() if n} == takes[item.object.id]
        assert item.reached == len(takes[item.object.id]) == sum(found.values())


@EFFORT
@given(cases(), st.integers(0, 6))
def test_tiles_beyond_the_limit_are_left_out_and_counted(case: Any, most: int) -> None:
    made, world, things, events = case
    board = the_board(made, world, things)
    whole, cut = (foretold(board, an_event(board, *events[0]), keep) for keep in (10**6, most))
    assert cut.truncated == (whole.tile_count > most)
    assert [one.tile_count for one in cut.classes] == [one.tile_count for one in whole.classes]
    room = most
    for less, more in zip(cut.classes, whole.classes, strict=True):
        mine, all_of_them = (
            [*one.tiles, *(row.tolist() for item in one.exposed for row in item.tiles.sides)] for one in (less, more)
        )
        assert mine == all_of_them[:room]
        room -= len(mine)


def a_board(made: BoardConfig, *asks: tuple[str, Any, int]) -> BoardEngine:
    board = BoardEngine(made)
    if asks:
        columns = Regions.of([Region("box", sides) for _, sides, _ in asks], len(made.range_attributes))
        k = np.array([k for _, _, k in asks], np.int32)
        board.apply(AddSubscriptions(pa.array([key for key, _, _ in asks]), columns, k))
    return board


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ((UPDATE, "nobody", (1.0, 1.0), 1.0), "id"),
        ((DELETE, "nobody", (None, None), None), "id"),
        ((UPSERT, "nobody", (1.0, None), 1.0), "values.x1"),
        ((UPSERT, "nobody", (1.0, 1.0), None), "values.y"),
    ],
)
def test_what_would_be_refused_is_refused_the_same_way(event: Any, field: str) -> None:
    board = a_board(config(2, 0), ("all", (-INF, INF) * 2, 2))
    board.apply(an_event(board, UPSERT, "a", (1.0, 1.0), 1.0))
    before = whole_state(board)
    with pytest.raises(Refused) as beforehand:
        board.explain(an_event(board, *event))
    assert whole_state(board) == before
    with pytest.raises(Refused) as then:
        board.apply(an_event(board, *event))
    assert beforehand.value.faults == then.value.faults
    assert [fault.field for fault in beforehand.value.faults] == [field]


def test_it_sees_what_was_accepted_before_it_and_nothing_after() -> None:
    board = a_board(config(1, 1, ks=(1,)), ("all", (0.0, 5.0), 1))
    board.apply(an_event(board, UPSERT, "a", (1.0,), 1.0, b'{"to":"IAH"}'))
    board.apply(an_event(board, UPSERT, "b", (2.0,), 5.0))
    plans: list[Any] = [
        board.prepare(an_event(board, DELETE, "a", (None,), None)),
        board.explain(an_event(board, UPSERT, "c", (3.0,), 2.0, b'{"to":"ORD"}'), 100),
        board.prepare(an_event(board, UPSERT, "d", (3.0,), 0.0, b'{"to":"SFO"}')),
        board.explain(an_event(board, UPDATE, "d", (None,), 9.0), 100),
    ]
    with pytest.raises(Refused):
        board.explain(an_event(board, UPDATE, "a", (None,), 9.0))
    for plan in plans:
        while not plan.done:
            plan.execute(1.0)
            plan.publish()
    board.check()
    first, second = (plan.explanation for plan in plans[1::2])
    assert (first.kind, first.seq, first.after.created, first.affected) == ("insertion", plans[0].last_seq, 2, 1)
    (only,) = first.classes
    assert only.tiles[0].where == (Reach(True, None),) and only.after.where == [(Reach(True, None),)]
    assert (second.kind, second.seq, second.affected) == ("worse", plans[2].last_seq, 1)
    assert [item.object.id for item in second.classes[0].exposed] == ["b"]


def test_a_class_that_is_no_longer_offered_is_left_out() -> None:
    board = a_board(config(2, 0, ks=(1, 3)), ("all", (-INF, INF) * 2, 1))
    board.apply(an_event(board, UPSERT, "a", (1.0, 1.0), 1.0))
    board.apply(Configure((1, 7)))
    said = foretold(board, an_event(board, UPDATE, "a", (None, None), 2.0))
    assert [(one.k, one.shape, one.reached) for one in said.classes] == [(1, "box", 1), (7, "box", 0)]


def test_many_tiles_outgrow_the_first_buffer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many narrow regions around a common place, each with its own tile, and as many exposed objects."""
    monkeypatch.setattr(explain, "ROOM", 2)
    rng = np.random.default_rng(3)
    ends = np.sort(rng.random((60, 2, 2)), axis=2)
    ends[:, :, 0], ends[:, :, 1] = ends[:, :, 0] / 2, 0.5 + ends[:, :, 1] / 2
    board = a_board(config(2, 0, ks=(1,)), *((f"s{i}", tuple(row.ravel()), 1) for i, row in enumerate(ends)))
    for i, place in enumerate(rng.random((40, 2)).tolist()):
        board.apply(an_event(board, UPSERT, f"o{i}", tuple(place), float(rng.random())))
    board.apply(an_event(board, UPSERT, "best", (0.5, 0.5), -1.0))
    event = an_event(board, UPDATE, "best", (None, None), 2.0)
    said = foretold(board, event)
    plan = applied(board, event, 10**6)
    assert said.tile_count == plan.tile_count > 10
    assert tiles_of(said.classes[0], said.kind, 2) == [tile for _, tile in plan.tiles]


def test_a_question_that_fails_leaves_the_board_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """For want of memory, say, in the middle of painting."""
    board = a_board(config(2, 0), ("all", (-INF, INF) * 2, 2))
    board.apply(an_event(board, UPSERT, "a", (1.0, 1.0), 1.0))
    board.painter.objects.reserve(2, 9)
    before = whole_state(board)

    def fails(*_: Any) -> int:
        raise MemoryError

    monkeypatch.setattr(explain, "reach", fails)
    plan = board.explain(an_event(board, UPDATE, "a", (2.0, None), 0.0), 100)
    plan.execute(1.0)
    assert plan.publish() is None
    assert plan.done and plan.explanation is None and isinstance(plan.failure, MemoryError)
    assert whole_state(board) == before
    board.check()


def test_unbounded_sides_are_infinite() -> None:
    board = a_board(config(2, 0), ("all", (-INF, INF) * 2, 2))
    said = foretold(board, an_event(board, UPSERT, "a", (1.0, 1.0), 1.0))
    assert isinstance(said, Explanation) and said.affected == 1
    assert said.classes[0].after.sides.tolist() == [[-INF, -INF, INF, INF] * 2]
