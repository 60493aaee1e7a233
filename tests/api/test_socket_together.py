"""Small writes of sockets that are carried out together: one row of the log, and the answers of the slow path."""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.boards.models import validators
from app.api.boards.together import ObjectChanges
from app.api.feeds.together import MOST
from app.api.relays import together_notifications
from app.api.relays.together_notifications import Notifications
from app.api.short_on_socket import BurstOnSocket
from app.api.socket_requests import SocketRequests
from app.api.together.subscription_changes import SubscriptionChanges
from app.errors import LogUnavailable
from app.server.short import Short
from app.storage.log import Log
from app.streaming import requests
from app.streaming.frames import Content
from app.streaming.operations import SocketRequest
from app.write_path import applying
from app.write_path.kernel_threads import KernelThreads, SliceRunner
from indexes.core.cost import Cost
from indexes.feeds.plans.posts import PostPlan
from tests.support.asker import BOARD, Asker, socket_of
from tests.support.patience import PATIENCE, wait_until
from tests.support.running import Running, upsert
from tests.support.service_fixtures import Start
from tests.support.ways import Ways, rows

WINDOW = 100
FAR = sys.float_info.max


def put(asker: Asker, id: str, x: float, y: float, query: str = "", **headers: str) -> dict[str, Any]:
    return asker.frame("PUT", f"/v1/boards/b/objects/{id}{query}", {"values": {"x": x, "y": y}}, **headers)


def receive(asker: Asker, count: int) -> list[dict[str, Any]]:
    """So many answers."""
    return [asker.socket.receive_json() for _ in range(count)]


@pytest.mark.parametrize("packed", [False, True])
def test_a_window_is_one_row_of_the_log(start: Start, packed: bool) -> None:
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD)
    before = rows(running)
    with socket_of(running.client) as asker:
        frames = [
            put(asker, f"o{n % 7}", n, -n)
            if n % 3
            else asker.frame("POST", "/v1/boards/b/events?messages=count", {"events": [upsert(f"o{n % 7}", n, n)]})
            for n in range(WINDOW)
        ]
        if packed:
            asker.socket.send_all_bytes([msgpack.packb(frame) for frame in frames])
            answers = [msgpack.unpackb(asker.socket.receive_bytes()) for _ in frames]
        else:
            asker.socket.send_all(frames)
            answers = receive(asker, WINDOW)
    assert [answer["ref"] for answer in answers] == list(range(WINDOW))
    assert [answer["body"]["seq"] for answer in answers] == list(range(1, WINDOW + 1))
    assert rows(running) == before + 1


def test_what_is_not_short_shares_the_commit_of_what_came_with_it(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a window, whichever of them comes first."""
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD)
    append, sizes = Log.append, list[int]()

    def counted(self: Log, entries: Sequence[Any], *more: Any) -> int:
        sizes.append(len(entries))
        return append(self, entries, *more)

    monkeypatch.setattr(Log, "append", counted)
    with socket_of(running.client) as asker:
        for order in ("us", "su", "sus", "ssuusu"):
            frames = [
                put(asker, f"o{n}", n, n)
                if kind == "s"
                else asker.frame("POST", "/v1/boards/b/events", {"events": [upsert(f"o{n}", n, n)], "mode": "batch"})
                for n, kind in enumerate(order)
            ]
            asker.socket.send_all(frames)
            assert {answer["status"] for answer in receive(asker, len(frames))} <= {200, 201}
            assert len(sizes) == 1, order
            sizes.clear()


def test_a_group_that_waits_for_nothing_takes_no_task(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD)
    made = list[Any]()
    monkeypatch.setattr(Short, "run", lambda self, work: made.append(work))
    for n in range(3):
        assert running.client.put(f"/v1/boards/b/objects/o{n}", json={"values": {"x": n, "y": n}}).status_code == 201
    assert running.client.delete("/v1/boards/b/objects/o1").status_code == 200
    assert not made


def test_a_full_group_is_executed_while_more_is_read(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """So is what came behind it. One that the end of its turn closes is executed there and then: the event loop has
    nothing else to do.
    """
    running: Running = start()
    running.client.put("/v1/feeds/f", json={"window": 500, "bounds": [-100, -100, 100, 100]})
    monkeypatch.setattr(applying, "OVERLAPPED", -1.0)
    monkeypatch.setattr(applying, "INLINE", 60.0)
    # The threads may have other work, as behind a start.
    monkeypatch.setattr(KernelThreads, "free", True)
    execute, executed = PostPlan.execute, dict[int, tuple[int, bool]]()

    def noted(self: PostPlan, budget: float) -> None:
        executed[self.first_seq] = self.count, threading.current_thread().name.startswith("kernel")
        execute(self, budget)

    monkeypatch.setattr(PostPlan, "execute", noted)
    with socket_of(running.client) as asker:
        for count in (MOST - 1, 2 * MOST, MOST + 1, 1):
            posts = [{"id": f"p{count}x{n}", "keywords": ["a"], "location": [n % 90, 0]} for n in range(count)]
            asker.socket.send_all([asker.frame("POST", "/v1/feeds/f/posts", {"posts": [post]}) for post in posts])
            assert [answer["status"] for answer in receive(asker, count)] == [201] * count
    found = list(executed.values())
    assert found == [(MOST - 1, False), (MOST, True), (MOST, True), (MOST, True), (1, True), (1, False)]


def test_a_full_group_is_executed_before_the_one_ahead_of_it_is_published(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the event loop does meanwhile: the kernel thread begins it by itself."""
    running: Running = start()
    running.client.put("/v1/feeds/f", json={"window": 5_000, "bounds": [-100, -100, 100, 100]})
    before = [{"keywords": ["b"], "location": [0, 0]}] * 4 * MOST
    # No group ends an epoch: the next one does not end before so many posts have come again.
    assert running.client.post("/v1/feeds/f/posts", json={"posts": before}).status_code == 201
    asked = {"id": "s", "keywords": ["a"], "location": [0, 0], "k": 3, "alpha": 1}
    running.client.post("/v1/feeds/f/subscriptions", json={"subscriptions": [asked]})
    # A group is executed by one slice.
    running.service.catalog.engine("feeds/f").post_cost = Cost(1e-9, fixed=True)
    monkeypatch.setattr(applying, "OVERLAPPED", -1.0)
    monkeypatch.setattr(KernelThreads, "free", True)
    first = len(before) + 2
    second = first + MOST
    offered, ahead, seen = threading.Event(), threading.Event(), list[tuple[str, int]]()
    offer, execute, publish = SliceRunner.offer, PostPlan.execute, PostPlan.publish

    def offering(self: SliceRunner, job: Any) -> None:
        offer(self, job)
        if self._offer is not None:
            offered.set()

    def executing(self: PostPlan, budget: float) -> None:
        assert self.first_seq != first or offered.wait(PATIENCE)
        execute(self, budget)
        seen.append(("executed", self.first_seq))
        if self.first_seq == second:
            ahead.set()

    def publishing(self: PostPlan) -> Any:
        assert self.first_seq != first or ahead.wait(PATIENCE)
        seen.append(("published", self.first_seq))
        return publish(self)

    monkeypatch.setattr(SliceRunner, "offer", offering)
    monkeypatch.setattr(PostPlan, "execute", executing)
    monkeypatch.setattr(PostPlan, "publish", publishing)
    with socket_of(running.client) as asker:
        posts = [{"id": f"p{n}", "keywords": ["a"], "location": [n % 2, 0]} for n in range(2 * MOST)]
        asker.socket.send_all([asker.frame("POST", "/v1/feeds/f/posts", {"posts": [post]}) for post in posts])
        answers = receive(asker, len(posts))
    assert seen == [("executed", first), ("executed", second), ("published", first), ("published", second)]
    assert [answer["body"]["seq"] for answer in answers] == list(range(first, second + MOST))
    # Of two as near the newer one is first.
    reached = [1 if n % 2 == 0 or n < 4 else 0 for n in range(2 * MOST)]
    assert [answer["body"]["results"][0]["reached"] for answer in answers] == reached
    found = running.client.get("/v1/feeds/f/subscriptions/s").json()["list"]
    assert [entry["id"] for entry in found] == [f"p{2 * MOST - 2 * n}" for n in (1, 2, 3)]


def test_what_comes_while_others_are_applied_is_one_row_but_for_keys_in_progress(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD)
    running.client.put("/v1/boards/c", json=BOARD)
    released, apply, sizes = asyncio.Event(), ObjectChanges.apply, list[tuple[str, int]]()

    async def late(self: ObjectChanges, name: str, items: Sequence[Any], tickets: Any) -> Any:
        sizes.append((name, len(items)))
        if name == "b" and len(sizes) == 1:
            await released.wait()
        return await apply(self, name, items, tickets)

    async def release() -> None:
        released.set()

    monkeypatch.setattr(ObjectChanges, "apply", late)
    with socket_of(running.client) as one, socket_of(running.client) as two, socket_of(running.client) as three:
        one.socket.send_all([put(one, "a", 1, 1, Idempotency_Key="first")])
        wait_until(lambda: sizes)
        three.socket.send_all([put(three, "a", 1, 1, Idempotency_Key="first")])
        assert receive(three, 1)[0]["status"] == 409
        for n in range(3):
            two.socket.send_all([put(two, f"o{n}", n, n), put(two, f"p{n}", n, n)])
            # Each has come when what came with it about another board is answered.
            assert one.ask("PUT", f"/v1/boards/c/objects/o{n}", {"values": {"x": n, "y": n}})[0] == 201
        running.call(release)
        assert [answer["status"] for answer in receive(two, 6)] == [201] * 6
        assert receive(one, 1)[0]["body"]["seq"] == 1
    assert [size for size in sizes if size[0] == "b"] == [("b", 1), ("b", 6)]


def draw_request(draw: Random, asker: Asker) -> dict[str, Any]:
    """A small write of an object of a few; one in three is out of the ordinary, or refused."""
    id, query = f"o{draw.randrange(12)}", draw.choice(["", "?messages=full", "?messages=count", "?messages=none"])
    body: dict[str, Any] = {"values": {"x": draw.randrange(40), "y": draw.choice([1.5, 2, 0, -3])}}
    path, method = f"/v1/boards/b/objects/{id}", draw.choice(["PUT", "PUT", "PATCH", "DELETE"])
    headers = {}
    if draw.random() < 0.4:
        headers = {draw.choice(["Idempotency-Key", "idempotency-key"]): f"k{draw.randrange(60)}"}
    kind = draw.random()
    if kind < 0.3:
        event: dict[str, Any] = {"op": draw.choice(["upsert", "update", "delete"]), "id": id}
        if event["op"] != "delete" or draw.random() < 0.2:
            event |= body
        body = {"events": [event] * draw.choice([1, 1, 1, 2])}
        body |= draw.choice([{}, {"messages": "none"}, {"mode": "each"}, {"mode": "batch"}, {"on_error": "skip"}])
        path, method = "/v1/boards/b/events", "POST"
    elif kind < 0.35:
        body = {"values": {"x": draw.choice(["wide", True, None, 1e301, 2**63 + 1025]), "y": 1}}
    elif kind < 0.4:
        path, method = f"/v1/boards/b/objects/unknown{draw.randrange(5)}", "PATCH"
    elif kind < 0.45:
        body["id"] = draw.choice([id, "another"])
    elif kind < 0.5:
        path, body = f"/v1/boards/b/objects/half{draw.randrange(9)}", {"values": {"y": 1}}
    elif kind < 0.65:
        body["payload"] = draw.choice([None, {"n": draw.randrange(9)}, "text", [2**63], ["[" * 9], "x" * 5_000])
    elif kind < 0.7:
        del body["values"]["x"]
    elif kind < 0.75:
        path = draw.choice(["/v1/boards/none/objects/a", "/v1/boards/b/objects/a%62", "/v1/boards/b/objects/.."])
    elif kind < 0.8:
        query = draw.choice(["?messages=some", "?more=1", "?messages=full&messages=none", "#messages"])
    elif kind < 0.83:
        headers = {"Idempotency-Key": draw.choice(["", "a b", "x" * 300])}
    if kind >= 0.97:
        headers["X-Request-Id"] = "mine"
    return {**asker.frame(method, path + query, None if method == "DELETE" else body), "headers": headers}


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_answers_are_those_of_the_slow_path(ways: Ways, seed: int, packed: bool) -> None:
    """Byte by byte, whatever comes beside a request: refusals, retries, the same key twice, other operations."""
    draw, none = Random(seed), Asker(None)  # type: ignore[arg-type]
    windows = [[draw_request(draw, none) for _ in range(draw.choice([1, 3, 40, WINDOW]))] for _ in range(12)]
    asked = [{"id": f"s{n}", "range": {"x": [n, n + 9]}, "k": [1, 3][n % 2]} for n in range(0, 40, 3)]
    making = [
        ("PUT", "/v1/boards/b", BOARD | {"ks": [1, 3]}),
        ("POST", "/v1/boards/b/subscriptions", {"subscriptions": asked}),
    ]
    ways.compare(making, windows, packed, "/v1/boards/b/objects?limit=1000")


def draw_listed(draw: Random, asker: Asker, path: str, name: str, element: dict[str, Any]) -> dict[str, Any]:
    """A request with a list of one element, or one that is out of the ordinary."""
    body: dict[str, Any] = {name: [element] * (2 if draw.random() < 0.05 else 1)}
    if draw.random() < 0.1:
        body |= draw.choice([{"on_error": "skip"}, {"on_error": "refuse"}, {"more": 1}])
    query = "?on_error=refuse" if draw.random() < 0.05 else ""
    headers = {"Idempotency-Key": f"k{draw.randrange(99)}"} if draw.random() < 0.3 else {}
    return {**asker.frame("POST", path + query, body), "headers": headers}


@pytest.mark.parametrize("overlapped", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_posts_are_answered_as_the_slow_path(
    ways: Ways, monkeypatch: pytest.MonkeyPatch, packed: bool, overlapped: bool
) -> None:
    """Also where groups that are full are executed while the next one is read."""
    if overlapped:
        monkeypatch.setattr(applying, "OVERLAPPED", -1.0)
    draw, none = Random(4), Asker(None)  # type: ignore[arg-type]

    def request() -> dict[str, Any]:
        post: dict[str, Any] = {
            "id": f"p{draw.randrange(300)}",
            "keywords": draw.choice([["a"], ["a", "B"], {"a": 2, "c": 0.5}, ["c", "c"], [1], [], {"a": -1}]),
            "location": draw.choice([[1, 2], [3.5, -4], [99, 99], [1], [1e6, 1]]),
        }
        if draw.random() < 0.2:
            post["payload"] = draw.choice([None, {"n": 1}, "x" * 5_000])
        if draw.random() < 0.2:
            post["text"] = "some words of a text"
            if draw.random() < 0.5:
                del post["keywords"]
        return draw_listed(draw, none, "/v1/feeds/f/posts", "posts", post)

    windows = [[request() for _ in range(draw.choice([1, 3, 40, WINDOW]))] for _ in range(8)]
    asked = [{"id": f"s{n}", "keywords": ["abc"[n % 3]], "location": [n, n], "k": 3} for n in range(9)]
    making = [
        ("PUT", "/v1/feeds/f", {"window": 50, "bounds": [-100, -100, 100, 100]}),
        ("POST", "/v1/feeds/f/subscriptions", {"subscriptions": asked}),
    ]
    ways.compare(making, windows, packed, "/v1/feeds/f/posts?limit=1000")


@pytest.mark.parametrize("overlapped", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_bursts_of_posts_are_answered_as_the_slow_path(
    ways: Ways, monkeypatch: pytest.MonkeyPatch, seed: int, overlapped: bool
) -> None:
    """Whatever is refused or out of the ordinary among them, and whatever comes beside them."""
    if overlapped:
        monkeypatch.setattr(applying, "OVERLAPPED", -1.0)
    sizes, keep = list[int](), BurstOnSocket.keep

    def noted(self: BurstOnSocket, count: int) -> None:
        sizes.append(count)
        keep(self, count)

    monkeypatch.setattr(BurstOnSocket, "keep", noted)
    draw, none = Random(seed), Asker(None)  # type: ignore[arg-type]

    def request(often: float) -> dict[str, Any]:
        post: dict[str, Any] = {
            "id": f"p{draw.randrange(300)}",
            "keywords": draw.choice([["a"], ["a", "b"], {"a": 2, "c": 0.5}, ["c", "c"]]),
            "location": draw.choice([[1, 2], [3.5, -4], [99, 99]]),
        }
        if draw.random() < often:
            post |= draw.choice([{"keywords": {"a": -1}}, {"location": [1e6, 1]}, {"payload": 1}, {"keywords": []}])
        if draw.random() < often:
            return draw.choice(
                [
                    none.frame("GET", f"/v1/feeds/f/posts/{post['id']}"),
                    none.frame("DELETE", f"/v1/feeds/f/posts/{post['id']}"),
                    none.frame("POST", "/v1/feeds/f/posts", {"posts": [post]}, Idempotency_Key=f"k{draw.randrange(9)}"),
                    none.frame("POST", "/v1/feeds/f/posts", {"posts": [post, post]}),
                    none.frame("POST", "/v1/feeds/g/posts", {"posts": [post]}),
                ]
            )
        return none.frame("POST", "/v1/feeds/f/posts", {"posts": [post]})

    counts = [1, 8, 9, 40, MOST, MOST + 1, 2 * MOST + 9, 200]
    windows = [[request(often) for _ in range(draw.choice(counts))] for often in (0, 0.01, 0.05, 0.2) * 2]
    asked = [{"id": f"s{n}", "keywords": ["abc"[n % 3]], "location": [n, n], "k": 3} for n in range(9)]
    feed = {"window": 50, "bounds": [-100, -100, 100, 100]}
    making = [
        ("PUT", "/v1/feeds/f", feed),
        ("PUT", "/v1/feeds/g", feed),
        ("POST", "/v1/feeds/f/subscriptions", {"subscriptions": asked}),
    ]
    ways.compare(making, windows, False, "/v1/feeds/f/posts?limit=1000")
    assert max(sizes) > 8


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("packed", [False, True])
def test_objects_of_maps_are_answered_as_the_slow_path(ways: Ways, packed: bool, single: bool) -> None:
    draw, none = Random(5), Asker(None)  # type: ignore[arg-type]

    def plain() -> dict[str, Any]:
        id, body = f"o{draw.randrange(90)}", {"location": [draw.randrange(99), 3.5], "values": {"price": 1, "stars": 0}}
        for name in [name for name in ("location", "values") if draw.random() < 0.1]:
            del body[name]
        if single:
            return none.frame("PUT", f"/v1/maps/m/objects/{id}", body)
        return none.frame("POST", "/v1/maps/m/objects", {"objects": [{"id": id, **body}]})

    def request() -> dict[str, Any]:
        thing: dict[str, Any] = {"id": f"o{draw.randrange(90)}"}
        if draw.random() < 0.9:
            thing["location"] = draw.choice([[1, 2], [3.5, -4], [7, 7], [99, 99], [30, 3], [1]])
        if draw.random() < 0.9:
            whole = {"price": draw.randrange(9), "stars": draw.randrange(6)}
            thing["values"] = draw.choice([whole, whole, whole, whole, {"price": 2.5}, {"stars": 9}, {"other": 1}])
        if draw.random() < 0.2:
            thing["payload"] = draw.choice([None, {"n": 1}, "x" * 5_000])
        if single:
            path = f"/v1/maps/m/objects/{thing['id']}{draw.choice(['', '', '', '', '?more=1'])}"
            body = {name: value for name, value in thing.items() if name != "id" or draw.random() < 0.2}
            headers = {"Idempotency-Key": f"k{draw.randrange(99)}"} if draw.random() < 0.3 else {}
            return {**none.frame(draw.choice(["PUT"] * 9 + ["PATCH"]), path, body), "headers": headers}
        return draw_listed(draw, none, "/v1/maps/m/objects", "objects", thing)

    windows = [[draw_one() for _ in range(draw.choice([1, 3, 40, WINDOW]))] for draw_one in (request, plain) * 6]
    attributes = {"price": "low", "stars": {"order": "high", "range": [0, 5]}}
    query = {"kind": "skyline", "location": [10, 10]}
    making = [
        ("PUT", "/v1/maps/m", {"attributes": attributes, "bounds": [0, 0, 100, 100]}),
        ("PUT", "/v1/maps/m/queries/q", query),
    ]
    ways.compare(making, windows, packed, "/v1/maps/m/objects?limit=1000")


@pytest.mark.parametrize("key", [False, True])
def test_a_number_beyond_the_range_of_float64_is_no_json_in_a_group_either(start: Start, key: bool) -> None:
    running: Running = start()
    client = running.client
    client.put("/v1/boards/b", json=BOARD)
    client.put("/v1/feeds/f", json={"window": 50, "bounds": [-100, -100, 100, 100]})
    client.put("/v1/maps/m", json={"attributes": {"price": "low"}, "bounds": [0, 0, 100, 100]})
    huge = "9" * 99
    kinds = [
        ("PUT", "/v1/boards/b/objects/o", {"values": {"x": 1, "y": 2}, "payload": [huge]}),
        ("POST", "/v1/feeds/f/posts", {"posts": [{"id": "p", "keywords": ["a"], "location": [1, 2], "payload": huge}]}),
        ("POST", "/v1/feeds/f/posts", {"posts": [{"id": "p", "keywords": {"a": huge}, "location": [1, 2]}]}),
        ("PUT", "/v1/maps/m/objects/o", {"location": [1, 2], "values": {"price": 1}, "payload": [huge]}),
        ("POST", "/v1/maps/m/objects", {"objects": [{"id": "o", "location": [1, 2], "payload": huge}]}),
    ]
    with socket_of(client) as asker:
        before = rows(running)
        named = [{"Idempotency_Key": f"k{at}"} if key else {} for at in range(len(kinds))]
        frames = [json.dumps(asker.frame(*kind, **headers)) for kind, headers in zip(kinds, named, strict=True)]
        asker.socket.send_all_texts([frame.replace(f'"{huge}"', "1e400") for frame in frames])
        for answer in receive(asker, len(kinds)):
            assert (answer["status"], answer["body"]["type"]) == (400, "/problems/malformed"), answer
        assert rows(running) == before


def test_huge_integers_of_a_payload_come_through_a_packed_socket(start: Start) -> None:
    running: Running = start()
    client = running.client
    client.put("/v1/maps/m", json={"attributes": {"price": "low"}, "bounds": [0, 0, 100, 100]})
    thing = {"location": [1, 2], "values": {"price": 1}, "payload": [10**400, -(10**400)]}
    assert client.put("/v1/maps/m/objects/o", json=thing).status_code == 201
    with socket_of(client) as asker:
        frames = [asker.frame("PUT", f"/v1/maps/m/objects/{id}", {"location": [3, n]}) for n, id in enumerate("oo")]
        asker.socket.send_all_bytes([msgpack.packb(frame) for frame in frames])
        answers = [msgpack.unpackb(asker.socket.receive_bytes()) for _ in frames]
    assert [(answer["status"], answer["body"]["payload"]) for answer in answers] == [(200, [FAR, -FAR])] * 2


MAKING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "boards/b/subscriptions": (BOARD, {"range": {"x": [1, 5]}, "k": 3}),
    "matchers/m/subscriptions": (
        {"dimensions": ["age", "credit"], "mode": "relaxed"},
        {"intervals": {"age": [20, 35], "credit": [400, 500]}, "weights": {"age": 0.7, "credit": 0.3}},
    ),
    "relays/r/subscriptions": ({"attributes": ["price", "volume"]}, {"box": {"price": [0, 50]}}),
    "maps/m/queries": (
        {"attributes": {"price": "low"}, "bounds": [0, 0, 100, 100]},
        {"kind": "skyline", "location": [10, 10]},
    ),
    "feeds/f/subscriptions": (
        {"window": 50, "bounds": [-100, -100, 100, 100]},
        {"keywords": ["a"], "location": [1, 1], "k": 3},
    ),
}
"""By the path of its subscriptions, how a resource is made, and what a subscription of it says besides its id."""


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("path", MAKING)
def test_deleted_subscriptions_are_answered_as_the_slow_path(ways: Ways, path: str, packed: bool) -> None:
    """Of subscriptions that are there, were deleted by one ahead, or never were, with some made again in between."""
    draw, none = Random(6), Asker(None)  # type: ignore[arg-type]
    resource, said = MAKING[path]
    parent, name, collection = path.split("/")

    def request() -> dict[str, Any]:
        one, kind = f"/v1/{path}/s{draw.randrange(90)}", draw.random()
        if kind < 0.05:
            return none.frame("PUT", one, said)
        if kind < 0.1:
            one = draw.choice([f"{one}?more=1", f"/v1/{parent}/none/{collection}/s1", f"/v1/{path}/..", f"{one}%62"])
        headers = {"Idempotency-Key": f"k{draw.randrange(99)}"} if draw.random() < 0.4 else {}
        return {**none.frame("DELETE", one), "headers": headers}

    windows = [[request() for _ in range(draw.choice([1, 3, 40, WINDOW]))] for _ in range(8)]
    made = [{"id": f"s{n}", **said} for n in range(80)]
    making = [("PUT", f"/v1/{parent}/{name}", resource), ("POST", f"/v1/{path}", {collection: made})]
    ways.compare(making, windows, packed, f"/v1/{path}?limit=1000")


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_subscriptions_that_are_put_are_answered_as_the_slow_path(ways: Ways, seed: int, packed: bool) -> None:
    """Made, made again, changed, deleted and refused, with objects that come in between."""
    draw, none = Random(seed), Asker(None)  # type: ignore[arg-type]

    def request() -> dict[str, Any]:
        id, kind = f"s{draw.randrange(400)}", draw.random()
        path = f"/v1/boards/b/subscriptions/{id}"
        headers = {"Idempotency-Key": f"k{draw.randrange(99)}"} if draw.random() < 0.3 else {}
        ends = draw.choice([[1, 5], [-0.0, 2.5], [None, 7], [3, None], [0.1, 0.2]])
        body: dict[str, Any] = {"range": {"x": ends}, "k": draw.choice([1, 3])}
        if kind < 0.1:
            body |= draw.choice([{"ttl": 60}, {"ttl": None}, {"offset": 2, "k": 1}, {"id": id}, {"seq": 1, "list": []}])
        elif kind < 0.16:
            body |= draw.choice(
                [{"k": 2}, {"range": {"x": [5, 1]}}, {"offset": 3}, {"id": "other"}, {"where": {}}, {"a": 1}]
            )
        elif kind < 0.18:
            del body["range"]
        elif kind < 0.2:
            path = draw.choice([f"{path}?more=1", "/v1/boards/none/subscriptions/s", "/v1/boards/b/subscriptions/.."])
        elif kind < 0.22:
            return none.frame("DELETE", path)
        elif kind < 0.24:
            return put(none, f"o{draw.randrange(5)}", draw.randrange(8), draw.randrange(8))
        return {**none.frame("PUT", path, body), "headers": headers}

    windows = [[request() for _ in range(draw.choice([1, 3, 40, WINDOW]))] for _ in range(8)]
    objects = [upsert(f"o{n}", n, -n) for n in range(5)]
    making = [
        ("PUT", "/v1/boards/b", BOARD | {"ks": [1, 3]}),
        ("POST", "/v1/boards/b/events", {"events": objects}),
    ]
    ways.compare(making, windows, packed, "/v1/boards/b/subscriptions?limit=1000")


CHANGING: dict[str, tuple[dict[str, Any], dict[str, Any], list[dict[str, Any]]]] = {
    "boards/b/subscriptions": (
        BOARD | {"ks": [1, 3]},
        {"range": {"x": [1, 5]}, "k": 3},
        [
            {"range": {"x": [2, 4]}},
            {"k": 1},
            {"ttl": 60},
            {"range": {"x": [5, 1]}},
            {"k": 2},
            {"a": 1},
            {"id": "other"},
        ],
    ),
    "matchers/m/subscriptions": (
        *MAKING["matchers/m/subscriptions"],
        [
            {"intervals": {"age": [1, 2]}},
            {"weights": {"age": 0.1}},
            {"ttl": 60},
            {"intervals": {"age": [2, 1]}},
            {"b": 1},
        ],
    ),
    "relays/r/subscriptions": (
        *MAKING["relays/r/subscriptions"],
        [{"box": {"price": [n, 9 * n]}} for n in range(8)] + [{"box": {"volume": [4, 1]}}, {"ttl": 60}, {"link": "no"}],
    ),
    "maps/m/queries": (
        *MAKING["maps/m/queries"],
        [{"location": [n, n]} for n in range(6)] + [{"location": [1]}, {"ttl": 60}, {"k": 2}, {"kind": "top"}],
    ),
    "feeds/f/subscriptions": (
        *MAKING["feeds/f/subscriptions"],
        [{"keywords": ["b"]}, {"location": [3, 3]}, {"k": 1}, {"alpha": 0.5}, {"ttl": 60}, {"k": 0}, {"keywords": []}],
    ),
}
"""As `MAKING`, and what changes of a subscription say, some of which are refused."""


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("path", CHANGING)
def test_changed_subscriptions_are_answered_as_the_slow_path(
    ways: Ways, monkeypatch: pytest.MonkeyPatch, path: str, packed: bool
) -> None:
    """Put, put again, changed, deleted and refused, with and without keys, several of one in a turn."""
    draw, none = Random(7), Asker(None)  # type: ignore[arg-type]
    resource, said, changes = CHANGING[path]
    parent, name, collection = path.split("/")

    def request() -> dict[str, Any]:
        one, kind = f"/v1/{path}/s{draw.randrange(30)}", draw.random()
        if kind < 0.05:
            return none.frame("DELETE", one)
        if kind < 0.1:
            one = draw.choice([f"{one}?more=1", f"/v1/{parent}/none/{collection}/s1", f"/v1/{path}/..", f"{one}%62"])
        headers = {"Idempotency-Key": f"k{draw.randrange(99)}"} if draw.random() < 0.4 else {}
        change = draw.choice(changes)
        verb = ("PUT", draw.choice([said, said | change])) if draw.random() < 0.5 else ("PATCH", change)
        return {**none.frame(verb[0], one, verb[1]), "headers": headers}

    windows = [[request() for _ in range(draw.choice([1, 3, 40, WINDOW]))] for _ in range(8)]
    made = [{"id": f"s{n}", **said} for n in range(20)]
    making = [("PUT", f"/v1/{parent}/{name}", resource), ("POST", f"/v1/{path}", {collection: made})]
    applied, apply = list[int](), SubscriptionChanges.apply

    async def counted(self: Any, name: str, items: Sequence[Any], tickets: Sequence[Any]) -> Any:
        applied.append(len(items))
        return await apply(self, name, items, tickets)

    monkeypatch.setattr(SubscriptionChanges, "apply", counted)
    ways.compare(making, windows, packed, f"/v1/{path}?limit=1000", fewer_rows=parent == "matchers")
    assert max(applied) > 5, "several of a turn are carried out together"


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("notify", [False, True])
@pytest.mark.parametrize("mode", ["exact", "relaxed"])
def test_matches_are_answered_as_the_slow_path(ways: Ways, mode: str, notify: bool, packed: bool) -> None:
    """Questions or published events, with several k, and what is out of the ordinary in between."""
    draw, none = Random(8), Asker(None)  # type: ignore[arg-type]
    odd: list[dict[str, Any]] = [
        {"explain": True},
        {"on_error": "skip"},
        {"k": 0},
        {"k": 100},
        {"more": 1},
        {"notify": None},
    ]

    def request() -> dict[str, Any]:
        age, kind = draw.choice([1, 2.5, 3, -0.0]), draw.random()
        event: dict[str, Any] = {"values": {"age": age, "credit": draw.randrange(9)}}
        if kind < 0.1:
            event["values"]["age"] = draw.choice([None, [1, 2], [3, 1], "x", 1e301, True])
        elif kind < 0.15:
            del event["values"]["credit"]
        elif kind < 0.3:
            event["payload"] = draw.choice([None, {"n": 1}, "x" * 5_000])
        body = {"events": [event] * (2 if draw.random() < 0.05 else 1), "notify": notify}
        body |= draw.choice([{}, {}, {"k": 2}, {"k": 5}])
        if draw.random() < 0.1:
            body |= draw.choice(odd)
        headers = {"Idempotency-Key": f"k{draw.randrange(99)}"} if draw.random() < 0.3 else {}
        return {**none.frame("POST", "/v1/matchers/m/match", body), "headers": headers}

    windows = [[request() for _ in range(draw.choice([1, 3, 40, WINDOW]))] for _ in range(8)]
    weights: dict[str, Any] = {"weights": {"age": 0.7, "credit": 0.3}} if mode == "relaxed" else {"score": 1.5}
    made = [{"id": f"s{n}", "intervals": {"age": [n % 4, 3], "credit": [0, n]}, **weights} for n in range(20)]
    making = [
        ("PUT", "/v1/matchers/m", {"dimensions": ["age", "credit"], "mode": mode}),
        ("POST", "/v1/matchers/m/subscriptions", {"subscriptions": made}),
    ]
    ways.compare(making, windows, packed, "/v1/matchers/m/subscriptions?limit=1000", fewer_rows=notify)


@pytest.mark.parametrize("inline", [10**6, 0])
@pytest.mark.parametrize("packed", [False, True])
def test_notifications_are_answered_as_the_slow_path(
    ways: Ways, monkeypatch: pytest.MonkeyPatch, packed: bool, inline: int
) -> None:
    """With and without payloads and keys, some of them refused, while subscriptions come and go."""
    draw, none = Random(8), Asker(None)  # type: ignore[arg-type]
    path = "/v1/relays/r/notifications"
    odd: list[dict[str, Any]] = [
        {"values": {"price": 1}},
        {"values": {"price": 1, "volume": "2"}},
        {"values": {"price": 1, "volume": 2, "more": 3}},
        {"from": "no"},
        {"payload": "x" * 70_000},
        {"b": 1},
    ]

    def request() -> dict[str, Any]:
        kind, one = draw.random(), f"/v1/relays/r/subscriptions/s{draw.randrange(60)}"
        if kind < 0.02:
            return none.frame("DELETE", one)
        if kind < 0.06:
            return none.frame("PUT", one, {"box": {"price": sorted([draw.randrange(9), draw.randrange(9)])}})
        said: dict[str, Any] = {"values": {"price": draw.randrange(9), "volume": draw.choice([-0.5, 3, 1e300])}}
        said |= draw.choice([{}, {}, {"payload": {"n": 1}}, {"payload": None}, {"from": None}])
        if kind < 0.12:
            said |= draw.choice(odd)
        body: dict[str, Any] = {"notifications": [said] * draw.choice([0, 2] if kind > 0.98 else [1])}
        if draw.random() < 0.2:
            body["on_error"] = draw.choice(["refuse", "refuse", "skip"])
        headers = {"Idempotency-Key": f"k{draw.randrange(99)}"} if draw.random() < 0.04 else {}
        return {**none.frame("POST", path if kind < 0.96 else f"{path}?on_error=skip", body), "headers": headers}

    windows = [[request() for _ in range(draw.choice([1, 3, 40, WINDOW]))] for _ in range(8)]
    made = [{"id": f"s{n}", "box": {"price": [n % 7, 8], "volume": [0, n]}} for n in range(50)]
    making = [
        ("PUT", "/v1/relays/r", {"attributes": ["price", "volume"]}),
        ("POST", "/v1/relays/r/subscriptions", {"subscriptions": made}),
        ("POST", path, {"notifications": [{"values": {"price": 1, "volume": 1}}]}),
    ]
    applied, apply = list[int](), Notifications.apply

    async def counted(self: Any, name: str, items: Sequence[Any], tickets: Sequence[Any]) -> Any:
        applied.append(len(items))
        return await apply(self, name, items, tickets)

    monkeypatch.setattr(Notifications, "apply", counted)
    monkeypatch.setattr(together_notifications, "INLINE", inline)
    ways.compare(making, windows, packed, "/v1/relays/r/subscriptions?limit=1000")
    assert max(applied) > 5, "several of a turn are carried out together"


def test_notifications_of_a_group_keep_their_payloads_and_the_links_that_they_came_over(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: Running = start()
    link = {"url": "http://127.0.0.1:9", "relay": "r", "link": "south"}
    running.client.put("/v1/relays/r", json={"attributes": ["price", "volume"], "links": {"north": link}})
    path, plans, apply = "/v1/relays/r/notifications", list[Any](), Notifications.apply
    first = {"values": {"price": 1, "volume": 2}}
    running.client.post(path, json={"notifications": [first]})

    async def seen(self: Any, name: str, items: Sequence[Any], tickets: Sequence[Any]) -> Any:
        plans.append(await apply(self, name, items, tickets))
        return plans[-1]

    monkeypatch.setattr(Notifications, "apply", seen)
    said = [
        {"values": {"volume": n, "price": -n}, **({"from": "north"} if n % 3 else {}), "payload": n if n % 2 else None}
        for n in range(12)
    ]
    with socket_of(running.client) as asker:
        asker.socket.send_all([asker.frame("POST", path, {"notifications": [one]}) for one in said])
        assert [answer["status"] for answer in receive(asker, 12)] == [200] * 12
    (plan,) = plans
    assert plan.command.values.tolist() == [[-n, n] for n in range(12)]
    assert plan.command.payload == {n: str(n).encode() for n in range(1, 12, 2)}
    assert plan.command.links == {n: "north" for n in range(12) if n % 3}


@pytest.mark.parametrize("bound", ["MOST_SUBSCRIPTIONS", "MOST_RECIPIENTS"])
def test_notifications_that_many_may_get_take_the_slow_path(
    start: Start, monkeypatch: pytest.MonkeyPatch, bound: str
) -> None:
    running: Running = start()
    running.client.put("/v1/relays/r", json={"attributes": ["price"]})
    made = [{"id": f"s{n}", "box": {"price": [0, 9]}} for n in range(5)]
    running.client.post("/v1/relays/r/subscriptions", json={"subscriptions": made})
    body = {"notifications": [{"values": {"price": 1}}]}
    with socket_of(running.client) as asker:
        for most, grown in ((4, WINDOW), (5, 1)):
            assert asker.ask("POST", "/v1/relays/r/notifications", body)[0] == 200
            monkeypatch.setattr(together_notifications, bound, most)
            before = rows(running)
            asker.socket.send_all([asker.frame("POST", "/v1/relays/r/notifications", body) for _ in range(WINDOW)])
            told = [answer["body"]["results"][0]["subscriptions"] for answer in receive(asker, WINDOW)]
            assert told == [[one["id"] for one in made]] * WINDOW
            assert rows(running) == before + grown


def test_deleted_subscriptions_are_one_row_and_their_streams_end_at_their_own_seq(start: Start) -> None:
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD)
    asked = [{"id": f"s{n}", "range": {"x": [n, n + 5]}, "k": 3} for n in range(WINDOW)]
    running.client.post("/v1/boards/b/subscriptions", json={"subscriptions": asked})
    with socket_of(running.client) as reader, socket_of(running.client) as asker:
        for n in (3, 7):
            reader.socket.send_all([{"op": "subscribe", "resource": "boards/b", "id": f"s{n}"}])
            assert receive(reader, 1)[0]["event"] == "snapshot"
        before = rows(running)
        asker.socket.send_all([asker.frame("DELETE", f"/v1/boards/b/subscriptions/s{n}") for n in range(WINDOW)])
        assert [answer["body"] for answer in receive(asker, WINDOW)] == [{"seq": WINDOW + n + 1} for n in range(WINDOW)]
        assert rows(running) == before + 1
        ends = {answer["id"]: (answer["event"], answer["seq"]) for answer in receive(reader, 2)}
    assert ends == {"s3": ("gone", WINDOW + 4), "s7": ("gone", WINDOW + 8)}
    assert running.client.get("/v1/boards/b/subscriptions").json()["items"] == []


def test_the_same_key_twice_in_a_turn_is_carried_out_once(start: Start) -> None:
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD)
    with socket_of(running.client) as asker:
        frames = [put(asker, "a", 1, 1, Idempotency_Key=key) for key in ("one", "two", "one", "two", "three")]
        asker.socket.send_all(frames)
        statuses = {answer["ref"]: answer["status"] for answer in receive(asker, 5)}
        assert statuses == {0: 201, 1: 200, 2: 409, 3: 409, 4: 200}
        asker.socket.send_all(frames)
        again = {answer["ref"]: answer["body"] for answer in receive(asker, 5)}
    assert {ref: body["seq"] for ref, body in again.items()} == {0: 1, 1: 2, 2: 1, 3: 2, 4: 3}
    assert all(body["replayed"] for body in again.values())
    assert running.client.get("/v1/boards/b").json()["seq"] == 3


@pytest.mark.parametrize("path", CHANGING)
def test_the_key_of_a_refused_change_is_free_for_what_comes_behind_it(start: Start, path: str) -> None:
    """Within one turn, as from one request to the next."""
    running: Running = start()
    resource, said, (change, *_) = CHANGING[path]
    running.client.put("/v1/" + path.rpartition("/")[0], json=resource)
    with socket_of(running.client) as asker:
        headers = {"Idempotency-Key": "once"}
        frames = [
            asker.frame("PUT", f"/v1/{path}/there", said),
            {**asker.frame("PATCH", f"/v1/{path}/unknown", change), "headers": headers},
            {**asker.frame("PUT", f"/v1/{path}/one", said), "headers": headers},
            {**asker.frame("PATCH", f"/v1/{path}/one", change), "headers": headers},
        ]
        asker.socket.send_all(frames)
        statuses = {answer["ref"]: answer["status"] for answer in receive(asker, 4)}
    assert statuses == {0: 201, 1: 404, 2: 201, 3: 422}


def test_a_request_whose_answer_cannot_be_written_is_answered_all_the_same(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD)
    write = requests._frame

    def written(request: SocketRequest, status: int, *more: Any) -> Content:
        if request.ref == 1 and status == 201:
            raise OverflowError("not in this form")
        return write(request, status, *more)

    with socket_of(running.client) as asker:
        monkeypatch.setattr(requests, "_frame", written)
        asker.socket.send_all([put(asker, f"o{n}", n, n) for n in range(3)])
        statuses = {answer["ref"]: answer["status"] for answer in receive(asker, 3)}
    assert statuses == {0: 201, 1: 500, 2: 500}
    assert running.client.get("/v1/boards/b").json()["seq"] == 3


def test_writes_of_a_socket_keep_their_order_whatever_way_they_take(start: Start) -> None:
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD)
    with socket_of(running.client) as one, socket_of(running.client) as other:
        for _ in range(5):
            for asker in (one, other):
                frames = []
                for n in range(40):
                    kind = n % 4
                    if kind == 3:
                        batch = {"events": [upsert(f"{id(asker)}", n, 0), upsert(f"{id(asker)}", n, n)]}
                        frames.append(asker.frame("POST", "/v1/boards/b/events?messages=none", batch))
                    elif kind == 2:
                        frames.append(
                            asker.frame("PUT", "/v1/boards/b/subscriptions/s", {"k": 3, "range": {"x": [n, n]}})
                        )
                    else:
                        frames.append(put(asker, f"{id(asker)}", n, n, "?messages=none"))
                asker.socket.send_all(frames)
            for asker in (one, other):
                answers = receive(asker, 40)
                assert all(answer["status"] < 300 for answer in answers)
                seqs = [answer["body"]["seq"] for answer in sorted(answers, key=lambda answer: answer["ref"])]
                assert seqs == sorted(seqs)
    assert running.client.get("/v1/boards/b").json()["objects"] == 2


def test_sockets_share_a_group(start: Start) -> None:
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD)
    before = rows(running)
    with socket_of(running.client) as one, socket_of(running.client) as other:

        async def send() -> None:
            for n in range(10):
                for asker in (one, other):
                    frame = put(asker, f"o{n}", n, n)
                    asker.socket._incoming.put_nowait({"type": "websocket.receive", "text": json.dumps(frame)})

        running.call(send)
        seqs = [answer["body"]["seq"] for asker in (one, other) for answer in receive(asker, 10)]
    assert sorted(seqs) == list(range(1, 21))
    assert rows(running) == before + 1


def test_who_waits_for_its_own_writes_holds_up_no_others(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD)
    released, answer = asyncio.Event(), SocketRequests._answer

    async def late(self: SocketRequests, route: Any, request: SocketRequest, *given: Any) -> Any:
        if request.path.endswith("/late"):
            await released.wait()
        return await answer(self, route, request, *given)

    monkeypatch.setattr(SocketRequests, "_answer", late)
    with socket_of(running.client) as one, socket_of(running.client) as other:
        behind = [
            one.frame("PUT", "/v1/boards/b/subscriptions/late", {"k": 3}, X_Request_Id="late"),
            put(one, "a", 1, 1),
            put(one, "b", 1, 1),
        ]

        async def send() -> None:
            for asker, frame in (*((one, frame) for frame in behind), (other, put(other, "c", 1, 1))):
                asker.socket._incoming.put_nowait({"type": "websocket.receive", "text": json.dumps(frame)})

        running.call(send)
        assert other.socket.receive_json()["body"]["seq"] == 1
        assert other.ask("PUT", "/v1/boards/b/objects/c", {"values": {"y": 3}})[0] == 200

        async def release() -> None:
            released.set()

        running.call(release)
        assert [answer["body"]["seq"] for answer in receive(one, 3)] == [3, 4, 5]


def test_a_full_queue_refuses_each(start: Start) -> None:
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD)
    with socket_of(running.client) as asker:
        running.service.writer._max_queue = 0
        asker.socket.send_all([put(asker, f"o{n}", n, n, Idempotency_Key=f"k{n}") for n in range(20)])
        for ref, answer in enumerate(receive(asker, 20)):
            assert (answer["ref"], answer["status"], answer["body"]["type"]) == (ref, 503, "/problems/busy")
            assert "Retry-After" in answer["headers"]
        running.service.writer._max_queue = 1_000
        asker.socket.send_all([put(asker, f"o{n}", n, n, Idempotency_Key=f"k{n}") for n in range(20)])
        assert [answer["status"] for answer in receive(asker, 20)] == [201] * 20


def test_a_log_that_fails_refuses_the_whole_group(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD)
    with socket_of(running.client) as asker:

        def fail(*given: Any) -> None:
            raise LogUnavailable("no room")

        with monkeypatch.context() as broken:
            broken.setattr(Log, "append", fail)
            asker.socket.send_all([put(asker, f"o{n}", n, n, Idempotency_Key=f"k{n}") for n in range(20)])
            for answer in receive(asker, 20):
                assert (answer["status"], answer["body"]["type"]) == (503, "/problems/log-unavailable")
        assert running.client.get("/v1/boards/b").json()["seq"] == 0
        asker.socket.send_all([put(asker, f"o{n}", n, n, Idempotency_Key=f"k{n}") for n in range(20)])
        assert [answer["body"]["seq"] for answer in receive(asker, 20)] == list(range(1, 21))


@pytest.mark.parametrize("kind", ["posts", "bursts", "usual"])
def test_what_a_commit_that_failed_leaves_out_is_not_carried_out_behind_what_came_later(
    start: Start, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """Where the log is there again at once: several groups of a socket were committed together."""
    running: Running = start()
    running.client.put("/v1/feeds/f", json={"window": 500, "bounds": [-100, -100, 100, 100]})
    append, left = Log.append, [1]

    def fail(self: Log, *given: Any) -> int:
        left[0] -= 1
        if left[0] >= 0:
            raise LogUnavailable("no room")
        return append(self, *given)

    monkeypatch.setattr(Log, "append", fail)
    with socket_of(running.client) as asker:
        posts: list[dict[str, Any]] = [
            {"id": f"p{n}", "keywords": ["a"], "location": [1, 2]} for n in range(3 * MOST + 20)
        ]
        if kind != "bursts":
            # As no request of a burst has.
            for n, post in enumerate(posts[::2]):
                post["payload"] = n
        query = "?on_error=refuse" if kind == "usual" else ""
        frames = [asker.frame("POST", f"/v1/feeds/f/posts{query}", {"posts": [post]}) for post in posts]
        asker.socket.send_all(frames)
        answers = sorted(receive(asker, len(frames)), key=lambda answer: answer["ref"])
        more = [asker.frame("POST", "/v1/feeds/f/posts", {"posts": [post]}) for post in posts]
        asker.socket.send_all(more)
        again = sorted(receive(asker, len(more)), key=lambda answer: answer["ref"])
    good = [n for n, answer in enumerate(answers) if answer["status"] == 201]
    assert [answers[n]["body"]["seq"] for n in good] == list(range(1, len(good) + 1))
    assert {answer["status"] for answer in answers} == {503} | ({201} if good else set())
    assert all("Retry-After" in answer["headers"] for answer in answers if answer["status"] == 503)
    # What was refused changed nothing, and the rest is there.
    assert [answer["status"] for answer in again] == [409 if n in good else 201 for n in range(len(posts))]


def send_burst(asker: Asker, count: int) -> None:
    """Send posts that come as a burst."""
    bodies = [{"posts": [{"id": f"p{n}", "keywords": ["a"], "location": [1, 2]}]} for n in range(count)]
    asker.socket.send_all([asker.frame("POST", "/v1/feeds/f/posts", body) for body in bodies])


@pytest.fixture
def bursts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How long bursts are that the lane takes."""
    sizes, keep = list[int](), BurstOnSocket.keep

    def noted(self: BurstOnSocket, count: int) -> None:
        sizes.append(count)
        keep(self, count)

    monkeypatch.setattr(BurstOnSocket, "keep", noted)
    return sizes


@pytest.mark.parametrize("why", ["queue", "log"])
def test_a_burst_that_is_refused_as_a_whole_is_refused_one_by_one(
    start: Start, monkeypatch: pytest.MonkeyPatch, bursts: list[int], why: str
) -> None:
    running: Running = start()
    running.client.put("/v1/feeds/f", json={"window": 500, "bounds": [-100, -100, 100, 100]})

    def fail(*given: Any) -> None:
        raise LogUnavailable("no room")

    with socket_of(running.client) as asker:
        with monkeypatch.context() as broken:
            if why == "log":
                broken.setattr(Log, "append", fail)
            else:
                broken.setattr(running.service.writer, "_max_queue", 0)
            send_burst(asker, 100)
            answers = receive(asker, 100)
            assert {answer["status"] for answer in answers} == {503}
            assert {answer["ref"] for answer in answers} == set(range(100))
            assert all("Retry-After" in answer["headers"] for answer in answers)
        send_burst(asker, 100)
        assert [answer["body"]["seq"] for answer in receive(asker, 100)] == list(range(1, 101))
    assert bursts == [MOST, 100 - MOST] * 2
    assert "requests_open 1.0" in running.client.get("/metrics").text


def test_a_burst_that_is_broken_off_is_answered(
    start: Start, monkeypatch: pytest.MonkeyPatch, bursts: list[int]
) -> None:
    """But for the request that was under way, as one of a group is."""
    running: Running = start()
    running.client.put("/v1/feeds/f", json={"window": 500, "bounds": [-100, -100, 100, 100]})
    running.service.writer._max_queue = 0
    carry_out, left = requests.Requests.carry_out, [7]

    async def broken(self: requests.Requests, request: SocketRequest, work: Any) -> None:
        left[0] -= 1
        if not left[0]:
            work.close()
            (task,) = self._groups
            task.cancel()
            work = asyncio.sleep(1.0)
        await carry_out(self, request, work)

    monkeypatch.setattr(requests.Requests, "carry_out", broken)
    with socket_of(running.client) as asker:
        send_burst(asker, 60)
        answers = receive(asker, 59)
    assert bursts == [60] and {answer["ref"] for answer in answers} == set(range(60)) - {6}
    assert [answer["body"]["type"] for answer in answers] == ["/problems/busy"] * 6 + ["/problems/not-ready"] * 53


def test_a_board_that_is_made_again_takes_what_comes_behind(start: Start) -> None:
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD)
    with socket_of(running.client) as asker:
        asker.socket.send_all(
            [
                put(asker, "a", 1, 1),
                asker.frame("DELETE", "/v1/boards/b"),
                put(asker, "b", 1, 1),
                asker.frame("PUT", "/v1/boards/b", {**BOARD, "ks": [5]}),
                put(asker, "c", 1, 1),
            ]
        )
        statuses = {answer["ref"]: answer["status"] for answer in receive(asker, 5)}
    assert statuses == {0: 201, 1: 200, 2: 404, 3: 201, 4: 201}
    assert [item["id"] for item in running.client.get("/v1/boards/b/objects").json()["items"]] == ["c"]


def test_a_key_that_goes_between_two_requests_has_no_rights(start: Start) -> None:
    running: Running = start()
    client = running.client
    admin = client.post("/v1/admin/keys", json={"name": "n", "scopes": ["admin"]}).json()["key"]
    with socket_of(client, key=admin) as asker:
        asker.good("PUT", "/v1/boards/b", BOARD)
        one = asker.good("POST", "/v1/admin/keys", {"name": "n", "scopes": ["boards/b:publish"]})
        other = asker.good("POST", "/v1/admin/keys", {"name": "n", "scopes": ["boards/c:publish"]})
        with socket_of(client, key=other["key"]) as stranger:
            stranger.socket.send_all([put(stranger, "a", 1, 1) for _ in range(3)])
            assert [answer["status"] for answer in receive(stranger, 3)] == [403] * 3
        with socket_of(client, key=one["key"]) as mine:
            before = rows(running)
            mine.socket.send_all([put(mine, "a", 1, 1) for _ in range(3)])
            assert [answer["status"] for answer in receive(mine, 3)] == [201, 200, 200]
            assert rows(running) == before + 1

            async def revoke() -> None:
                # What the removal of a key does first; the socket is told to end behind it.
                keyring = client.app.state.keyring  # type: ignore[attr-defined]
                keyring._by_id.pop(one["id"])
                await asyncio.sleep(0)

            running.call(revoke)
            mine.socket.send_all([put(mine, "a", 1, 1) for _ in range(3)])
            assert [answer["status"] for answer in receive(mine, 3)] == [401] * 3
        assert asker.good("GET", "/v1/boards/b")["seq"] == 3


def test_who_leaves_with_requests_under_way_harms_nobody(start: Start) -> None:
    running: Running = start()
    running.client.put("/v1/boards/b", json=BOARD)
    with socket_of(running.client) as staying:
        for n in range(5):
            with socket_of(running.client) as leaving:
                leaving.socket.send_all([put(leaving, f"left{n}-{i}", i, i) for i in range(30)])
            staying.good("PUT", "/v1/boards/b/objects/stays", {"values": {"x": n, "y": n}})
    assert running.client.get("/v1/boards/b").json()["objects"] == 151


@given(st.integers(), st.floats())
def test_numbers_are_checked_as_those_of_json_are(whole: int, real: float) -> None:
    """A frame is parsed already where its body is checked; what is taken is taken as from the text."""
    validator = validators(("x",), "y", 10, 10).put_object

    def outcome(check: Any, given: Any) -> Any:
        try:
            return check(given)
        except ValueError:
            return None

    for number in (whole, real, whole**9):
        text = json.dumps({"values": {"x": number}})
        if "NaN" in text or "Infinity" in text:
            continue
        assert outcome(validator.validate_python, json.loads(text)) == outcome(validator.validate_json, text)


def test_answers_of_a_group_are_completed_by_the_log_alone(start: Start, tmp_path: Path) -> None:
    running: Running = start(data=tmp_path / "data")
    client = running.client
    client.put("/v1/boards/b", json=BOARD)
    asked = [{"id": f"s{n}", "range": {"x": [n, n + 9]}, "k": 3} for n in range(0, 40, 3)]
    client.post("/v1/boards/b/subscriptions", json={"subscriptions": asked})
    client.put("/v1/feeds/f", json={"window": 50, "bounds": [-100, -100, 100, 100]})
    words = [{"id": f"s{n}", "keywords": ["abc"[n % 3]], "location": [n, n], "k": 3} for n in range(9)]
    client.post("/v1/feeds/f/subscriptions", json={"subscriptions": words})
    client.put("/v1/maps/m", json={"attributes": {"price": "low"}, "bounds": [0, 0, 100, 100]})
    top = {"kind": "top", "k": 1, "m": 1, "score": {"kind": "weighted_sum", "weights": {"price": 0.1, "distance": 0.9}}}
    queries = [{"id": f"q{n}", "location": [n, 1], **top} for n in range(20)]
    client.post("/v1/maps/m/objects", json={"objects": [{"id": "x", "location": [9, 9], "values": {"price": 1}}]})
    client.post("/v1/maps/m/queries", json={"queries": queries})
    client.put("/v1/relays/r", json={"attributes": ["price"]})
    client.put("/v1/relays/r/subscriptions/c0", json={"box": {"price": [0, 5]}})

    def frames(asker: Asker) -> list[dict[str, Any]]:
        made = [put(asker, f"o{n % 7}", n, n % 5, "?messages=count", Idempotency_Key=f"o{n}") for n in range(20)]
        for n in range(20):
            post = {"id": f"p{n}", "keywords": ["abc"[n % 3]], "location": [n, 0]}
            made.append(asker.frame("POST", "/v1/feeds/f/posts", {"posts": [post]}, Idempotency_Key=f"p{n}"))
        for n in range(20):
            thing = {"location": [n, 1], "values": {"price": n}}
            made.append(asker.frame("PUT", f"/v1/maps/m/objects/m{n}", thing, Idempotency_Key=f"m{n}"))
        for n in range(20):
            asked = {"range": {"x": [n, n + 3]}, "k": 3, "ttl": 600 + n}
            made.append(asker.frame("PUT", f"/v1/boards/b/subscriptions/n{n}", asked, Idempotency_Key=f"n{n}"))
        for n in range(20):
            made.append(asker.frame("DELETE", f"/v1/boards/b/subscriptions/n{n * 2}", Idempotency_Key=f"d{n}"))
        for n in range(20):
            place = {"location": [n + n % 3 * 20, 1]}
            made.append(asker.frame("PATCH", f"/v1/maps/m/queries/q{n}", place, Idempotency_Key=f"q{n}"))
        for n in range(20):
            one = f"/v1/relays/r/subscriptions/c{n}"
            box = {"box": {"price": [n % 4, 9 - n % 5]}, "ttl": 600}
            made.append(asker.frame("PUT" if n else "DELETE", one, box if n else None, Idempotency_Key=f"c{n}"))
        return made

    with socket_of(client) as asker:
        before = rows(running)
        asker.socket.send_all(frames(asker))
        first = {answer["ref"]: answer["body"] for answer in receive(asker, 140)}
        assert rows(running) == before + 7
    stored = [row for row in running.service.stores.log.answers(0.0, 140) if row.key[0] in "opmndqc"]
    assert len(stored) == 130 and not all(row.complete for row in stored)
    shown = client.get("/v1/boards/b/subscriptions?limit=1000").json()
    assert [one["id"] for one in shown["items"] if "ttl" in one] == sorted(f"n{n}" for n in range(1, 20, 2))
    # As a kill would leave it: the answers are stored as they were before the commands were applied.
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    again: Running = start(data=tmp_path / "copy")
    assert again.client.get("/v1/boards/b/subscriptions?limit=1000").json() == shown
    lists = {"list", "candidates"}
    with socket_of(again.client) as asker:
        asker.socket.send_all(frames(asker))
        for answer in receive(asker, 140):
            wanted = {name: value for name, value in first[answer["ref"]].items() if name not in lists}
            assert answer["body"] == (wanted if "status" in wanted else {**wanted, "replayed": True})
    assert len({body.get("tile_count") for body in first.values()}) > 2
    assert {body["inside"] for body in first.values() if "inside" in body} == {True, False}
    assert {body["forward"] for body in first.values() if "forward" in body} == {True, False}
