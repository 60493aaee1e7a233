"""Streams that want at most one change every so many seconds: never more often, never less than the net."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.streaming.conflation import BATCH, WAITING, rewound
from indexes.boards.results import ObjectView
from tests.streaming.helpers import alone, better, ready
from tests.streaming.site import PATH, SUBSCRIBE, Site, served
from tests.streaming.world import Limits, Service, Tap, net, quiet
from tests.support.patience import PATIENCE

TEN = 10.0


async def passes(service: Service, seconds: float) -> None:
    """Time goes by, and what is due then is sent."""
    service.clock.now += seconds
    await service.hub.conflator.send_due()
    await quiet()


def changes(tap: Tap) -> list[dict[str, Any]]:
    return [message for message in tap.got if message["event"] == "change"]


@alone
async def test_the_first_change_after_quiet_is_sent_at_once_and_then_one_each_time() -> None:
    service = ready()
    tap = await service.tap("mine", squash=TEN)
    service.deliver(better(service, 1))
    await quiet()
    assert tap.events == [("snapshot", 5), ("change", 6)]
    for i in range(2, 6):
        service.deliver(better(service, i))
    await passes(service, 9.9)
    assert tap.events[2:] == []
    await passes(service, 0.1)
    assert tap.events[2:] == [("change", 10)]
    service.deliver(better(service, 6))
    await passes(service, 9.9)
    service.deliver(better(service, 7))
    await passes(service, 0.1)
    assert tap.events[3:] == [("change", 12)]
    await passes(service, 100.0)
    service.deliver(better(service, 8), better(service, 9))
    await quiet()
    assert tap.events[4:] == [("change", 14)]


@alone
async def test_a_change_is_the_net_of_what_happened() -> None:
    service = ready()
    world = service.world
    tap = await service.tap("mine", "old", squash=TEN)
    service.deliver(better(service, 1))
    service.deliver(partial(world.put, "guest", 5, -50.0))
    service.deliver(partial(world.put, "o1", 1, 5.0))
    service.deliver(partial(world.put, "o1", 1, 6.0))
    service.deliver(partial(world.delete, "guest"))
    service.deliver(partial(world.put, "o3", 3, 15.0))
    await passes(service, TEN)
    (_, told) = changes(tap)
    assert told["seq"] == world.seq
    by_id = {entry["id"]: entry for entry in told["changes"]}
    assert set(by_id) == {"o1", "o2", "o3"}, "the guest came and went, o0 stayed as it was"
    assert (by_id["o1"]["old_rank"], by_id["o1"]["new_rank"]) == (2, 2)
    assert (by_id["o1"]["old_values"]["delay"], by_id["o1"]["values"]["delay"]) == (10, 6)
    assert (by_id["o2"]["old_rank"], by_id["o2"]["new_rank"]) == (3, None)
    assert (by_id["o3"]["old_rank"], by_id["o3"]["new_rank"]) == (None, 3)


@alone
async def test_nothing_is_sent_where_the_net_is_nothing() -> None:
    service = ready()
    world = service.world
    tap = await service.tap("mine", squash=TEN)
    service.deliver(better(service, 1))
    service.deliver(partial(world.put, "o1", 1, 5.0))
    service.deliver(partial(world.put, "o1", 1, 10.0))
    await passes(service, TEN)
    assert len(changes(tap)) == 1
    service.deliver(better(service, 2))
    await quiet()
    assert len(changes(tap)) == 2, "nothing was sent, so that nothing has to be waited for"
    assert service.metrics.stream_messages.labels("change")._value.get() == 2


@alone
async def test_other_readers_of_the_list_hear_everything_at_once() -> None:
    service = ready()
    slow, fast = await service.tap("mine", squash=TEN), await service.tap("mine")
    for i in range(1, 4):
        service.deliver(better(service, i))
    await quiet()
    assert [seq for _, seq in fast.events] == [5, 6, 7, 8]
    assert [seq for _, seq in slow.events] == [5, 6]
    assert service.metrics.stream_messages.labels("change")._value.get() == 4


@alone
async def test_equal_nets_share_one_block() -> None:
    service = ready()
    service.world.subscribe("yours")
    taps = [await service.tap(id, squash=TEN) for id in ("mine", "yours", "mine")]
    for tap in taps:
        await quiet()
        tap.flowing.clear()
    service.deliver(better(service, 1))
    blocks = [tap.queue[-1][1].block for tap in taps]
    assert blocks[0] is blocks[1] is blocks[2]


@alone
async def test_more_readers_than_a_portion_all_hear_of_it() -> None:
    service = ready()
    taps = [await service.tap("mine", squash=TEN) for _ in range(BATCH + 5)]
    service.deliver(better(service, 1))
    await passes(service, 0.0)
    assert [len(changes(tap)) for tap in taps] == [1] * len(taps)
    service.deliver(better(service, 2))
    await passes(service, TEN)
    assert [len(changes(tap)) for tap in taps] == [2] * len(taps)


@alone
async def test_the_timer_lets_out_what_is_held_back() -> None:
    service = ready()
    service.hub._clock = service.hub.conflator._clock = asyncio.get_running_loop().time
    tap = await service.tap("mine", squash=0.01)
    service.deliver(better(service, 1))
    service.deliver(better(service, 2))
    async with asyncio.timeout(PATIENCE):
        while len(changes(tap)) < 2:
            await asyncio.sleep(0.001)
    assert changes(tap)[1]["seq"] == 7
    service.hub.stop()


@alone
async def test_who_comes_back_is_told_the_net_of_what_was_missed() -> None:
    service = ready()
    first = await service.tap("mine", squash=TEN)
    service.deliver(better(service, 1))
    await quiet()
    for i in range(2, 5):
        service.deliver(better(service, i))
    await first.lose()
    service.deliver(better(service, 5))
    again = await service.tap("mine", after=changes(first)[-1]["cursor"], ready=True, squash=TEN)
    between = await service.tap("mine", after="e1:8", ready=True, squash=TEN)
    none = await service.tap("mine", after="e1:10", ready=True, squash=TEN)
    await quiet()
    assert again.events == between.events == [("change", 10), ("ready", 10)]
    assert (again.got[0]["changes"], none.events) == (between.got[0]["changes"], [("ready", 10)])
    service.deliver(better(service, 6))
    await quiet()
    assert [len(changes(tap)) for tap in (again, between, none)] == [1, 1, 1], "the net at the beginning counts"
    await passes(service, TEN)
    assert [changes(tap)[-1]["seq"] for tap in (again, between, none)] == [11, 11, 11]


@alone
async def test_where_nobody_was_squashed_before_what_was_missed_comes_change_by_change() -> None:
    service = ready()
    first = await service.tap("mine")
    await first.lose()
    for i in range(1, 4):
        service.deliver(better(service, i))
    again = await service.tap("mine", after="e1:5", squash=TEN)
    service.deliver(better(service, 9))
    await passes(service, TEN)
    assert again.events == [("change", 6), ("change", 7), ("change", 8), ("change", 9)]


@alone
async def test_a_heartbeat_never_goes_past_what_is_held_back() -> None:
    service = ready()
    squashed, plain = await service.tap("mine", squash=60.0), await service.tap("mine")
    both = await service.tap("mine", squash=60.0)
    await both.follow("delays", "mine")
    service.deliver(better(service, 1))
    service.deliver(better(service, 2))
    await quiet()
    service.clock.now += 20
    await service.hub.send_heartbeats()
    await quiet()
    beats = [[one["seq"] for one in tap.got if one["event"] == "heartbeat"] for tap in (squashed, plain, both)]
    assert beats == [[6], [7], []], "where streams of a socket are not at one position there is none"
    await squashed.lose()
    again = await service.tap("mine", after="e1:6", squash=60.0)
    await quiet()
    assert again.events == [("change", 7)]


@alone
async def test_a_reader_that_takes_nothing_is_told_the_net_when_it_does() -> None:
    service = ready(limits=Limits(stream_queue=6))
    tap = await service.tap("mine", squash=1.0)
    await quiet()
    tap.flowing.clear()
    for i in range(1, 9):
        service.deliver(better(service, i))
        await passes(service, 1.0)
        assert len(tap.queue) <= WAITING
    tap.flowing.set()
    await quiet()
    await passes(service, 1.0)
    assert {event for event, _ in tap.events[1:]} == {"change"}, "it never falls behind"
    assert (len(tap.events) < 9, tap.events[-1]) == (True, ("change", service.world.seq))


@alone
async def test_another_question_is_a_change_like_others_and_another_offset_a_reset_at_once() -> None:
    service = ready()
    world = service.world
    tap = await service.tap("mine", squash=TEN)
    service.deliver(better(service, 1))
    service.deliver(partial(world.move, "mine", 1, 9, 2))
    await quiet()
    assert len(changes(tap)) == 1
    await passes(service, TEN)
    assert [(one["id"], one["new_rank"]) for one in changes(tap)[1]["changes"]] == [("o0", None)]
    service.deliver(partial(world.put, "o1", 1, 1.0))
    service.deliver(partial(world.move, "mine", 1, 9, 2, 1))
    await quiet()
    assert tap.events[-1] == ("reset", 9)
    await passes(service, TEN)
    assert tap.events[-1] == ("reset", 9), "the reset has told what was held back"


@alone
async def test_gone_is_said_at_once() -> None:
    service = ready()
    tap = await service.tap("mine", squash=TEN)
    service.deliver(better(service, 1))
    service.deliver(better(service, 2))
    service.deliver(partial(service.world.unsubscribe, "mine"))
    await passes(service, TEN)
    assert tap.events == [("snapshot", 5), ("change", 6), ("gone", 8)]


@alone
async def test_streams_that_left_are_not_kept_for_their_time() -> None:
    service = ready()
    keeper = await service.tap("mine")
    for i in range(1500):
        tap = service.connect()
        reader = await tap.follow("delays", "mine", squash=3600.0)
        service.deliver(better(service, 2 * i), better(service, 2 * i + 1))
        service.deliver(better(service, 2 * i))
        tap.unfollow(reader)
        await tap.lose()
        keeper.got.clear()
    assert len(service.hub.conflator._heap) <= 1100


values = st.integers(0, 5).map(float)


@given(
    states=st.lists(st.dictionaries(st.sampled_from("abcdef"), values, max_size=6), min_size=2, max_size=6),
    offset=st.integers(0, 2),
)
def test_a_list_is_had_back_from_the_changes_since(states: list[dict[str, float]], offset: int) -> None:
    lists = []
    for state in states:
        items = [ObjectView(id, 0.0, y, ord(id), None) for id, y in state.items()]
        lists.append(sorted(items, key=lambda item: (item.y, item.created))[offset : offset + 3])
    nets = [net(a, b, offset, offset) for a, b in pairwise(lists)]
    for at, wanted in enumerate(lists):
        assert rewound(lists[-1], reversed(nets[at:]), offset) == wanted


@served
async def test_both_transports_take_seconds_and_refuse_what_is_none(site: Site) -> None:
    site.service.hub.conflator._clock = asyncio.get_running_loop().time
    async with site.follow("?squash=0.5") as events, site.socket() as peer:
        await events.next()
        assert (await peer.ask(**SUBSCRIBE, squash=3600))["event"] == "snapshot"
        site.change(1)
        assert ((await events.next())[:2], (await peer.next())["seq"]) == (("change", "e1:6"), 6)
        site.change(2)
        site.change(3)
        assert (await events.next())[:2] == ("change", "e1:8")
        assert await peer.ask(op="ping") == {"event": "pong"}
        for bad in (0, -1, 3601, "1", True):
            refused = await peer.ask(**SUBSCRIBE, squash=bad)
            assert [error["field"] for error in refused["problem"]["errors"]] == ["squash"]
        assert (await peer.ask(**SUBSCRIBE, squash=1, form="tiles"))["problem"]["status"] == 422
    for query in ("0", "-1", "3601", "nan", "inf", "x", "1&form=tiles"):
        async with site.follow(f"?squash={query}") as events:
            assert events.response.status_code == 422, query
            assert [error["field"] for error in json.loads(await events.response.aread())["errors"]] == ["squash"]
    assert PATH.endswith("/stream")


def test_every_position_of_a_squashed_stream_is_right() -> None:
    """A reader that loses its connection after every message still has the true list in the end."""

    async def run(seed: int) -> None:
        service = ready()
        world = service.world
        held: list[str] = []
        after = None
        for i in range(40):
            tap = await service.tap("mine", after=after, squash=3.0)
            service.deliver(partial(world.put, f"o{(seed * i) % 7}", i % 5, float((i * 37 + seed) % 11)))
            await passes(service, float(i % 4))
            for message in tap.got:
                if message["event"] in ("snapshot", "reset"):
                    held = [entry["id"] for entry in message["list"]]
                elif message["event"] == "change":
                    named = {entry["id"] for entry in message["changes"]}
                    held = [id for id in held if id not in named]
                    for entry in sorted(message["changes"], key=lambda one: one["new_rank"] or 0):
                        if entry["new_rank"]:
                            held.insert(entry["new_rank"] - 1, entry["id"])
                after = message["cursor"]
                assert held == [item.id for item in world.history["mine"][message["seq"]]]
            assert i == 0 or tap.events == [] or tap.events[0][0] == "change"
            await tap.lose()

    for seed in range(1, 6):
        asyncio.run(asyncio.wait_for(run(seed), PATIENCE))
