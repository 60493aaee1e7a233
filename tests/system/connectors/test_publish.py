"""Stream events at a broker: the list that they tell of is exact at each seq, whatever is killed in between."""

from __future__ import annotations

import asyncio
import json
import signal
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from secrets import token_hex
from typing import Any

import httpx
import pytest

from tests.oracles.service import apply_changes
from tests.support.brokers import MockKafka, server
from tests.support.live import LiveService, StartService
from tests.support.patience import PATIENCE, wait_until
from tests.system.connectors.carrying import PATH, Running, StartConnector
from tests.system.connectors.model import BOARD, IDS

K = 5
SUBSCRIPTIONS = {"low": (0, 400), "all.of-it": (None, None)}
KILLS = 10

Told = list[dict[str, Any]]
List = list[str]


def from_nats(url: str, name: str) -> Told:
    """What is on the subjects, in order."""
    import nats

    async def read() -> Told:
        connection = await nats.connect(url)
        js = connection.jetstream()
        last = (await js.stream_info(name)).state.last_seq
        found = [json.loads((await js.get_msg(name, number)).data or b"") for number in range(1, last + 1)]
        await connection.close()
        return found

    return asyncio.run(read())


def from_redis(url: str, name: str) -> Told:
    """What is in the stream, in order."""
    redis = pytest.importorskip("redis")
    return [json.loads(fields[b"data"]) for _, fields in redis.Redis.from_url(url).xrange(name)]


def from_kafka(url: str, name: str) -> Told:
    """What is in the topic: in order for each key, which is all that Kafka promises."""
    from aiokafka import AIOKafkaConsumer

    async def read() -> Told:
        found: Told = []
        hosts = url.removeprefix("kafka://")
        async with AIOKafkaConsumer(name, bootstrap_servers=hosts, auto_offset_reset="earliest") as consumer:
            while batch := await consumer.getmany(timeout_ms=3000):
                for records in batch.values():
                    found += [json.loads(record.value) for record in records]
        return found

    return asyncio.run(read())


def leave_nothing(broker: str, url: str, name: str) -> None:
    """Remove what was published from a server that others use too."""
    if broker == "redis":
        redis = pytest.importorskip("redis")
        client = redis.Redis.from_url(url)
        for key in client.scan_iter(f"*{name}*"):
            client.delete(key)
    elif broker == "nats":
        import nats

        async def remove() -> None:
            connection = await nats.connect(url)
            await connection.jetstream().delete_stream(name)
            await connection.close()

        asyncio.run(remove())


class Truth:
    """A board, changed by one event a request, and the list of each subscription at every seq."""

    def __init__(self, service: LiveService) -> None:
        self.url = service.url
        self.seq = 0
        self.lists: dict[str, dict[int, List]] = {id: {} for id in SUBSCRIPTIONS}
        self._objects: dict[str, tuple[float, float, int]] = {}
        self._created = 0
        assert httpx.put(self.url + PATH, json=BOARD).status_code == 201
        for id, (low, high) in SUBSCRIPTIONS.items():
            self.seq += 1
            made = httpx.put(f"{self.url}{PATH}/subscriptions/{id}", json={"range": {"x": [low, high]}, "k": K})
            assert made.status_code == 201
        self._note()

    def change(self, draw: Random, count: int) -> None:
        """Change objects at random."""
        with httpx.Client(base_url=self.url, timeout=PATIENCE) as http:
            for _ in range(count):
                id = f"o{draw.randrange(IDS)}"
                event: dict[str, Any] = {"op": "delete", "id": id}
                if id not in self._objects or draw.random() < 0.8:
                    event = {"op": "upsert", "id": id, "values": {"x": draw.randrange(1000), "y": draw.randrange(1000)}}
                assert http.post(f"{PATH}/events", json={"events": [event], "messages": "none"}).status_code == 200
                self._apply(event)

    def _apply(self, event: dict[str, Any]) -> None:
        self.seq += 1
        if event["op"] == "delete":
            del self._objects[event["id"]]
        else:
            created = self._objects[event["id"]][2] if event["id"] in self._objects else self._created
            self._created += event["id"] not in self._objects
            self._objects[event["id"]] = (event["values"]["x"], event["values"]["y"], created)
        self._note()

    def _note(self) -> None:
        for id, (low, high) in SUBSCRIPTIONS.items():
            inside = [
                (y, created, key)
                for key, (x, y, created) in self._objects.items()
                if (low is None or x >= low) and (high is None or x <= high)
            ]
            self.lists[id][self.seq] = [key for _, _, key in sorted(inside)[:K]]


def check(told: Sequence[dict[str, Any]], truth: Truth, exact: bool) -> int:
    """Follow what was told as a consumer does; the list is right at each seq, and in the end. How many resets."""
    resets = 0
    for id, lists in truth.lists.items():
        held: list[dict[str, Any]] | None = None
        at = -1
        for event in (one for one in told if one["id"] == id):
            seq = event["seq"]
            if event["event"] in ("snapshot", "reset"):
                held = event["list"]
                resets += event["event"] == "reset"
                assert seq >= at
            else:
                assert event["event"] == "change" and held is not None
                if seq <= at and not exact:
                    continue
                assert seq > at, "a change came twice"
                held = apply_changes(held, event["changes"])
            at = seq
            assert [entry["id"] for entry in held] == lists[seq], (id, event)
        assert held is not None and [entry["id"] for entry in held] == lists[truth.seq], id
    return resets


def begun(publisher: Running, url: str) -> None:
    """Wait until a publisher, this one or one before it, has reached its broker."""
    wait_until(lambda: publisher.alive() and f"publishing to {url}" in publisher.said)


def caught_up(read: Callable[[], Told], truth: Truth) -> bool:
    """Whether what was told ends in the lists as they are now."""
    try:
        check(read(), truth, exact=False)
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize("broker", ["nats", "redis", "kafka"])
@pytest.mark.timeout(900)
def test_lists_are_exact_while_all_is_killed(
    start_service: StartService, start_connector: StartConnector, tmp_path: Path, broker: str
) -> None:
    name = f"P{token_hex(6)}"
    cluster = MockKafka(name) if broker == "kafka" else None
    url = server(broker) if cluster is None else cluster.url
    read = {"nats": from_nats, "redis": from_redis, "kafka": from_kafka}[broker]
    pytest.importorskip("faststream")
    service = start_service()
    truth, draw = Truth(service), Random(7)
    more = ("--state", str(tmp_path / "state")) if broker == "kafka" else ()
    command = (
        "publish", "boards/b", "--ids", ",".join(SUBSCRIPTIONS), "--to", f"{url}/{name}", "--url", service.url, *more,
    )  # fmt: skip
    publisher = start_connector(*command)
    port = int(service.url.rpartition(":")[2])
    try:
        for _ in range(KILLS):
            begun(publisher, url)
            truth.change(draw, draw.randrange(10, 60))
            time.sleep(draw.random() * 0.05)
            if draw.random() < 0.75:
                publisher.kill()
                # What changes meanwhile is in no event that was sent, and must not be missing.
                truth.change(draw, draw.randrange(30))
                publisher = start_connector(*command)
            else:
                service.stop(signal.SIGKILL)
                service = start_service(service.data, port=port)
        # A publisher that was killed early has said little: what follows is more, and without kills.
        for _ in range(100):
            truth.change(draw, 5)
            wait_until(lambda: publisher.alive() and caught_up(lambda: read(url, name), truth), pause=0.2)
            if len(read(url, name)) > 50:
                break
        # The end of what is followed is the last event, and the end of the publisher.
        assert httpx.delete(f"{service.url}{PATH}", timeout=PATIENCE).status_code == 200
        publisher.wait()
        told = read(url, name)
        gone = [one["id"] for one in told if one["event"] == "gone"]
        assert sorted(gone) == sorted(SUBSCRIPTIONS)
        resets = check([one for one in told if one["event"] != "gone"], truth, exact=broker != "kafka")
        print(f"{len(told)} events, {resets} resets")
        assert len(told) > 50
    finally:
        publisher.kill()
        if cluster is not None:
            cluster.stop()
        leave_nothing(broker, url, name)
