"""Rebuilds of relays over HTTP: the least is forwarded from then on, what that changed is told, and links are told."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest

from app.links.peer import Peers
from tests.oracles.relay_http import RelayModel, least
from tests.support.patience import wait_until
from tests.support.running import Running
from tests.support.service_fixtures import MakeClient, Start

MARKET, NAMES = "/v1/relays/market", ["price", "volume"]
NORTH = {"url": "http://127.0.0.1:9", "relay": "market", "link": "south"}
NESTED = {"inner": [4, 5], "other": [20, 30], "middle": [3, 6], "outer": [0, 9]}
"""Each one but the second covers those before it; all are forwarded when they come in this order."""


def make(running: Running, boxes: dict[str, list[int]], **config: Any) -> None:
    assert running.client.put(MARKET, json={"attributes": NAMES, **config}).status_code in (200, 201)
    subscribe(running, boxes)


def subscribe(running: Running, boxes: dict[str, list[int]], link: str | None = None) -> None:
    made = [{"id": id, "box": {"price": ends}, "link": link} for id, ends in boxes.items()]
    answer = running.client.post(f"{MARKET}/subscriptions", json={"subscriptions": made})
    assert answer.status_code == 201, answer.text


def shown(running: Running) -> Any:
    return running.client.get(MARKET).json()


@pytest.mark.parametrize("graph", [{"kind": "G"}, {"kind": "G", "k": 2}, {"kind": "G*"}, {"kind": "poset"}], ids=str)
def test_the_detail_names_what_is_forwarded_no_more(start: Start, graph: dict[str, Any]) -> None:
    running = start()
    make(running, NESTED, graph=graph)
    before = shown(running)
    assert (before["seq"], before["forwarded"]) == (4, 4)
    detail = running.done("rebuilds")
    assert detail["rederived"] == {
        "relays/market": {
            "seq": 5,
            "subscribe": [],
            "subscribe_count": 0,
            "unsubscribe": ["inner", "middle"],
            "unsubscribe_count": 2,
        }
    }
    after = shown(running)
    assert (after["seq"], after["forwarded"], after["covering_ratio"]) == (5, 2, 0.5)
    ended = running.client.delete(f"{MARKET}/subscriptions/outer").json()
    assert ended == {"seq": 6, "forward_unsubscribe": True, "forward_subscribe": ["middle"]}
    assert running.client.delete(f"{MARKET}/subscriptions/inner").json()["forward_unsubscribe"] is False
    assert running.done("verify")["differences"] == []


def test_a_random_history_forwards_the_least_after_a_rebuild(start: Start) -> None:
    running, draw, model = start(), Random(3), RelayModel(NAMES)
    make(running, {})
    for step in range(4):
        made = []
        for i in range(30):
            box: Any = {name: sorted(draw.choices(range(12), k=2)) for name in NAMES}
            made.append({"id": f"s{step}-{i}", "box": box})
            model.subscribe(made[-1]["id"], box)
        running.client.post(f"{MARKET}/subscriptions", json={"subscriptions": made})
        gone = draw.sample(list(model.boxes), 8)
        running.client.post(f"{MARKET}/subscriptions/delete", json={"ids": gone})
        for id in gone:
            model.unsubscribe(id)
        (router,), before = model.routers.values(), shown(running)["forwarded"]
        assert before == len(router.forwarded)
        wanted = least(model.boxes)
        found = running.done("rebuilds", resources=["relays/market"])["rederived"]["relays/market"]
        assert found["subscribe"] == []
        assert found["unsubscribe"] == [id for id in model.boxes if id in router.forwarded - wanted]
        assert found["unsubscribe_count"] == before - shown(running)["forwarded"] == before - len(wanted)
        router.forwarded = set(wanted)
        model.seq += 1
        assert shown(running)["seq"] == model.seq


def test_with_links_it_is_told_by_link_and_waits_for_each(start: Start) -> None:
    running = start()
    make(running, {}, links={"north": NORTH, "west": {**NORTH, "relay": "other"}})
    subscribe(running, NESTED)
    subscribe(running, {"theirs": [0, 9]}, "west")
    subscribe(running, {"all": [-1, 9]}, "north")
    assert shown(running)["forwarded"] == {"north": 4, "west": 5}
    found = running.done("rebuilds")["rederived"]["relays/market"]
    assert found["seq"] == shown(running)["seq"]
    assert found["links"] == {
        "north": {"subscribe": [], "subscribe_count": 0, "unsubscribe": ["inner", "middle"], "unsubscribe_count": 2},
        "west": {
            "subscribe": [],
            "subscribe_count": 0,
            "unsubscribe": ["inner", "middle", "outer"],
            "unsubscribe_count": 3,
        },
    }
    assert shown(running)["forwarded"] == {"north": 2, "west": 2}


def test_the_detail_lists_the_first_and_counts_all(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.resources.relays.LISTED", 3)
    monkeypatch.setattr("app.resources.relays.SHOWN", 1)
    running = start()
    make(running, {f"s{i}": [-i, i] for i in range(9)})
    found = running.done("rebuilds")["rederived"]["relays/market"]
    assert (found["unsubscribe"], found["unsubscribe_count"]) == (["s0", "s1", "s2"], 8)
    make(running, {f"t{i}": [-10 - i, i] for i in range(9)}, links={"north": NORTH})
    found = running.done("rebuilds")["rederived"]["relays/market"]["links"]["north"]
    assert found["unsubscribe_count"] > 1 == len(found["unsubscribe"])


def test_boards_alone_decide_nothing(start: Start) -> None:
    running = start()
    running.make("a")
    assert "rederived" not in running.done("rebuilds")


def test_it_is_the_same_after_a_restart(start: Start, make_client: MakeClient) -> None:
    running = start()
    make(running, NESTED)
    running.done("rebuilds")
    subscribe(running, {"late": [-1, 40]})
    before, listed = shown(running), running.client.get(f"{MARKET}/subscriptions").json()
    running.client.__exit__(None, None, None)
    again = make_client()
    assert again.get(MARKET).json() == before
    assert again.get(f"{MARKET}/subscriptions").json() == listed
    ended = again.delete(f"{MARKET}/subscriptions/outer").json()
    assert (ended["forward_unsubscribe"], ended["forward_subscribe"]) == (True, [])
    assert again.delete(f"{MARKET}/subscriptions/middle").json()["forward_unsubscribe"] is False


def test_worn_relays_are_laid_out_anew_and_forward_what_they_did(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.service.CHECK_CHURN_EVERY", 0.001)
    monkeypatch.setattr("app.service.WORTH_REBUILDING", 4)
    running = start(rebuild_share=0.5)
    make(running, NESTED)

    async def first_job() -> Any:
        while not list(running.service.jobs):
            await asyncio.sleep(0.001)
        job = next(iter(running.service.jobs))
        await job.wait()
        return job

    job = running.call(first_job)
    assert (job.kind, job.state) == ("rebuild", "succeeded"), job.detail
    assert "rederived" not in job.detail
    assert (shown(running)["seq"], shown(running)["forwarded"]) == (4, 4)


def test_a_neighbour_forgets_what_it_need_not_know_and_misses_nothing(start: Start, tmp_path: Path) -> None:
    """Two services, whose requests to each other are carried in this process."""
    sides: dict[str, Running] = {}

    async def carry(request: httpx.Request) -> httpx.Response:
        side, body = sides[request.url.host], await request.aread()
        headers = {"Content-Type": request.headers["Content-Type"]}
        found = await asyncio.to_thread(side.client.post, request.url.path, content=body, headers=headers)
        return httpx.Response(found.status_code, content=found.content)

    for name in ("north", "south"):
        side = sides[name] = start(data=tmp_path / name, service=name)
        side.service.links.peers = Peers(httpx.MockTransport(carry))
        make(side, {})
    for name, other in (("north", "south"), ("south", "north")):
        link = {other: {"url": f"http://{other}", "relay": "market", "link": name}}
        assert sides[name].client.patch(MARKET, json={"links": link}).status_code == 200
    north, south = sides["north"], sides["south"]

    def known() -> list[str]:
        return [one["id"] for one in south.client.get(f"{MARKET}/subscriptions").json()["items"]]

    for id, ends in NESTED.items():
        subscribe(north, {id: ends})
    wait_until(lambda: known() == sorted(f"north:market:{id}" for id in NESTED))
    found = north.done("rebuilds")["rederived"]["relays/market"]["links"]["south"]
    assert found["unsubscribe"] == ["inner", "middle"]
    wait_until(lambda: known() == ["north:market:other", "north:market:outer"])
    for step, price in enumerate((4, 25, 1, 12)):
        seq = shown(north)["seq"]
        event = {"values": {"price": price, "volume": step}}
        told = south.client.post(f"{MARKET}/notifications", json={"notifications": [event]}).json()["results"]
        assert told == [{"subscriptions": [], "links": ["north"] if price != 12 else []}]
        if price != 12:
            wait_until(lambda seq=seq: shown(north)["seq"] > seq)
    for side in sides.values():
        assert side.done("verify")["differences"] == []
