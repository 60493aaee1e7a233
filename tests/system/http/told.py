"""Subscriptions of a resource that are told of what they match, and their streams over SSE and WebSocket."""

from __future__ import annotations

import signal
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any, ClassVar, Protocol

import pytest

from tests.support.live import StartService
from tests.system.http.following import Follower, Said, SseFollower, WsFollower
from tests.system.http.talk import Json, Talk, fresh


@pytest.fixture
def closing() -> Iterator[list[Any]]:
    """What is put in here is closed at the end: followers and talks."""
    things: list[Any] = []
    yield things
    for thing in reversed(things):
        with suppress(Exception):
            thing.leave() if isinstance(thing, SseFollower | WsFollower) else thing.close()


class Steps(Protocol):
    """A random history, which `step` goes on with and `check` compares."""

    talk: Talk

    def step(self) -> None: ...

    def check(self) -> None: ...


def play(player: Steps, steps: int, every: int | None = None) -> None:
    """Play so many steps; compare all at the end, and after each `every`. A failure shows all requests."""
    try:
        for n in range(steps):
            player.step()
            if every is not None and n % every == 0:
                player.check()
        player.check()
    except AssertionError:
        print("\n".join(player.talk.calls))
        raise


class Told(ABC):
    """A resource with subscriptions s0 to s3, and `told`, what each was told, with the `fields` of its event."""

    collection: ClassVar[str]
    event: ClassVar[str]
    fields: ClassVar[tuple[str, ...]]

    def __init__(self, talk: Talk, config: Json) -> None:
        self.talk = talk
        self.resource = f"{self.collection}/{fresh(self.collection[0])}"
        self.path = f"/v1/{self.resource}"
        self.draw = Random(5)
        self.told: dict[str, list[Json]] = {f"s{n}": [] for n in range(4)}
        talk.good("PUT", self.path, config)
        for n, id in enumerate(self.told):
            talk.good("PUT", f"{self.path}/subscriptions/{id}", self.body(n))

    @abstractmethod
    def body(self, n: int) -> Json:
        """The subscription of this number."""

    @abstractmethod
    def tell(self, count: int) -> None:
        """Send so many events, and keep in `told` what they come to."""

    def stream(self, id: str) -> str:
        """The path of a subscription's stream."""
        return f"{self.path}/subscriptions/{id}/stream"

    def heard(self, said: list[Said]) -> list[Json]:
        """What a stream said, as in `told`."""
        return [{field: one.data[field] for field in self.fields} for one in said if one.event == self.event]


def readers_miss_nothing(told: Told, closing: list[Any], rounds: int) -> None:
    """Readers of both transports come and go, and each hears all that is told after its position, in order and once."""
    talk = told.talk
    socket = WsFollower(talk.url)
    closing.append(socket)
    heard: dict[tuple[str, str], list[Json]] = {}
    position: dict[str, str] = {}
    for round_ in range(rounds):
        here: dict[tuple[str, str], Follower] = {}
        for id in told.told:
            last = position.get(id)
            here["sse", id] = SseFollower(talk.url, told.stream(id), last)
            here["ws", id] = socket.follow(told.resource, id, **({} if last is None else {"after": last}))
            closing.append(here["sse", id])
            if round_ == 0:
                assert [one.first().event for one in (here["sse", id], here["ws", id])] == ["ready", "ready"]
        told.tell(20)
        for (kind, id), follower in here.items():
            last_seq = told.told[id][-1]["seq"] if told.told[id] else -1
            if last_seq > int(position.get(id, "e:-1").partition(":")[2]):
                follower.wait(lambda f=follower, s=last_seq: f.said and f.said[-1].seq == s)
            assert [one.event for one in follower.said[1:]].count("reset") == 0
            heard.setdefault((kind, id), []).extend(told.heard(follower.said))
        for id in told.told:
            sse = here["sse", id]
            assert isinstance(sse, SseFollower)
            position[id] = sse.position
            sse.leave()
            socket.send(op="unsubscribe", resource=told.resource, id=id)
        socket.answer("unsubscribed", 4 * (round_ + 1))
        told.tell(5)
    for (_, id), found in heard.items():
        last_seq = found[-1]["seq"] if found else -1
        assert found == [one for one in told.told[id] if one["seq"] <= last_seq], "all, in order and once"


def streams_end(told: Told, closing: list[Any], *ends: Callable[[], int]) -> WsFollower:
    """Each of these deletes s1, the last one the resource too, and returns the seq of it; streams end with that seq."""
    talk = told.talk
    socket = WsFollower(talk.url)
    closing.append(socket)
    for number, end in enumerate(ends, 1):
        sse, ws = SseFollower(talk.url, told.stream("s1")), socket.follow(told.resource, "s1")
        closing.append(sse)
        assert (sse.first().event, ws.first().event) == ("ready", "ready")
        seq = end()
        assert sse.wait_end() == "clean"
        ws.wait(lambda ws=ws: ws.said[-1].event == "gone")
        assert [(one.event, one.seq) for one in (sse.said[-1], ws.said[-1])] == [("gone", seq)] * 2
        if number < len(ends):
            talk.good("PUT", f"{told.path}/subscriptions/s1", told.body(1))
    refused = SseFollower(talk.url, told.stream("s1"))
    assert (refused.status, refused.problem["errors"][0]["field"]) == (404, told.collection.removesuffix("s"))
    return socket


def reset_after_a_restart(start_service: StartService, closing: list[Any], make: Callable[[Talk], Told]) -> None:
    """A position from before a crash is answered with a reset to what is there now."""
    service = start_service()
    talk = Talk(service.url)
    told = make(talk)
    sse = SseFollower(service.url, told.stream("s1"))
    sse.first()
    told.tell(10)
    position, seq = sse.first().position, talk.good("GET", told.path)["seq"]
    talk.close()
    service.stop(signal.SIGKILL)
    service = start_service(service.data)
    back = SseFollower(service.url, told.stream("s1"), position)
    closing.append(back)
    assert (back.first().event, back.first().seq) == ("reset", seq)
