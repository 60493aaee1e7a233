"""Streams of standing queries: the answer, then every new one whole, or a `reset` with the latest."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import pytest

from app.errors import ServiceError
from app.runtime.metrics import Metrics
from app.streaming import maps
from app.streaming.hub import Hub
from app.streaming.maps import MapSource
from indexes.maps.attributes import Attribute
from indexes.maps.config import MapConfig, Score, Top
from indexes.maps.results import QueryView, Rows, ShownObject, Slice, TopAnswer
from tests.streaming.helpers import alone, assert_refuses_board_options
from tests.streaming.world import Clock, Limits, Tap, quiet

T = TypeVar("T")
CONFIG = MapConfig((Attribute("price"),), (0.0, 0.0, 9.0, 9.0))
NEAREST = Top(1, Score("weighted_sum", (("distance", 1.0),)))
RESOURCE = "maps/food"


class Food:
    """A map whose queries each have one object in their answer, the `version` of which is how often it has changed.

    `history[id][seq]` is what a query answers right after that seq.
    """

    def __init__(self) -> None:
        self.config = CONFIG
        self.seq = 0
        self.watched: set[str] = set()
        self.version: dict[str, int] = {}
        self.history: dict[str, dict[int, int]] = {}
        self.wide = 0

    def watch(self, id: str) -> None:
        if id not in self.version:
            raise KeyError(id)
        self.watched.add(id)

    def unwatch(self, id: str) -> None:
        self.watched.discard(id)

    def query(self, id: str, answer: bool) -> QueryView | None:
        payload = b'"' + b"x" * self.wide + b'"' if self.wide else None
        rows = Rows([ShownObject("o", [1.0, 2.0], [5.0], self.version[id], payload)], [0.5])
        return QueryView(
            id, NEAREST, (1.0, 2.5), None, TopAnswer(NEAREST, (1.0, 2.5), rows, [0.5], 1, (1.0, 2.0), None)
        )


class Service:
    """A hub over one map."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.engine = Food()
        self.there = True
        self.clock = Clock()
        self.limits = limits or Limits()
        self.metrics = Metrics()
        self.hub = Hub("e1", self.limits, [MapSource(self._find, self._between)], self.metrics, self.clock)

    def _find(self, name: str) -> Food | None:
        return self.engine if self.there and name == "food" else None

    async def _between(self, name: str, fn: Callable[[], T]) -> T:
        return fn()

    def make(self, *ids: str) -> None:
        for id in ids:
            self.engine.seq += 1
            self.engine.version[id] = 0
            self.engine.history[id] = {self.engine.seq: 0}

    def change(self, *ids: str, others: int = 0) -> None:
        """A slice that gives some queries another answer, each by a change of its own, and then changes others."""
        engine, told = self.engine, []
        for id in ids:
            engine.seq += 1
            engine.version[id] += 1
            engine.history[id][engine.seq] = engine.version[id]
            if id in engine.watched:
                told.append((engine.seq, id))
        engine.seq += others
        self.hub.deliver(RESOURCE, Slice(engine.seq, told, []))

    def delete(self, id: str) -> None:
        engine = self.engine
        engine.seq += 1
        del engine.version[id]
        gone = [(engine.seq, id)] if id in engine.watched else []
        engine.watched.discard(id)
        self.hub.deliver(RESOURCE, Slice(engine.seq, [], gone))

    async def tap(self, id: str, after: str | None = None, ready: bool = False) -> Tap:
        """A connection with one stream."""
        tap = Mapped(self.hub, self.limits.stream_queue)
        self.hub.connections.add(tap)
        tap.start()
        try:
            await tap.follow("food", id, "results", after, ready=ready)
        except BaseException:
            await tap.lose()
            raise
        return tap

    def version_at(self, id: str, seq: int) -> int:
        """What a query answered at a seq."""
        history = self.engine.history[id]
        return history[max(at for at in history if at <= seq)]


class Mapped(Tap):
    """A connection whose streams are of maps."""

    resources = "maps"


def version(said: dict[str, Any]) -> int:
    found: int = said["list"][0]["created"]
    return found


def ready(limits: Limits | None = None) -> Service:
    service = Service(limits)
    service.make("mine", "other")
    return service


@alone
async def test_a_stream_begins_with_the_answer_and_tells_every_new_one() -> None:
    service = ready()
    tap = await service.tap("mine")
    service.change("mine", "other", others=2)
    service.change("other")
    service.change("mine")
    await quiet()
    assert tap.events == [("snapshot", 2), ("result", 6), ("result", 8)]
    entry = {"id": "o", "location": [1, 2], "values": {"price": 5}, "created": 0, "distance": 0.5, "score": 0.5}
    assert tap.got[0] == {
        "id": "mine",
        "stream": 0,
        "event": "snapshot",
        "cursor": "e1:2",
        "seq": 2,
        "location": [1, 2.5],
        "list": [{"rank": 1, **entry}],
        "candidates": [entry],
        "zone": {"center": [1, 2], "radius": None},
    }
    assert [version(said) for said in tap.got] == [0, 1, 2]
    assert set(tap.got[1]) == set(tap.got[0])


@alone
async def test_a_reader_who_comes_back_misses_nothing() -> None:
    service = ready()
    tap = await service.tap("mine")
    service.change("mine")
    await quiet()
    await tap.lose()
    service.change("mine")
    service.change("other")
    service.change("mine")
    service.clock.now += 59
    back = await service.tap("mine", after=tap.got[-1]["cursor"], ready=True)
    service.change("mine")
    await quiet()
    assert [said["event"] for said in back.got] == ["result", "result", "ready", "result"]
    assert [version(said) for said in back.got if said["event"] == "result"] == [2, 3, 4]


@alone
async def test_what_cannot_be_continued_is_reset() -> None:
    service = ready(Limits(resume_changes=2))
    for position in ("e1:0", "e0:2", "e1:1x", "", "e1:99"):
        tap = await service.tap("mine", after=position)
        await quiet()
        assert tap.events == [("reset", 2)], position
        await tap.lose()
        service.clock.now += 61
        await service.hub.drop_lapsed()
    tap = await service.tap("mine")
    for _ in range(3):
        service.change("mine")
    told = {"e1:2": [("reset", 5)], "e1:3": [("result", 4), ("result", 5)], "e1:5": [], "e1:6": [("reset", 5)]}
    for position, events in told.items():
        back = await service.tap("mine", after=position)
        await quiet()
        assert back.events == events, position
    assert tap.events == [("snapshot", 2), ("result", 3), ("result", 4), ("result", 5)]


@alone
async def test_of_long_answers_the_latest_is_kept() -> None:
    service = ready(Limits(resume_changes=10))
    service.engine.wide = maps.MOST_KEPT // 3
    tap = await service.tap("mine")
    for _ in range(10):
        service.change("mine")
    await quiet()
    assert [version(said) for said in tap.got] == list(range(11)), "who reads gets all"
    back = await service.tap("mine", after="e1:2")
    await quiet()
    found = [version(said) for said in back.got]
    assert found == list(range(11))[-len(found) :]
    assert 1 <= len(found) <= 3
    assert back.got[0]["event"] == "result", "what is left out is not missed: a later answer stands for it"
    service.change("mine")
    lost = await service.tap("mine", after="e1:2")
    await quiet()
    assert lost.got[0]["event"] == "reset", "the position is too old, however few were kept"
    kept = service.hub.following(RESOURCE, "mine")
    assert kept is not None
    assert kept.nbytes < 2 * maps.MOST_KEPT


@alone
async def test_who_does_not_read_is_reset_to_the_latest_and_goes_on() -> None:
    service = ready(Limits(stream_queue=3))
    slow, quick = await service.tap("mine"), await service.tap("mine")
    await quiet()
    slow.flowing.clear()
    for _ in range(9):
        service.change("mine")
        await quiet()
    slow.flowing.set()
    await quiet()
    service.change("mine")
    await quiet()
    assert [version(said) for said in quick.got] == list(range(11))
    events = [said["event"] for said in slow.got]
    assert events.count("reset") == 1
    last = events.index("reset")
    assert version(slow.got[last]) == 9
    assert [version(said) for said in slow.got[last + 1 :]] == [10]


@alone
async def test_a_deletion_ends_the_streams() -> None:
    service = ready()
    mine, other = await service.tap("mine"), await service.tap("other")
    service.change("mine")
    service.delete("mine")
    await quiet()
    assert mine.events == [("snapshot", 2), ("result", 3), ("gone", 4)]
    assert service.engine.watched == {"other"}
    with pytest.raises(ServiceError) as refused:
        await service.tap("mine")
    assert refused.value.errors == [("id", "there is no query 'mine'")]
    service.there = False
    service.hub.resource_gone(RESOURCE, 5)
    await quiet()
    assert other.events[-1] == ("gone", 5)
    assert service.hub.counts().live == 0
    with pytest.raises(ServiceError) as refused:
        await service.tap("other")
    assert [error.field for error in refused.value.errors] == ["map"]


@alone
async def test_what_nobody_reads_is_let_go() -> None:
    service = ready()
    tap = await service.tap("mine")
    assert service.engine.watched == {"mine"}
    await tap.lose()
    service.clock.now += 59
    await service.hub.drop_lapsed()
    assert service.engine.watched == {"mine"}
    service.clock.now += 2
    await service.hub.drop_lapsed()
    assert not service.engine.watched
    assert service.hub.counts() == (0, 0, 0)


@alone
async def test_a_heartbeat_moves_a_quiet_position_on() -> None:
    service = ready()
    tap = await service.tap("mine")
    service.change("other", others=3)
    service.clock.now += 16
    await service.hub.send_heartbeats()
    await quiet()
    assert tap.got[-1] == {"event": "heartbeat", "seq": 6, "cursor": "e1:6"}


@alone
async def test_what_is_told_is_counted() -> None:
    service = ready()
    await service.tap("mine")
    await service.tap("mine")
    service.change("mine")
    assert b'rankcast_stream_messages_total{event="result"} 2.0' in service.metrics.render()


@alone
async def test_tiles_and_what_goes_with_lists_are_for_boards() -> None:
    source = ready().hub.source(RESOURCE)[0]
    assert source.form("changes", False, None) == "results"
    assert_refuses_board_options(source)


@pytest.mark.parametrize("seed", range(20))
def test_random_histories_have_no_silent_hole(seed: int) -> None:
    asyncio.run(history(Random(seed)))


async def history(draw: Random) -> None:
    """Readers come, stall, fall behind, go and come back.

    Whatever they are told is right at its seq, and none passes over an answer but by a `reset`.
    """
    service = Service(Limits(stream_queue=4, resume_changes=6, resume_seconds=30.0))
    ids = ["a", "b", "c"]
    service.make(*ids)
    open_: list[tuple[str, Tap]] = []
    cursors: dict[str, list[str]] = {id: [] for id in ids}
    heard = resets = 0

    def check(id: str, tap: Tap) -> None:
        nonlocal heard, resets
        at = tap.begun_at
        for said in tap.got:
            match said["event"]:
                case "snapshot" | "reset":
                    resets += said["event"] == "reset"
                    assert version(said) == service.version_at(id, said["seq"])
                case "result":
                    assert version(said) == service.version_at(id, said["seq"])
                    if at >= 0:
                        assert version(said) == service.version_at(id, at) + 1, "nothing is passed over"
                    heard += 1
                case "heartbeat":
                    assert service.version_at(id, said["seq"]) == service.version_at(id, at)
            at = said["seq"]
            cursors[id].append(said["cursor"])
        if tap.flowing.is_set():
            assert service.version_at(id, at) == service.engine.version[id], "everything has come"

    for _ in range(120):
        step = draw.random()
        if step < 0.6:
            service.change(*draw.sample(ids, draw.randrange(3)), others=draw.randrange(2))
        elif step < 0.75:
            id = draw.choice(ids)
            after = draw.choice([None, *cursors[id][-6:]])
            tap = await service.tap(id, after)
            tap.begun_at = -1 if after is None else int(after.partition(":")[2])
            open_.append((id, tap))
        elif step < 0.85 and open_:
            tap = draw.choice(open_)[1]
            (tap.flowing.clear if tap.flowing.is_set() else tap.flowing.set)()
        elif step < 0.93 and open_:
            id, tap = open_.pop(draw.randrange(len(open_)))
            tap.flowing.set()
            await quiet()
            check(id, tap)
            await tap.lose()
        else:
            service.clock.now += draw.choice([1, 16, 31])
            await service.hub.send_heartbeats()
            await service.hub.drop_lapsed()
        await quiet()
    for id, tap in open_:
        tap.flowing.set()
        await quiet()
        check(id, tap)
        await tap.lose()
    assert heard > 10
