"""Streams of feeds: the list, then every change of it, or a `reset` with the list.

Also in the middle of a step that an epoch ends, when lists that are asked for are already those after it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

import numpy as np
import pytest

from app.errors import ServiceError
from app.rendering.feeds import Posts, keywords
from app.runtime.metrics import Metrics
from app.streaming.feeds import FeedSource
from app.streaming.hub import Hub
from indexes.feeds.commands import DeleteSubscriptions, Post, SetSubscription, Withdraw
from indexes.feeds.config import FeedConfig, Keywords
from indexes.feeds.engine import FeedEngine
from indexes.feeds.results import Change, Entry, PostView, SubscriptionView
from tests.streaming.helpers import alone, assert_refuses_board_options
from tests.streaming.world import Clock, Limits, Tap, quiet

T = TypeVar("T")
CONFIG = FeedConfig((0.0, 0.0, 4.0, 3.0), posts=128)
RESOURCE = "feeds/city"
WORDS = "abcdef"
Shown = list[tuple[str, float]]


class Fed(Tap):
    """A connection whose streams are of feeds."""

    resources = "feeds"


class Service:
    """A hub over one feed, and beside it the same feed with every post a command of its own.

    `history[id][seq]` is the list right after that seq.
    """

    def __init__(self, limits: Limits | None = None) -> None:
        self.engine, self.truth = FeedEngine(CONFIG), FeedEngine(CONFIG)
        self.there = True
        self.clock = Clock()
        self.limits = limits or Limits()
        self.metrics = Metrics()
        self.hub = Hub("e1", self.limits, [FeedSource(self._find, self._between)], self.metrics, self.clock)
        self.history: dict[str, dict[int, Shown]] = defaultdict(dict)

    def _find(self, name: str) -> FeedEngine | None:
        return self.engine if self.there and name == "city" else None

    async def _between(self, name: str, fn: Callable[[], T]) -> T:
        return fn()

    def remember(self) -> None:
        for view in self.truth.subscriptions(None, 99):
            found = [(entry.post.id, entry.score) for entry in self.truth.list_of(view.id)]
            self.history[view.id][self.truth.seq] = found

    def slices(self, command: Any) -> Any:
        """Apply a command a little at a time; what is to be heard has been delivered at each yield."""
        many = command if isinstance(command, Post) else None
        for i in range(len(many) if many is not None else 1):
            self.truth.apply(command if many is None else many.take([i]))
            self.remember()
        plan = self.engine.prepare(command)
        while not plan.done:
            plan.execute(0.0)
            part = plan.publish()
            if part is not None:
                self.hub.deliver(RESOURCE, part)
            yield

    def do(self, *commands: Any) -> None:
        for command in commands:
            for _ in self.slices(command):
                pass

    async def tap(self, id: str, after: str | None = None) -> Fed:
        tap = Fed(self.hub, self.limits.stream_queue)
        self.hub.connections.add(tap)
        tap.start()
        try:
            await tap.follow("city", id, "changes", after)
        except BaseException:
            await tap.lose()
            raise
        return tap


def post(*rows: tuple[str, str]) -> Post:
    words = Keywords.of([list(shown) for _, shown in rows])
    points = np.array([[len(id) % 4, ord(id[-1]) % 3] for id, _ in rows], np.float64)
    return Post([id for id, _ in rows], words, points)


def ask(id: str, words: str = "a", k: int = 2, alpha: float = 0.25) -> SetSubscription:
    return SetSubscription(id, list(words), (1.0, 1.0), k, alpha)


def applied(held: Shown, changes: list[dict[str, Any]]) -> Shown:
    """A list after a change, as the wire says: take out what is named, put in what has a rank, in ascending order."""
    named = {change["id"] for change in changes}
    found = [entry for entry in held if entry[0] not in named]
    for change in sorted((c for c in changes if c["new_rank"] is not None), key=lambda c: c["new_rank"]):
        found.insert(change["new_rank"] - 1, (change["id"], change["score"]))
    return found


def ready(limits: Limits | None = None) -> Service:
    service = Service(limits)
    service.do(ask("mine"), ask("other", "b"))
    return service


@alone
async def test_a_stream_begins_with_the_list_and_tells_its_changes() -> None:
    service = ready()
    service.do(post(("p1", "ab")))
    tap = await service.tap("mine")
    service.do(post(("p2", "b"), ("p3", "a"), ("p4", "a")), Withdraw(["p3"]))
    await quiet()
    assert tap.events == [("snapshot", 3), ("change", 5), ("change", 6), ("change", 7)]
    (entry,) = tap.got[0]["list"]
    assert (entry["rank"], entry["id"], entry["keywords"]) == (1, "p1", ["a", "b"])
    assert tap.got[1]["cursor"] == "e1:5"
    entered, *rest = tap.got[1]["changes"]
    assert (entered.keys(), rest) == ({"id", "old_rank", "new_rank", "score", "location", "keywords"}, [])
    assert tap.got[2]["changes"][0] == {"id": "p1", "old_rank": 2, "new_rank": None}
    held: Shown = [(one["id"], one["score"]) for one in tap.got[0]["list"]]
    for said in tap.got[1:]:
        held = applied(held, said["changes"])
        assert held == service.history["mine"][said["seq"]]


@alone
async def test_a_change_of_a_subscription_is_one_change() -> None:
    service = ready()
    service.do(post(("p1", "a"), ("p2", "b")))
    tap = await service.tap("mine")
    service.do(ask("mine", "b"))
    await quiet()
    said = [(one["id"], one["old_rank"], one["new_rank"]) for one in tap.got[1]["changes"]]
    assert (tap.events[1], said) == (("change", 5), [("p1", 1, None), ("p2", None, 1)])


@alone
async def test_a_deletion_ends_the_streams() -> None:
    service = ready()
    mine, other = await service.tap("mine"), await service.tap("other")
    service.do(DeleteSubscriptions(["mine"]))
    await quiet()
    assert mine.events == [("snapshot", 2), ("gone", 3)]
    with pytest.raises(ServiceError) as refused:
        await service.tap("mine")
    assert refused.value.errors == [("id", "there is no subscription 'mine'")]
    service.there = False
    service.hub.resource_gone(RESOURCE, 4)
    await quiet()
    assert other.events[-1] == ("gone", 4)
    with pytest.raises(ServiceError) as refused:
        await service.tap("other")
    assert [error.field for error in refused.value.errors] == ["feed"]


@alone
async def test_what_nobody_reads_is_let_go() -> None:
    service = ready()
    tap = await service.tap("mine")
    assert service.engine.watched == {"mine"}
    await tap.lose()
    service.clock.now += 61
    await service.hub.drop_lapsed()
    assert not service.engine.watched
    assert service.hub.counts() == (0, 0, 0)


@alone
async def test_what_is_told_is_counted_for_each_reader() -> None:
    service = ready()
    await service.tap("mine")
    await service.tap("mine")
    service.do(post(("p1", "a")))
    assert b'rankcast_stream_messages_total{event="change"} 2.0' in service.metrics.render()


@alone
async def test_what_goes_with_boards_only_is_refused() -> None:
    source = ready().hub.source(RESOURCE)[0]
    assert source.form("changes", False, None) == "changes"
    assert_refuses_board_options(source)


def middle(service: Service, at: int) -> Any:
    """The slices of the post with which an epoch begins, as long as readers have not heard of it."""
    for _ in service.slices(post((f"p{at}", "ac"))):
        if service.engine.published_seq < service.engine.seq:
            yield


@alone
async def test_a_position_given_in_the_middle_of_an_epoch_is_before_it() -> None:
    service = ready()
    service.do(post(*((f"p{i}", "ab"[i % 2] + "c") for i in range(63))))
    tap = await service.tap("mine")
    met = 0
    for _ in middle(service, 63):
        met += 1
        service.clock.now += 16
        await service.hub.send_heartbeats()
        await quiet()
        assert tap.got[-1] == {"event": "heartbeat", "seq": 65, "cursor": "e1:65"}
        await tap.lose()
    assert met, "there was a middle"
    back = await service.tap("mine", "e1:65")
    await quiet()
    assert back.events == [("change", 66)]


@alone
async def test_all_get_the_list_when_one_asks_for_it_in_the_middle_of_an_epoch() -> None:
    service = ready()
    service.do(post(*((f"p{i}", "ab"[i % 2] + "c") for i in range(63))))
    old = await service.tap("mine")
    late: list[Fed] = []
    for _ in middle(service, 63):
        late.append(await service.tap("mine"))
        service.clock.now += 16
        await service.hub.send_heartbeats()
        await quiet()
        assert late[0].got[-1]["cursor"] == "e1:66"
        late.append(await service.tap("mine", "e1:66"))
    assert late, "there was a middle"
    service.do(post(("q1", "a")))
    await quiet()
    assert [event for event in old.events if event[0] != "heartbeat"] == [
        ("snapshot", 65),
        ("reset", 66),
        ("change", 67),
    ]
    assert [event for event in late[0].events if event[0] != "heartbeat"] == [("snapshot", 66), ("change", 67)]
    assert [event for event in late[1].events if event[0] != "heartbeat"] == [("change", 67)]
    for tap in (old, late[0]):
        shown = next(said for said in reversed(tap.got) if said["event"] in ("snapshot", "reset"))
        held = applied([(one["id"], one["score"]) for one in shown["list"]], tap.got[-1]["changes"])
        assert held == service.history["mine"][67]


@pytest.mark.parametrize("seed", range(8))
def test_random_histories_have_no_silent_hole(seed: int) -> None:
    asyncio.run(history(Random(seed)))


async def history(draw: Random) -> None:
    """Readers come, stall, fall behind, go and come back, in the middle of commands too.

    What they hold is right at the seq of each thing that they are told.
    """
    service = Service(Limits(stream_queue=4, resume_changes=6, resume_seconds=30.0))
    ids = ["a", "b", "c"]
    service.do(*(ask(id, id + "def", 3) for id in ids))
    open_: list[tuple[str, Fed, Shown | None]] = []
    known: dict[str, list[tuple[str, Shown]]] = {id: [] for id in ids}
    numbers = iter(range(10**6))
    heard = resets = 0

    def check(id: str, tap: Fed, held: Shown | None) -> None:
        nonlocal heard, resets
        at = -1
        for said in tap.got:
            match said["event"]:
                case "snapshot" | "reset":
                    resets += said["event"] == "reset"
                    held = [(one["id"], one["score"]) for one in said["list"]]
                    assert [one["rank"] for one in said["list"]] == list(range(1, len(held) + 1))
                case "change":
                    assert held is not None
                    held = applied(held, said["changes"])
                    heard += 1
            assert held is not None
            assert said["seq"] >= at, "a position does not go back"
            at = said["seq"]
            assert held == service.history[id][said["seq"]], (said["event"], said["seq"])
            known[id].append((said["cursor"], held))

    async def wake() -> None:
        step = draw.random()
        if step < 0.4:
            id = draw.choice(ids)
            cursor, held = draw.choice([(None, None), *known[id][-6:]])
            open_.append((id, await service.tap(id, cursor), held))
        elif step < 0.6 and open_:
            tap = draw.choice(open_)[1]
            (tap.flowing.clear if tap.flowing.is_set() else tap.flowing.set)()
        elif step < 0.8 and open_:
            id, tap, held = open_.pop(draw.randrange(len(open_)))
            tap.flowing.set()
            await quiet()
            check(id, tap, held)
            await tap.lose()
        else:
            service.clock.now += draw.choice([1, 16, 31])
            await service.hub.send_heartbeats()
            await service.hub.drop_lapsed()

    for _ in range(60):
        kind = draw.random()
        there = [view.id for view in service.engine.posts(None, 99)]
        if kind < 0.1:
            id = draw.choice(ids)
            command: Any = ask(id, id + draw.choice(WORDS), draw.randrange(1, 5), draw.choice([0.0, 0.5, 1.0]))
        elif kind < 0.2 and there:
            command = Withdraw(draw.sample(there, 1))
        else:
            rows = [(f"p{next(numbers)}", draw.choice(WORDS) + draw.choice(WORDS)) for _ in range(draw.randrange(1, 9))]
            command = post(*rows)
        for _ in service.slices(command):
            if draw.random() < 0.3:
                await wake()
        await wake()
        await quiet()
    for id, tap, held in open_:
        tap.flowing.set()
        await quiet()
        check(id, tap, held)
        await tap.lose()
    assert service.engine.seq > 140 and heard > 10


# --- text -------------------------------------------------------------------------------------------------------------


def test_what_is_written_is_json_whatever_words_are() -> None:
    import json

    odd = ['"', "\\", "\n", "\x00", "\u2028", "𝄞", "\uffff"]
    assert json.loads("{" + keywords(list(odd)) + "}") == {"keywords": odd}
    weights = {word: i + 0.5 for i, word in enumerate(odd)}
    text = "{" + keywords(weights) + "}"
    assert json.loads(text) == {"keywords": weights}
    assert "\n" not in text and "\r" not in text, "an event is one line"
    view = PostView(0, 1, "p", weights, (-1.5, 1e300), 0, b'{"a":1}')
    write = Posts()
    said = json.loads(write.changes([Change("p", 1, 2, Entry(view, 1.0)), Change("q", 3, None, None)]))
    assert said == [
        {
            "id": "p",
            "old_rank": 1,
            "new_rank": 2,
            "score": 1,
            "location": [-1.5, 1e300],
            "keywords": weights,
            "payload": {"a": 1},
        },
        {"id": "q", "old_rank": 3, "new_rank": None},
    ]
    subscription = SubscriptionView("s", ["a"], (0.0, 1.0), 3, 0.5, 2.0, [Entry(view, 0.5)])
    assert json.loads(write.subscription(subscription, '"seq":9,')) == {
        "seq": 9,
        "id": "s",
        "keywords": ["a"],
        "location": [0, 1],
        "k": 3,
        "alpha": 0.5,
        "ttl": 2,
        "list": [
            {"rank": 1, "id": "p", "score": 0.5, **{key: said[0][key] for key in ("location", "keywords", "payload")}}
        ],
    }
