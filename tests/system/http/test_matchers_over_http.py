"""Matchers on a live service: random histories, and streams of wins over SSE and WebSocket that miss nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.live import LiveService, StartService
from tests.support.patience import wait_until
from tests.system.http.following import SseFollower, WsFollower
from tests.system.http.matcher_history import MatcherPlayer
from tests.system.http.talk import Json, Talk, problem
from tests.system.http.told import Told, play, readers_miss_nothing, reset_after_a_restart, streams_end

WAYS = [(3, "relaxed", "sum", "auto"), (2, "exact", "sum", "auto"), (1, "relaxed", "max", "auto")]


@pytest.mark.parametrize(("d", "mode", "combine", "index"), WAYS)
def test_a_history_is_exact_after_every_step(talk: Talk, d: int, mode: str, combine: str, index: str) -> None:
    play(MatcherPlayer(talk, 100 + d, d, mode, combine, index), 150)


class Arena(Told):
    """A matcher with some subscriptions."""

    collection = "matchers"
    event = "win"
    fields = ("seq", "values", "payload", "rank", "score")

    def __init__(self, talk: Talk) -> None:
        super().__init__(talk, {"dimensions": ["age"], "mode": "exact"})

    def body(self, n: int) -> Json:
        return {"intervals": {"age": [10 * n, 10 * n + 40]}, "score": n}

    def tell(self, count: int) -> None:
        """Tell the two best of some events."""
        ages = [self.draw.randrange(80) for _ in range(count)]
        events = [{"values": {"age": age}, "payload": {"n": age}} for age in ages]
        answer = self.talk.good("POST", f"{self.path}/match", {"events": events, "k": 2, "notify": True})
        first = answer["seq"] - count + 1
        for seq, event, result in zip(range(first, first + count), events, answer["results"], strict=True):
            for rank, one in enumerate(result["winners"], 1):
                self.told[one["id"]].append({"seq": seq, **event, "rank": rank, "score": one["score"]})


def test_readers_of_both_kinds_hear_all_that_is_won_and_go_on_where_they_were(talk: Talk, closing: list[Any]) -> None:
    readers_miss_nothing(Arena(talk), closing, 5)


def test_a_stream_ends_with_its_subscription_or_its_matcher(talk: Talk, closing: list[Any]) -> None:
    arena = Arena(talk)

    def deleted(path: str) -> int:
        seq: int = talk.good("DELETE", path)["seq"]
        return seq

    one = f"{arena.path}/subscriptions/s1"
    socket = streams_end(arena, closing, lambda: deleted(one), lambda: deleted(arena.path))
    socket.send(op="subscribe", resource=arena.resource, id="s1")
    assert socket.answer("error")["problem"]["status"] == 404


def test_what_streams_of_matchers_do_not_have_is_refused(talk: Talk, closing: list[Any]) -> None:
    arena = Arena(talk)
    socket = WsFollower(talk.url)
    closing.append(socket)
    asked: list[dict[str, Any]] = [{"form": "tiles"}, {"old": True}, {"squash": 2}]
    for number, more in enumerate(asked, 1):
        socket.send(op="subscribe", resource=arena.resource, id="s1", **more)
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
    socket.follow(arena.resource, "s1").first()
    beat = socket.wait(lambda: [f for f in socket.frames if f["event"] == "heartbeat" and len(f["cursors"]) == 2])[0]
    assert sorted(beat["cursors"]) == ["boards/b", arena.resource]


def test_after_a_restart_a_stream_is_reset(start_service: StartService, closing: list[Any]) -> None:
    reset_after_a_restart(start_service, closing, Arena)


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
