"""Webhooks of a service that is killed, with receivers that fail: what these were sent is the truth, none is lost."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest

from tests.support.databases import KINDS, fresh
from tests.support.live import RANKCAST, LiveService, StartService
from tests.support.patience import wait_until
from tests.support.receiver import ALWAYS, Receiver, applied, receiving, statuses
from tests.system.http.talk import Json, Talk

ENV = {"RANKCAST_WEBHOOK_NETWORKS": "127.0.0.1/32"}
ROUNDS, WRITES = 5, 25

RESOURCES: dict[str, tuple[Json, str, Json]] = {
    "boards/b": (
        {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [4]},
        "subscriptions",
        {"range": {"x": [2, 8]}, "k": 4},
    ),
    "matchers/m": ({"dimensions": ["x"], "mode": "exact"}, "subscriptions", {"intervals": {"x": [0, 5]}, "score": 1}),
    "relays/r": ({"attributes": ["x"]}, "subscriptions", {"box": {"x": [0, 5]}}),
    "feeds/f": (
        {"window": 20, "bounds": [0, 0, 10, 10], "weighting": "given"},
        "subscriptions",
        {"keywords": ["ramen"], "location": [5, 5], "k": 4},
    ),
    "maps/p": (
        {"attributes": {"price": "low"}, "bounds": [0, 0, 10, 10]},
        "queries",
        {
            "kind": "top",
            "location": [5, 5],
            "k": 3,
            "score": {"kind": "weighted_sum", "weights": {"distance": 1, "price": 1}},
        },
    ),
}
"""By resource its configuration, what its subscriptions are called, and one."""

KEPT = ("matchers/m", "relays/r")
"""Streams of single events: none may be missing."""


def write(talk: Talk, draw: Random, kept: dict[str, list[int]]) -> None:
    """Change something of every resource; note the seqs of what is to arrive."""
    x, y = float(draw.randrange(10)), draw.random()
    talk.good("PUT", f"/v1/boards/b/objects/o{draw.randrange(12)}", {"values": {"x": x, "y": y}})
    for path, body in (
        ("matchers/m/match", {"events": [{"values": {"x": x}}], "notify": True}),
        ("relays/r/notifications", {"notifications": [{"values": {"x": x}}]}),
    ):
        seq = talk.good("POST", f"/v1/{path}", body)["seq"]
        if x <= 5:
            kept[path.rpartition("/")[0]].append(seq)
    words = ["ramen"] * draw.randrange(1, 4)
    talk.good("POST", "/v1/feeds/f/posts", {"posts": [{"keywords": words, "location": [x, 10 * y]}]})
    talk.good("PUT", f"/v1/maps/p/objects/r{draw.randrange(9)}", {"location": [x, 10 * y], "values": {"price": 10 * y}})


def name_of(resource: str) -> str:
    return resource.partition("/")[0]


def make(talk: Talk, receivers: dict[str, Receiver]) -> None:
    for resource, (config, noun, subscription) in RESOURCES.items():
        talk.good("PUT", f"/v1/{resource}", config)
        talk.good("PUT", f"/v1/{resource}/{noun}/mine", subscription)
        body = {"url": receivers[resource].url, "resource": resource, "ids": ["mine"], "batch": 1}
        assert talk.good("PUT", f"/v1/webhooks/{name_of(resource)}", body)["secret"].startswith("whsec_")


def settled(talk: Talk, resource: str) -> bool:
    found = talk.good("GET", f"/v1/webhooks/{name_of(resource)}")
    return bool(found["state"] == "active" and found["waiting"] == 0)


def snapshot(talk: Talk) -> int:
    """Write a snapshot; return its row of the log."""
    job = talk.ask("POST", "/v1/admin/snapshots", {}).json()["job"]
    wait_until(lambda: talk.good("GET", f"/v1/admin/jobs/{job}")["state"] == "succeeded")
    found: int = talk.good("GET", f"/v1/admin/jobs/{job}")["detail"]["lsn"]
    return found


def check(talk: Talk, receivers: dict[str, Receiver], kept: dict[str, list[int]]) -> None:
    """What was delivered is the truth: every event once under its id, in order, and the lists that GET shows."""
    for resource, receiver in receivers.items():
        noun = RESOURCES[resource][1]

        def whole(resource: str = resource, receiver: Receiver = receiver, noun: str = noun) -> bool:
            if not settled(talk, resource):
                return False
            events, now = receiver.of("mine"), talk.good("GET", f"/v1/{resource}/{noun}/mine")
            if resource in KEPT:
                return bool(events) and (not kept[resource] or events[-1]["seq"] >= kept[resource][-1])
            if resource == "maps/p":
                return bool(events) and events[-1]["list"] == now["list"]
            return applied(events) == [{k: v for k, v in one.items() if k != "rank"} for one in now["list"]]

        wait_until(whole, why=partial(receiver.of, "mine"))
        bodies: dict[str, bytes] = {}
        for one in receiver.arrived:
            assert bodies.setdefault(one.id, one.body) == one.body, "an id is that of one event"
        seqs = [event["seq"] for event in receiver.of("mine")]
        assert seqs == sorted(seqs), resource
        assert receiver.of("mine")[0]["event"] in ("snapshot", "ready")
        if resource in KEPT:
            sent = [event["seq"] for event in receiver.of("mine") if event["event"] in ("win", "notification")]
            assert sent == kept[resource], resource


@pytest.fixture
def receivers() -> Iterator[dict[str, Receiver]]:
    with (
        receiving() as boards,
        receiving() as matchers,
        receiving() as relays,
        receiving() as feeds,
        receiving() as maps,
    ):
        yield dict(zip(RESOURCES, (boards, matchers, relays, feeds, maps), strict=True))


def restart(start_service: StartService, service: LiveService, *options: str) -> tuple[LiveService, Talk]:
    service.stop(signal.SIGKILL)
    service = start_service(service.data, *options, env=ENV)
    return service, Talk(service.url)


@pytest.mark.parametrize("kind", KINDS)
def test_killed_under_load_with_receivers_that_fail(
    start_service: StartService, receivers: dict[str, Receiver], kind: str, tmp_path: Path
) -> None:
    draw = Random(5)
    with fresh(kind, tmp_path) as database:
        options = () if kind == "sqlite" else ("--database", database.url)
        service = start_service(None, *options, env=ENV)
        talk = Talk(service.url)
        make(talk, receivers)
        kept: dict[str, list[int]] = {resource: [] for resource in KEPT}
        for number in range(ROUNDS):
            for receiver in receivers.values():
                # Some refuse, some close, and in one round none answers at all.
                failing = draw.sample([500, 0, 429, 204, 204, 204, 204], 4) if number != 2 else [-1]
                receiver.decide = statuses(*failing)
            for _ in range(WRITES):
                write(talk, draw, kept)
            time.sleep(draw.random() * 1.5)
            service, talk = restart(start_service, service, *options)
            for receiver in receivers.values():
                receiver.release.set()
                receiver.release.clear()
        for receiver in receivers.values():
            receiver.decide = ALWAYS
        for resource in RESOURCES:
            talk.good("POST", f"/v1/webhooks/{name_of(resource)}/enable")
        check(talk, receivers, kept)
        for resource, receiver in receivers.items():
            resets = [event for event in receiver.of("mine") if event["event"] == "reset"]
            assert not resets or resource == "maps/p", "the log reaches back far enough"
        assert service.stop() == 0


def test_an_end_in_good_order_skips_and_repeats_nothing(
    start_service: StartService, receivers: dict[str, Receiver]
) -> None:
    draw = Random(6)
    service = start_service(None, env=ENV)
    talk = Talk(service.url)
    make(talk, receivers)
    kept: dict[str, list[int]] = {resource: [] for resource in KEPT}
    for number in range(3):
        for receiver in receivers.values():
            receiver.decide = ALWAYS if number != 1 else statuses(500)
        for _ in range(WRITES):
            write(talk, draw, kept)
        if number == 0:
            talk.good("POST", "/v1/webhooks/boards/test")
            snapshot(talk)
        assert service.stop() == 0
        service = start_service(service.data, env=ENV)
        talk = Talk(service.url)
    check(talk, receivers, kept)
    for resource, receiver in receivers.items():
        assert not [event for event in receiver.of("mine") if event["event"] == "reset"], resource


def test_further_back_than_the_log_is_a_reset(start_service: StartService, tmp_path: Path) -> None:
    """A restored service has another history: its webhooks go on with the whole list."""
    with receiving() as receiver:
        service = start_service(None, env=ENV)
        talk = Talk(service.url)
        make(talk, dict.fromkeys(RESOURCES, receiver))
        write(talk, Random(1), {resource: [] for resource in KEPT})
        lsn = snapshot(talk)
        stood = [talk.good("GET", f"/v1/webhooks/{name_of(resource)}") for resource in RESOURCES]
        assert service.stop() == 0
        restored = tmp_path / "restored"
        rankcast("restore", str(service.data / "snapshots" / str(lsn)), "--data", str(restored))
        before = len(receiver.arrived)
        service = start_service(restored, env=ENV)
        talk = Talk(service.url)
        receiver.wait(lambda: len(receiver.arrived) >= before + len(RESOURCES))
        sent = [event for one in receiver.arrived[before:] for event in one.events]
        assert {(event["resource"], event["event"]) for event in sent} == {(name, "reset") for name in RESOURCES}
        after = [talk.good("GET", f"/v1/webhooks/{name_of(resource)}") for resource in RESOURCES]
        same = ("name", "url", "resource", "ids", "batch", "created")
        assert [[one[key] for key in same] for one in after] == [[one[key] for key in same] for one in stood]
        assert service.stop() == 0


def rankcast(*arguments: str) -> str:
    done = subprocess.run([RANKCAST, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
