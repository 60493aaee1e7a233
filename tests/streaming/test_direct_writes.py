"""Changes that bypass the queue of an idle connection are what the queue would send: the same, in order, in bounds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack
from functools import partial
from typing import Any, cast
from unittest.mock import patch

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from app.streaming import lone_readers
from app.streaming.buffer import CHANGE, GONE, Channel, Message, change_of, message
from app.streaming.connection import Connection, Pump, Reader
from app.streaming.outlet import Outlet
from app.streaming.sse import SseConnection
from app.streaming.websocket import Socket
from tests.streaming.manual import ManualConnection
from tests.streaming.site import SUBSCRIBE, Site, served
from tests.streaming.world import Limits

READERS = 2
LIMIT, MOST = 3, 600

who = st.integers(0, READERS - 1)
sizes = st.sampled_from([10, 250])
changes = st.tuples(st.just("changes"), st.lists(st.tuples(who, sizes), min_size=1, max_size=5))
actions = st.one_of(
    changes,
    changes,
    st.tuples(st.just("push"), who),
    st.tuples(st.just("begin"), who),
    st.tuples(st.just("discard"), who),
    st.tuples(st.just("finish"), who),
    st.tuples(st.just("may"), st.booleans()),
    st.just(("shut",)),
    st.just(("drop",)),
    st.just(("beat",)),
    st.just(("end",)),
    st.just(("pump",)),
    st.just(("work",)),
)


class Waiter:
    """What a task waits for, and the loop: it keeps what is to be called soon."""

    def __init__(self, soon: list[Callable[[], None]]) -> None:
        self._soon = soon
        self.woken = False

    def get_loop(self) -> Waiter:
        return self

    def call_soon(self, call: Callable[[], None]) -> None:
        self._soon.append(call)

    def done(self) -> bool:
        return self.woken

    def set_result(self, result: None) -> None:
        self.woken = True


class Line(ManualConnection):
    """A connection whose server keeps what it is given in `sent`, at once while it `may`, else when its task works."""

    def __init__(self) -> None:
        self.pump = Pump()
        self.connections = cast("Any", self)
        super().__init__(self, LIMIT, MOST, READERS)
        self.soon: list[Callable[[], None]] = []
        self.sent: list[bytes] = []
        self.may = True
        self.outlet = Outlet(lambda: self.may, self.sent.append)
        self._sleep()

    def _sleep(self) -> None:
        self.waiter = cast("Any", Waiter(self.soon))

    def remove(self, connection: Connection) -> None:
        """Be the connections of its hub, too."""

    def work(self) -> None:
        """What the task does once it is woken."""
        if self.waiter is None and not self.soon:
            while self.queue or self.late:
                self.sent += [item.block for _, item in self.take_some(1)]
                late, self.late = self.late, []
                for reader in late:
                    reader.begin([message("e", 0, "reset", "{}")])
            if self.heartbeat_due:
                self._beat()
            if self.ending is not None:
                self.sent.append(b"end")
                self.ending = None
            self._sleep()

    def _beat(self) -> None:
        self.heartbeat_due = False
        self.sent.append(b"beat")

    def beat_now(self) -> None:
        if self.outlet.is_open():
            self._beat()

    def send_now(self) -> None:
        if self.outlet.is_open():
            self.sent += [item.block for _, item in self.take_some(1 << 30)]


def carry_out(line: Line, action: Any, n: int, direct: bool) -> None:
    """Do something, the n-th."""
    match action:
        case "changes", pairs:
            some = [
                (line.all[at], message("e", n, CHANGE, f'{{"at":{place},"text":"{"x" * size}"}}').block)
                for place, (at, size) in enumerate(pairs)
                if not line.all[at].void
            ]
            if direct:
                texts = [text for _, text in some]
                line.pump.write_direct([reader for reader, _ in some], texts, texts)
            else:
                for reader, text in some:
                    reader.push(change_of(text))
        case "push", at:
            line.all[at].push(Message(n, CHANGE, b"id: e:%d\nevent: change\ndata: {}\n\n" % n))
        case "begin", at:
            if line.all[at] not in line.late:
                line.all[at].begin([message("e", n, "reset", "{}")])
        case "discard", at:
            if line.all[at] not in line.late:
                line.discard(line.all[at])
        case "finish", at:
            line.all[at].finish(message("e", n, GONE, "{}"))
            line.all[at].channel = Channel("boards/b", "another", "changes", 0, 1)
        case ("may", may):
            line.may = may
            line.outlet.shut()
        case ("shut",):
            line.outlet.shut()
        case ("drop",):
            line.end(1000, drop=True)
            line.ending = None
        case ("beat",):
            line.heartbeat_due = True
            line.wake()
        case ("end",):
            line.end(1000)
        case ("pump",):
            soon, line.soon[:] = list(line.soon), []
            for call in soon:
                call()
        case ("work",):
            line.work()


def state(line: Line) -> Any:
    """What was sent, and who gets no more of what waits."""
    late = [line.all.index(reader) for reader in line.late]
    return line.sent, late, [reader.void for reader in line.all], line.waiter is None


@given(st.lists(actions, max_size=30))
@example([("changes", [(0, 10)]), ("push", 0), ("pump",), ("changes", [(0, 10)]), ("finish", 0), ("pump",)])
@example([("changes", [(0, 10), (0, 10), (0, 10), (0, 10)]), ("pump",), ("work",)])
@example([("changes", [(0, 10)]), ("pump",), ("changes", [(0, 10)]), ("may", False), ("pump",), ("work",)])
@example([("changes", [(0, 10)]), ("pump",), ("changes", [(0, 10)]), ("beat",), ("pump",)])
@example([("changes", [(0, 10)]), ("pump",), ("changes", [(0, 10)]), ("end",), ("pump",), ("work",)])
@example([("changes", [(0, 10)]), ("pump",), ("changes", [(0, 10)]), ("drop",), ("pump",), ("work",)])
@example([("changes", [(0, 10)]), ("pump",), ("changes", [(0, 10)]), ("discard", 0), ("pump",)])
def test_a_direct_write_sends_what_the_queue_would(script: list[Any]) -> None:
    queued, direct = Line(), Line()
    for n, action in enumerate([*script, ("may", True), ("pump",), ("work",)]):
        carry_out(queued, action, n, direct=False)
        carry_out(direct, action, n, direct=True)
        assert state(queued) == state(direct)
    assert direct.direct is None


@pytest.mark.parametrize("at_once", [True, False])
def test_streams_of_both_kinds_get_every_change_in_order(at_once: bool) -> None:
    written: list[bytes] = []

    def noted(pump: Pump, readers: Iterable[Reader], texts: Iterable[bytes], pieces: Iterable[bytes]) -> None:
        some = list(zip(readers, texts, pieces, strict=True))
        written.extend(piece for reader, _, piece in some if reader.connection.outlet.open)
        write(pump, *zip(*some, strict=True))

    write = Pump.write_direct

    @served(at_once=at_once)
    async def run(site: Site) -> None:
        world = site.service.world
        world.by_column = True
        for i in range(3):
            world.subscribe(f"s{i}")
        world.take_slice()
        async with AsyncExitStack() as opened:
            events = await opened.enter_async_context(site.follow())
            peers = [await opened.enter_async_context(site.socket()) for _ in range(2)]
            assert (await events.next())[0] == "snapshot"
            for i, peer in enumerate(peers):
                await peer.ask(**{**SUBSCRIBE, "id": f"s{i}"})
            with patch.object(lone_readers, "FEW", 1), patch.object(Pump, "write_direct", noted):
                for i in range(4):
                    site.service.deliver(partial(world.put, "o0", 0, -float(i + 1)))
                    if i == 2:
                        # Behind a change that is not written yet.
                        await peers[0].say(op="ping")
                    if i < 2:
                        assert (await events.next())[2]["seq"] == world.seq
                        assert [(await peer.next())["seq"] for peer in peers] == [world.seq] * 2
            assert [(await events.next())[1] for _ in range(2)] == [f"e1:{world.seq - 1}", f"e1:{world.seq}"]
            got = [await peers[0].next() for _ in range(3)]
            assert [one["seq"] for one in got if one["event"] == CHANGE] == [world.seq - 1, world.seq]
            missed = site.service.hub._live_resources["boards/delays"].by_id["mine"].channels()[0].missed(world.seq - 1)
            assert missed is not None
            assert [one.block.partition(b"\n")[0] for one in missed] == [f"id: e1:{world.seq}".encode()]

    run()
    # The first change finds out that it can be written at once.
    assert bool(written) == at_once


@served(limits=Limits(stream_queue=4), at_once=True)
async def test_a_list_that_changes_more_often_in_one_slice_than_its_reader_may_wait_for_is_sent_whole(
    site: Site,
) -> None:
    world = site.service.world
    world.by_column = True
    async with site.follow() as events:
        await events.next()

        def many() -> None:
            for i in range(10):
                world.put("o0", 0, -float(i + 1))

        with patch.object(lone_readers, "FEW", 1):
            site.service.deliver(many)
        while (message := await events.next())[0] != "reset":
            assert message[0] == CHANGE
        assert message[2]["seq"] == world.seq
        site.change(1)
        assert (await events.next())[0] == CHANGE


@served(limits=Limits(heartbeat_seconds=0.1), at_once=True)
async def test_heartbeats_do_not_wait_for_a_task_where_they_can_be_written(site: Site) -> None:
    site.service.hub._clock = asyncio.get_running_loop().time
    async with site.follow() as events, site.socket() as peer, site.socket() as packed:
        await events.next()
        await peer.ask(**SUBSCRIBE)
        await packed.connection.send(msgpack.packb({**SUBSCRIBE, "id": "mine"}))
        await packed.next()
        with (
            patch.object(SseConnection, "send_heartbeat", side_effect=AssertionError),
            patch.object(Socket, "send_heartbeat", side_effect=AssertionError),
        ):
            site.service.hub.start()
            for _ in range(2):
                assert await events.next() == ("", "e1:5", None)
                for each in (peer, packed):
                    assert await each.next() == {"event": "heartbeat", "cursors": {"boards/delays": "e1:5"}}
            site.change(1)
            for each in (peer, packed):
                while (await each.next())["event"] == "heartbeat":
                    pass
