"""The crowd: five resources of production's proportions, under traffic that only the service's own `verify` checks."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from random import Random

import httpx

from tests.system.http.talk import NDJSON, Json, Talk, ndjson
from tests.system.kill_maps import CONFIG as MAP
from tests.system.kill_maps import SCORE

SUBSCRIPTIONS, OBJECTS = 20_000, 5_000
WORDS = [f"word{n}" for n in range(2_000)]
RELAYED = 3_000
"""Boxes of the relay: its covering is searched at each command."""


def place(draw: Random) -> list[float]:
    return [draw.uniform(0, 100), draw.uniform(0, 100)]


def words(draw: Random, most: int) -> list[str]:
    """Some words, of which the first are the most frequent."""
    return [WORDS[int(len(WORDS) * draw.random() ** 3)] for _ in range(draw.randrange(1, most))]


def box(draw: Random) -> Json:
    return {name: sorted((draw.uniform(0, 1000), draw.uniform(0, 1000))) for name in ("a", "b")}


def fill(talk: Talk, draw: Random) -> None:
    """Make the five and fill them, those that are not there yet."""
    made = {one["name"] for kind in ("boards", "matchers", "relays", "maps", "feeds") for one in _listed(talk, kind)}

    def send(path: str, lines: list[Json]) -> None:
        for at in range(0, len(lines), 5_000):
            body = ndjson(lines[at : at + 5_000])
            answer = talk.http.post(path, content=body, headers={"Content-Type": NDJSON})
            assert answer.status_code in (200, 201), answer.text[:500]

    if "crowd-board" not in made:
        rank = {"attribute": "y", "order": "desc"}
        talk.good("PUT", "/v1/boards/crowd-board", {"range_attributes": ["x"], "rank": rank, "ks": [5, 10]})
        send("/v1/boards/crowd-board/events?messages=none", [event(draw, n) for n in range(OBJECTS)])
        lines = []
        for n in range(SUBSCRIPTIONS):
            l = draw.uniform(0, 1000)
            lines.append({"id": f"s{n}", "range": {"x": [l, l + draw.expovariate(0.05)]}, "k": draw.choice([5, 10])})
        send("/v1/boards/crowd-board/subscriptions", lines)
    if "crowd-matcher" not in made:
        talk.good("PUT", "/v1/matchers/crowd-matcher", {"dimensions": ["a", "b"], "mode": "relaxed"})
        lines = [
            {"id": f"s{n}", "intervals": box(draw), "weights": {"a": draw.random(), "b": draw.random()}}
            for n in range(SUBSCRIPTIONS)
        ]
        send("/v1/matchers/crowd-matcher/subscriptions", lines)
    if "crowd-relay" not in made:
        talk.good("PUT", "/v1/relays/crowd-relay", {"attributes": ["a", "b"]})
        send("/v1/relays/crowd-relay/subscriptions", [{"id": f"s{n}", "box": box(draw)} for n in range(RELAYED)])
    if "crowd-map" not in made:
        talk.good("PUT", "/v1/maps/crowd-map", MAP)
        send("/v1/maps/crowd-map/objects", [thing(draw, n) for n in range(OBJECTS)])
        asked = [
            {"id": f"q{n}", "kind": "top", "location": place(draw), "k": 5, "m": 5, "score": SCORE}
            for n in range(1_000)
        ]
        send("/v1/maps/crowd-map/queries", asked)
    if "crowd-feed" not in made:
        talk.good("PUT", "/v1/feeds/crowd-feed", {"window": OBJECTS, "bounds": [0, 0, 100, 100]})
        lines = [
            {"id": f"s{n}", "keywords": words(draw, 4), "location": place(draw), "k": 5, "alpha": 0.5}
            for n in range(SUBSCRIPTIONS // 2)
        ]
        send("/v1/feeds/crowd-feed/subscriptions", lines)


def _listed(talk: Talk, kind: str) -> list[Json]:
    return talk.pages(f"/v1/{kind}", 1000)


def event(draw: Random, n: int) -> Json:
    return {"op": "upsert", "id": f"o{n}", "values": {"x": draw.uniform(0, 1000), "y": draw.randrange(100_000)}}


def thing(draw: Random, n: int) -> Json:
    values = {"price": draw.randrange(1000), "rating": draw.choice([0, 2.5, 5])}
    return {"id": f"o{n}", "location": place(draw), "values": values}


def _board(draw: Random) -> tuple[str, Json]:
    events = [event(draw, draw.randrange(OBJECTS)) for _ in range(20)]
    return "/v1/boards/crowd-board/events", {"events": events, "messages": "count"}


def _register(draw: Random) -> tuple[str, Json]:
    l = draw.uniform(0, 1000)
    moved = [{"id": f"s{draw.randrange(SUBSCRIPTIONS)}"}]
    if draw.random() < 0.5:
        return "/v1/boards/crowd-board/subscriptions/delete", {"ids": [one["id"] for one in moved]}
    new = {"range": {"x": [l, l + 5]}, "k": 5, "ttl": draw.choice([5, 60, 600])}
    return "/v1/boards/crowd-board/subscriptions", {"subscriptions": [new]}


def _matcher(draw: Random) -> tuple[str, Json]:
    events = [{"values": {"a": draw.uniform(0, 1000), "b": draw.uniform(0, 1000)}} for _ in range(5)]
    return "/v1/matchers/crowd-matcher/match", {"events": events, "k": 10, "notify": draw.random() < 0.5}


def _relay(draw: Random) -> tuple[str, Json]:
    events = [{"values": {"a": draw.uniform(0, 1000), "b": draw.uniform(0, 1000)}} for _ in range(5)]
    return "/v1/relays/crowd-relay/notifications", {"notifications": events}


def _map(draw: Random) -> tuple[str, Json]:
    if draw.random() < 0.3:
        moves = [{"id": f"q{draw.randrange(1_000)}", "location": place(draw)} for _ in range(5)]
        return "/v1/maps/crowd-map/queries/moves", {"moves": moves}
    return "/v1/maps/crowd-map/objects", {"objects": [thing(draw, draw.randrange(OBJECTS)) for _ in range(5)]}


def _feed(draw: Random) -> tuple[str, Json]:
    return "/v1/feeds/crowd-feed/posts", {"posts": [{"keywords": words(draw, 8), "location": place(draw)}] * 3}


KINDS: list[Callable[[Random], tuple[str, Json]]] = [_board, _register, _matcher, _relay, _map, _feed]


class Crowd(threading.Thread):
    """Sends requests of all kinds in turns, some a second, and half of them under keys; counts the statuses."""

    def __init__(self, url: str, seed: int, rate: float) -> None:
        super().__init__(daemon=True)
        self.statuses: Counter[int] = Counter()
        self.done = False
        self.last = ""
        self._url, self._draw, self._rate, self._seed = url, Random(seed), rate, seed

    def run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=60.0) as http:
            n = 0
            while not self.done:
                n += 1
                path, body = KINDS[n % len(KINDS)](self._draw)
                headers = {"Content-Type": "application/json"}
                if n % 2:
                    headers["Idempotency-Key"] = f"crowd-{self._seed}-{n}"
                try:
                    answer = http.post(path, content=json.dumps(body), headers=headers)
                    self.statuses[answer.status_code] += 1
                    if answer.status_code not in (200, 201, 202, 503):
                        self.last = f"{path}: {answer.status_code} {answer.text[:300]}"
                except httpx.TransportError:
                    self.statuses[0] += 1
                    time.sleep(0.2)
                time.sleep(self._draw.expovariate(self._rate))
