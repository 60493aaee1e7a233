"""Matchers on a live service: random histories, and streams of wins over SSE and WebSocket that miss nothing."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from tests.conftest import LiveService, StartService
from tests.patience import wait_until
from tests.service.following import Follower, Said, SseFollower, WsFollower
from tests.service.matcher_history import MatcherPlayer
from tests.service.talk import Json, Talk, fresh, problem

WAYS = [(3, "relaxed", "sum", "auto"), (2, "exact", "sum", "auto"), (1, "relaxed", "max", "auto")]


@pytest.mark.parametrize(("d", "mode", "combine", "index"), WAYS)
def test_a_history_is_exact_after_every_step(talk: Talk, d: int, mode: str, combine: str, index: str) -> None:
    player = MatcherPlayer(talk, 100 + d, d, mode, combine, index)
    try:
        for _ in range(150):
            player.step()
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


class Arena:
    """A matcher with some subscriptions, and what each of them won."""

    def __init__(self, talk: Talk) -> None:
        self.talk = talk
        self.name = fresh("m")
        self.path = f"/v1/matchers/{self.name}"
        self.draw = Random(5)
        self.won: dict[str, list[Json]] = {}
        talk.good("PUT", self.path, {"dimensions": ["age"], "mode": "exact"})
        for n in range(4):
            body = {"intervals": {"age": [10 * n, 10 * n + 40]}, "score": n}
            talk.good("PUT", f"{self.path}/subscriptions/s{n}", body)
            self.won[f"s{n}"] = []

    def stream(self, id: str) -> str:
        return f"{self.path}/subscriptions/{id}/stream"

    def match(self, count: int = 1) -> None:
        """Tell the two best of some events."""
        ages = [self.draw.randrange(80) for _ in range(count)]
        events = [{"values": {"age": age}, "payload": {"n": age}} for age in ages]
        answer = self.talk.good("POST", f"{self.path}/match", {"events": events, "k": 2, "notify": True})
        first = answer["seq"] - count + 1
        for seq, event, result in zip(range(first, first + count), events, answer["results"], strict=True):
            for rank, one in enumerate(result["winners"], 1):
                self.won[one["id"]].append({"seq": seq, **event, "rank": rank, "score": one["score"]})

    def after(self, id: str, seq: int) -> list[Json]:
        return [win for win in self.won[id] if win["seq"] > seq]


def wins(said: list[Said]) -> list[Json]:
    fields = ("seq", "values", "payload", "rank", "score")
    return [{field: one.data[field] for field in fields} for one in said if one.event == "win"]


def test_readers_of_both_kinds_hear_all_that_is_won_and_go_on_where_they_were(talk: Talk, closing: list[Any]) -> None:
    arena = Arena(talk)
    socket = WsFollower(talk.url)
    closing.append(socket)
    heard: dict[tuple[str, str], list[Json]] = {}
    position: dict[str, str] = {}
    for round_ in range(5):
        here: dict[tuple[str, str], Follower] = {}
        for id in arena.won:
            last = position.get(id)
            here["sse", id] = SseFollower(talk.url, arena.stream(id), last)
            more = {} if last is None else {"after": last}
            here["ws", id] = socket.follow(f"matchers/{arena.name}", id, **more)
            closing.append(here["sse", id])
            if round_ == 0:
                assert [one.first().event for one in (here["sse", id], here["ws", id])] == ["ready", "ready"]
        arena.match(20)
        for (kind, id), follower in here.items():
            last_seq = arena.won[id][-1]["seq"] if arena.won[id] else -1
            if last_seq > int(position.get(id, "e:-1").partition(":")[2]):
                follower.wait(lambda f=follower, s=last_seq: f.said and f.said[-1].seq == s)
            assert [one.event for one in follower.said[1:]].count("reset") == 0
            heard.setdefault((kind, id), []).extend(wins(follower.said))
        for id in arena.won:
            position[id] = here["sse", id].position
            sse = here["sse", id]
            assert isinstance(sse, SseFollower)
            sse.leave()
            socket.send(op="unsubscribe", resource=f"matchers/{arena.name}", id=id)
        socket.answer("unsubscribed", 4 * (round_ + 1))
        arena.match(5)
    for (_, id), found in heard.items():
        seqs = [win["seq"] for win in found]
        last_seq = seqs[-1] if seqs else -1
        assert found == [win for win in arena.won[id] if win["seq"] <= last_seq], "all, in order and once"


def test_a_stream_ends_with_its_subscription_or_its_matcher(talk: Talk, closing: list[Any]) -> None:
    arena = Arena(talk)
    socket = WsFollower(talk.url)
    closing.append(socket)
    resource = f"matchers/{arena.name}"
    for end in ("subscription", "matcher"):
        sse, ws = SseFollower(talk.url, arena.stream("s1")), socket.follow(resource, "s1")
        closing.append(sse)
        assert (sse.first().event, ws.first().event) == ("ready", "ready")
        path = arena.path if end == "matcher" else f"{arena.path}/subscriptions/s1"
        seq = talk.good("DELETE", path)["seq"]
        assert sse.wait_end() == "clean"
        ws.wait(lambda ws=ws: ws.said[-1].event == "gone")
        assert [(one.event, one.seq) for one in (sse.said[-1], ws.said[-1])] == [("gone", seq)] * 2
        if end == "subscription":
            body = {"intervals": {"age": [0, 9]}, "score": 1}
            talk.good("PUT", f"{arena.path}/subscriptions/s1", body)
    refused = SseFollower(talk.url, arena.stream("s1"))
    assert (refused.status, refused.problem["errors"][0]["field"]) == (404, "matcher")
    socket.send(op="subscribe", resource=resource, id="s1")
    assert socket.answer("error")["problem"]["status"] == 404


def test_what_streams_of_matchers_do_not_have_is_refused(talk: Talk, closing: list[Any]) -> None:
    arena = Arena(talk)
    socket = WsFollower(talk.url)
    closing.append(socket)
    resource = f"matchers/{arena.name}"
    asked = [{"form": "tiles"}, {"old": True}, {"squash": 2}]
    for number, more in enumerate(asked, 1):
        socket.send(op="subscribe", resource=resource, id="s1", **more)
        said = socket.answer("error", number)
        assert (said["problem"]["status"], [error["field"] for error in said["problem"]["errors"]]) == (422, list(more))
        problem(talk.ask("GET", arena.stream("s1"), params={k: str(v).lower() for k, v in more.items()}), 422, *more)


def test_heartbeats_name_all_resources_that_are_followed(start_service: StartService, closing: list[Any]) -> None:
    service = start_service(env={"RANKCAST_HEARTBEAT_SECONDS": "0.2"})
    talk = Talk(service.url)
    closing.append(talk)
    arena = Arena(talk)
    talk.good("PUT", "/v1/boards/b", {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [1]})
    talk.good("PUT", "/v1/boards/b/subscriptions/mine", {"k": 1})
    socket = WsFollower(service.url)
    closing.append(socket)
    socket.subscribe("b", "mine").first()
    socket.follow(f"matchers/{arena.name}", "s1").first()
    beat = socket.wait(lambda: [f for f in socket.frames if f["event"] == "heartbeat" and len(f["cursors"]) == 2])[0]
    assert sorted(beat["cursors"]) == ["boards/b", f"matchers/{arena.name}"]


def test_after_a_restart_a_stream_is_reset(start_service: StartService, closing: list[Any]) -> None:
    service = start_service()
    talk = Talk(service.url)
    arena = Arena(talk)
    sse = SseFollower(service.url, arena.stream("s1"))
    sse.first()
    arena.match(10)
    position, seq = sse.first().position, talk.good("GET", arena.path)["seq"]
    talk.close()
    service.stop(signal.SIGKILL)
    service = start_service(service.data)
    back = SseFollower(service.url, arena.stream("s1"), position)
    closing.append(back)
    assert (back.first().event, back.first().seq) == ("reset", seq)


def test_a_subscription_that_nobody_uses_is_deleted(start_service: StartService, shared: LiveService) -> None:
    talk = Talk(shared.url)
    arena = Arena(talk)
    body = {"intervals": {"age": [0, 99]}, "score": 9}
    talk.good("PUT", f"{arena.path}/subscriptions/read", body)
    reader = SseFollower(shared.url, arena.stream("read"))
    reader.first()
    for id in ("read", "left"):
        talk.good("PUT", f"{arena.path}/subscriptions/{id}", {**body, "ttl": 0.5})
    wait_until(lambda: talk.good("GET", arena.path)["subscriptions"] == 5, pause=0.1)
    assert [one["id"] for one in talk.pages(f"{arena.path}/subscriptions", 100)] == ["read", "s0", "s1", "s2", "s3"]
    reader.leave()
    wait_until(lambda: talk.good("GET", arena.path)["subscriptions"] == 4, pause=0.1)
    talk.close()
