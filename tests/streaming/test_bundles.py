"""Bundles are to readers what their messages would be one by one: the same messages, in order, and the same limits."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.rendering import boards
from app.streaming import lone_readers
from app.streaming.buffer import CHANGE, GONE, Bundle, Channel, Message, message
from app.streaming.bundles import publish_all
from app.streaming.connection import Connection, Reader
from app.streaming.frames import TEXT, head_of
from tests.streaming.helpers import alone, ready
from tests.streaming.manual import ManualConnection
from tests.streaming.site import SUBSCRIBE, Site, served
from tests.streaming.world import BundlingTap, Limits, World, apart, quiet

READERS = 4
LIMIT, MOST = 4, 900

who = st.integers(0, READERS - 1)
sizes = st.sampled_from([10, 60, 250])
actions = st.one_of(
    st.tuples(st.just("all"), st.lists(st.tuples(who, sizes), min_size=1, max_size=6)),
    st.tuples(st.just("all"), st.lists(st.tuples(who, sizes), min_size=1, max_size=6)),
    st.tuples(st.just("push"), who, sizes),
    st.tuples(st.just("begin"), who, st.lists(sizes, max_size=2)),
    st.tuples(st.just("discard"), who),
    st.tuples(st.just("finish"), who),
    st.tuples(st.just("take"), st.sampled_from([1, 200, 500, 10_000])),
)


class Queue(ManualConnection):
    """A connection that nobody empties but by `take_some`."""

    def __init__(self) -> None:
        super().__init__(None, LIMIT, MOST, READERS)

    def entries(self, some: Iterable[tuple[Reader, Message]]) -> list[tuple[int, bytes]]:
        return [(self.all.index(reader), item.rest) for entry in some for reader, item in apart(entry)]

    def state(self) -> Any:
        """What is queued and what counts it, as if all were there one by one."""
        bundled = [reader for _, item in self.queue if isinstance(item, Bundle) for reader in item.readers]
        sizes = [
            sum(item.size for entry in self.queue for one, item in apart(entry) if one is reader) for reader in self.all
        ]
        assert self.depth >= max((bundled.count(reader) for reader in self.all), default=0)
        assert self.nbytes == sum(sizes)
        waiting = [reader.waiting + bundled.count(reader) for reader in self.all]
        readers = [(reader.void, reader.room, count) for reader, count in zip(self.all, waiting, strict=True)]
        return readers, sizes, self.nbytes, self.begun, [self.all.index(reader) for reader in self.late]


class Bundling(Queue):
    bundles = True


def carry_out(queue: Queue, action: Any, n: int) -> Any:
    """Do something, the n-th; what was sent by it."""

    def text(place: int, size: int) -> bytes:
        return message("e", n, CHANGE, f'{{"at":{place},"text":"{"x" * size}"}}').rest

    match action:
        case "all", pairs:
            some = [(queue.all[at], text(place, size)) for place, (at, size) in enumerate(pairs)]
            some = [(reader, rest) for reader, rest in some if not reader.void]
            if some:
                queue.push_all([reader for reader, _ in some], [rest for _, rest in some])
        case "push", at, size:
            queue.all[at].push(Message.of_rest(n, CHANGE, text(0, size)))
        case "begin", at, items:
            if queue.all[at] in queue.late:
                queue.late.remove(queue.all[at])
            queue.all[at].begin([Message.of_rest(n, "reset", text(place, size)) for place, size in enumerate(items)])
        case "discard", at:
            queue.discard(queue.all[at])
        case "finish", at:
            reader = queue.all[at]
            reader.finish(message("e", n, GONE, "{}"))
            reader.channel = Channel("boards/b", "another", "changes", 0, 1)
        case "take", most:
            return queue.take_some(most)
    return []


@given(st.lists(actions, max_size=30))
@example([("all", [(0, 10), (1, 10), (0, 10)]), ("all", [(0, 10), (1, 10)]), ("push", 0, 10), ("take", 200)])
@example([("begin", 0, [10]), ("all", [(0, 10), (1, 10)]), ("take", 1), ("all", [(0, 10)] * 4)])
@example([("push", 0, 10), ("begin", 0, []), ("all", [(0, 10), (1, 10)]), ("take", 1)])
@example([("all", [(0, 250), (1, 250), (2, 250)]), ("take", 1), ("discard", 1), ("take", 10_000)])
def test_bundles_are_queued_as_their_messages_are_one_by_one(script: list[Any]) -> None:
    one_by_one, bundling = Queue(), Bundling()
    for n, action in enumerate(script):
        expected, found = carry_out(one_by_one, action, n), carry_out(bundling, action, n)
        assert one_by_one.entries(expected) == bundling.entries(found)
        assert one_by_one.state() == bundling.state()
        if action[0] == "take" and not one_by_one.queue:
            assert bundling.depth == 0
    assert one_by_one.entries(one_by_one.take_some(1 << 30)) == bundling.entries(bundling.take_some(1 << 30))


def test_where_no_limit_is_near_messages_are_one_entry() -> None:
    queue = Bundling()
    for n in range(2):
        carry_out(queue, ("all", [(0, 10), (1, 10), (2, 10)]), n)
        assert len(queue.queue) == n + 1
    assert [reader.waiting for reader in queue.all] == [0] * READERS
    carry_out(queue, ("all", [(0, 10), (1, 10), (0, 10)]), 2)
    assert [reader.waiting for reader in queue.all] == [2, 1, 0, 0], "one by one, since one has two of them"
    carry_out(queue, ("push", 1, 10), 3)
    assert (len(queue.queue), queue.depth) == (6, 2)
    carry_out(queue, ("push", 1, 10), 4)
    assert (len(queue.queue), queue.depth, queue.late) == (10, 0, [queue.all[1]])


def subscribe(world: World, n: int) -> None:
    """Subscribe to n lists, whose changes come by column."""
    world.by_column = True
    for i in range(n):
        world.subscribe(f"s{i}")
    world.take_slice()


@alone
async def test_messages_of_one_connection_come_in_order_of_seq_whoever_else_reads() -> None:
    service = ready()
    service.bundles = True
    subscribe(service.world, 3)
    tap, other = await service.tap("mine"), await service.tap("s1")
    for i in range(3):
        await tap.follow("delays", f"s{i}", ("changes", "old", "changes")[i])
    await tap.follow("delays", "mine", squash=5.0)
    await quiet()
    before = len(tap.got)
    service.deliver(*(partial(service.world.put, "o0", 0, -float(i)) for i in range(1, 4)))
    assert isinstance(tap.queue[0][1], Bundle)
    await quiet(20)
    assert isinstance(tap, BundlingTap)
    got = [(message["seq"], message["stream"]) for message in tap.got[before:]]
    assert [pair for pair in got if pair[1] < 4] == [(seq, stream) for seq in (9, 10, 11) for stream in (0, 2, 1, 3)]
    assert other.events[-3:] == [("change", seq) for seq in (9, 10, 11)]


def test_a_change_that_nobody_follows_is_passed_over() -> None:
    assert publish_all([None, None], [1, 2], [b"a", b"b"], False, lambda place: ()) == 0


@pytest.mark.parametrize("few", [1, 64])
@pytest.mark.parametrize("limit", [3, 256])
def test_a_socket_gets_in_a_bundle_what_it_would_get_one_by_one(
    limit: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lone_readers, "FEW", few)

    @served(limits=Limits(stream_queue=limit))
    async def run(site: Site) -> None:
        world = site.service.world
        subscribe(world, 3)
        async with site.socket() as peer, site.socket() as packed:
            for i in range(3):
                await peer.ask(**{**SUBSCRIBE, "id": f"s{i}"})
            await packed.connection.send(_packed({**SUBSCRIBE, "id": "mine"}))
            await packed.next()
            site.service.deliver(*(partial(world.put, "o0", 0, -float(i)) for i in (1, 2)))
            got = [await peer.next() for _ in range(6)]
            assert [(one["id"], one["seq"]) for one in got] == [(f"s{i}", seq) for seq in (9, 10) for i in range(3)]
            assert [(await packed.next())["seq"] for _ in range(2)] == [9, 10]
            assert (await peer.ask(op="ping")) == {"event": "pong"}

    run()


@pytest.mark.parametrize("least", [126, 999])
def test_sockets_that_follow_lists_alone_get_frames_in_one_piece(least: int) -> None:
    queued: list[Any] = []
    push_all = Connection.push_all

    def pushed(*given: Any) -> None:
        queued.append(given)
        push_all(*given)

    @served()
    async def run(site: Site) -> None:
        world = site.service.world
        subscribe(world, 4)
        async with site.socket() as one, site.socket() as two:
            for i in range(4):
                await (one, two)[i % 2].ask(**{**SUBSCRIBE, "id": f"s{i}"})
            with (
                patch.object(lone_readers, "FEW", 1),
                patch.object(boards, "LEAST_FRAMED", least),
                patch.object(Connection, "push_all", pushed),
            ):
                site.service.deliver(*(partial(world.put, "o0", 0, -float(i)) for i in (1, 2, 3)))
            for peer, whose in ((one, (0, 2)), (two, (1, 3))):
                got = [await peer.next() for _ in range(6)]
                at = got[0]["seq"]
                wanted = [(f"s{i}", seq) for seq in range(at, at + 3) for i in whose]
                assert [(each["id"], each["seq"]) for each in got] == wanted
            for _, readers, *_ in queued:
                # Each list has changed three times in the slice.
                missed = readers[0].channel.missed(at)
                assert [one.seq for one in missed] == [at + 1, at + 2]

    run()
    assert [len(given) for given in queued] == [4 if least == 126 else 3] * 2
    for _, readers, texts, *frames in queued:
        whole = [reader.prefix + text for reader, text in zip(readers, texts, strict=True)]
        assert frames in ([], [b"".join(head_of(TEXT, len(one)) + one for one in whole)])


def _packed(operation: dict[str, Any]) -> bytes:
    import msgpack

    found: bytes = msgpack.packb(operation)
    return found
