"""Zones on NATS: what is published is whole and in order, whatever is killed meanwhile, and readers at two gateways
and at the service have exact lists.

More kills than a handful: RANKCAST_ZONE_KILLS.
"""

from __future__ import annotations

import json
import os
import signal
import socket
from collections.abc import Callable

import httpx
import pytest
from websockets.sync.client import connect

from tests.support.gateways import Nats, StartGateway, StartNats, zoned_pair
from tests.support.live import StartService
from tests.support.patience import PATIENCE, wait_until
from tests.system.http.following import SseFollower, WsFollower
from tests.system.http.talk import Json
from tests.system.zones import (
    BOARD,
    CONFIG,
    Load,
    Reader,
    apply,
    assert_no_errors,
    check_chains,
    explained,
    published,
    rank,
)

KILLS = int(os.environ.get("RANKCAST_ZONE_KILLS", "6"))


@pytest.fixture
def nats(start_nats: StartNats) -> Nats:
    return start_nats()


def test_what_is_published_is_whole_whatever_is_killed(start_service: StartService, nats: Nats) -> None:
    env = {"RANKCAST_NATS": nats.url}
    service = start_service(env=env)
    load = Load(service.url, 5)
    load.begin(40)
    subscriptions = {one["id"]: one for one in load.send("GET", f"{BOARD}/subscriptions?limit=1000")["items"]}
    for round_number in range(4):
        for _ in range(25):
            load.act([])
        if round_number % 2:
            nats.kill()
            for _ in range(10):
                load.act([])
            nats.start()
        else:
            service.stop(signal.SIGKILL)
            service = start_service(service.data, env=env, port=int(service.url.rpartition(":")[2]))
    for _ in range(10):
        load.act([])

    def all_there() -> bool:
        zones = load.send("GET", f"{BOARD}/zones")
        return bool(zones["published"] >= load.seq)

    wait_until(all_there, pause=0.05)
    found = published(nats)
    assert check_chains(found) > 200
    # Whoever applies the messages of its zones in order has the list of the service.
    everything = sorted((message for _, message in found), key=lambda message: int(message["seq"]))
    for id, subscription in list(subscriptions.items())[:15]:
        kept: dict[str, Json] = {}
        l, r = subscription["range"]["distance"]
        for message in everything:
            seen: set[str] = set()
            for tile in message["tiles"]:
                if tile["k"] == subscription["k"] and reaches(tile, l, r) and str(tile) not in seen:
                    seen.add(str(tile))
                    apply(kept, tile, subscription["k"])
        _, wanted = load.list_of(id)
        have = sorted(kept.values(), key=rank)
        assert [(one["id"], one["values"]) for one in have] == [(one["id"], one["values"]) for one in wanted], id
    service.stop()


def reaches(tile: Json, l: float, r: float) -> bool:
    west = tile["l_outer"] is None or tile["l_outer"] < l
    east = tile["r_outer"] is None or r < tile["r_outer"]
    return west and east and tile["l_inner"] is not None and l <= tile["l_inner"] and tile["r_inner"] <= r


def test_zones_are_balanced_by_themselves_and_cut_by_hand(start_service: StartService, nats: Nats) -> None:
    service = start_service(env={"RANKCAST_NATS": nats.url})
    load = Load(service.url, 1)
    load.send("PUT", BOARD, {**CONFIG, "zones": 8})
    first = load.send("GET", f"{BOARD}/zones")
    assert [zone["subscriptions"] for zone in first["zones"]] == [0]
    wanted = [load.subscription(f"s{n}") for n in range(400)]
    load.send("POST", f"{BOARD}/subscriptions", {"subscriptions": wanted, "lists": False})
    wait_until(lambda: load.send("GET", f"{BOARD}/zones")["version"] > first["version"], pause=0.2)
    balanced = load.send("GET", f"{BOARD}/zones")
    assert len(balanced["zones"]) == 8 and sum(zone["subscriptions"] for zone in balanced["zones"]) == 400
    assert max(zone["subscriptions"] for zone in balanced["zones"]) < 100
    again = load.send("POST", f"{BOARD}/zones", {})
    assert again["version"] == balanced["version"] + 1 and again["seq"] == balanced["seq"] + 1
    load.send("PATCH", BOARD, {"zones": None})
    assert load.http.get(f"{BOARD}/zones").status_code == 404
    load.send("PATCH", BOARD, {"zones": 2})
    assert load.send("GET", f"{BOARD}/zones")["version"] > again["version"] + 1
    service.stop()


def test_zones_need_nats_and_one_range_attribute(start_service: StartService, nats: Nats) -> None:
    without = start_service()
    answer = httpx.put(f"{without.url}{BOARD}", json=CONFIG)
    assert answer.status_code == 422 and answer.json()["errors"][0]["field"] == "zones"
    service = start_service(env={"RANKCAST_NATS": nats.url})
    two = {**CONFIG, "range_attributes": ["a", "b"]}
    assert httpx.put(f"{service.url}{BOARD}", json=two).json()["errors"][0]["field"] == "zones"
    assert httpx.put(f"{service.url}{BOARD}", json={**CONFIG, "zones": 0}).status_code == 422


@pytest.mark.timeout(max(900, 90 * KILLS))
def test_lists_are_exact_while_gateways_nats_and_the_service_are_killed(
    start_service: StartService, start_gateway: StartGateway, nats: Nats
) -> None:
    env = {"RANKCAST_NATS": nats.url, "RANKCAST_HEARTBEAT_SECONDS": "1", "RANKCAST_SNAPSHOT_ROWS": "40"}
    service = start_service(env=env)
    gateways = [start_gateway(service.url, nats.url, env=env) for _ in range(2)]
    load = Load(service.url, 11)
    load.begin(30)
    places = [gateways[0].url, gateways[1].url, service.url]
    readers = [
        Reader(load, places, f"s{n}", form, transport, n)
        for n, (form, transport) in enumerate(
            (form, transport) for form in ("changes", "tiles") for transport in ("sse", "ws") for _ in range(5)
        )
    ]
    moving = [reader.id for reader in readers if reader.form == "changes"]

    def restart_service() -> None:
        nonlocal service
        service.stop(signal.SIGKILL)
        service = start_service(service.data, env=env, port=int(service.url.rpartition(":")[2]))

    def restart_nats() -> None:
        nats.kill()
        for _ in range(3):
            load.act(moving)
        nats.start()

    def restart_gateway(n: int) -> None:
        gateway = gateways[n]
        gateway.process.kill()
        gateway.process.wait()
        port = int(gateway.url.rpartition(":")[2])
        gateways[n] = start_gateway(service.url, nats.url, port=port, env=env)

    kills: list[Callable[[], None]] = [
        lambda: restart_gateway(0),
        restart_nats,
        restart_service,
        lambda: restart_gateway(1),
    ]
    for kill in range(KILLS):
        for _ in range(8):
            load.act(moving)
            for reader in readers:
                reader.take()
        kills[kill % len(kills)]()
        for _ in range(8):
            load.act(moving)
            for reader in readers:
                reader.take()
        for reader in readers:
            wait_until(reader.right, seconds=60, pause=0.05, why=lambda reader=reader: explained(reader))  # type: ignore[misc]
        print(f"{kill + 1} of {KILLS} kills: all lists are right", flush=True)
    for reader in readers:
        reader.leave()
    kinds = [kind for reader in readers for kind in reader.kinds]
    assert kinds.count("change") > 20 and kinds.count("tiles") > 20
    assert_no_errors(gateways)


def make_key(url: str, name: str, scopes: list[str], key: str = "") -> tuple[str, str]:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    answer = httpx.post(f"{url}/v1/admin/keys", json={"name": name, "scopes": scopes}, headers=headers)
    assert answer.status_code == 200, answer.text
    return str(answer.json()["id"]), str(answer.json()["key"])


def test_rights_at_a_gateway_are_those_of_the_service(
    start_service: StartService, start_gateway: StartGateway, nats: Nats
) -> None:
    service = start_service(env={"RANKCAST_NATS": nats.url})
    gateway = start_gateway(service.url, nats.url)
    load = Load(service.url, 3)
    load.begin(4)
    _, admin = make_key(gateway.url, "ops", ["admin"])
    read_id, read = make_key(gateway.url, "reader", ["boards/delays:read"], admin)
    _, other = make_key(gateway.url, "other", ["boards/other:read"], admin)
    path = f"{BOARD}/subscriptions/s1/stream"
    assert SseFollower(gateway.url, path).status == 401
    assert SseFollower(gateway.url, path, key=other).status == 403
    assert SseFollower(gateway.url, f"{BOARD}/subscriptions/nobody/stream", key=read).status == 404
    asked = {"resource": "boards/delays", "ids": ["s1"], "seconds": 60}
    headers = {"Authorization": f"Bearer {read}"}
    ticket = httpx.post(f"{gateway.url}/v1/tickets", json=asked, headers=headers).json()["ticket"]
    by_key = SseFollower(gateway.url, path, key=read)
    by_ticket = SseFollower(gateway.url, path, ticket=ticket)
    socket = WsFollower(gateway.url, key=read)
    on_socket = socket.subscribe("delays", "s2")
    for follower in (by_key, by_ticket, on_socket):
        assert follower.first().event == "snapshot"
    with connect(gateway.url.replace("http", "ws", 1) + "/v1/stream") as asking:
        asking.send(json.dumps({"op": "auth", "key": "rk_wrong"}))
        assert json.loads(asking.recv(PATIENCE))["problem"]["status"] == 401
        asking.send(json.dumps({"op": "auth", "key": read}))
        assert json.loads(asking.recv(PATIENCE)) == {"event": "authenticated"}
        asking.send(json.dumps({"op": "request", "ref": 1, "method": "GET", "path": f"{BOARD}/subscriptions/s2"}))
        assert json.loads(asking.recv(PATIENCE))["body"]["id"] == "s2"
    socket.subscribe("other", "s2")
    assert socket.answer("error")["problem"]["status"] in (403, 404)
    unknown = httpx.get(f"{gateway.url}{BOARD}", headers={"Authorization": "Bearer rk_wrong"})
    assert unknown.status_code == 401
    deleted = httpx.delete(f"{gateway.url}/v1/admin/keys/{read_id}", headers={"Authorization": f"Bearer {admin}"})
    assert deleted.status_code == 200
    for follower in (by_key, by_ticket, on_socket):
        follower.wait_end()
    service.stop()
    assert httpx.get(f"{gateway.url}/readyz").status_code == 503


def test_a_gateway_loads_no_kernels() -> None:
    import subprocess
    import sys

    code = "import app.gateway.serving, sys; print(sorted({'numba', 'pyarrow', 'llvmlite'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_other_resources_are_streamed_through_a_gateway(
    start_service: StartService, start_gateway: StartGateway, nats: Nats
) -> None:
    service = start_service(env={"RANKCAST_NATS": nats.url})
    gateway = start_gateway(service.url, nats.url)
    http = httpx.Client(base_url=gateway.url, timeout=PATIENCE)
    ads = "/v1/matchers/ads"
    assert http.put(ads, json={"dimensions": ["age"], "mode": "exact"}).status_code == 201
    wanted = {"intervals": {"age": [20, 30]}, "score": 1}
    assert http.put(f"{ads}/subscriptions/a", json=wanted).status_code == 201
    sse = SseFollower(gateway.url, f"{ads}/subscriptions/a/stream")
    socket = WsFollower(gateway.url)
    stream = socket.follow("matchers/ads", "a")
    assert sse.first().event == stream.first().event == "ready"
    match = {"events": [{"values": {"age": 25}}], "notify": True}
    assert http.post(f"{ads}/match", json=match).status_code == 200
    for follower in (sse, stream):
        follower.wait(lambda follower=follower: follower.said[-1].event == "win")
    assert http.delete(f"{ads}/subscriptions/a").status_code == 200
    stream.wait(lambda: stream.said[-1].event == "gone")
    assert sse.wait_end() == "clean"
    socket.leave()
    service.stop()


def test_a_gateway_waits_for_no_client_for_ever(
    start_service: StartService, start_nats: StartNats, start_gateway: StartGateway
) -> None:
    """The limits of connections are those of the service."""
    limits = {"RANKCAST_HEAD_SECONDS": "1", "RANKCAST_BODY_SECONDS": "1", "RANKCAST_BODY_RATE": "1000000"}
    gateway = zoned_pair(start_service, start_nats, start_gateway, limits)
    head = b"POST /v1/boards/none/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    for begun, status in (
        (head, b"408"),
        (head + b"Content-Length: 1000\r\n\r\n{", b"408"),
        (b"GET /" + b"a" * 200_000, b"400"),
        (b"GET /v1/stream HTTP/1.1\r\n" + b"a: b\r\n" * 40_000, b"400"),
    ):
        with socket.create_connection(("127.0.0.1", int(gateway.url.rsplit(":", 1)[1])), timeout=PATIENCE) as client:
            said = b""
            try:
                client.sendall(begun)
                while piece := client.recv(65_536):
                    said += piece
            except ConnectionResetError:
                # More was sent than is read.
                assert len(begun) > 100_000
            assert said[:12] in (b"HTTP/1.1 " + status, b"" if len(begun) > 100_000 else b"-")
    assert httpx.get(f"{gateway.url}/healthz").status_code == 200
