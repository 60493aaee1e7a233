"""Relays on a live service: random histories, and streams of notifications that miss nothing."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from tests.conftest import StartService
from tests.service.following import Follower, Said, SseFollower, WsFollower
from tests.service.relay_history import RelayPlayer
from tests.service.talk import Json, Talk, fresh, problem

WAYS = [(2, "G", 1, "kd", 0), (1, "G", 3, "zorder", 2), (2, "G*", 1, "linear", 0), (2, "poset", 1, "kd", 1)]


@pytest.mark.parametrize(("d", "graph", "k", "index", "links"), WAYS)
def test_a_history_is_exact_after_every_step(talk: Talk, d: int, graph: str, k: int, index: str, links: int) -> None:
    player = RelayPlayer(talk, 7 * d + links, d, graph, k, index, links)
    try:
        for n in range(150):
            player.step()
            if n % 10 == 0:
                player.check()
        player.check()
    except AssertionError:
        print("\n".join(talk.calls))
        raise


@pytest.fixture
def closing() -> Iterator[list[Any]]:
    """What is put in here is closed at the end."""
    things: list[Any] = []
    yield things
    for thing in reversed(things):
        with suppress(Exception):
            thing.leave() if isinstance(thing, Follower) else thing.close()


class Market:
    """A relay with some local subscriptions, and what each of them was told."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.name = fresh("r")
        self.path = f"/v1/relays/{self.name}"
        self.draw = Random(5)
        self.told: dict[str, list[Json]] = {f"s{n}": [] for n in range(4)}
        talk.good("PUT", self.path, {"attributes": ["price"]})
        for n, id in enumerate(self.told):
            talk.good("PUT", f"{self.path}/subscriptions/{id}", {"box": {"price": [10 * n, 10 * n + 40]}})

    def stream(self, id: str) -> str:
        return f"{self.path}/subscriptions/{id}/stream"

    def notify(self, count: int = 1) -> None:
        prices = [self.draw.randrange(80) for _ in range(count)]
        events = [{"values": {"price": price}, "payload": {"n": price}} for price in prices]
        answer = self.talk.good("POST", f"{self.path}/notifications", {"notifications": events})
        first = answer["seq"] - count + 1
        for seq, event, result in zip(range(first, first + count), events, answer["results"], strict=True):
            price = event["values"]["price"]
            assert result["subscriptions"] == [f"s{n}" for n in range(4) if 10 * n <= price <= 10 * n + 40]
            for id in result["subscriptions"]:
                self.told[id].append({"seq": seq, **event})


def notified(said: list[Said]) -> list[Json]:
    return [{f: one.data[f] for f in ("seq", "values", "payload")} for one in said if one.event == "notification"]


def test_readers_of_both_kinds_hear_all_and_go_on_where_they_were(talk: Talk, closing: list[Any]) -> None:
    market = Market(talk)
    socket = WsFollower(talk.url)
    closing.append(socket)
    heard: dict[tuple[str, str], list[Json]] = {}
    position: dict[str, str] = {}
    for round_ in range(4):
        here: dict[tuple[str, str], Follower] = {}
        for id in market.told:
            last = position.get(id)
            here["sse", id] = SseFollower(talk.url, market.stream(id), last)
            more = {} if last is None else {"after": last}
            here["ws", id] = socket.follow(f"relays/{market.name}", id, **more)
            closing.append(here["sse", id])
            if round_ == 0:
                assert [one.first().event for one in (here["sse", id], here["ws", id])] == ["ready", "ready"]
        market.notify(20)
        for (kind, id), follower in here.items():
            last_seq = market.told[id][-1]["seq"] if market.told[id] else -1
            if last_seq > int(position.get(id, "e:-1").partition(":")[2]):
                follower.wait(lambda f=follower, s=last_seq: f.said and f.said[-1].seq == s)
            assert [one.event for one in follower.said[1:]].count("reset") == 0
            heard.setdefault((kind, id), []).extend(notified(follower.said))
        for id in market.told:
            sse = here["sse", id]
            assert isinstance(sse, SseFollower)
            position[id] = sse.position
            sse.leave()
            socket.send(op="unsubscribe", resource=f"relays/{market.name}", id=id)
        socket.answer("unsubscribed", 4 * (round_ + 1))
        market.notify(5)
    for (_, id), found in heard.items():
        last_seq = found[-1]["seq"] if found else -1
        assert found == [one for one in market.told[id] if one["seq"] <= last_seq], "all, in order and once"


def test_a_stream_ends_with_its_subscription_or_its_relay(talk: Talk, closing: list[Any]) -> None:
    market = Market(talk)
    socket = WsFollower(talk.url)
    closing.append(socket)
    resource = f"relays/{market.name}"
    for end in ("subscription", "command", "relay"):
        sse, ws = SseFollower(talk.url, market.stream("s1")), socket.follow(resource, "s1")
        closing.append(sse)
        assert (sse.first().event, ws.first().event) == ("ready", "ready")
        if end == "command":
            headers = {"Content-Type": "application/x-ndjson"}
            line = b'{"op":"unsubscribe","id":"s1"}\n'
            seq = talk.ask("POST", f"{market.path}/commands", line, headers=headers).json()["seq"]
        else:
            seq = talk.good("DELETE", market.path if end == "relay" else f"{market.path}/subscriptions/s1")["seq"]
        assert sse.wait_end() == "clean"
        ws.wait(lambda ws=ws: ws.said[-1].event == "gone")
        assert [(one.event, one.seq) for one in (sse.said[-1], ws.said[-1])] == [("gone", seq)] * 2
        if end != "relay":
            talk.good("PUT", f"{market.path}/subscriptions/s1", {"box": {"price": [0, 9]}})
    refused = SseFollower(talk.url, market.stream("s1"))
    assert (refused.status, refused.problem["errors"][0]["field"]) == (404, "relay")


def test_a_changed_subscription_is_told_of_what_it_now_meets(talk: Talk, closing: list[Any]) -> None:
    market = Market(talk)
    sse = SseFollower(talk.url, market.stream("s0"))
    closing.append(sse)
    sse.first()
    talk.good("PATCH", f"{market.path}/subscriptions/s0", {"box": {"price": [100, 200]}})
    for price in (20, 150):
        event = {"values": {"price": price}}
        seq = talk.good("POST", f"{market.path}/notifications", {"notifications": [event]})["seq"]
    sse.wait(lambda: len(sse.said) > 1)
    assert notified(sse.said) == [{"seq": seq, "values": {"price": 150}, "payload": None}]


def test_what_streams_of_relays_do_not_have_is_refused(talk: Talk) -> None:
    market = Market(talk)
    for more in ({"form": "tiles"}, {"old": "true"}, {"squash": "2"}):
        problem(talk.ask("GET", market.stream("s1"), params=more), 422, *more)


def test_after_a_restart_a_stream_is_reset(start_service: StartService, closing: list[Any]) -> None:
    service = start_service()
    talk = Talk(service.url)
    market = Market(talk)
    sse = SseFollower(service.url, market.stream("s1"))
    sse.first()
    market.notify(10)
    position, seq = sse.first().position, talk.good("GET", market.path)["seq"]
    talk.close()
    service.stop(signal.SIGKILL)
    service = start_service(service.data)
    back = SseFollower(service.url, market.stream("s1"), position)
    closing.append(back)
    assert (back.first().event, back.first().seq) == ("reset", seq)
