"""The blocking client is the asynchronous one without an event loop: the same methods, and the same streams."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import rankcast_client
from rankcast_client import Change, Rankcast, Retry, Snapshot, sync
from tests.unit.client.service import QUICK, answer, block, changed, listed
from tools.blocking_client import ASYNCHRONOUS

BLOCKING = ("Rankcast", "Board", "Matcher", "Relay", "Map", "Feed", "Jobs", "Moving", "Webhooks")
STREAMS = ("Watch", "Wins", "Notifications", "Results", "FeedWatch")


def methods(of: type) -> dict[str, list[str]]:
    """The public methods with the names of their parameters."""
    found = {name: member for name, member in inspect.getmembers(of) if not name.startswith("_")}
    return {
        name.removeprefix("a") if name == "aclose" else name: list(inspect.signature(member).parameters)
        for name, member in found.items()
        if callable(member)
    }


@pytest.mark.parametrize("name", BLOCKING)
def test_both_clients_have_the_same_methods(name: str) -> None:
    asynchronous = methods(getattr(rankcast_client, f"Async{name}"))
    for only in ASYNCHRONOUS.get(f"Async{name}", ()):
        del asynchronous[only]
    assert methods(getattr(rankcast_client, name)) == asynchronous


@pytest.mark.parametrize("name", STREAMS)
def test_both_clients_have_the_same_streams(name: str) -> None:
    assert methods(getattr(sync, name)) == methods(getattr(rankcast_client, name))


@pytest.mark.parametrize("name", BLOCKING)
def test_the_documentation_names_every_method(name: str) -> None:
    text = Path("docs/client.md").read_text()
    table = re.search(rf"^\| `{name}[`(].*?(?=^$)", text + "\n", re.MULTILINE | re.DOTALL)
    assert table is not None
    documented = set(re.findall(r"^\| `(\w+)` \|", table[0], re.MULTILINE))
    properties = {"jobs", "webhooks"} if name == "Rankcast" else set()
    asynchronous = ASYNCHRONOUS.get(f"Async{name}", set())
    assert documented == methods(getattr(rankcast_client, name)).keys() | properties | asynchronous


class Body(httpx.SyncByteStream):
    def __init__(self, *blocks: bytes) -> None:
        self.blocks = blocks

    def __iter__(self) -> Iterator[bytes]:
        yield from self.blocks
        raise httpx.ReadError("connection reset")


def test_a_list_is_followed_over_a_lost_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rankcast_client._sync._base.RECONNECT", Retry(attempts=0, first=0.001, most=0.002))
    first = block("snapshot", {"seq": 4, "list": listed(("a", 50), ("b", 40))}, 4)
    entered = block("change", {"seq": 6, "changes": [changed("c", None, 1, 60), changed("b", 2, None)]}, 6)
    bodies = [(first,), (entered,), (block("gone", {"seq": 9}, 9),)]
    requests: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return httpx.Response(200, stream=Body(*bodies[len(requests) - 1]))

    with Rankcast("http://rankcast.test", retry=QUICK, transport=httpx.MockTransport(reply)) as client:
        watch = client.board("delays").watch("mine")
        seen: list[tuple[type, list[str]]] = [(type(event), [entry.id for entry in watch.list]) for event in watch]
        assert seen == [(Snapshot, ["a", "b"]), (Change, ["c", "a"])]
        assert watch.gone and watch.reconnects == 2
    assert [request.headers.get("Last-Event-ID") for request in requests] == [None, "e:4", "e:6"]


def test_closing_the_client_closes_streams_that_were_left() -> None:
    first = block("snapshot", {"seq": 4, "list": listed(("a", 50))}, 4)
    replies: dict[str, Any] = {"/v1/boards/delays/subscriptions/mine/stream": httpx.Response(200, stream=Body(first))}
    transport = httpx.MockTransport(lambda request: replies.get(request.url.path) or answer({}))
    with Rankcast("http://rankcast.test", retry=QUICK, transport=transport) as client:
        watch = client.board("delays").watch("mine")
        next(watch)
        assert watch.connected
    assert not watch.connected
    with pytest.raises(StopIteration):
        next(watch)
