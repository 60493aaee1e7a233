"""The single writes that are measured: what a resource is filled with, and requests without end for each kind.

Resources are of middle size, as in `bench.commits.requests`. Every request is about something that is there, but for
posts and a relay's subscriptions, which are new.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count, islice
from typing import Any, NamedTuple

import numpy as np

from bench.boards import service as boards_service
from bench.boards.load import Events
from bench.boards.workload import make_world as make_board_world
from bench.feeds import service as feeds_service
from bench.feeds.workload import make_world as make_feed_world
from bench.maps import service as maps_service
from bench.maps.workload import make_world as make_map_world
from bench.matchers import service as matchers_service
from bench.matchers.workload import make_world as make_matcher_world
from bench.process import NDJSON, Server
from bench.relays import service as relays_service
from bench.relays.workload import MOST, make_boxes, make_commands

RELAY = "/v1/relays/bench"

ASKED = 100
"""Notifications whose recipients are counted."""

BOXES = 1_000
"""New subscriptions whose boxes are made at a time."""

Request = tuple[str, str, str]
"""Method, path and body."""


class Size(NamedTuple):
    """What the resources hold, and requests of a round over many connections, over one, over the socket, and batches
    of events."""

    rounds: int = 11
    many: int = 3_000
    one: int = 500
    socket: int = 8_000
    objects: int = 10_000
    subscriptions: int = 200_000
    intervals: int = 100_000
    boxes: int = 20_000
    places: int = 50_000
    queries: int = 5_000
    posts: int = 10_000
    feed_subscriptions: int = 25_000
    batches: int = 40

    @property
    def requests(self) -> int:
        """Requests of one kind in all, those of warming up included."""
        return (self.rounds + 1) * (self.many + self.one + self.socket)


QUICK = Size(2, 200, 50, 400, 500, 2_000, 2_000, 500, 1_000, 100, 500, 500, 4)


class Write(NamedTuple):
    """A kind of single write: requests without end. `about` gives what the page says of it, and is asked once they are
    measured."""

    name: str
    requests: Iterator[Request]
    about: Callable[[], str] = str


def boards(server: Server, size: Size) -> list[Write]:
    """Objects of a board that change, with and without the tiles in the answer."""
    world = make_board_world(size.objects, 1)
    boards_service.make_board(server, world)
    boards_service.register(server, size.subscriptions)
    events = Events(world.job(boards_service.BOARD))

    def puts(query: str) -> Iterator[Request]:
        return (("PUT", path, body) for path, body in events.puts(query))

    return [
        Write("boards: `PUT` of an object, with its tiles", puts("")),
        Write("boards: `PUT` of an object, `messages=none`", puts("?messages=none")),
    ]


def matchers(server: Server, size: Size) -> list[Write]:
    """Subscriptions of a matcher that change, and events."""
    rng = np.random.default_rng(1)
    world = make_matcher_world(size.intervals, points=1_000)
    matchers_service.register(server, world)

    def changes() -> Iterator[Request]:
        while True:
            lo, length, score = rng.random(3).tolist()
            body = {"intervals": {matchers_service.DIMENSION: [lo, lo + length / 100]}, "score": score}
            yield "PUT", f"{matchers_service.PATH}/subscriptions/s{rng.integers(size.intervals)}", compact(body)

    def events() -> Iterator[Request]:
        while True:
            event = {"values": {matchers_service.DIMENSION: rng.random()}}
            yield "POST", f"{matchers_service.PATH}/match", compact({"events": [event], "notify": True})

    return [
        Write("matchers: `PUT` of a subscription", changes()),
        Write("matchers: a published event, with its 20 winners", events()),
    ]


def relays(server: Server, size: Size) -> list[Write]:
    """Subscriptions that are new to a relay, with boxes as those that it is filled with, and before these
    notifications, so that they meet the relay as it was filled."""
    rng, attributes = np.random.default_rng(2), 3
    server.ask("PUT", RELAY, json.dumps({"attributes": [f"a{j}" for j in range(attributes)]}).encode())
    commands = make_commands(size.boxes, attributes, 0.15)
    server.send(f"{RELAY}/commands", b"".join(relays_service.written(commands)), NDJSON)

    def subscriptions() -> Iterator[Request]:
        for part in count():
            boxes = np.stack(make_boxes(BOXES, attributes, seed=100 + part), axis=2).astype(np.int64).tolist()
            for at, ends in enumerate(boxes, part * BOXES):
                box = {f"a{j}": end for j, end in enumerate(ends)}
                yield "PUT", f"{RELAY}/subscriptions/n{at}", compact({"box": box})

    def notifications() -> Iterator[Request]:
        while True:
            values = {f"a{j}": x for j, x in enumerate(rng.integers(0, MOST, attributes).tolist())}
            yield "POST", f"{RELAY}/notifications", compact({"notifications": [{"values": values}]})

    def recipients() -> str:
        answers = [server.ask(method, path, body.encode()) for method, path, body in islice(notifications(), ASKED)]
        each = np.mean([len(one["results"][0]["subscriptions"]) for one in answers])
        have = server.ask("GET", RELAY)["subscriptions"]
        return f"A notification names {each:,.0f} of the relay's {have:,} subscriptions on average."

    return [
        Write("relays: a notification, its recipients named", notifications(), recipients),
        Write("relays: `PUT` of a new subscription", subscriptions()),
    ]


def maps(server: Server, size: Size) -> list[Write]:
    """Objects of a map that move among standing queries, and clients that move."""
    rng = np.random.default_rng(3)
    world = make_map_world(size.places, 2, True, "uniform", size.queries, 1)
    maps_service.register(server, world)
    ids = [f"q{i}" for i in range(size.queries)]
    homes = world.walks[:, 0]
    maps_service.add_queries(server, maps_service.Size(k=10, m=10), "top", ids, homes)

    def near(place: Any) -> list[float]:
        moved: list[float] = np.clip(place + rng.normal(0, 1e-4, 2), 0, 1).tolist()
        return moved

    def objects() -> Iterator[Request]:
        while True:
            i = int(rng.integers(size.places))
            body = {
                "location": near(world.points[i]),
                "values": dict(zip("ab", world.statics[i].tolist(), strict=True)),
            }
            yield "PUT", f"{maps_service.PATH}/objects/o{i}", compact(body)

    def clients() -> Iterator[Request]:
        while True:
            i = int(rng.integers(size.queries))
            yield "PATCH", f"{maps_service.PATH}/queries/q{i}", compact({"location": near(homes[i])})

    return [
        Write("maps: `PUT` of an object that moves", objects()),
        Write("maps: `PATCH` of a query whose client moves", clients()),
    ]


def feeds(server: Server, size: Size) -> list[Write]:
    """Posts of a feed."""
    one = feeds_service.Size(size.feed_subscriptions, size.posts, batch=1, requests=size.requests, vocabulary=20_000)
    world = make_feed_world(one.subscriptions, size.posts + size.requests, one.vocabulary)
    feeds_service.fill(server, world, one)
    bodies = feeds_service.bodies(world, one, size.posts)
    return [Write("feeds: a post", (("POST", f"{feeds_service.PATH}/posts", body) for body in bodies))]


def compact(body: Any) -> str:
    """JSON without spaces."""
    return json.dumps(body, separators=(",", ":"))


RESOURCES = (boards, matchers, relays, maps, feeds)
