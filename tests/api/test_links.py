"""Two services whose relays are linked, in one process.

What one of them takes reaches the other, or the link says why it does not.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.api import bodies
from app.api.problems import Problem
from app.api.relays.routes import links
from app.links.peer import Peers
from app.links.tree import LinkTree
from tests.support.patience import wait_until
from tests.support.running import Running
from tests.support.service_fixtures import Start

MARKET = "/v1/relays/market"


def speaks_to(service: Running, hosts: dict[str, Running]) -> None:
    """Links of a service lead to these, by host."""

    async def reply(request: httpx.Request) -> httpx.Response:
        def ask() -> httpx.Response:
            headers = {"Content-Type": request.headers["Content-Type"]}
            return hosts[request.url.host].client.post(request.url.path, content=request.content, headers=headers)

        answer = await asyncio.to_thread(ask)
        return httpx.Response(answer.status_code, content=answer.content)

    service.service.links.peers = Peers(httpx.MockTransport(reply))


def link_to(name: str, called: str) -> dict[str, Any]:
    return {"url": f"http://{name}.example", "relay": "market", "link": called}


class Pair:
    """The services near and far: whoever listens is at the far one, which takes payloads of 64 bytes."""

    def __init__(self, start: Start, folder: Path) -> None:
        self.near = start(data=folder / "near", service="near")
        self.far = start(data=folder / "far", service="far", max_payload=64)
        speaks_to(self.near, {"far.example": self.far})
        speaks_to(self.far, {"near.example": self.near})
        for one, name, called in ((self.near, "far", "near"), (self.far, "near", "far")):
            body = {"attributes": ["x"], "links": {name: link_to(name, called)}}
            assert one.client.put(MARKET, json=body).status_code == 201
        self.far.client.put(f"{MARKET}/subscriptions/all", json={})
        self.wait(lambda link: self.shown()["subscriptions"] == 1 and link["state"] == "up")

    def shown(self) -> Any:
        return self.near.client.get(MARKET).json()

    def link(self) -> Any:
        return self.shown()["links"]["far"]

    def wait(self, done: Callable[[Any], bool]) -> None:
        wait_until(lambda: done(self.link()))

    def notify(self, *payloads: Any) -> httpx.Response:
        events = [{"values": {"x": 1}, "payload": payload} for payload in payloads]
        return self.near.client.post(f"{MARKET}/notifications", json={"notifications": events})

    def arrived(self) -> int:
        """Notifications that the far side has had: its subscription took the first seq."""
        found: int = self.far.client.get(MARKET).json()["seq"]
        return found


@pytest.fixture
def pair(start: Start, tmp_path: Path) -> Pair:
    return Pair(start, tmp_path)


def metric(pair: Pair, name: str) -> float:
    lines = pair.near.client.get("/metrics").text.splitlines()
    (found,) = [line for line in lines if line.startswith(f'{name}{{link="market/far"}}')]
    return float(found.split()[-1])


def test_a_message_that_the_other_side_refuses_is_named_until_it_is_taken(pair: Pair) -> None:
    before, first = pair.arrived(), pair.link()["next"]
    assert metric(pair, "rankcast_link_refused") == 0
    assert pair.notify("one", "two", "x" * 98, "four").status_code == 200
    pair.wait(lambda link: "refused" in link)
    link = pair.link()
    assert link["refused"] == {"message": first + 2, "field": "payload"}
    said = f"the payload of message {first + 2}, 100 bytes of JSON: raise RANKCAST_MAX_PAYLOAD there"
    assert link["reason"] == f"the other side refuses {said}"
    assert (link["state"], link["queue"]) == ("down", 2), "what is before it has arrived, what is behind it waits"
    assert pair.arrived() == before + 2
    assert (metric(pair, "rankcast_link_refused"), metric(pair, "rankcast_link_up")) == (1, 0)
    seq = pair.shown()["seq"]
    assert pair.near.client.put(MARKET, json=pair.shown()).json()["seq"] == seq, "PUT takes back what GET shows"
    pair.far.service.settings = pair.far.service.settings.model_copy(update={"max_payload": 100})
    pair.wait(lambda link: link["state"] == "up" and link["queue"] == 0)
    assert pair.arrived() == before + 4
    assert not pair.link().keys() & {"refused", "reason"}
    assert metric(pair, "rankcast_link_refused") == 0


def test_a_payload_that_is_taken_here_is_taken_there_however_deep(pair: Pair) -> None:
    pair.far.service.settings = pair.far.service.settings.model_copy(update={"max_payload": 4096})
    before = pair.arrived()
    for depth in (128, 129, 190, 198):
        answer = pair.notify(json.loads("[" * depth + "]" * depth))
        assert answer.status_code == (200 if depth == 128 else 422), answer.text
        if depth > 128:
            assert answer.json()["errors"] == [
                {"field": "notifications[0].payload", "reason": "must be nested at most 128 levels deep"}
            ]
    pair.wait(lambda link: link["queue"] == 0)
    assert (pair.link()["state"], pair.arrived()) == ("up", before + 1)


@pytest.mark.parametrize(
    ("slug", "why"), [("malformed", ""), ("too-large", " for its size: raise RANKCAST_MAX_BODY there")]
)
def test_what_the_other_side_cannot_take_is_found_among_much_else(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, slug: str, why: str
) -> None:
    """It names no message: less and less is sent, until it is one."""
    validated = bodies.validated

    def unread(raw: bytes, *rest: Any) -> Any:
        if b'"bad"' in raw:  # an epoch of hexadecimal digits may have it without quotes
            raise Problem(slug)
        return validated(raw, *rest)

    before, first = pair.arrived(), pair.link()["next"]
    monkeypatch.setattr(links, "validated", unread)
    pair.notify(*range(11), "bad", *range(20))
    # Between two refusals a link that goes on has neither, and more than the one message may be refused before.
    refused = {"message": first + 11, "field": None}
    reason = f"the other side refuses message {first + 11}{why}"
    pair.wait(lambda link: (link.get("refused"), link.get("reason")) == (refused, reason))
    assert pair.arrived() == before + 11
    monkeypatch.setattr(links, "validated", validated)
    pair.wait(lambda link: link["queue"] == 0)
    assert pair.arrived() == before + 32


def test_after_a_message_that_was_too_large_there_is_as_much_in_a_request_as_before(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    receive = LinkTree.received

    async def received(self: LinkTree, relay: str, link: str, behind: Any, messages: Any) -> None:
        sizes.extend([len(messages)] if messages else [])
        if messages and len(sizes) <= 3:
            raise Problem("too-large")
        await receive(self, relay, link, behind, messages)

    monkeypatch.setattr(LinkTree, "received", received)
    monkeypatch.setattr("app.links.sender.TAKEN", 2)
    before = pair.arrived()
    pair.notify(*range(40))
    pair.wait(lambda link: link["queue"] == 0)
    assert pair.arrived() == before + 40
    assert sizes[0] > sizes[1] > sizes[2] > sizes[3] == min(sizes) < max(sizes[3:]), sizes


def test_a_relay_that_was_deleted_and_made_again_hears_at_once_what_it_was_told_before(pair: Pair) -> None:
    for one in (pair.near, pair.far):
        one.service.links.quiet_seconds = 3600.0
    assert pair.near.client.put(f"{MARKET}/subscriptions/here", json={}).status_code == 201
    stands = pair.far.client.get(MARKET).json()
    wait_until(lambda: pair.far.client.get(MARKET).json()["subscriptions"] == 2)
    assert pair.far.client.delete(MARKET).status_code == 200
    assert pair.far.client.put(MARKET, json={key: stands[key] for key in ("attributes", "links")}).status_code == 201
    wait_until(lambda: pair.far.client.get(MARKET).json()["subscriptions"] == 1)
    wait_until(lambda: pair.shown()["subscriptions"] == 1)
    assert pair.link()["state"] == "up"
