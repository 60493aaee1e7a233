from __future__ import annotations

import asyncio
from functools import partial

import pytest

from app.api.problems import from_error
from app.errors import ServiceError
from indexes.boards.results import ListChange, Slice
from tests.streaming.helpers import alone, better, ready
from tests.streaming.world import Limits, Service, Tap, World, quiet


@alone
async def test_a_stream_begins_with_the_list_and_goes_on_with_every_change() -> None:
    service = ready()
    tap = await service.tap("mine")
    service.deliver(better(service, 1))
    service.deliver(better(service, 2), better(service, 3))
    await quiet()
    assert tap.events == [("snapshot", 5), ("change", 6), ("change", 7), ("change", 8)]
    assert [entry["id"] for entry in tap.got[0]["list"]] == ["o0", "o1", "o2"]
    assert tap.got[1]["cursor"] == "e1:6"


@alone
async def test_an_empty_board_still_sends_a_snapshot() -> None:
    service = Service()
    service.world.subscribe("mine")
    tap = await service.tap("mine")
    await quiet()
    assert tap.got == [{"id": "mine", "stream": 0, "event": "snapshot", "cursor": "e1:1", "seq": 1, "list": []}]


@alone
async def test_ready_follows_what_a_stream_begins_with_for_those_who_ask() -> None:
    service = ready()
    service.world.subscribe("empty", 90, 99)
    for form in ("changes", "tiles"):
        tap, plain = await service.tap("mine", form, ready=True), await service.tap("mine", form)
        empty = await service.tap("empty", form, ready=True)
        await quiet()
        assert tap.events == empty.events == [("snapshot", 6), ("ready", 6)]
        assert empty.got[1] == {"id": "empty", "stream": 0, "event": "ready", "cursor": "e1:6", "seq": 6}
        assert plain.events == [("snapshot", 6)]
        for one in (tap, plain, empty):
            await one.lose()


@alone
async def test_ready_follows_what_was_missed_and_is_a_position_like_any_other() -> None:
    service = ready()
    first = await service.tap("mine")
    service.deliver(better(service, 1))
    service.deliver(better(service, 2))
    service.deliver(partial(service.world.put, "far", 9, 900.0))
    await first.lose()
    again = await service.tap("mine", after="e1:6", ready=True)
    await quiet()
    assert again.events == [("change", 7), ("ready", 8)]
    await again.lose()
    nothing = await service.tap("mine", after="e1:8", ready=True)
    elsewhere = await service.tap("mine", after="other:8", ready=True)
    service.deliver(better(service, 3))
    await quiet()
    assert nothing.events == [("ready", 8), ("change", 9)]
    assert elsewhere.events == [("reset", 8), ("ready", 8), ("change", 9)]


@alone
async def test_ready_counts_as_no_change_of_those_that_are_kept() -> None:
    service = ready(limits=Limits(resume_changes=1))
    taps = [await service.tap("mine", ready=True) for _ in range(5)]
    service.deliver(better(service, 1))
    await taps[0].lose()
    await service.tap("mine", after="e1:5", ready=True)
    again = await service.tap("mine", after="e1:5")
    await quiet()
    assert again.events == [("change", 6)]


@alone
async def test_who_falls_behind_before_it_was_ready_hears_of_it_after_the_reset() -> None:
    service = ready(limits=Limits(stream_queue=2))
    other = await service.tap("mine", ready=True)
    tap = service.connect()
    tap.flowing.clear()
    await tap.follow("delays", "mine", ready=True)
    await quiet()
    for at in range(10):
        service.deliver(better(service, at))
    tap.flowing.set()
    await quiet()
    # The snapshot was on its way already, what came behind it was dropped.
    assert tap.events == [("snapshot", 5), ("reset", 15), ("ready", 15)]
    assert [event for event, _ in other.events].count("ready") == 1


@alone
async def test_ready_is_said_once_a_stream() -> None:
    service = ready(limits=Limits(stream_queue=2))
    tap = await service.tap("mine", ready=True)
    await quiet()
    tap.flowing.clear()
    for at in range(10):
        service.deliver(better(service, at))
        await quiet()
    tap.flowing.set()
    await quiet()
    assert [event for event, _ in tap.events if event != "change"] == ["snapshot", "ready", "reset"]


@alone
async def test_a_stream_opened_while_a_slice_is_painted_begins_after_it() -> None:
    service = ready()
    await service.tap("mine")
    service.hold.clear()
    opening = asyncio.create_task(service.tap("mine"))
    await quiet()
    service.deliver(better(service, 1))
    service.hold.set()
    tap = await opening
    service.deliver(better(service, 2))
    await quiet()
    assert tap.events == [("snapshot", 6), ("change", 7)]


@alone
async def test_a_reader_that_leaves_while_its_stream_opens_leaves_nothing_behind() -> None:
    service = ready()
    service.hold.clear()
    opening = asyncio.create_task(service.tap("mine"))
    await quiet()
    opening.cancel()
    with pytest.raises(asyncio.CancelledError):
        await opening
    service.hold.set()
    await quiet()
    assert service.hub.counts() == (0, 0, 0)
    assert not service.world.live


@alone
async def test_unknown_boards_and_subscriptions_are_404() -> None:
    service = ready()
    for board, id in (("delays", "yours"), ("other", "mine")):
        with pytest.raises(ServiceError) as refused:
            await service.tap(id, board=board)
        assert refused.value.code == "not-found"
    assert service.hub.counts() == (0, 0, 0)


@alone
async def test_equal_changes_share_one_block() -> None:
    service = ready()
    service.world.subscribe("yours")
    taps = [await service.tap("mine"), await service.tap("yours"), await service.tap("mine")]
    for tap in taps:
        tap.flowing.clear()
    service.deliver(better(service, 1))
    blocks = [tap.queue[-1][1].block for tap in taps]
    assert blocks[0] is blocks[1] is blocks[2]


@alone
async def test_one_entries_object_at_two_seqs_makes_two_messages() -> None:
    service = ready()
    tap = await service.tap("mine")
    world = service.world
    better(service, 1)()
    change = world.take_slice().changes[0]
    world.seq += 1
    both = [change, ListChange(world.seq, 0, change.entries)]
    service.hub.deliver(world.resource, Slice(world.seq, both, [], [], []))
    await quiet()
    assert [message["seq"] for message in tap.got[1:]] == [6, 7]


@alone
async def test_readers_of_both_forms_share_one_kept_list() -> None:
    service = ready()
    changes, tiles = await service.tap("mine"), await service.tap("mine", "tiles")
    service.deliver(better(service, 1))
    await quiet()
    assert service.world.watched == 1
    assert changes.events == [("snapshot", 5), ("change", 6)]
    assert tiles.events == [("snapshot", 5), ("tiles", 6)]
    assert tiles.got[1]["tiles"][0]["object"] == {
        "id": "o0",
        "values": {"distance": 0, "delay": -1},
        "created": 0,
        "gone": False,
    }


# --- resume -----------------------------------------------------------------------------------------------------------


@alone
async def test_a_reader_that_comes_back_gets_what_it_missed_and_no_snapshot() -> None:
    service = ready()
    tap = await service.tap("mine")
    service.deliver(better(service, 1))
    await quiet()
    await tap.lose()
    service.deliver(better(service, 2))
    service.deliver(better(service, 3))
    service.clock.now += 59.9
    again = await service.tap("mine", after=tap.got[-1]["cursor"])
    service.deliver(better(service, 4))
    await quiet()
    assert again.events == [("change", 7), ("change", 8), ("change", 9)]
    assert service.world.watched == 1


@alone
async def test_a_reader_that_missed_nothing_gets_nothing() -> None:
    service = ready()
    tap = await service.tap("mine")
    await quiet()
    await tap.lose()
    again = await service.tap("mine", after="e1:5")
    await quiet()
    assert again.got == []


@alone
async def test_an_old_position_is_continued_while_another_reader_is_there() -> None:
    service = ready()
    tap = await service.tap("mine")
    await service.tap("mine")
    await quiet()
    await tap.lose()
    service.clock.now += 1000
    service.deliver(better(service, 1))
    again = await service.tap("mine", after="e1:5")
    await quiet()
    assert again.events == [("change", 6)]


@alone
async def test_after_the_resume_time_there_is_a_reset() -> None:
    service = ready()
    tap = await service.tap("mine")
    await quiet()
    await tap.lose()
    service.clock.now += 60
    again = await service.tap("mine", after="e1:5")
    await quiet()
    assert again.events == [("reset", 5)]


@alone
async def test_each_form_has_its_own_time() -> None:
    service = ready()
    tiles = await service.tap("mine", "tiles")
    await service.tap("mine")
    await quiet()
    await tiles.lose()
    service.clock.now += 60
    again = await service.tap("mine", "tiles", after="e1:5")
    await quiet()
    assert again.events == [("reset", 5)]


@pytest.mark.parametrize("missed", [3, 4])
def test_at_most_so_many_changes_are_continued(missed: int) -> None:
    async def case() -> None:
        service = ready(limits=Limits(resume_changes=3))
        tap = await service.tap("mine")
        await quiet()
        await tap.lose()
        for i in range(missed):
            service.deliver(better(service, i + 1))
        again = await service.tap("mine", after="e1:5")
        await quiet()
        expected = [("change", 6), ("change", 7), ("change", 8)] if missed == 3 else [("reset", 9)]
        assert again.events == expected

    asyncio.run(case())


@alone
async def test_what_was_missed_may_fill_the_queue() -> None:
    service = ready(limits=Limits(stream_queue=2))
    tap = await service.tap("mine")
    await quiet()
    await tap.lose()
    for i in range(10):
        service.deliver(better(service, i + 1))
    again = await service.tap("mine", after="e1:5")
    service.deliver(better(service, 11))
    await quiet()
    assert again.events == [("change", seq) for seq in range(6, 17)]


@pytest.mark.parametrize(
    "after",
    ["", "5", "e1", "e1:", "e1:x", "e1:-1", "e1:6", "e2:5", ":5", "e1:5 ", "e1:05", "e1:٥", "e1:99999999999999999999"],
)
def test_any_other_position_is_answered_by_a_reset(after: str) -> None:
    async def case() -> None:
        service = ready()
        tap = await service.tap("mine")
        await quiet()
        await tap.lose()
        again = await service.tap("mine", after=after)
        await quiet()
        assert again.events == [("reset", 5)]

    asyncio.run(case())


@alone
async def test_a_position_before_the_first_reader_is_answered_by_a_reset() -> None:
    service = ready()
    await service.tap("mine")
    again = await service.tap("mine", after="e1:4")
    await quiet()
    assert again.events == [("reset", 5)]


@alone
async def test_a_first_reader_with_a_position_gets_a_reset() -> None:
    service = ready()
    tap = await service.tap("mine", after="e1:5")
    await quiet()
    assert tap.events == [("reset", 5)]


@alone
async def test_a_subscription_made_again_does_not_continue() -> None:
    service = ready()
    tap = await service.tap("mine")
    await quiet()
    service.deliver(partial(service.world.unsubscribe, "mine"), partial(service.world.subscribe, "mine"))
    again = await service.tap("mine", after="e1:5")
    await quiet()
    assert tap.events[-1] == ("gone", 6)
    assert again.events == [("reset", 7)]


# --- letting go -------------------------------------------------------------------------------------------------------


@alone
async def test_a_list_is_kept_for_the_resume_time_and_then_let_go() -> None:
    service = ready()
    tap = await service.tap("mine")
    await tap.lose()
    service.clock.now += 59
    await service.hub.drop_lapsed()
    assert service.world.live
    service.clock.now += 1
    await service.hub.drop_lapsed()
    assert not service.world.live
    assert service.hub.counts() == (0, 0, 0)


@alone
async def test_who_comes_back_just_then_finds_the_list() -> None:
    service = ready()
    tap = await service.tap("mine")
    await tap.lose()
    service.clock.now += 60
    service.hold.clear()
    letting_go = asyncio.create_task(service.hub.drop_lapsed())
    opening = asyncio.create_task(service.tap("mine"))
    await quiet()
    service.hold.set()
    again = await opening
    await letting_go
    service.deliver(better(service, 1))
    await quiet()
    assert again.events[-1] == ("change", 6)
    assert len(service.world.live) == 1


@alone
async def test_tiles_are_asked_for_only_as_long_as_somebody_reads_them() -> None:
    service = ready()
    tiles = await service.tap("mine", "tiles")
    await service.tap("mine")
    assert service.world.tiled == {0}
    await tiles.lose()
    service.clock.now += 60
    await service.hub.drop_lapsed()
    assert service.world.tiled == set()
    assert service.world.live
    assert service.hub.counts().live == 1


@alone
async def test_open_streams_are_reported_when_they_open_and_close() -> None:
    service = ready()
    told: list[tuple[str, str]] = []
    service.hub.on_open = lambda resource, id: told.append((resource, id))
    assert not service.hub.is_read("boards/delays", "mine")
    tap = await service.tap("mine")
    assert service.hub.is_read("boards/delays", "mine")
    await tap.lose()
    assert not service.hub.is_read("boards/delays", "mine")
    assert told == [("boards/delays", "mine")] * 2


@alone
async def test_who_came_back_in_time_is_not_let_go() -> None:
    service = ready()
    tap = await service.tap("mine")
    await tap.lose()
    service.clock.now += 30
    again = await service.tap("mine")
    service.clock.now += 30
    await service.hub.drop_lapsed()
    service.deliver(better(service, 1))
    await quiet()
    assert again.events == [("snapshot", 5), ("change", 6)]


# --- slow readers -----------------------------------------------------------------------------------------------------


@alone
async def test_a_reader_with_a_full_queue_gets_one_reset_when_it_reads_again() -> None:
    service = ready(limits=Limits(stream_queue=4))
    slow, quick = await service.tap("mine"), await service.tap("mine")
    await quiet()
    slow.flowing.clear()
    for i in range(20):
        service.deliver(better(service, i + 1))
        assert len(slow.queue) <= 4
        await quiet()
    slow.flowing.set()
    await quiet()
    service.deliver(better(service, 21))
    await quiet()
    assert quick.events == [("snapshot", 5)] + [("change", seq) for seq in range(6, 27)]
    assert slow.events[0] == ("snapshot", 5)
    assert slow.events[-2:] == [("reset", 25), ("change", 26)]
    changes = [seq for event, seq in slow.events[1:-2] if event == "change"]
    assert changes == list(range(6, 6 + len(changes)))
    assert len(changes) <= 1, "what was in the queue is void"


@alone
async def test_a_full_queue_loses_nothing() -> None:
    service = ready(limits=Limits(stream_queue=4))
    tap = await service.tap("mine")
    await quiet()
    tap.flowing.clear()
    for i in range(4):
        service.deliver(better(service, i + 1))
    tap.flowing.set()
    await quiet()
    assert tap.events == [("snapshot", 5)] + [("change", seq) for seq in range(6, 10)]


@alone
async def test_a_slow_stream_does_not_void_the_others_of_its_connection() -> None:
    service = ready(limits=Limits(stream_queue=4))
    service.world.subscribe("narrow", 2.5, 3.5, 3)
    tap = await service.tap("mine")
    await tap.follow("delays", "narrow")
    await quiet()
    tap.flowing.clear()
    service.deliver(better(service, 1))
    await quiet()
    service.deliver(partial(service.world.put, "o3", 3, 100))
    for i in range(200):
        service.deliver(better(service, i + 2))
        assert len(tap.queue) <= 4 + 1 + 64
    tap.flowing.set()
    await quiet(20)
    assert [(message["id"], message["event"]) for message in tap.got][-2:] == [("narrow", "change"), ("mine", "reset")]


@alone
async def test_the_cursor_of_a_collapsed_stream_never_skips_its_reset() -> None:
    service = ready(limits=Limits(stream_queue=1))
    tap = await service.tap("mine")
    await quiet()
    tap.flowing.clear()
    for i in range(5):
        service.deliver(better(service, i + 1))
        await quiet()
    service.clock.now += 15
    await service.hub.send_heartbeats()
    tap.flowing.set()
    await quiet(20)
    assert tap.events == [("snapshot", 5), ("change", 6), ("reset", 10), ("heartbeat", 10)]


@alone
async def test_a_subscription_deleted_behind_a_full_queue_is_gone() -> None:
    service = ready(limits=Limits(stream_queue=1))
    tap = await service.tap("mine")
    await quiet()
    tap.flowing.clear()
    for i in range(5):
        service.deliver(better(service, i + 1))
    service.deliver(partial(service.world.unsubscribe, "mine"))
    tap.flowing.set()
    await quiet(20)
    assert tap.events[-1] == ("gone", 11)
    assert ("reset", 11) not in tap.events


@alone
async def test_a_closed_stream_sends_nothing_more() -> None:
    service = ready()
    tap = await service.tap("mine")
    other = await tap.follow("delays", "mine", "tiles")
    await quiet()
    service.deliver(better(service, 1), better(service, 2))
    tap.unfollow(other)
    await quiet()
    assert tap.events == [("snapshot", 5), ("snapshot", 5), ("change", 6), ("change", 7)]


@alone
async def test_streams_that_come_and_go_on_a_stuck_connection_do_not_fill_it() -> None:
    service = ready()
    tap = await service.tap("mine")
    tap.flowing.clear()
    for i in range(500):
        reader = await tap.follow("delays", "mine", "tiles")
        service.deliver(better(service, i + 1))
        tap.unfollow(reader)
        await quiet()
    assert len(tap.queue) <= 256 + 64
    tap.flowing.set()
    await quiet(20)
    assert tap.events[-1] == ("reset", 505)


# --- moved and gone ---------------------------------------------------------------------------------------------------


@alone
async def test_a_moved_subscription_sends_one_change_to_one_form_and_a_reset_to_the_other() -> None:
    service = ready()
    changes, tiles = await service.tap("mine"), await service.tap("mine", "tiles")
    service.deliver(
        better(service, 1), partial(service.world.move, "mine", 1, 9, 2), partial(service.world.put, "o9", 9, -50)
    )
    service.deliver(partial(service.world.put, "o8", 8, -60))
    await quiet()
    assert changes.events == [("snapshot", 5), ("change", 6), ("change", 7), ("change", 8), ("change", 9)]
    assert tiles.events == [("snapshot", 5), ("reset", 8), ("tiles", 9)]
    assert [entry["id"] for entry in tiles.got[1]["list"]] == ["o9", "o1"]


@alone
async def test_a_move_that_changes_no_list_sends_no_change() -> None:
    service = ready()
    tap = await service.tap("mine")
    service.deliver(partial(service.world.move, "mine", -100, 100, 3))
    await quiet()
    assert tap.events == [("snapshot", 5)]


@alone
async def test_tiles_before_a_move_can_not_be_continued() -> None:
    service = ready()
    tap = await service.tap("mine", "tiles")
    await quiet()
    await tap.lose()
    service.deliver(partial(service.world.move, "mine", 1, 9, 2))
    before = await service.tap("mine", "tiles", after="e1:5")
    since = await service.tap("mine", "tiles", after="e1:6")
    await quiet()
    assert before.events == [("reset", 6)]
    assert since.events == []


@alone
async def test_tiles_after_a_move_do_not_bring_older_positions_back() -> None:
    service = ready(limits=Limits(resume_changes=2))
    await service.tap("mine", "tiles")
    service.deliver(better(service, 1))
    service.deliver(better(service, 2))
    service.deliver(partial(service.world.move, "mine", -1, 9, 2))
    service.deliver(better(service, 3))
    before = await service.tap("mine", "tiles", after="e1:7")
    await quiet()
    assert before.events == [("reset", 9)]


@alone
async def test_the_streams_of_one_connection_are_in_order_of_seq() -> None:
    service = ready()
    service.world.subscribe("yours")
    tap = await service.tap("mine")
    await tap.follow("delays", "mine", "tiles")
    await tap.follow("delays", "yours")
    service.deliver(better(service, 1), better(service, 2), partial(service.world.unsubscribe, "yours"))
    await quiet()
    seqs = [seq for _, seq in tap.events]
    assert seqs == sorted(seqs)
    assert len(seqs) == 3 + 6 + 1


@alone
async def test_a_deleted_subscription_ends_all_its_streams_and_no_other() -> None:
    service = ready()
    service.world.subscribe("yours")
    changes, tiles = await service.tap("mine"), await service.tap("mine", "tiles")
    both = await service.tap("mine")
    await both.follow("delays", "yours")
    service.deliver(better(service, 1), partial(service.world.unsubscribe, "mine"), better(service, 2))
    await quiet()
    assert changes.events == [("snapshot", 6), ("change", 7), ("gone", 8)]
    assert tiles.events == [("snapshot", 6), ("tiles", 7), ("gone", 8)]
    assert [message["event"] for message in both.got if message["id"] == "yours"] == ["snapshot", "change", "change"]
    assert service.hub.counts() == (3, 1, 1)


@alone
async def test_a_deleted_board_ends_its_streams() -> None:
    other = World("other")
    other.subscribe("mine")
    service = ready()
    service.worlds["other"] = other
    here, there = await service.tap("mine"), await service.tap("mine", board="other")
    await here.lose()
    again = await service.tap("mine")
    await quiet()
    del service.worlds["delays"]
    service.hub.resource_gone("boards/delays", 6)
    await quiet()
    assert again.events == [("snapshot", 5), ("gone", 6)]
    assert there.events == [("snapshot", 1)]
    service.clock.now += 60
    await service.hub.drop_lapsed()
    await service.hub.send_heartbeats()
    assert service.hub.counts() == (2, 1, 1)


# --- heartbeats -------------------------------------------------------------------------------------------------------


@alone
async def test_a_heartbeat_names_the_settled_seq_and_is_continued() -> None:
    service = ready()
    tap = await service.tap("mine")
    service.world.put("far", 1, 1000)
    service.world.take_slice()
    service.clock.now += 14
    await service.hub.send_heartbeats()
    await quiet()
    assert tap.events == [("snapshot", 5)]
    service.clock.now += 1
    await service.hub.send_heartbeats()
    await quiet()
    assert tap.events == [("snapshot", 5), ("heartbeat", 6)]
    await tap.lose()
    service.deliver(better(service, 1))
    again = await service.tap("mine", after=tap.got[-1]["cursor"])
    await quiet()
    assert again.events == [("change", 7)]


@alone
async def test_a_heartbeat_comes_after_all_that_its_position_covers() -> None:
    service = ready()
    tap = await service.tap("mine")
    await quiet()
    tap.flowing.clear()
    service.deliver(better(service, 1))
    service.clock.now += 15
    await service.hub.send_heartbeats()
    service.deliver(better(service, 2))
    tap.flowing.set()
    await quiet()
    assert tap.events == [("snapshot", 5), ("change", 6), ("change", 7), ("heartbeat", 7)]


@alone
async def test_chores_send_heartbeats_and_let_go() -> None:
    service = ready(limits=Limits(heartbeat_seconds=0.05, resume_seconds=0.05))
    service.hub.start()
    service.hub._clock = asyncio.get_running_loop().time
    tap, other = await service.tap("mine"), await service.tap("mine", "tiles")
    await other.lose()
    service.clock.now = asyncio.get_running_loop().time()
    # `alone` ends the test when that never happens.
    while [event for event, _ in tap.events].count("heartbeat") < 2 or service.world.tiled:
        await asyncio.sleep(0.01)
    await service.hub.close_all()
    assert tap.ended == 1001


# --- limits and ends --------------------------------------------------------------------------------------------------


@alone
async def test_too_many_streams_are_429() -> None:
    service = ready(limits=Limits(max_streams=2))
    first = await service.tap("mine")
    await first.follow("delays", "mine", "tiles")
    with pytest.raises(ServiceError) as refused:
        await service.tap("mine")
    assert from_error(refused.value).status_code == 429
    await first.lose()
    await service.tap("mine")
    assert service.hub.counts() == (1, 1, 1)


@alone
async def test_closing_sends_what_is_queued_and_ends_every_connection() -> None:
    service = ready()
    tap, stuck = await service.tap("mine"), await service.tap("mine")
    await quiet()
    stuck.flowing.clear()
    service.deliver(better(service, 1))
    await service.hub.close_all(0.05)
    await quiet()
    assert tap.events == [("snapshot", 5), ("change", 6)]
    assert tap.ended == 1001
    assert stuck.ended is None
    assert stuck.work is not None
    assert stuck.work.done()
    assert service.hub.counts().connections == 0
    with pytest.raises(ServiceError) as refused:
        await service.tap("mine")
    assert from_error(refused.value).status_code == 503


@alone
async def test_a_deleted_key_ends_its_connections_at_once() -> None:
    service = ready()
    mine, yours = await service.tap("mine"), await service.tap("mine")
    mine.keys.add("k1")
    yours.keys.add("k2")
    await quiet()
    mine.flowing.clear()
    service.deliver(better(service, 1))
    service.hub.connections.end_key("k1")
    mine.flowing.set()
    service.deliver(better(service, 2))
    await quiet()
    assert mine.events == [("snapshot", 5)]
    assert mine.ended == 1008
    assert yours.events[-1] == ("change", 7)
    assert service.hub.counts() == (1, 1, 1)


@alone
async def test_thousands_are_woken_in_turns() -> None:
    service = ready(limits=Limits(max_streams=5000))
    taps = [Tap(service.hub, 256) for _ in range(1000)]
    for tap in taps:
        service.hub.connections.add(tap)
        tap.start()
        await tap.follow("delays", "mine")
    await quiet(20)
    service.deliver(better(service, 1))
    turns = 0
    while any(len(tap.got) < 2 for tap in taps):
        await asyncio.sleep(0)
        turns += 1
    assert turns >= 1000 // 128
    assert all(tap.events == [("snapshot", 5), ("change", 6)] for tap in taps)
