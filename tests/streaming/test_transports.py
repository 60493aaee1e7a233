"""Streams as they are on the wire: server-sent events and the WebSocket, over a real server."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import httpx
import pytest
import websockets

from app.security.keyring import new_key
from app.streaming import moves
from tests.streaming.site import PATH, SUBSCRIBE, Site, served
from tests.streaming.world import Limits
from tests.support.patience import PATIENCE, wait_until_async

# --- server-sent events -----------------------------------------------------------------------------------------------


@served
async def test_a_stream_is_events_with_positions(site: Site) -> None:
    async with site.follow() as events:
        assert events.response.headers["content-type"].startswith("text/event-stream")
        event, position, data = await events.next()
        assert (event, position, data["seq"]) == ("snapshot", "e1:5", 5)
        assert data["list"][0] == {"rank": 1, "id": "o0", "values": {"distance": 0, "delay": 0}, "created": 0}
        site.change(1, b'{"to":"IAH"}')
        assert await events.next() == (
            "change",
            "e1:6",
            {
                "seq": 6,
                "changes": [
                    {
                        "id": "o0",
                        "old_rank": 1,
                        "new_rank": 1,
                        "values": {"distance": 0, "delay": -1},
                        "created": 0,
                        "payload": {"to": "IAH"},
                    }
                ],
            },
        )
        site.service.deliver(partial(site.service.world.unsubscribe, "mine"))
        assert await events.next() == ("gone", "e1:7", {"seq": 7})
        with pytest.raises(EOFError):
            await events.next()


@served
async def test_last_event_id_is_continued(site: Site) -> None:
    async with site.follow() as events:
        _, position, _ = await events.next()
    await wait_until_async(lambda: site.service.hub.counts().connections == 0)
    site.change(1)
    assert position is not None
    async with site.follow(**{"Last-Event-ID": position}) as events:
        assert (await events.next())[:2] == ("change", "e1:6")
    async with site.follow(f"?after={position}") as events:
        assert (await events.next())[:2] == ("change", "e1:6")
    async with site.follow("?after=e1:6", **{"Last-Event-ID": "nonsense"}) as events:
        assert (await events.next())[0] == "reset"


@served
async def test_tiles_are_sent_on_demand(site: Site) -> None:
    async with site.follow("?form=tiles") as events:
        await events.next()
        site.change(1)
        event, _, data = await events.next()
        assert event == "tiles"
        assert data["tiles"][0]["object"]["gone"] is False


@served
async def test_what_can_not_be_followed_is_a_problem(site: Site) -> None:
    async with httpx.AsyncClient(base_url=site.url, timeout=PATIENCE) as client:
        for path, status in (
            ("/v1/boards/delays/subscriptions/yours/stream", 404),
            ("/v1/boards/other/subscriptions/mine/stream", 404),
            (f"{PATH}?form=sums", 422),
            (f"{PATH}?from=1", 422),
        ):
            answer = await client.get(path)
            assert answer.status_code == status
            assert answer.headers["content-type"] == "application/problem+json"


@served(limits=Limits(max_streams=1))
async def test_too_many_streams_are_refused(site: Site) -> None:
    async with site.follow() as events:
        await events.next()
        async with site.follow() as more:
            assert more.response.status_code == 429
    await wait_until_async(lambda: site.service.hub.counts().connections == 0)
    async with site.follow() as events:
        assert (await events.next())[0] == "snapshot"


@served(limits=Limits(heartbeat_seconds=0.1))
async def test_a_quiet_stream_gets_positions_alone(site: Site) -> None:
    site.service.hub._clock = asyncio.get_running_loop().time
    site.service.hub.start()
    async with site.follow() as events:
        await events.next()
        site.service.world.put("far", 1, 1000)
        site.service.world.take_slice()
        while (beat := await events.next()) == ("", "e1:5", None):
            pass  # one that was due before
        assert beat == ("", "e1:6", None)


@served
async def test_a_service_that_ends_finishes_its_streams(site: Site) -> None:
    async with site.follow() as events, site.socket() as peer:
        await events.next()
        await peer.ask(op="subscribe", resource="boards/delays", id="mine")
        await site.service.hub.close_all(2)
        with pytest.raises(EOFError):
            await events.next()
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await peer.next()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1001
        assert site.service.hub.counts().connections == 0


@served(keys=True)
async def test_a_deleted_key_ends_its_streams(site: Site) -> None:
    async with httpx.AsyncClient(base_url=site.url, timeout=PATIENCE) as client:
        assert (await client.get(PATH)).status_code == 401
    async with site.follow(Authorization=f"Bearer {site.secret}") as events, site.socket(site.secret) as peer:
        await events.next()
        await peer.ask(op="subscribe", resource="boards/delays", id="mine")
        _, other = new_key("other", ["admin"])
        site.keyring.add(other)
        site.keyring.remove(site.key.id)
        with pytest.raises(EOFError):
            await events.next()
        with pytest.raises(websockets.ConnectionClosed) as closed:
            await peer.next()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1008


@asynccontextmanager
async def stuck(site: Site) -> AsyncIterator[asyncio.StreamReader]:
    """A reader that has not read although its stream was changed so often that it fell behind."""
    payload = json.dumps("x" * 4000).encode()
    with socket.socket() as raw:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, ("127.0.0.1", site.port))
        reader, writer = await asyncio.open_connection(sock=raw, limit=1 << 16)
        writer.write(f"GET {PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        await wait_until_async(lambda: site.service.hub.counts().streams == 1)
        (stream,) = site.service.hub.connections
        async with site.follow() as quick:
            await quick.next()
            for i in range(5000):
                if stream.late:
                    break
                site.change(i + 1, payload)
                assert (await quick.next())[0] == "change"
            assert stream.late, "the system's buffers are too large for this test"
        yield reader
        writer.close()


@served(limits=Limits(stream_queue=16))
async def test_a_reader_that_does_not_read_holds_up_nobody_and_gets_a_reset(site: Site) -> None:
    async with stuck(site) as reader:
        seqs: list[int] = []
        event = ""
        resets = 0
        while not seqs or seqs[-1] != site.service.world.seq:
            line = (await asyncio.wait_for(reader.readline(), PATIENCE)).decode()
            if line.startswith("event: "):
                event = line[7:].strip()
            elif line.startswith("data: "):
                seqs.append(json.loads(line[6:])["seq"])
                resets += event == "reset"
                if event == "change":
                    assert seqs[-1] == seqs[-2] + 1, "a hole"
        assert resets == 1


@served(limits=Limits(stream_queue=16))
async def test_a_reader_that_goes_away_without_reading_is_let_go(site: Site) -> None:
    async with stuck(site):
        pass
    await wait_until_async(lambda: site.service.hub.counts().connections == 0)


@served(limits=Limits(stream_queue=16))
async def test_a_reader_that_does_not_read_is_cut_at_the_end(site: Site) -> None:
    async with stuck(site):
        await site.service.hub.close_all(0.1)
        await wait_until_async(lambda: site.service.hub.counts().connections == 0)


@served
async def test_old_values_are_said_to_who_asks(site: Site) -> None:
    async with site.follow("?old=true") as events, site.follow() as plain, site.socket() as peer:
        await events.next(), await plain.next()
        assert (await peer.ask(**SUBSCRIBE, old=True))["event"] == "snapshot"
        site.change(1)
        (told,), (same,) = (await events.next())[2]["changes"], (await peer.next())["changes"]
        assert told["old_values"] == {"distance": 0, "delay": 0}
        assert (told, (await plain.next())[2]["changes"]) == (same, [{k: told[k] for k in told if k != "old_values"}])
        assert (await peer.ask(**SUBSCRIBE, form="tiles", old=False))["event"] == "snapshot"
        refused = await peer.ask(**SUBSCRIBE, form="tiles", old=True)
        assert [error["field"] for error in refused["problem"]["errors"]] == ["old"]
    async with site.follow("?form=tiles&old=true") as events:
        assert events.response.status_code == 422


@served
async def test_ready_is_said_to_who_asks(site: Site) -> None:
    for form in ("changes", "tiles"):
        async with site.follow(f"?ready=true&form={form}") as events:
            assert (await events.next())[0] == "snapshot"
            assert await events.next() == ("ready", "e1:5", {"seq": 5})
    async with site.follow("?ready=true", **{"last-event-id": "e1:5"}) as events:
        assert await events.next() == ("ready", "e1:5", {"seq": 5})
        site.change(1)
        assert (await events.next())[:2] == ("change", "e1:6")
    async with site.follow("?ready=perhaps") as events:
        assert events.response.status_code == 422
        assert [error["field"] for error in json.loads(await events.response.aread())["errors"]] == ["ready"]


# --- the WebSocket ----------------------------------------------------------------------------------------------------


@served
async def test_many_subscriptions_on_one_socket(site: Site) -> None:
    site.service.world.subscribe("yours")
    async with site.socket() as peer:
        first = await peer.ask(**SUBSCRIBE)
        assert first["resource"] == "boards/delays"
        assert (first["id"], first["event"], first["cursor"], first["seq"]) == ("mine", "snapshot", "e1:6", 6)
        assert len(first["list"]) == 3
        second = await peer.ask(**{**SUBSCRIBE, "id": "yours", "form": "tiles"})
        assert (second["id"], second["event"]) == ("yours", "snapshot")
        site.change(1)
        got = [await peer.next(), await peer.next()]
        assert {(one["id"], one["event"], one["seq"]) for one in got} == {("mine", "change", 7), ("yours", "tiles", 7)}
        site.service.deliver(partial(site.service.world.unsubscribe, "yours"))
        assert await peer.next() == {
            "resource": "boards/delays",
            "id": "yours",
            "event": "gone",
            "cursor": "e1:8",
            "seq": 8,
        }
        gone = await peer.ask(op="unsubscribe", resource="boards/delays", id="mine")
        assert gone == {"resource": "boards/delays", "id": "mine", "event": "unsubscribed"}
        site.change(2)
        assert await peer.ask(op="ping") == {"event": "pong"}
        assert site.service.hub.counts().streams == 0


@served
async def test_ready_is_said_to_a_socket_that_asks(site: Site) -> None:
    async with site.socket() as peer:
        assert (await peer.ask(**SUBSCRIBE, ready=True))["event"] == "snapshot"
        told = {"resource": "boards/delays", "id": "mine", "event": "ready", "cursor": "e1:5", "seq": 5}
        assert await peer.next() == told
        assert (await peer.ask(**SUBSCRIBE, form="tiles", ready=True))["event"] == "snapshot"
        assert (await peer.next())["event"] == "ready"
        site.change(1)
        assert (await peer.next())["event"] == "tiles"


@served
async def test_after_is_continued_and_a_second_subscribe_replaces_the_first(site: Site) -> None:
    async with site.socket() as peer:
        await peer.ask(**SUBSCRIBE)
        site.change(1)
        assert (await peer.next())["seq"] == 6
        again = await peer.ask(**SUBSCRIBE, after="e1:5")
        assert (again["event"], again["seq"]) == ("change", 6)
        assert (await peer.ask(**SUBSCRIBE, after="e2:5"))["event"] == "reset"
        assert (await peer.ask(**SUBSCRIBE, form="tiles", after=None))["event"] == "snapshot"
        site.change(2)
        assert (await peer.next())["event"] == "tiles"
        assert await peer.ask(op="ping") == {"event": "pong"}
        assert site.service.hub.counts().streams == 1


@served
async def test_what_is_refused_keeps_the_socket_open(site: Site) -> None:
    async with site.socket() as peer:
        assert await peer.problem("{") == (400, [])
        assert await peer.problem("[" * 4000) == (400, [])
        assert await peer.problem("1" * 5000) == (400, [])
        assert await peer.problem(f'"{"1" * 5000}"') == (413, [])
        assert await peer.problem(json.dumps({"op": "ping", "loud": "1" * 5000})) == (413, [])
        assert await peer.problem(b"{}") == (400, [])
        assert await peer.problem("[]") == (422, ["op"])
        assert await peer.problem("{}") == (422, ["op"])
        assert await peer.problem('{"op": "dance"}') == (422, ["op"])
        assert await peer.problem('{"op": ["ping"]}') == (422, ["op"])
        assert await peer.problem('{"op": "ping", "loud": 1}') == (422, ["loud"])
        assert await peer.problem('{"op": "subscribe", "id": 5}') == (422, ["resource", "id"])
        assert await peer.problem('{"op": "auth"}') == (422, ["key"])
        for field, value, status in (
            ("resource", "boards/other", 404),
            ("resource", "boards", 404),
            ("resource", "ads/delays", 404),
            ("id", "yours", 404),
            ("form", "sums", 422),
            ("ready", "true", 422),
            ("ready", 1, 422),
            ("ready", None, 0),
            ("old", "yes", 422),
            ("after", "5", 0),
        ):
            operation = {**SUBSCRIBE, field: value}
            answer = await peer.ask(**operation)
            assert answer.get("problem", {}).get("status", 0) == status
            assert (answer["resource"], answer["id"]) == (operation["resource"], operation["id"])
        assert await peer.problem('{"op": "unsubscribe", "resource": "boards/delays", "id": "yours"}') == (404, ["id"])


@served
async def test_a_refused_subscribe_leaves_the_stream_that_is_open(site: Site) -> None:
    async with site.socket() as peer:
        await peer.ask(**SUBSCRIBE)
        assert (await peer.ask(**SUBSCRIBE, form="sums"))["event"] == "error"
        site.change(1)
        assert (await peer.next())["event"] == "change"


@served(limits=Limits(max_streams=2))
async def test_too_many_streams_on_a_socket_are_refused(site: Site) -> None:
    for id in ("two", "three"):
        site.service.world.subscribe(id)
    async with site.socket() as peer:
        assert (await peer.ask(**SUBSCRIBE))["event"] == "snapshot"
        assert (await peer.ask(**{**SUBSCRIBE, "id": "two"}))["event"] == "snapshot"
        assert (await peer.ask(**{**SUBSCRIBE, "id": "three"}))["problem"]["status"] == 429
        assert (await peer.ask(**SUBSCRIBE))["event"] == "snapshot"


@served(limits=Limits(heartbeat_seconds=0.1))
async def test_a_heartbeat_has_a_cursor_for_each_resource(site: Site) -> None:
    site.service.hub._clock = asyncio.get_running_loop().time
    site.service.hub.start()
    async with site.socket() as peer:
        await peer.ask(**SUBSCRIBE)
        assert await peer.next() == {"event": "heartbeat", "cursors": {"boards/delays": "e1:5"}}
        await peer.say(op="unsubscribe", resource="boards/delays", id="mine")
        while (message := await peer.next())["event"] != "unsubscribed":
            pass
        while (message := await peer.next())["event"] != "heartbeat":
            pass
        assert message == {"event": "heartbeat", "cursors": {}}


@served(keys=True)
async def test_a_socket_may_bring_its_key_in_the_handshake_or_say_it(site: Site) -> None:
    async with site.socket(site.secret) as peer:
        assert (await peer.ask(**SUBSCRIBE))["event"] == "snapshot"
    with pytest.raises(websockets.InvalidStatus) as refused:
        async with site.socket("rk_wrong"):
            pass
    assert refused.value.response.status_code == 401
    assert json.loads(refused.value.response.body or b"")["type"] == "/problems/unauthorized"
    async with site.socket() as peer:
        assert (await peer.ask(**SUBSCRIBE))["problem"]["status"] == 401
        assert (await peer.ask(op="auth", key="rk_wrong"))["problem"]["status"] == 401
        assert await peer.ask(op="auth", key=site.secret) == {"event": "authenticated"}
        assert (await peer.ask(**SUBSCRIBE))["event"] == "snapshot"
    secret, narrow = new_key("narrow", ["maps:read"])
    site.keyring.add(narrow)
    async with site.socket(secret) as peer:
        assert (await peer.ask(**SUBSCRIBE))["problem"]["status"] == 403


@served
async def test_a_socket_that_goes_away_closes_its_streams(site: Site) -> None:
    async with site.socket() as peer:
        await peer.ask(**SUBSCRIBE)
        assert site.service.hub.counts() == (1, 1, 1)
    await wait_until_async(lambda: site.service.hub.counts() == (0, 0, 1))


@served
async def test_operations_wait_for_a_peer_that_does_not_read(site: Site) -> None:
    async with site.socket() as peer:
        await peer.ask(**SUBSCRIBE)
        pings = 3000
        text = json.dumps({"op": "ping"})
        for _ in range(pings):
            await peer.connection.send(text)
        for _ in range(pings):
            assert (await peer.next())["event"] == "pong"


# --- moves ------------------------------------------------------------------------------------------------------------


@served
async def test_a_move_is_answered_and_a_refused_one_leaves_the_socket_open(site: Site) -> None:
    async with site.socket() as peer:
        moved = await peer.ask(op="move", resource="maps/food", id="q1", location=[1, 2.5])
        assert moved == {"resource": "maps/food", "id": "q1", "event": "moved", "seq": 0, "inside": True}
        assert site.moved == [("maps/food", ["q1"], [[1, 2.5]])]
        for refused, fields in (
            ({"resource": "maps/food", "id": "nobody", "location": [1, 2]}, ["id"]),
            ({"resource": "maps/none", "id": "q1", "location": [1, 2]}, ["map"]),
            ({"resource": "boards/delays", "id": "mine", "location": [1, 2]}, ["resource"]),
            ({"resource": "maps/food", "id": "q1"}, ["location"]),
            ({"resource": "maps/food", "id": "q1", "location": "here"}, ["location"]),
            ({"resource": "maps/food", "id": "q1", "location": None}, ["location"]),
            ({"resource": "maps/food", "location": [1, 2], "k": 1}, ["id", "k"]),
        ):
            answer = await peer.ask(op="move", **refused)
            assert (answer["event"], answer["op"]) == ("error", "move")
            assert answer["resource"] == refused["resource"]
            assert sorted(error["field"] for error in answer["problem"]["errors"]) == fields
        assert (await peer.ask(op="ping")) == {"event": "pong"}


@served
async def test_moves_gather_while_one_is_on_its_way_and_keep_their_order(site: Site) -> None:
    site.may_move.clear()
    async with site.socket() as peer:
        said = [("maps/food", f"q{i % 3}", [i, 0]) for i in range(40)] + [("maps/other", "q0", [40, 0])]
        for resource, id, location in said:
            await peer.say(op="move", resource=resource, id=id, location=location)
        assert (await peer.ask(op="ping")) == {"event": "pong"}, "nobody waits for moves"
        site.may_move.set()
        answers = [await peer.next() for _ in said]
        assert [(one["resource"], one["id"]) for one in answers] == [(resource, id) for resource, id, _ in said]
        assert [one["seq"] for one in answers] == list(range(41))
    carried = [
        (resource, id, place) for resource, ids, places in site.moved for id, place in zip(ids, places, strict=True)
    ]
    assert carried == said
    assert len(site.moved) <= 4, "what gathered is one command"


@served
async def test_a_socket_with_too_many_moves_is_not_read(site: Site) -> None:
    """As many may wait as are on their way, so that what comes behind them is not heard before some are answered."""
    site.may_move.clear()
    count = 2 * moves.MOST_WAITING + 20
    async with site.socket() as peer:
        for i in range(count):
            await peer.say(op="move", resource="maps/food", id="q1", location=[i, 0])
        await peer.say(op="ping")
        site.may_move.set()
        answers = [await peer.next() for _ in range(count + 1)]
    assert [one["seq"] for one in answers if one["event"] == "moved"] == list(range(count))
    assert answers.index({"event": "pong"}) >= 20
    assert max(len(ids) for _, ids, _ in site.moved) <= moves.MOST_WAITING


@partial(served, keys=True)
async def test_a_move_needs_the_scope_to_write(site: Site) -> None:
    move = {"op": "move", "resource": "maps/food", "id": "q1", "location": [1, 2]}
    writer, key = new_key("writer", ["maps:write"])
    site.keyring.add(key)
    async with site.socket() as peer:
        assert (await peer.ask(**move))["problem"]["status"] == 401
        assert (await peer.ask(op="auth", key=site.secret)) == {"event": "authenticated"}
        assert (await peer.ask(**move))["problem"]["status"] == 403
        assert not site.moved
        await peer.ask(op="auth", key=writer)
        assert (await peer.ask(**move))["event"] == "moved"


@served
async def test_moves_of_a_socket_that_went_away_are_forgotten(site: Site) -> None:
    site.may_move.clear()
    async with site.socket() as peer:
        for i in range(20):
            await peer.say(op="move", resource="maps/food", id="q1", location=[i, 0])
        await peer.ask(op="ping")
    await wait_until_async(lambda: site.service.hub.counts().connections == 0)
    site.may_move.set()
    await wait_until_async(lambda: bool(site.moved))
    await asyncio.sleep(0)
    assert len(site.moved) == 1
