"""Asking why over HTTP: what is said is what happens then, and asking changes nothing."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.live import StartService
from tests.system.http.explaining import made, upsert
from tests.system.http.following import SseFollower
from tests.system.http.talk import NDJSON, Json, Talk, ndjson, problem


def said_tiles(said: Json) -> list[Json]:
    """The tiles of an explanation as `events` would answer them."""
    found: list[Json] = []
    for one in said["classes"]:
        last = [tile for tile in one["tiles"] if said["kind"] == "move" and not tile["object"]["gone"]]
        found += [tile for tile in one["tiles"] if tile not in last]
        for item in one["exposed"]:
            found += [{"k": one["k"], **sides, "object": {**item["object"], "gone": False}} for sides in item["tiles"]]
        found += last
    return found


def some_event(rng: random.Random, there: set[str]) -> Json:
    key = f"o{rng.randrange(40)}"
    if key in there and rng.random() < 0.2:
        return {"op": "delete", "id": key}
    event = upsert(key, rng.randrange(20), rng.randrange(8))
    if key in there:
        event["op"] = rng.choice(["upsert", "update"])
        for name in ("distance", "delay"):
            if rng.random() < 0.4:
                del event["values"][name]
    if rng.random() < 0.3:
        event["payload"] = rng.choice([None, {"n": rng.randrange(3)}])
    return event


@pytest.mark.parametrize("index", ["range-tree", "kd-tree"])
@pytest.mark.parametrize("algorithm", ["sparse", "dense"])
@pytest.mark.parametrize("epsilon", [None, 0.5])
def test_events_do_what_was_said(talk: Talk, algorithm: str, index: str, epsilon: float | None) -> None:
    rng = random.Random(f"{algorithm}{index}{epsilon}")
    path = made(talk, algorithm=algorithm, index=index, epsilon=epsilon, ks=[1, 2, 5])
    ends = [sorted((rng.randrange(-1, 21), rng.randrange(-1, 21))) for _ in range(60)]
    wants = [
        {"range": {"distance": [None if l < 0 else l, None if r > 19 else r]}, "k": rng.choice([2, 5])} for l, r in ends
    ]
    talk.good("POST", f"{path}/subscriptions", {"subscriptions": wants, "lists": False})
    there: set[str] = set()
    for _ in range(60):
        event = some_event(rng, there)
        before = talk.good("GET", path)
        said = talk.good("POST", f"{path}/explain", {"event": event})
        assert talk.good("GET", path) == before
        done = talk.good("POST", f"{path}/events", {"events": [event], "messages": "full"})
        assert said["seq"] + 1 == done["seq"]
        told = [{name: tile[name] for name in tile if name != "event"} for tile in done["tiles"]]
        for k in (1, 2, 5):
            assert [t for t in said_tiles(said) if t["k"] == k] == [t for t in told if t["k"] == k], talk.calls[-2:]
        assert said["tile_count"] == done["tile_count"]
        there = there - {event["id"]} if event["op"] == "delete" else there | {event["id"]}
        if said["after"] is not None:
            shown = talk.good("GET", f"{path}/objects/{event['id']}")
            if shown["payload"] is None:
                del shown["payload"]
            assert said["after"] == {name: value for name, value in shown.items() if name != "seq"}


def test_an_explanation_shows_regions_tiles_and_calls(talk: Talk) -> None:
    path = made(talk, ks=[1, 2], algorithm="dense")
    events = [upsert("a", 10, 50), upsert("b", 4, 30), upsert("c", 16, 20, payload={"to": "IAH"}), upsert("d", 30, 60)]
    talk.good("POST", f"{path}/events", {"events": events})
    talk.good("PUT", f"{path}/subscriptions/mine", {"range": {"distance": [0, 20]}, "k": 1})
    said = talk.good("POST", f"{path}/explain", {"event": {"op": "update", "id": "a", "values": {"delay": 25}}})
    assert (said["seq"], said["kind"], said["affected"], said["tile_count"]) == (5, "worse", 1, 4)
    assert "truncated" not in said
    assert said["before"] == {"id": "a", "values": {"distance": 10, "delay": 50}, "created": 0}
    assert said["after"] == {"id": "a", "values": {"distance": 10, "delay": 25}, "created": 0}
    assert said["near"] == {"before": {"west": [], "east": [30]}, "after": {"west": [4], "east": [30]}}
    one, two = said["classes"]
    assert (one["k"], one["reached"], one["tile_count"]) == (1, 1, 2)
    assert one["before"] == [{"l_outer": None, "l_inner": 10, "r_inner": 10, "r_outer": 30}]
    assert one["after"] == [{"l_outer": 4, "l_inner": 10, "r_inner": 10, "r_outer": 30}]
    (exposed,) = one["exposed"]
    assert exposed["object"] == {"id": "b", "values": {"distance": 4, "delay": 30}, "created": 1}
    assert exposed["tiles"] == [{"l_outer": None, "l_inner": 4, "r_inner": 10, "r_outer": 30}]
    assert exposed["reached"] == 1
    assert one["calls"] == {"first_k": 1, "min_y": 2, "snaps": 2, "merges": 0, "refreshes": 0}
    assert two["k"] == 2 and two["reached"] == 0
    sparse = talk.good("POST", f"{path}/explain", {"event": events[0], "algorithm": "sparse", "epsilon": 0.5})
    assert (sparse["kind"], sparse["tile_count"]) == ("nothing", 0)


def test_asking_takes_no_seq_and_needs_no_more_than_reading(start_service: StartService) -> None:
    service = start_service(env={"RANKCAST_MAX_TILES": "3"})
    open_door = Talk(service.url)
    admin = Talk(service.url, open_door.good("POST", "/v1/admin/keys", {"name": "a", "scopes": ["admin"]})["key"])
    path = made(admin, algorithm="dense")
    admin.good("POST", f"{path}/events", {"events": [upsert(f"o{n}", n, n % 7) for n in range(50)]})
    admin.good("PUT", f"{path}/subscriptions/mine", {"k": 5})
    keys = {
        scope: admin.good("POST", "/v1/admin/keys", {"name": scope, "scopes": [scope]})["key"]
        for scope in ("boards:read", "boards:publish")
    }
    reader, writer = (Talk(service.url, keys[scope]) for scope in ("boards:read", "boards:publish"))
    before = admin.good("GET", path)
    body = {"event": {"op": "delete", "id": "o6"}}
    said = reader.good("POST", f"{path}/explain", body, headers={"Idempotency-Key": "same"})
    again = reader.good("POST", f"{path}/explain", {"event": upsert("o7", 1, 99)}, headers={"Idempotency-Key": "same"})
    assert "replayed" not in again and again["kind"] == "move"
    assert reader.good("GET", f"{path}/subscriptions/mine/explain")["list_length"] == 5
    problem(writer.ask("POST", f"{path}/explain", body), 403)
    problem(writer.ask("GET", f"{path}/subscriptions/mine/explain"), 403)
    problem(open_door.ask("POST", f"{path}/explain", body), 401)
    assert admin.good("GET", path) == before
    assert said["truncated"] is True and said["tile_count"] > 3 == len(said_tiles(said))
    assert said["tile_count"] == sum(one["tile_count"] for one in said["classes"])
    done = admin.good("POST", f"{path}/events", {"events": [body["event"]]})
    assert done["tile_count"] == said["tile_count"]
    for one in (open_door, admin, reader, writer):
        one.close()


@pytest.mark.parametrize(
    ("status", "body", "fields"),
    [
        (400, b"{", []),
        (422, {}, ["event"]),
        (422, {"events": [upsert("a", 1, 1)]}, ["event", "events"]),
        (422, {"event": [upsert("a", 1, 1)]}, ["event"]),
        (422, {"event": upsert("a", 1, 1), "mode": "each"}, ["mode"]),
        (422, {"event": {"op": "update", "id": "nobody", "values": {"delay": 1}}}, ["event.id"]),
        (422, {"event": {"op": "delete", "id": "nobody"}}, ["event.id"]),
        (422, {"event": {"op": "delete", "id": "o1", "values": {"delay": 1}}}, ["event.values"]),
        (422, {"event": {"op": "upsert", "id": "new", "values": {}}}, ["event.values.delay", "event.values.distance"]),
        (422, {"event": {"op": "upsert", "id": "new", "values": {"speed": 1}}}, ["event.values.speed"]),
        (422, {"event": {"op": "move", "id": "o1"}}, ["event.op"]),
        (422, {"event": upsert("a b", 1, 1)}, ["event.id"]),
        (422, {"event": upsert("a", 1, True)}, ["event.values.delay"]),
        (422, {"event": upsert("a", 1, 1e301)}, ["event.values.delay"]),
        (422, {"event": upsert("a", 1, 1, payload="x" * 4095)}, ["event.payload"]),
        (422, {"event": upsert("a", 1, 1), "algorithm": "best"}, ["algorithm"]),
        (422, {"event": upsert("a", 1, 1), "epsilon": 0.3}, ["epsilon"]),
        (422, {"event": upsert("a", 1, 1), "epsilon": "0.5"}, ["epsilon"]),
    ],
)
def test_what_cannot_happen_is_not_explained(talk: Talk, asked: str, status: int, body: Any, fields: list[str]) -> None:
    problem(talk.ask("POST", f"{asked}/explain", body), status, *fields)
    assert talk.good("GET", asked)["seq"] == 6


@pytest.fixture(scope="module")
def asked(shared: Any) -> Iterator[str]:
    """A board with six objects."""
    talk = Talk(shared.url)
    path = made(talk)
    talk.good("POST", f"{path}/events", {"events": [upsert(f"o{n}", n, n) for n in range(6)]})
    yield path
    talk.close()


def test_other_requests_are_refused(talk: Talk, asked: str) -> None:
    body = {"event": upsert("a", 1, 1)}
    problem(talk.ask("POST", "/v1/boards/nowhere/explain", body), 404, "board")
    problem(talk.ask("GET", f"{asked}/explain"), 405)
    problem(talk.ask("POST", f"{asked}/explain?messages=full", body), 422, "messages")
    problem(talk.ask("POST", f"{asked}/explain", b"{}", headers={"Content-Type": NDJSON}), 415)
    problem(talk.ask("GET", "/v1/boards/nowhere/subscriptions/mine/explain"), 404, "board")
    problem(talk.ask("GET", f"{asked}/subscriptions/nobody/explain"), 404, "id")
    problem(talk.ask("GET", f"{asked}/subscriptions/nobody/explain?k=1"), 422, "k")


def test_questions_beside_writes_are_answered_for_an_exact_state(talk: Talk) -> None:
    """Each answer is that of the seq that it names, while events go by one by one and in long commands."""
    path = made(talk, ks=[1], algorithm="dense")
    talk.good("POST", f"{path}/events", {"events": [upsert("me", 0, 0)]})
    other = Talk(talk.url)
    stop = threading.Event()

    def write() -> None:
        n = 2
        while not stop.is_set():
            for size in (1, 1, 1, 25_000):
                # After seq n the delay of `other` is n.
                lines = [upsert("other", 0, n + more) for more in range(size)]
                n = (
                    1
                    + other.good(
                        "POST", f"{path}/events?messages=none", ndjson(lines), headers={"Content-Type": NDJSON}
                    )["seq"]
                )

    writer = threading.Thread(target=write)
    writer.start()
    seen: set[int] = set()
    while len(seen) < 40:
        asked = talk.ask("POST", f"{path}/explain", {"event": {"op": "delete", "id": "other"}})
        if asked.status_code == 200:
            said = asked.json()
            assert said["before"]["values"]["delay"] == said["seq"]
            seen.add(said["seq"])
        else:
            problem(asked, 422, "event.id")
    stop.set()
    writer.join()
    other.close()


def test_a_subscription_says_what_it_costs(talk: Talk) -> None:
    path = made(talk)
    talk.good("POST", f"{path}/events", {"events": [upsert(f"o{n}", n, n / 2) for n in range(10)]})
    mine = f"{path}/subscriptions/mine"
    talk.good("PUT", mine, {"range": {"distance": [2, None]}, "k": 5})
    talk.good("PUT", f"{path}/subscriptions/few", {"range": {"distance": [2, 3]}, "k": 5})
    found = talk.good("GET", f"{mine}/explain")
    size = found.pop("bytes")
    assert found == {
        "seq": 12,
        "id": "mine",
        "k": 5,
        "objects_in_range": 8,
        "list_length": 5,
        "kth": 2.5,
        "share": 8 / 10 * (1 - (3 / 8) ** 2),
        "live": False,
        "streams": 0,
        "kept": 0,
        "changes": 0,
    }
    few = talk.good("GET", f"{path}/subscriptions/few/explain")
    assert (few["objects_in_range"], few["list_length"], few["kth"], few["share"]) == (2, 2, None, 0.2)

    talk.good("PUT", f"{path}/subscriptions/next", {"range": {"distance": [2, None]}, "k": 2, "offset": 3})
    window = talk.good("GET", f"{path}/subscriptions/next/explain")
    assert (window["k"], window["offset"], window["list_length"], window["kth"]) == (2, 3, 2, 2.5)
    assert window["share"] == 8 / 10 * (1 - (3 / 8) ** 2 - (3 / 8) ** 2)

    follower = SseFollower(talk.url, f"{mine}/stream")
    follower.wait(lambda: follower.said)
    talk.good("POST", f"{path}/events", {"events": [upsert("o9", 9, 1), upsert("o0", 0, 99), upsert("o9", 9, 50)]})
    follower.wait(lambda: len(follower.said) == 3)
    live = talk.good("GET", f"{mine}/explain")
    assert (live["live"], live["streams"], live["kept"], live["changes"]) == (True, 1, 2, 2)
    assert live["bytes"] > size + 5 * 8
    follower.leave()
