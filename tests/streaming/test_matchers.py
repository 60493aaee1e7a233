"""Streams of what a matcher's subscriptions won: all of it in order, or a `reset` that says that some may be missed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import pyarrow as pa
import pytest

from app.errors import ServiceError
from app.runtime.metrics import Metrics
from app.streaming.hub import Hub
from app.streaming.matchers import MatcherSource
from indexes.matchers.commands import AddSubscriptions, DeleteSubscriptions, Match
from indexes.matchers.config import MatcherConfig
from indexes.matchers.engine import MatcherEngine
from indexes.matchers.forms import Form, columns_of
from tests.streaming.helpers import assert_refuses_board_options
from tests.streaming.world import Clock, Limits, Tap, quiet
from tests.support.values import between
from tests.unit.matchers.direct import events_of

T = TypeVar("T")
CONFIG = MatcherConfig(("age",), "exact")
RESOURCE = "matchers/ads"


class Service:
    """A hub over one matcher. `told[id]` is all that a subscription has won."""

    def __init__(self, limits: Limits | None = None) -> None:
        self.engine = MatcherEngine(CONFIG)
        self.there = True
        self.clock = Clock()
        self.limits = limits or Limits()
        self.told: dict[str, list[dict[str, Any]]] = {}
        self.hub = Hub("e1", self.limits, [MatcherSource(self._find, self._between)], Metrics(), self.clock)

    def _find(self, name: str) -> MatcherEngine | None:
        return self.engine if self.there and name == "ads" else None

    async def _between(self, name: str, fn: Callable[[], T]) -> T:
        return fn()

    def apply(self, command: Any) -> Any:
        """Apply a command and deliver what live subscriptions must hear of."""
        plan, heard = self.engine.apply(command)
        for part in heard:
            self.hub.deliver(RESOURCE, part)
        return plan

    def subscribe(self, id: str, lo: float, hi: float, score: float) -> None:
        columns, _ = columns_of(CONFIG, [Form({"age": (lo, hi)}, None, score)])
        self.apply(AddSubscriptions(pa.array([id]), columns))
        self.told[id] = []

    def delete(self, *ids: str) -> None:
        self.apply(DeleteSubscriptions(list(ids)))

    def match(self, *ages: Any, k: int = 3, payload: bytes | None = None) -> None:
        """Match events of these ages, and note who must hear of it."""
        events, _ = events_of(CONFIG, [{"age": age} for age in ages])
        plan = self.apply(Match(events, k, payload={} if payload is None else dict.fromkeys(range(len(ages)), payload)))
        for seq, (age, result) in enumerate(zip(ages, plan.results, strict=True), plan.first_seq):
            for rank, won in enumerate(result.winners, 1):
                values = {} if age is None else {"age": list(age) if isinstance(age, tuple) else age}
                about = {"seq": seq, "values": values, "payload": payload and json.loads(payload)}
                self.told[won.id].append({**about, "rank": rank, "score": won.score})

    async def tap(self, id: str, after: str | None = None, ready: bool = False) -> Tap:
        """A connection with one stream."""
        tap = Matched(self.hub, self.limits.stream_queue)
        self.hub.connections.add(tap)
        tap.start()
        try:
            await tap.follow("ads", id, "events", after, ready=ready)
        except BaseException:
            await tap.lose()
            raise
        return tap

    def after(self, id: str, seq: int) -> list[dict[str, Any]]:
        """What a subscription won after a seq."""
        return [win for win in self.told[id] if win["seq"] > seq]


class Matched(Tap):
    """A connection whose streams are of matchers."""

    resources = "matchers"


def wins(tap: Tap) -> list[dict[str, Any]]:
    """What came of wins, as `Service.told` has it."""
    fields = ("seq", "values", "payload", "rank", "score")
    return [{field: said[field] for field in fields} for said in tap.got if said["event"] == "win"]


def alone(test: Callable[[], Any]) -> Callable[[], None]:
    """Run a test on a loop of its own."""

    def run() -> None:
        asyncio.run(test())

    run.__name__ = test.__name__
    run.__doc__ = test.__doc__
    return run


def ready() -> Service:
    service = Service()
    service.subscribe("mine", 20, 30, 1.5)
    service.subscribe("other", 0, 99, 1.0)
    return service


@alone
async def test_a_stream_begins_with_ready_and_tells_every_win() -> None:
    service = ready()
    service.match(25)
    tap = await service.tap("mine")
    service.match(25, 50, (28, 40), payload=b'{"page":"/"}')
    service.match(None)
    await quiet()
    assert tap.events == [("ready", 3), ("win", 4), ("win", 6)]
    assert tap.got[0] == {"id": "mine", "stream": 0, "event": "ready", "cursor": "e1:3", "seq": 3}
    assert wins(tap) == service.after("mine", 3)
    assert wins(tap)[1] == {"seq": 6, "values": {"age": [28, 40]}, "payload": {"page": "/"}, "rank": 1, "score": 1.5}


@alone
async def test_ends_that_are_open_are_null() -> None:
    service = ready()
    tap = await service.tap("mine")
    service.match((float("-inf"), 20))
    await quiet()
    assert tap.got[-1]["values"] == {"age": [None, 20]}
    assert tap.got[-1]["payload"] is None


@alone
async def test_a_reader_who_comes_back_misses_nothing() -> None:
    service = ready()
    tap = await service.tap("mine")
    service.match(25)
    await quiet()
    await tap.lose()
    service.match(26, 99, 27)
    service.clock.now += 59
    back = await service.tap("mine", after=tap.got[-1]["cursor"])
    service.match(28)
    await quiet()
    assert [said["event"] for said in back.got] == ["win"] * 3
    assert wins(tap) + wins(back) == service.told["mine"]


@alone
async def test_with_ready_a_stream_that_goes_on_says_when_it_has_caught_up() -> None:
    service = ready()
    tap = await service.tap("mine", ready=True)
    service.match(25)
    await quiet()
    assert tap.events == [("ready", 2), ("win", 3)], "once, not twice"
    back = await service.tap("mine", after="e1:2", ready=True)
    lost = await service.tap("mine", after="e0:2", ready=True)
    await quiet()
    assert back.events == [("win", 3), ("ready", 3)]
    assert lost.events == [("reset", 3), ("ready", 3)]


@alone
async def test_what_cannot_be_continued_is_reset() -> None:
    service = Service(Limits(resume_changes=2))
    service.subscribe("mine", 20, 30, 1.5)
    for position in ("e1:0", "e0:1", "e1:1x", "", "e1:99"):
        tap = await service.tap("mine", after=position)
        await quiet()
        assert tap.events == [("reset", 1)], position
        await tap.lose()
        service.clock.now += 61
        await service.hub.drop_lapsed()
    tap = await service.tap("mine")
    service.match(25, 26, 27)
    for position, told in (("e1:1", ["reset"]), ("e1:2", ["win", "win"]), ("e1:4", []), ("e1:5", ["reset"])):
        back = await service.tap("mine", after=position)
        await quiet()
        assert [said["event"] for said in back.got] == told, position
    assert tap.events == [("ready", 1), ("win", 2), ("win", 3), ("win", 4)]


@alone
async def test_who_does_not_read_is_reset_and_goes_on() -> None:
    service = Service(Limits(stream_queue=3))
    service.subscribe("mine", 20, 30, 1.5)
    slow, quick = await service.tap("mine"), await service.tap("mine")
    await quiet()
    slow.flowing.clear()
    for age in range(21, 30):
        service.match(age)
        await quiet()
    slow.flowing.set()
    await quiet()
    service.match(22)
    await quiet()
    assert wins(quick) == service.told["mine"]
    events = [said["event"] for said in slow.got]
    assert events.count("reset") == 1
    last = max(at for at, event in enumerate(events) if event == "reset")
    assert [said["seq"] for said in slow.got[last + 1 :]] == [
        win["seq"] for win in service.after("mine", slow.got[last]["seq"])
    ]


@alone
async def test_a_deletion_ends_the_streams_after_what_was_won() -> None:
    service = ready()
    mine, other = await service.tap("mine"), await service.tap("other")
    service.match(25)
    service.delete("mine")
    await quiet()
    assert mine.events == [("ready", 2), ("win", 3), ("gone", 4)]
    assert service.engine.watched == {"other"}
    service.there = False
    service.hub.resource_gone(RESOURCE, 5)
    await quiet()
    assert other.events[-1] == ("gone", 5)
    assert service.hub.counts().live == 0
    for id, field in (("other", "matcher"), ("mine", "matcher")):
        with pytest.raises(ServiceError) as refused:
            await service.tap(id)
        assert [error.field for error in refused.value.errors] == [field]


@alone
async def test_one_made_again_under_its_id_is_another() -> None:
    service = ready()
    tap = await service.tap("mine")
    service.delete("mine")
    service.subscribe("mine", 20, 30, 9.0)
    service.match(25)
    await quiet()
    assert tap.events == [("ready", 2), ("gone", 3)]
    back = await service.tap("mine", after="e1:2")
    await quiet()
    assert back.events == [("reset", 5)]


@alone
async def test_what_nobody_reads_is_let_go() -> None:
    service = ready()
    assert not service.engine.watched
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
    service.match(99, 98)
    service.clock.now += 16
    await service.hub.send_heartbeats()
    await quiet()
    assert tap.got[-1] == {"event": "heartbeat", "seq": 4, "cursor": "e1:4"}


@alone
async def test_tiles_and_what_goes_with_lists_are_for_boards() -> None:
    source = ready().hub.source(RESOURCE)[0]
    assert source.form("changes", False, None) == "events"
    assert_refuses_board_options(source)


@pytest.mark.parametrize("seed", range(20))
def test_random_histories_have_no_silent_hole(seed: int) -> None:
    asyncio.run(history(Random(seed)))


async def history(draw: Random) -> None:
    """Readers come, stall, fall behind, go and come back.

    Each hears all that was won after its position, in order and once; where it does not, a `reset` says so.
    """
    service = Service(Limits(stream_queue=4, resume_changes=6, resume_seconds=30.0))
    ids = ["a", "b", "c"]
    for id in ids:
        service.subscribe(id, *between(draw.sample(range(10), 2)), draw.random())
    open_: list[tuple[str, Tap]] = []
    cursors: dict[str, list[str]] = {id: [] for id in ids}
    heard = resets = 0

    def check(id: str, tap: Tap) -> None:
        nonlocal heard, resets
        at = tap.begun_at
        for said in tap.got:
            match said["event"]:
                case "ready" | "reset":
                    resets += said["event"] == "reset"
                    at = said["seq"]
                case "win":
                    missed = service.after(id, at)
                    assert missed and missed[0]["seq"] == said["seq"], "nothing is passed over"
                    assert {field: said[field] for field in missed[0]} == missed[0]
                    at = said["seq"]
                    heard += 1
                case "heartbeat":
                    missed = service.after(id, at)
                    assert not missed or missed[0]["seq"] > said["seq"], "a heartbeat passes over nothing"
            cursors[id].append(said["cursor"])
        if tap.flowing.is_set():
            assert not service.after(id, at), "everything has come"

    for _ in range(120):
        step = draw.random()
        if step < 0.5:
            service.match(*(draw.choice([draw.randrange(11), (2, 7), None]) for _ in range(draw.randrange(1, 4))), k=2)
        elif step < 0.65:
            id = draw.choice(ids)
            after = draw.choice([None, *cursors[id][-3:]])
            tap = await service.tap(id, after)
            tap.begun_at = -1 if after is None else int(after.partition(":")[2])
            open_.append((id, tap))
        elif step < 0.75 and open_:
            id, tap = open_.pop(draw.randrange(len(open_)))
            tap.flowing.set()
            await quiet()
            check(id, tap)
            await tap.lose()
        elif step < 0.85 and open_:
            flowing = draw.choice(open_)[1].flowing
            flowing.clear() if flowing.is_set() else flowing.set()
        elif step < 0.95:
            service.clock.now += draw.choice([1, 20, 40])
            await service.hub.send_heartbeats()
            await service.hub.drop_lapsed()
        await quiet()
    for id, tap in open_:
        tap.flowing.set()
        await quiet(40)
        check(id, tap)
        await tap.lose()
    assert heard
