"""Small requests for large answers: refused, or sent in pieces, and never there as a whole."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import httpx
import pytest

from tests.support.live import LiveService, StartService
from tests.support.patience import PATIENCE
from tests.support.process import MB, resident
from tests.system.http.talk import Talk, problem

PAYLOAD = "p" * 4_000
COUNT = 1_000


@pytest.fixture(scope="module")
def service(start_service: StartService) -> LiveService:
    return start_service()


@contextmanager
def watched(service: LiveService, most: int) -> Iterator[None]:
    """The service's memory grows by no more than so much at any time."""
    before = peak = resident(service)
    over = threading.Event()

    def watch() -> None:
        nonlocal peak
        while not over.wait(0.005):
            peak = max(peak, resident(service))

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        over.set()
        watcher.join()
    assert peak - before < most, f"{(peak - before) / MB:.0f} MB"


def received(service: LiveService, path: str, body: object) -> tuple[int, int]:
    """The status and the length of an answer that is read as it comes."""
    length = 0
    with httpx.stream("POST", service.url + path, json=body, timeout=PATIENCE) as answer:
        for part in answer.iter_raw(1 << 16):
            length += len(part)
        return answer.status_code, length


def test_an_answer_at_many_places_is_refused_or_bounded(service: LiveService) -> None:
    talk = Talk(service.url)
    talk.good("PUT", "/v1/maps/m", {"attributes": {}, "bounds": [0, 0, 1_000, 1_000]})
    objects = [{"id": f"o{n}", "location": [n, n], "values": {}, "payload": PAYLOAD} for n in range(COUNT)]
    talk.good("POST", "/v1/maps/m/objects", {"objects": objects})
    score = {"kind": "weighted_sum", "weights": {"distance": 1}}
    body = {"k": COUNT, "score": score, "locations": [[1, 1]] * 7}
    talk.good("POST", "/v1/maps/m/top", {**body, "k": 1})
    with watched(service, 150 * MB):
        status, length = received(service, "/v1/maps/m/top", body)
        assert status == 200 and 50 * MB < length <= 64 * MB
    with watched(service, 150 * MB):
        problem(talk.ask("POST", "/v1/maps/m/top", {**body, "locations": [[1, 1]] * 100}), 413)
        assert len(json.dumps({**body, "locations": [[1, 1]] * 100})) < 1_000
    talk.close()


def test_many_long_lists_are_sent_in_pieces(service: LiveService) -> None:
    talk = Talk(service.url)
    talk.good("PUT", "/v1/boards/b", {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [COUNT]})
    events = [{"op": "upsert", "id": f"o{n}", "values": {"x": n, "y": n}, "payload": PAYLOAD} for n in range(COUNT)]
    talk.good("POST", "/v1/boards/b/events", {"events": events, "messages": "none"})
    asked = {"subscriptions": [{"k": COUNT}] * 100}
    with watched(service, 100 * MB):
        status, length = received(service, "/v1/boards/b/subscriptions", asked)
        assert status == 201 and length > 380 * MB
    talk.close()


def test_many_tiles_with_payloads_are_cut(service: LiveService) -> None:
    talk = Talk(service.url)
    talk.good(
        "PUT",
        "/v1/boards/t",
        {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [100], "algorithm": "dense"},
    )
    events = [
        {"op": "upsert", "id": f"o{n}", "values": {"x": n, "y": n * 7 % COUNT}, "payload": PAYLOAD}
        for n in range(COUNT)
    ]
    talk.good("POST", "/v1/boards/t/events", {"events": events, "messages": "none"})
    # Each time many others are exposed in its place, or hidden.
    move = {"op": "update", "id": "o500", "values": {"y": -1}}
    back = {"op": "update", "id": "o500", "values": {"y": 5_000}}
    with watched(service, 400 * MB):
        status, length = received(service, "/v1/boards/t/events", {"events": [move, back] * 100})
        assert status == 200 and 50 * MB < length < 70 * MB
    talk.close()
