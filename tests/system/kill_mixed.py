"""One service with a resource of each kind, killed under the writers of all of them.

Each writer sends a request with a key of its own until it is answered. Afterwards the seqs of the answers have no gap,
indexes and lists are what a scan says, and a service of its own that gets the same requests in the order of their seqs
shows the same.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

import httpx

from tests.support.live import LiveService
from tests.support.patience import PATIENCE
from tests.system.faults import done
from tests.system.http.talk import NDJSON, Json, Talk, ndjson
from tests.system.killing import Write, Writer

BOARD, MATCHER, RELAY, MAP, FEED = "/v1/boards/b", "/v1/matchers/m", "/v1/relays/r", "/v1/maps/p", "/v1/feeds/f"

CONFIGS: dict[str, Json] = {
    BOARD: {"range_attributes": ["x"], "rank": {"attribute": "y", "order": "desc"}, "ks": [3, 10]},
    MATCHER: {"dimensions": ["age", "credit"], "mode": "relaxed"},
    RELAY: {"attributes": ["price"], "graph": {"kind": "G", "k": 2}},
    MAP: {
        "attributes": {"price": "low", "rating": {"order": "high", "range": [0, 5]}},
        "bounds": [0, 0, 100, 100],
        "metric": "euclidean",
    },
    FEED: {"window": 200, "bounds": [0, 0, 100, 100]},
}
PARTS = {
    BOARD: ("objects", "subscriptions"),
    MATCHER: ("subscriptions",),
    RELAY: ("subscriptions",),
    MAP: ("objects", "queries"),
    FEED: ("posts", "subscriptions"),
}
WORDS = ("ramen", "tea", "coupon", "sushi", "bread")
SCORE: Json = {"kind": "weighted_sum", "weights": {"price": 0.25, "rating": 0.25, "distance": 0.5}}

BY_TIME = ("at", "zone", "candidates", "streams", "statistics", "service")
"""What depends on when a request came, or on the way that a resource took."""


class Outcome(NamedTuple):
    """What kills came to: how many, how many requests were answered, and how many of them after a kill only."""

    kills: int
    answered: int
    in_doubt: int


class Mixed(Writer):
    """Writes to one resource, with ids of its own."""

    def __init__(self, number: int, root: str) -> None:
        super().__init__(number)
        self.root = root
        self._ids: list[str] = []

    def next(self, key: str) -> Write:
        draw = self.draw
        if len(self._ids) > 5 and draw.random() < 0.15:
            collection = "queries" if self.root == MAP else "subscriptions"
            ids = [self._ids.pop(draw.randrange(len(self._ids))) for _ in range(2)]
            return Write(key, "POST", f"{self.root}/{collection}/delete", {"ids": ids})
        if draw.random() < 0.4:
            self._ids.append(f"s{key}")
            return self._subscription(key, self._ids[-1])
        return self._elements(key, draw.randrange(1, 30))

    def _subscription(self, key: str, id: str) -> Write:
        draw = self.draw
        low = draw.uniform(0, 90)
        ends = [low, low + draw.uniform(0, 10)]
        match self.root:
            case "/v1/boards/b":
                return Write(
                    key, "PUT", f"{BOARD}/subscriptions/{id}", {"range": {"x": ends}, "k": draw.choice((3, 10))}
                )
            case "/v1/matchers/m":
                body: Json = {
                    "intervals": {"age": ends, "credit": ends},
                    "weights": {"age": 1, "credit": draw.random()},
                }
                return Write(key, "PUT", f"{MATCHER}/subscriptions/{id}", body)
            case "/v1/relays/r":
                return Write(key, "PUT", f"{RELAY}/subscriptions/{id}", {"box": {"price": ends}})
            case "/v1/maps/p":
                body = {"kind": "skyline", "location": self._place()}
                if draw.random() < 0.7:
                    body = {"kind": "top", "location": self._place(), "k": 3, "m": 2, "score": SCORE}
                return Write(key, "PUT", f"{MAP}/queries/{id}", body)
        words = draw.sample(WORDS, 2)
        return Write(key, "PUT", f"{FEED}/subscriptions/{id}", {"keywords": words, "location": self._place(), "k": 3})

    def _elements(self, key: str, n: int) -> Write:
        draw = self.draw
        match self.root:
            case "/v1/boards/b":
                events = [
                    {"op": "upsert", "id": f"{self.number}-{draw.randrange(300)}", "values": self._values("x", "y")}
                    for _ in range(n)
                ]
                return Write(key, "POST", f"{BOARD}/events", {"events": events, "mode": draw.choice(("each", "batch"))})
            case "/v1/matchers/m":
                events = [{"values": self._values("age", "credit")} for _ in range(n)]
                return Write(key, "POST", f"{MATCHER}/match", {"events": events, "k": 3, "notify": True})
            case "/v1/relays/r":
                some = [{"values": self._values("price"), "payload": i} for i in range(n)]
                return Write(key, "POST", f"{RELAY}/notifications", {"notifications": some})
            case "/v1/maps/p":
                objects = [
                    {
                        "id": f"{self.number}-{draw.randrange(300)}",
                        "location": self._place(),
                        "values": {"price": draw.randrange(99), "rating": draw.choice([0, 2.5, 5])},
                    }
                    for _ in range(n)
                ]
                distinct = list({one["id"]: one for one in objects}.values())
                return Write(key, "POST", f"{MAP}/objects", distinct, NDJSON)
        posts = [
            {"id": f"{key}-{i}", "keywords": draw.sample(WORDS, draw.randrange(1, 4)), "location": self._place()}
            for i in range(n)
        ]
        return Write(key, "POST", f"{FEED}/posts", posts, NDJSON)

    def _place(self) -> list[float]:
        return [self.draw.uniform(0, 100), self.draw.uniform(0, 100)]

    def _values(self, *names: str) -> dict[str, float]:
        return {name: float(self.draw.randrange(100)) for name in names}


def lasting(shown: Any) -> Any:
    """An answer without what depends on time."""
    if isinstance(shown, dict):
        return {name: lasting(value) for name, value in shown.items() if name not in BY_TIME}
    return [lasting(one) for one in shown] if isinstance(shown, list) else shown


def state(talk: Talk) -> dict[str, Any]:
    """All that the service shows of its resources, each list whole."""
    found: dict[str, Any] = {}
    for root, parts in PARTS.items():
        found[root] = lasting(talk.good("GET", root))
        for part in parts:
            cursor = ""
            items: list[Any] = []
            while True:
                page = talk.good("GET", f"{root}/{part}?limit=1000{cursor}")
                items += page["items"]
                if page["next"] is None:
                    break
                cursor = f"&cursor={page['next']}"
            found[f"{root}/{part}"] = lasting(items)
            if part in ("subscriptions", "queries"):
                for one in items:
                    path = f"{root}/{part}/{one['id']}"
                    found[path] = lasting(talk.good("GET", path))
    return found


def kill_mixed(
    start: Callable[..., LiveService], options: tuple[str, ...], kills: int, draw: Random, until: float = float("inf")
) -> Outcome:
    """Kill a service so often under writers of all resources, or up to a moment of `time.monotonic`; then compare."""
    service = start(None, *options)
    talk = Talk(service.url)
    for root, config in CONFIGS.items():
        talk.good("PUT", root, config)
    writers = [Mixed(number, root) for number, root in enumerate([*CONFIGS, *CONFIGS])]

    def let_go() -> None:
        for writer in writers:
            writer.url = service.url
            writer.go.set()

    def answered() -> int:
        return sum(len(writer.writes) for writer in writers)

    let_go()
    for writer in writers:
        writer.start()
    done_kills = 0
    while done_kills < kills and time.monotonic() < until:
        before, more = answered(), draw.randrange(20, 60)
        limit = time.monotonic() + PATIENCE
        while answered() < before + more:
            assert not any(writer.failure for writer in writers)
            assert time.monotonic() < limit, "writes do not go on"
            time.sleep(0.002)
        if done_kills % 10 == 5:
            httpx.post(f"{service.url}/v1/admin/{draw.choice(('snapshots', 'rebuilds'))}", json={})
        time.sleep(draw.random() * 0.05)
        service.stop(signal.SIGKILL)
        done_kills += 1
        for writer in writers:
            writer.go.clear()
        service = start(service.data, *options)
        let_go()
    for writer in writers:
        writer.done = True
    for writer in writers:
        writer.join(PATIENCE)
        assert not writer.is_alive() and writer.failure is None
    writes = [write for writer in writers for write in writer.writes]
    compare(start, service, writes)
    return Outcome(done_kills, len(writes), sum(write.in_doubt for write in writes))


def compare(start: Callable[..., LiveService], service: LiveService, writes: list[Write]) -> None:
    """Compare what is there with what the same requests make of a fresh service."""
    talk = Talk(service.url)
    found = state(talk)
    detail = done(talk, "verify")
    assert detail["difference_count"] == 0, detail
    fresh = start(None)
    other = Talk(fresh.url)
    for root, config in CONFIGS.items():
        other.good("PUT", root, config)
        seq = 0
        for write in sorted((write for write in writes if write.path.startswith(root)), key=lambda write: write.seq):
            body = ndjson(write.body) if write.type == NDJSON else write.body
            again = other.good(write.method, write.path, body, headers={"Content-Type": write.type})
            assert again["seq"] == write.seq, (write.path, seq, write.seq)
            seq = write.seq
        assert found[root]["seq"] == seq, root
    expected = state(other)
    for path in sorted(found.keys() | expected.keys()):
        assert found.get(path) == expected.get(path), path
    fresh.stop(signal.SIGKILL)
    assert service.stop() == 0
