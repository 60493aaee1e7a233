"""Requests that two services answer in turns: what they are set up with, and bursts of a few of each kind.

Both get the same requests in the same order, so that their states stay the same.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bench.boards import load as boards_load
from bench.boards import service as boards_service
from bench.boards.workload import make_world as make_board_world
from bench.exchange import request
from bench.feeds import service as feeds_service
from bench.feeds.workload import make_world as make_feed_world
from bench.maps import service as maps_service
from bench.maps.workload import make_world as make_map_world
from bench.matchers import service as matchers_service
from bench.matchers.workload import make_world as make_matcher_world
from bench.process import NDJSON, Server
from bench.relays import service as relays_service
from bench.relays.workload import MOST, make_commands

RELAY = "/v1/relays/bench"


class Burst(NamedTuple):
    """A kind of request: bursts of them, the items in one, and connections. Bodies of `lines` are answered while they
    are sent, by chunks; there is one a burst."""

    name: str
    bursts: Iterator[list[bytes]]
    items: int
    connections: int = 2
    lines: str = ""


class Size(NamedTuple):
    """How much is run: bursts of each kind, and what the resources hold."""

    rounds: int = 10
    objects: int = 10_000
    subscriptions: int = 100_000
    boxes: int = 20_000
    places: int = 50_000
    queries: int = 5_000
    posts: int = 10_000


QUICK = Size(3, 500, 2_000, 500, 1_000, 100, 500)


def boards(servers: list[Server], size: Size) -> list[Burst]:
    """Events in batches, objects one a request, and lists."""
    world = make_board_world(size.objects, 1)
    for server in servers:
        boards_service.make_board(server, world)
        boards_service.register(server, size.subscriptions)
    events, every = boards_load.Events(world.job(boards_service.BOARD)), range(size.rounds + 1)
    path = f"/v1/boards/{boards_service.BOARD}/subscriptions"
    lists = [[request("GET", f"{path}/s{i}") for i in range(at * 200, at * 200 + 200)] for at in every]
    return [
        Burst("boards: an event, 500 a request", (events.batches(4, 500, "count") for _ in every), 2_000),
        Burst("boards: an object, one a request", (events.singles(200, "") for _ in every), 200, 8),
        Burst("boards: a list", iter(lists), 200, 8),
    ]


def matchers(servers: list[Server], size: Size) -> list[Burst]:
    """Events in batches, with their winners."""
    each, batch = 5, 200
    world = make_matcher_world(size.subscriptions, points=(size.rounds + 1) * each * batch)
    for server in servers:
        matchers_service.register(server, world)
    events = world.points[:, 0].reshape(-1, each, batch).tolist()
    path = f"{matchers_service.PATH}/match"
    bursts = ([request("POST", path, matchers_service.match_body(some).encode()) for some in one] for one in events)
    return [Burst("matchers: an event, 200 a request", bursts, each * batch)]


def relays(servers: list[Server], size: Size) -> list[Burst]:
    """Commands as a stream of lines, and notifications in batches."""
    rng, each, batch, lines = np.random.default_rng(2), 3, 50, 1_000
    commands = make_commands(size.boxes + (size.rounds + 1) * lines, 3, 0.15)
    written = relays_service.written(commands)
    for server in servers:
        server.ask("PUT", RELAY, json.dumps({"attributes": ["a0", "a1", "a2"]}).encode())
        server.send(f"{RELAY}/commands", b"".join(written[: size.boxes]), NDJSON)

    def published() -> bytes:
        points = rng.integers(0, MOST, (batch, 3)).tolist()
        values = [{"values": {f"a{j}": x for j, x in enumerate(point)}} for point in points]
        return request("POST", f"{RELAY}/notifications", json.dumps({"notifications": values}).encode())

    starts = range(size.boxes, len(written), lines)
    return [
        Burst(
            "relays: a command, 1,000 a request", ([b"".join(written[at : at + lines])] for at in starts), lines,
            lines=f"{RELAY}/commands",
        ),
        Burst(
            "relays: a notification, 50 a request", ([published() for _ in range(each)] for _ in starts), each * batch
        ),
    ]  # fmt: skip


def maps(servers: list[Server], size: Size) -> list[Burst]:
    """Zones of top-k, and objects that move among standing queries."""
    rng, each, batch = np.random.default_rng(3), 4, 25
    world = make_map_world(size.places, 2, True, "uniform", size.queries + (size.rounds + 1) * each * batch, 1)
    there, asked = world.walks[:, 0], maps_service.Size(k=10, m=10)
    for server in servers:
        maps_service.register(server, world)
        ids = [f"q{i}" for i in range(size.queries)]
        maps_service.add_queries(server, asked, "top", ids, there[: size.queries])
    places = there[size.queries :].reshape(-1, each, batch, 2).tolist()
    tops = ([maps_service.top_body(asked, locations=some) for some in one] for one in places)

    def moved() -> str:
        slots = rng.choice(size.places, batch, replace=False)
        there = np.clip(world.points[slots] + rng.normal(0, 1e-4, (batch, 2)), 0, 1)
        objects = [{"id": f"o{i}", "location": place} for i, place in zip(slots.tolist(), there.tolist(), strict=True)]
        return json.dumps({"objects": objects})

    def posted(path: str, bodies: Iterator[list[str]]) -> Iterator[list[bytes]]:
        return ([request("POST", f"{maps_service.PATH}/{path}", body.encode()) for body in some] for some in bodies)

    moves = ([moved() for _ in range(each)] for _ in places)
    return [
        Burst("maps: a zone of top-k, 25 a request", posted("top", tops), each * batch),
        Burst("maps: an object that moves, 25 a request", posted("objects", moves), each * batch),
    ]


def feeds(servers: list[Server], size: Size) -> list[Burst]:
    """Posts in batches."""
    one = feeds_service.Size(size.subscriptions // 4, size.posts, batch=50, requests=4, vocabulary=20_000)
    sent = one.batch * one.requests
    world = make_feed_world(one.subscriptions, size.posts + (size.rounds + 1) * sent, one.vocabulary)
    for server in servers:
        feeds_service.fill(server, world, one)
    path = f"{feeds_service.PATH}/posts"
    bursts = (
        [request("POST", path, body.encode()) for body in feeds_service.bodies(world, one, at)]
        for at in range(size.posts, len(world.places), sent)
    )
    return [Burst("feeds: a post, 50 a request", bursts, sent)]


RESOURCES = (boards, matchers, relays, maps, feeds)
