"""What tests of zones share: a board under load, readers, and what must be true of what is published."""

from __future__ import annotations

import asyncio
import json
from random import Random
from typing import Any

import httpx

from tests.support.gateways import Nats
from tests.support.live import LiveService
from tests.support.patience import PATIENCE, wait_until
from tests.system.http.following import Follower, SseFollower, WsFollower
from tests.system.http.talk import Json, Talk

BOARD = "/v1/boards/delays"
CONFIG: Json = {
    "range_attributes": ["distance"],
    "rank": {"attribute": "delay", "order": "desc"},
    "ks": [2, 5],
    "zones": 4,
}
BEATS = {"RANKCAST_HEARTBEAT_SECONDS": "1"}


def published(nats: Nats) -> list[tuple[str, Json]]:
    """All messages of zones, by subject, in the order in which they are stored."""

    async def read() -> list[tuple[str, Json]]:
        import nats as client

        connection = await client.connect(nats.url)
        js = connection.jetstream()
        count = (await js.stream_info("RANKCAST")).state.messages
        consumer = await js.subscribe("rankcast.*.boards.>", ordered_consumer=True)
        found = []
        for _ in range(count):
            message = await consumer.next_msg(timeout=10)
            found.append((message.subject, json.loads(message.data)))
        await connection.close()
        return found

    return asyncio.run(read())


class Load:
    """A board with subscriptions, changed at random; each request is sent under a key until it is answered."""

    def __init__(self, url: str, seed: int) -> None:
        self.url = url
        self.random = Random(seed)
        self.http = httpx.Client(base_url=url, timeout=PATIENCE)
        self.sent = 0
        self.seq = 0

    def send(self, method: str, path: str, body: Any = None) -> Json:
        self.sent += 1
        headers = {"Idempotency-Key": f"load-{self.sent}"} if method != "GET" else {}
        answer: httpx.Response | None = None

        def answered() -> bool:
            nonlocal answer
            try:
                answer = self.http.request(method, path, json=body, headers=headers)
            except httpx.TransportError:
                return False
            return answer.status_code not in (409, 503)

        wait_until(answered, pause=0.05)
        assert answer is not None and answer.status_code < 300, answer and answer.text
        found: Json = answer.json()
        self.seq = max(self.seq, int(found.get("seq", 0)))
        return found

    def begin(self, subscriptions: int) -> None:
        self.send("PUT", BOARD, CONFIG)
        wanted = [self.subscription(f"s{n}") for n in range(subscriptions)]
        self.send("POST", f"{BOARD}/subscriptions", {"subscriptions": wanted, "lists": False})
        self.send("POST", f"{BOARD}/zones", {})

    def subscription(self, id: str) -> Json:
        l = self.random.randint(0, 900)
        return {
            "id": id,
            "range": {"distance": [l, l + self.random.randint(10, 400)]},
            "k": self.random.choice([2, 5]),
        }

    def act(self, moving: list[str]) -> None:
        """Some events, one by one or as a batch; now and then a subscription moves, or the zones are cut again."""
        kind = self.random.random()
        if kind < 0.08 and moving:
            one = self.subscription(self.random.choice(moving))
            self.send("PUT", f"{BOARD}/subscriptions/{one.pop('id')}", one)
        elif kind < 0.12:
            self.send("POST", f"{BOARD}/zones", {})
        else:
            events = [self.event() for _ in range(self.random.randint(1, 8))]
            mode = "batch" if kind > 0.85 else "each"
            self.send("POST", f"{BOARD}/events", {"events": events, "mode": mode, "messages": "none"})

    def event(self) -> Json:
        values = {"distance": self.random.randint(0, 1300), "delay": self.random.randint(0, 500)}
        return {"op": "upsert", "id": f"o{self.random.randint(0, 60)}", "values": values}

    def list_of(self, id: str) -> tuple[int, list[Json]]:
        found = self.send("GET", f"{BOARD}/subscriptions/{id}")
        return int(found["seq"]), found["list"]


def check_chains(found: list[tuple[str, Json]]) -> int:
    """Each subject's messages are in order of seq, each once and with the one before it named; how many there are."""
    last: dict[str, int] = {}
    for subject, message in found:
        if subject in last:
            assert message["prev"] == last[subject], (subject, last[subject], message)
        assert message["seq"] > message["prev"], (subject, message)
        last[subject] = message["seq"]
    return len(found)


def rank(entry: Json) -> tuple[float, int]:
    return -entry["values"]["delay"], entry["created"]


def apply(kept: dict[str, Json], tile: Json, k: int) -> None:
    entry = tile["object"]
    kept.pop(entry["id"], None)
    if not entry["gone"]:
        kept[entry["id"]] = entry
        for worst in sorted(kept.values(), key=rank)[k:]:
            del kept[worst["id"]]


class Reader:
    """A reader of one subscription that comes back where it can, with its cursor, and keeps its list."""

    def __init__(self, load: Load, places: list[str], id: str, form: str, transport: str, seed: int) -> None:
        self.load = load
        self.places = places
        self.id = id
        self.form = form
        self.transport = transport
        self.random = Random(seed)
        self.follower: Follower | None = None
        self.socket: WsFollower | None = None
        self.cursor: str | None = None
        self.taken = 0
        self.list: list[Json] = []
        self.k = 0
        self.kinds: list[str] = []
        self.at = -1

    def connect(self) -> bool:
        """Begin, or go on, anywhere; whether that was possible."""
        url = self.random.choice(self.places)
        try:
            if self.transport == "sse":
                path = f"{BOARD}/subscriptions/{self.id}/stream"
                found = SseFollower(url, path, last=self.cursor, form=self.form)
                if found.status != 200:
                    return False
                self.follower = found
            else:
                self.socket = WsFollower(url)
                more = {} if self.cursor is None else {"after": self.cursor}
                self.follower = self.socket.subscribe("delays", self.id, form=self.form, **more)
        except Exception:
            return False
        self.taken = 0
        return True

    def leave(self) -> None:
        for one in (self.socket, self.follower if self.transport == "sse" else None):
            if one is not None:
                one.leave()  # type: ignore[attr-defined]
        self.follower = self.socket = None

    def take(self) -> None:
        """Take what has come; connect again where the connection has ended."""
        follower = self.follower
        if follower is None:
            self.connect()
            return
        for said in follower.said[self.taken :]:
            self.taken += 1
            self.cursor = said.position or self.cursor
            self._apply(said.event, said.data)
        ended = follower.ended is not None or (self.socket is not None and self.socket.ended is not None)
        refused = self.socket is not None and any(frame["event"] == "error" for frame in self.socket.frames)
        if (ended or refused) and self.taken == len(follower.said):
            self.leave()

    def _apply(self, event: str, data: Json) -> None:
        self.kinds.append(event)
        seq = int(data["seq"])
        if event in ("snapshot", "reset"):
            assert seq >= self.at, (self.id, event, seq, self.at)
            self.list = data["list"]
            self.k = int(self.load.send("GET", f"{BOARD}/subscriptions/{self.id}")["k"])
        elif event == "change":
            assert seq > self.at, (self.id, event, seq, self.at)
            named = {change["id"] for change in data["changes"]}
            kept = [entry for entry in self.list if entry["id"] not in named]
            for change in sorted(
                (change for change in data["changes"] if change["new_rank"] is not None),
                key=lambda one: one["new_rank"],
            ):
                assert change["new_rank"] <= len(kept) + 1, (self.id, change, kept)
                kept.insert(change["new_rank"] - 1, change)
            self.list = kept
        elif event == "tiles":
            assert seq > self.at, (self.id, event, seq, self.at)
            by_id = {entry["id"]: entry for entry in self.list}
            for tile in data["tiles"]:
                apply(by_id, tile, tile["k"])
            self.list = sorted(by_id.values(), key=rank)
        self.at = seq

    def right(self) -> bool:
        self.take()
        _, wanted = self.load.list_of(self.id)
        return [(one["id"], one["values"]) for one in self.list] == [(one["id"], one["values"]) for one in wanted]


def explained(reader: Reader) -> str:
    follower = reader.follower
    where = None if follower is None else getattr(follower, "answer", None)
    return f"{reader.id} {reader.form} {reader.transport} at {reader.at}: {reader.list} {reader.kinds[-5:]} {where}"


def assert_no_errors(gateways: list[LiveService]) -> None:
    for gateway in gateways:
        text = gateway.log.read_text()
        assert "Traceback" not in text and "failed" not in text, text[-4000:]


def zones(url: str) -> Json:
    """What a node says of the zones, but for their rates, which fade from one moment to the next."""
    found: Json = Talk(url).good("GET", f"{BOARD}/zones")
    for zone in found["zones"]:
        del zone["rate"]
    return found


def all_published(load: Load) -> None:
    """Wait until NATS has all that was written."""
    wait_until(lambda: zones(load.url)["published"] >= load.seq, pause=0.05)


def by_epoch(nats: Nats) -> dict[str, list[tuple[str, Json]]]:
    """The messages of zones that NATS has, by epoch in the order in which those began."""
    found: dict[str, list[tuple[str, Json]]] = {}
    for subject, message in published(nats):
        found.setdefault(subject.split(".")[1], []).append((subject, message))
    return found


def act(load: Load, readers: list[Reader], times: int = 12) -> None:
    moving = [reader.id for reader in readers if reader.form == "changes"]
    for _ in range(times):
        load.act(moving)
        for reader in readers:
            reader.take()


def right(readers: list[Reader]) -> None:
    for reader in readers:
        wait_until(reader.right, seconds=120, pause=0.05, why=lambda reader=reader: explained(reader))  # type: ignore[misc]
