"""Lists, live lists and tiles of boards against sorting, over the largest and the smallest numbers that boards take.

Objects and subscriptions come, change and go in between, one by one and as batches.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexes.boards.commands import DELETE, UPSERT, DeleteSubscriptions, Events, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.regions import Region
from indexes.boards.verification import verify
from tests.oracles import regions as plane
from tests.oracles import world as line
from tests.unit.boards.helpers import applied, captured

INF = math.inf
TINY = 5e-324
NUMBERS = [0.0, -0.0, TINY, -TINY, 2.2250738585072014e-308, 1e-160, 1.0, -1.0, 1e154, -1e160, 1e300, -1e300]
NEXT = [math.nextafter(1e300, 0.0), math.nextafter(-1e300, 0.0), math.nextafter(1.0, 2.0)]

CONFIGS: dict[str, BoardConfig] = {
    "sparse": BoardConfig(("x",), "y", ks=(1, 2, 5)),
    "dense": BoardConfig(("x",), "y", "desc", ks=(1, 2, 5), algorithm="dense"),
    "epsilon": BoardConfig(("x",), "y", ks=(1, 2, 5), runs=1),
    "sketch": BoardConfig(("x",), "y", "desc", ks=(1, 2, 5), index="kd-tree", sketch=2),
    "plane": BoardConfig(("x", "z"), "y", "desc", ks=(1, 2, 5)),
    "space": BoardConfig(("x", "z", "u"), "y", ks=(1, 2, 5)),
}

number = st.sampled_from(NUMBERS + NEXT)
end = st.one_of(number, st.just(None))
size = number.map(abs)


def box(d: int) -> st.SearchStrategy[Region]:
    """Boxes, unbounded ones too."""

    def of(pairs: Any) -> Region:
        sides: list[float] = []
        for a, b in pairs:
            low, high = -INF if a is None else a, INF if b is None else b
            sides += sorted((low + 0.0, high + 0.0))
        return Region("box", tuple(sides))

    return st.tuples(*[st.tuples(end, end)] * d).map(of)


def region(d: int) -> st.SearchStrategy[Region]:
    if d != 2:
        return box(d)
    normal = st.tuples(number, number).filter(any)
    return st.one_of(
        box(2),
        st.tuples(number, number, size).map(lambda sides: Region("disc", sides)),
        st.tuples(normal, number).map(lambda one: Region("half_plane", (*one[0], one[1]))),
        st.tuples(*[number] * 6).map(lambda sides: Region("simplex", sides)),
    )


class Truth:
    """A board, its objects in dictionaries beside it, and subscribers who see tiles alone or the changes alone."""

    def __init__(self, config: BoardConfig) -> None:
        self.board = BoardEngine(config)
        self.d = len(config.range_attributes)
        self.oracle: Any = line if self.d == 1 else plane
        self.world = self.oracle.World(config.order)
        self.subscribers: dict[str, Any] = {}
        self.live: dict[str, int] = {}

    def ask_of(self, region: Region, k: int) -> Any:
        if self.d == 1:
            ((l, r),) = region.ends
            return line.Ask(l, r, k)
        return plane.Ask(plane.Where(*region), k)

    def change(self, rows: list[Any], batch: bool) -> None:
        """Objects at places with ranks, None for their end."""
        things = set(self.world.things)
        some = []
        for key, place, rank in rows:
            if place is not None:
                things.add(key)
                some.append((UPSERT, key, place, rank))
            elif key in things:
                things.discard(key)
                some.append((DELETE, key, (math.nan,) * self.d, math.nan))
        if not some:
            return
        x = np.array([place for _, _, place, _ in some])
        command = Events(
            np.array([op for op, *_ in some], np.uint8),
            [key for _, key, *_ in some],
            x[:, 0] if self.d == 1 else x,
            np.array([rank for *_, rank in some]),
            batch=batch,
        )
        plan = applied(self.board, command, keep_tiles=10**6)
        for op, key, place, rank in some:
            if op == DELETE:
                del self.world.things[key]
            else:
                self.world.upsert(key, place[0] if self.d == 1 else place, rank)
        for _, tile in plan.tiles:
            assert all(math.isfinite(v) for v in (tile.object.y, *np.atleast_1d(tile.object.x)))
            for key, subscriber in self.subscribers.items():
                if self.oracle.reaches(tile, self.world.asks[key]):
                    subscriber.apply(tile)

    def ask(self, key: str, region: Region, k: int) -> None:
        self.board.apply(SetSubscription(key, region, k))
        self.world.asks[key] = self.ask_of(region, k)
        self.subscribers[key] = self.oracle.TileSubscriber(self.world, self.world.asks[key])
        if key not in self.live:
            self.live[key] = self.board.watch(key)

    def leave(self, key: str) -> None:
        if key in self.live:
            self.board.unwatch(self.live.pop(key))
            self.board.apply(DeleteSubscriptions([key]))
            del self.world.asks[key], self.subscribers[key]

    def check(self) -> None:
        self.board.check()
        for key, ask in self.world.asks.items():
            truth = self.world.shown(key)
            region = Region("box", (ask.l, ask.r)) if self.d == 1 else Region(ask.where.shape, ask.where.sides)
            assert [tuple(one) for one in self.board.top(region, ask.k, 0)] == truth
            assert [tuple(one) for one in self.board.list_of(self.live[key], 0)] == truth
            assert self.subscribers[key].shown() == truth


def steps(d: int) -> st.SearchStrategy[Any]:
    row = st.tuples(st.sampled_from("abcdefg"), st.one_of(st.tuples(*[number] * d), st.just(None)), number)
    some = st.lists(row, min_size=1, max_size=4)
    return st.one_of(
        st.tuples(st.just("change"), some, st.booleans()),
        st.tuples(st.just("change"), some, st.booleans()),
        st.tuples(st.just("ask"), st.sampled_from(["s0", "s1", "s2", "s3"]), region(d), st.sampled_from([1, 2, 5])),
        st.tuples(st.just("leave"), st.sampled_from(["s0", "s1"])),
    )


@pytest.mark.parametrize("name", CONFIGS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_lists_live_lists_and_tiles_are_what_is_sorted(name: str, data: st.DataObject) -> None:
    truth = Truth(CONFIGS[name])
    for what, *given_to in data.draw(st.lists(steps(truth.d), min_size=1, max_size=14)):
        getattr(truth, what)(*given_to)
        truth.check()
    found = list(verify(captured(truth.board, indexes=True)))
    assert not sum(one.wrong for one in found)


def test_half_a_board_at_each_end_of_the_numbers() -> None:
    for config in CONFIGS.values():
        truth = Truth(config)
        everywhere = Region("box", (-INF, INF) * truth.d)
        truth.ask("all", everywhere, 5)
        rows = [(f"o{n}", ((-1.0) ** n * 1e300,) * truth.d, (-1.0) ** (n // 2) * 1e300) for n in range(40)]
        truth.change(rows, batch=False)
        truth.check()
        truth.change([(key, tuple(-v for v in place), -rank) for key, place, rank in rows], batch=True)
        truth.check()
        truth.change([(key, None, 0.0) for key, *_ in rows], batch=True)
        truth.check()


def test_an_edge_for_which_there_is_no_number_decides_nothing() -> None:
    truth = Truth(CONFIGS["plane"])
    truth.change([("a", (0.0, 0.0), 0.0)], batch=False)
    truth.ask("s", Region("simplex", (-1e160, 1e154, -1.0, 0.0, 0.0, TINY)), 1)
    assert truth.world.shown("s") == []
    truth.check()
