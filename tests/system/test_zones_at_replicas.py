"""Zones in a group of nodes: the leader alone publishes, a replica that is promoted goes on, and readers at gateways
have exact lists, whoever leads.
"""

from __future__ import annotations

import re
import signal
from pathlib import Path

import httpx
import pytest

from tests.support.gateways import Nats, StartGateway, StartNats
from tests.support.live import StartService
from tests.support.patience import wait_until
from tests.system.group import Group
from tests.system.http.following import SseFollower
from tests.system.replicas import start_alone
from tests.system.zones import (
    BEATS,
    BOARD,
    CONFIG,
    Load,
    Reader,
    act,
    all_published,
    assert_no_errors,
    by_epoch,
    check_chains,
    right,
    zones,
)

SENT = re.compile(r'^rankcast_zone_messages_total\{board="delays"\} ([0-9.e+]+)$', re.MULTILINE)


@pytest.fixture
def nats(start_nats: StartNats) -> Nats:
    return start_nats()


def sent(url: str) -> int:
    """How many messages of zones a node has sent."""
    found = SENT.search(httpx.get(f"{url}/metrics", timeout=60).text)
    return int(float(found[1])) if found is not None else 0


@pytest.mark.timeout(900)
def test_a_replica_that_is_promoted_publishes_and_readers_have_exact_lists(
    start_service: StartService, start_gateway: StartGateway, nats: Nats, tmp_path: Path
) -> None:
    group = Group(start_service, tmp_path, 2, "--nats", nats.url, "--heartbeat-seconds", "1")
    group.lead()
    group.follow(1)
    gateways = [start_gateway(group.url(node), nats.url, env=BEATS) for node in (1, 0)]
    load = Load(group.url(1), 7)
    load.begin(24)
    readers = [
        Reader(load, [gateways[n % 2].url], f"s{n}", form, transport, n)
        for n, (form, transport) in enumerate(
            (form, transport) for form in ("changes", "tiles") for transport in ("sse", "ws") for _ in range(4)
        )
    ]
    act(load, readers)
    right(readers)
    all_published(load)
    assert zones(group.url(1)) == zones(group.url(0)), "a replica passes the question on"
    (first,) = by_epoch(nats)
    before = sent(group.url(0))
    assert before == len(by_epoch(nats)[first]) > 20, "no message was sent twice"
    assert sent(group.url(1)) == 0 and "NATS connected" not in group.log(1), "a replica publishes nothing"

    group.in_step(0, 1)
    group.kill(0)
    path = f"{BOARD}/subscriptions/s20/stream"
    assert SseFollower(gateways[0].url, path).status == 503, "there is no leader to begin a stream"
    at_replica = [reader for reader in readers if reader.places == [gateways[0].url]]
    assert all(reader.follower is not None and reader.follower.ended is None for reader in at_replica)
    assert group.promote(1).status_code == 200
    act(load, at_replica)
    right(at_replica)
    all_published(load)
    assert list(by_epoch(nats)) == [first, f"{first}t1"], "the new leader has subjects of its own"
    assert len(by_epoch(nats)[first]) == before

    # The old leader comes back as a replica, and publishes nothing more.
    group.lead(0)
    group.wait_for(0, role="replica", ready=True)
    act(load, readers)
    right(readers)
    all_published(load)
    assert zones(group.url(0)) == zones(group.url(1))
    assert sent(group.url(0)) == 0 and "NATS connected" not in group.log(0)
    found = by_epoch(nats)
    assert len(found[first]) == before and sent(group.url(1)) == len(found[f"{first}t1"]) > 20

    # The new leader is killed in the middle of its work, and leads on.
    act(load, readers, 4)
    group.kill(1)
    group.follow(1)
    assert group.about(1)["role"] == "leader"
    act(load, readers)
    right(readers)
    all_published(load)

    # The old leader takes over again, from one that hands over.
    assert group.promote(0).status_code == 200
    group.wait_for(1, role="replica", ready=True)
    act(load, readers)
    right(readers)
    all_published(load)
    assert sent(group.url(1)) == 0
    found = by_epoch(nats)
    assert list(found) == [first, f"{first}t1", f"{first}t2"]
    assert all(check_chains(messages) > 10 for messages in found.values())
    for reader in readers:
        reader.leave()
    kinds = [kind for reader in readers for kind in reader.kinds]
    assert kinds.count("change") > 20 and kinds.count("tiles") > 20 and kinds.count("reset") > 0
    assert_no_errors(gateways)


def test_readers_of_a_board_that_is_quiet_in_the_promotion_see_what_comes(
    start_service: StartService, start_gateway: StartGateway, nats: Nats, tmp_path: Path
) -> None:
    group = Group(start_service, tmp_path, 2, "--nats", nats.url)
    group.lead()
    group.follow(1)
    # It looks at the service's zones so seldom that it has to see at /readyz who leads.
    gateway = start_gateway(group.url(1), nats.url, env={"RANKCAST_HEARTBEAT_SECONDS": "600"})
    load = Load(group.url(1), 3)
    load.begin(4)
    readers = [Reader(load, [gateway.url], f"s{n}", "changes", ("sse", "ws")[n], n) for n in range(2)]
    right(readers)
    # The cut is the last that was written: nothing of its zones was ever published.
    assert zones(group.url(0))["base"] == load.seq
    group.in_step(0, 1)
    group.kill(0)
    assert group.promote(1).status_code == 200
    for _ in range(6):
        load.send("POST", f"{BOARD}/events", {"events": [load.event() for _ in range(8)], "messages": "none"})
    right(readers)
    for reader in readers:
        reader.leave()
    assert_no_errors([gateway])


def test_what_a_lost_leader_published_alone_is_in_no_list_after_the_promotion(
    start_service: StartService, start_gateway: StartGateway, nats: Nats, tmp_path: Path
) -> None:
    group = Group(start_service, tmp_path, 2, "--nats", nats.url)
    group.lead()
    group.follow(1)
    gateway = start_gateway(group.url(1), nats.url, env=BEATS)
    load = Load(group.url(0), 3)
    load.send("PUT", BOARD, CONFIG)
    load.send("PUT", f"{BOARD}/subscriptions/s", {"range": {"distance": [0, 100]}, "k": 2})
    load.send("PUT", f"{BOARD}/objects/kept", {"values": {"distance": 1, "delay": 1}})
    group.in_step(0, 1)
    reader = SseFollower(gateway.url, f"{BOARD}/subscriptions/s/stream")
    assert [entry["id"] for entry in reader.first().data["list"]] == ["kept"]
    group.kill(1)
    # More than the promoted replica may write by itself, which are its cuts of the zones.
    for n in range(8):
        values = {"distance": 2, "delay": 9 + n}
        lost = load.send("PUT", f"{BOARD}/objects/lost{n}", {"values": values})["seq"]
    reader.wait(lambda: reader.said[-1].data["seq"] == lost)
    group.kill(0)
    start_alone(group, 1)
    assert group.promote(1).status_code == 200
    load.http = httpx.Client(base_url=group.url(1), timeout=60)
    written = load.send("PUT", f"{BOARD}/objects/new", {"values": {"distance": 3, "delay": 5}})["seq"]
    assert written < lost, "the history goes another way"
    reader.wait_end()
    again = SseFollower(gateway.url, f"{BOARD}/subscriptions/s/stream", last=reader.said[-1].position)
    assert again.first().event == "reset"
    again.wait(lambda: again.said[-1].data["seq"] >= written)
    shown = again.said[-1].data
    ids = [entry["id"] for entry in shown["list"]] if "list" in shown else [entry["id"] for entry in shown["changes"]]
    assert "new" in ids and set(ids) <= {"new", "kept"}
    group.lead(0)
    group.wait_for(0, role="replica", ready=True)
    wait_until(lambda: zones(group.url(1))["published"] >= written, pause=0.05)
    found = by_epoch(nats)
    assert len(found) == 2 and all(check_chains(messages) for messages in found.values())
    again.leave()


def test_tickets_of_a_replica_open_streams_at_its_gateway(
    start_service: StartService, start_gateway: StartGateway, nats: Nats, tmp_path: Path
) -> None:
    group = Group(start_service, tmp_path, 2, "--nats", nats.url)
    group.lead()
    key = httpx.post(f"{group.url(0)}/v1/admin/keys", json={"name": "ops", "scopes": ["admin"]}).json()["key"]
    group.follow(1, "--key", key)
    gateway = start_gateway(group.url(1), nats.url, env=BEATS, key=key)
    ours = {"Authorization": f"Bearer {key}"}
    http = httpx.Client(base_url=gateway.url, headers=ours, timeout=60)
    http.put(BOARD, json=CONFIG).raise_for_status()
    for id in ("s1", "s2"):
        http.put(f"{BOARD}/subscriptions/{id}", json={"range": {"distance": [0, 9]}, "k": 2}).raise_for_status()
    made = http.post("/v1/admin/keys", json={"name": "reader", "scopes": ["boards/delays:read"]}).json()
    asked = {"resource": "boards/delays", "ids": ["s1"], "seconds": 600}
    theirs = {"Authorization": f"Bearer {made['key']}"}
    ticket = http.post("/v1/tickets", json=asked, headers=theirs).json()["ticket"]
    path = f"{BOARD}/subscriptions/s1/stream"
    assert SseFollower(gateway.url, path).status == 401
    assert SseFollower(gateway.url, path, ticket="rt_wrong").status == 401
    assert SseFollower(gateway.url, f"{BOARD}/subscriptions/s2/stream", ticket=ticket).status == 403
    reader = SseFollower(gateway.url, path, ticket=ticket)
    assert reader.first().event == "snapshot"
    http.put(f"{BOARD}/objects/o1", json={"values": {"distance": 1, "delay": 1}}).raise_for_status()
    reader.wait(lambda: reader.said[-1].event == "change")
    assert http.delete(f"/v1/admin/keys/{made['id']}").status_code == 200
    reader.wait_end()
    assert SseFollower(gateway.url, path, ticket=ticket).status == 401


def test_a_leader_that_was_stopped_and_replaced_publishes_nothing_for_the_new_one(
    start_service: StartService, start_gateway: StartGateway, nats: Nats, tmp_path: Path
) -> None:
    group = Group(start_service, tmp_path, 2, "--nats", nats.url)
    group.lead()
    group.follow(1)
    gateway = start_gateway(group.url(0), nats.url, env=BEATS)
    load = Load(group.url(0), 3)
    load.begin(8)
    readers = [Reader(load, [gateway.url], f"s{n}", "changes", ("sse", "ws")[n % 2], n) for n in range(4)]
    act(load, readers, 4)
    right(readers)
    all_published(load)
    group.in_step(0, 1)
    group.nodes[0].process.send_signal(signal.SIGSTOP)
    assert group.promote(1, force=True).status_code == 200
    load.http = httpx.Client(base_url=group.url(1), timeout=60)
    for _ in range(6):
        load.act([reader.id for reader in readers])
    group.nodes[0].process.send_signal(signal.SIGCONT)
    group.wait_for(0, role="replica", ready=True)
    act(load, readers)
    right(readers)
    wait_until(lambda: zones(group.url(1))["published"] >= load.seq, pause=0.05)
    assert sent(group.url(0)) == 0
    old, new = by_epoch(nats).values()
    assert check_chains(old) and check_chains(new) == sent(group.url(1))
    for reader in readers:
        reader.leave()
    assert_no_errors([gateway])
