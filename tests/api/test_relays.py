import asyncio
import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa
import pytest

from app.api.relays.routes import links as relay_links
from app.api.relays.routes import notifications
from app.links.peer import Peers, Unanswered
from app.main import create_app
from app.rendering.recipients import pieces
from app.resources.relays import RelayType
from app.settings import Settings
from indexes.relays import engine
from indexes.relays.commands import Notify, Receive
from indexes.relays.config import Link
from indexes.relays.inbox import Inbox
from tests.support.app_client import AppClient
from tests.support.patience import PATIENCE
from tests.support.service_fixtures import URL, MakeClient, Start
from tests.system.http.talk import ARROW, NDJSON, arrow, ndjson

MARKET = "/v1/relays/market"
CONFIG = {"attributes": ["price", "volume"]}
NORTH = {"url": "http://127.0.0.1:9/rankcast", "relay": "market", "link": "south", "key": "secret-key"}


def fields(answer: httpx.Response) -> list[str]:
    return [error["field"] for error in answer.json()["errors"]]


def lines(answer: httpx.Response) -> list[Any]:
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == NDJSON
    return [json.loads(line) for line in answer.content.splitlines()]


@pytest.fixture
def market(client: AppClient) -> AppClient:
    """A service with a relay of three subscriptions, of which one covers another; its seq is 3."""
    assert client.put(MARKET, json=CONFIG).status_code == 201
    boxes = [
        {"id": "s1", "box": {"price": [0, 50]}},
        {"id": "s2", "box": {"price": [10, 20], "volume": [0, None]}},
        {"id": "s3", "box": {"volume": [5, 9]}},
    ]
    assert client.post(f"{MARKET}/subscriptions", json={"subscriptions": boxes}).json()["seq"] == 3
    return client


def talk(client: AppClient, said: list[Any], headers: Any = None, **params: str) -> httpx.Response:
    headers = {"Content-Type": NDJSON, **(headers or {})}
    return client.post(f"{MARKET}/commands", content=ndjson(said), headers=headers, params=params)


# --- relays -----------------------------------------------------------------------------------------------------------


def test_a_relay_is_made_shown_listed_and_put_again(client: AppClient) -> None:
    made = client.put(MARKET, json=CONFIG)
    shown = made.json()
    assert made.status_code == 201
    assert shown["graph"] == {"kind": "G", "k": 1}
    wanted = {"seq": 0, "name": "market", "index": "kd", "subscriptions": 0, "forwarded": 0, "links": {}}
    assert {key: shown[key] for key in wanted} == wanted
    again = client.put(MARKET, json=client.get(MARKET).json())
    assert (again.status_code, again.json()["seq"]) == (200, 0)
    poset = client.put("/v1/relays/other", json={**CONFIG, "graph": {"kind": "poset"}, "index": "zorder"}).json()
    assert poset["graph"] == {"kind": "poset"}
    assert [item["name"] for item in client.get("/v1/relays").json()["items"]] == ["market", "other"]
    for change, field in (
        ({"attributes": ["volume", "price"]}, "attributes"),
        ({"graph": {"kind": "G*"}}, "graph.kind"),
        ({"graph": {"k": 2}}, "graph.k"),
        ({"index": "linear"}, "index"),
    ):
        refused = client.put(MARKET, json={**CONFIG, **change})
        assert (refused.status_code, refused.json()["type"]) == (409, "/problems/different")
        assert field in fields(refused)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"attributes": []}, "attributes"),
        ({"attributes": [f"a{i}" for i in range(17)]}, "attributes"),
        ({"attributes": ["price", "price"]}, "attributes[1]"),
        ({"attributes": ["price", "payload"]}, "attributes[1]"),
        ({"attributes": ["a b"]}, "attributes[0]"),
        ({"graph": {"kind": "H"}}, "graph.kind"),
        ({"graph": {"kind": "G", "k": 0}}, "graph.k"),
        ({"graph": {"kind": "poset", "k": 1}}, "graph.k"),
        ({"index": "b-tree"}, "index"),
        ({"more": 1}, "more"),
        ({"links": {"n": {"url": "file:///etc/passwd", "relay": "r", "link": "l"}}}, "links.n.url"),
        ({"links": {"n": {"url": "http://me:secret@there", "relay": "r", "link": "l"}}}, "links.n.url"),
        ({"links": {"n": {"url": "http://there/?x=1", "relay": "r", "link": "l"}}}, "links.n.url"),
        ({"links": {"n": {"url": "http://", "relay": "r", "link": "l"}}}, "links.n.url"),
        ({"links": {"n": {"url": "http://there", "relay": "r"}}}, "links.n.link"),
        ({"links": {"n": {"url": "http://there", "relay": "a/b", "link": "l"}}}, "links.n.relay"),
        ({"links": {"n": {"url": "http://there", "relay": "r", "link": "l", "key": "two words"}}}, "links.n.key"),
    ],
)
def test_a_bad_configuration_is_named(client: AppClient, change: dict[str, Any], field: str) -> None:
    refused = client.put(MARKET, json={**CONFIG, **change})
    assert (refused.status_code, fields(refused)) == (422, [field])
    assert "secret" not in refused.text
    assert client.get(MARKET).status_code == 404


def test_a_key_goes_to_no_other_place(market: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Link] = []

    async def probe(_: Peers, link: Link, *__: Any) -> Any:
        asked.append(link)
        raise Unanswered("nobody is there")

    monkeypatch.setattr(Peers, "probe", probe)

    def sent(link: dict[str, Any], whole: bool = False) -> str | None:
        links = {"links": {"north": link}}
        answer = market.put(MARKET, json={**CONFIG, **links}) if whole else market.patch(MARKET, json=links)
        assert answer.status_code == 200 and asked[-1].url == link["url"], answer.text
        return asked[-1].key

    there = {field: NORTH[field] for field in ("url", "relay", "link")}
    elsewhere = {**there, "url": "http://127.0.0.1:10/rankcast"}
    assert sent(NORTH) == "secret-key"
    assert sent({**there, "url": "http://127.0.0.1:9/other"}) == "secret-key"
    assert sent(elsewhere) is None
    assert sent(there) is None
    assert sent({**elsewhere, "key": "another"}) == "another"
    assert sent(there) is None
    bad = market.patch(MARKET, json={"links": {"north": {"url": "http://[::1"}}})
    assert (bad.status_code, fields(bad)) == (422, ["links.north.url"])
    # A PUT, which says all of a link, keeps the key of one that stands; the probe goes without it.
    sent(elsewhere)
    assert sent(NORTH) == "secret-key"
    market.put(MARKET, json={**CONFIG, "links": {"north": there}})
    assert sent({**there, "url": "http://127.0.0.1:9/other"}) == "secret-key"
    market.put(MARKET, json={**CONFIG, "links": {"north": elsewhere}})
    assert sent({**elsewhere, "url": "http://127.0.0.1:10/other"}) is None


def test_a_relay_made_again_goes_on_with_its_seq(market: AppClient) -> None:
    assert market.delete(MARKET).json() == {"seq": 4}
    for answer in (market.get(MARKET), market.delete(MARKET), talk(market, [])):
        assert (answer.status_code, fields(answer)) == (404, ["relay"])
    assert market.put(MARKET, json=CONFIG).json()["seq"] == 5


# --- links ------------------------------------------------------------------------------------------------------------


def test_links_are_added_changed_and_taken_out_and_their_keys_never_shown(market: AppClient) -> None:
    shown = market.patch(MARKET, json={"links": {"north": NORTH}}).json()
    north = shown["links"]["north"]
    assert {field: north[field] for field in ("url", "relay", "link", "state", "queue", "next")} == {
        **{field: NORTH[field] for field in ("url", "relay", "link")},
        "state": "down",
        "queue": 0,
        "next": 0,
    }
    assert shown["forwarded"] == {"north": 2} and shown["covering_ratio"] == pytest.approx({"north": 1 / 3})
    seq = shown["seq"]
    assert market.put(MARKET, json=shown).json()["seq"] == seq
    assert market.put(MARKET, json=CONFIG).json()["links"].keys() == {"north"}
    again = market.patch(MARKET, json={"links": {"north": {"link": "other"}}}).json()
    assert (again["seq"], again["links"]["north"]["link"]) == (seq + 1, "other")
    texts = [market.get(MARKET).text, market.get("/v1/relays").text, market.get("/metrics").text]
    assert not any("secret" in text for text in texts)
    gone = market.patch(MARKET, json={"links": {"north": None}}).json()
    assert (gone["links"], gone["forwarded"]) == ({}, 2)
    unknown = market.patch(MARKET, json={"links": {"north": None}})
    assert (unknown.status_code, fields(unknown)) == (422, ["links.north"])


def test_a_time_limit_ends_with_its_link_and_says_nothing_of_the_next_of_that_id(start: Start) -> None:
    running = start()
    client, expiry = running.client, running.service.expiry
    client.put(MARKET, json={**CONFIG, "links": {"north": NORTH}})
    limited = {"id": "s", "box": {}, "ttl": 3600, "link": "north"}
    client.post(f"{MARKET}/subscriptions", json={"subscriptions": [limited]})
    assert running.call(len, expiry) == 1
    client.patch(MARKET, json={"links": {"north": None}})
    client.post(f"{MARKET}/subscriptions", json={"subscriptions": [{"id": "s", "box": {}}]})
    assert running.call(len, expiry) == 0, "it would end the one that has no limit"
    client.post(f"{MARKET}/subscriptions", json={"subscriptions": [{**limited, "id": "t", "link": None}]})
    client.put(MARKET, json={**CONFIG, "links": {"north": NORTH}})
    client.post(f"{MARKET}/subscriptions", json={"subscriptions": [{**limited, "id": "u"}]})
    client.put(MARKET, json={**CONFIG, "links": {}})
    assert running.call(len, expiry) == 1
    assert "ttl" not in client.get(f"{MARKET}/subscriptions/s").json()


@pytest.fixture
def together(market: AppClient, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[httpx.Response]]:
    """Requests that have all seen the links as they stand before one of them has changed any.

    Of each, the other side that is asked first answers no sooner.
    """
    asked: list[Link] = []
    market.patch(MARKET, json={"links": {"north": NORTH}})

    def at_once(*requests: Callable[[], httpx.Response]) -> list[httpx.Response]:
        all_there = asyncio.Event()

        async def probe(_: Peers, link: Link, *__: Any) -> Any:
            asked.append(link)
            if len(asked) >= len(requests):
                all_there.set()
            await all_there.wait()
            raise Unanswered("nobody is there")

        monkeypatch.setattr(Peers, "probe", probe)
        with ThreadPoolExecutor(len(requests)) as pool:
            running = [pool.submit(request) for request in requests]
            return [one.result() for one in running]

    return at_once


def test_two_changes_of_one_link_at_once_both_count(
    market: AppClient, together: Callable[..., list[httpx.Response]]
) -> None:
    answers = together(
        lambda: market.patch(MARKET, json={"links": {"north": {"link": "other"}}}),
        lambda: market.patch(MARKET, json={"links": {"north": {"relay": "another"}}}),
        lambda: market.put(MARKET, json={**CONFIG, "links": {"north": {"url": "http://127.0.0.1:9/else"}}}),
    )
    assert [answer.status_code for answer in answers] == [200, 200, 200]
    north = market.get(MARKET).json()["links"]["north"]
    assert [north[field] for field in ("url", "relay", "link")] == ["http://127.0.0.1:9/else", "another", "other"]


def test_links_added_at_once_are_counted_together(
    market: AppClient, together: Callable[..., list[httpx.Response]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.api.relays.routes.relays.MOST_LINKS", 2)
    answers = together(
        lambda: market.patch(MARKET, json={"links": {"east": {**NORTH, "relay": "east"}}}),
        lambda: market.patch(MARKET, json={"links": {"west": {**NORTH, "relay": "west"}}}),
    )
    assert sorted(answer.status_code for answer in answers) == [200, 422]
    (refused,) = [answer for answer in answers if answer.status_code == 422]
    assert fields(refused) == ["links"] and len(market.get(MARKET).json()["links"]) == 2


def test_a_link_that_is_taken_out_does_not_come_back_with_a_change(
    market: AppClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    market.patch(MARKET, json={"links": {"north": NORTH}})
    asked, gone = threading.Event(), threading.Event()

    async def probe(*_: Any) -> Any:
        asked.set()
        await asyncio.to_thread(gone.wait, PATIENCE)
        raise Unanswered("nobody is there")

    monkeypatch.setattr(Peers, "probe", probe)
    with ThreadPoolExecutor(1) as pool:
        change = pool.submit(market.patch, MARKET, json={"links": {"north": {"link": "other"}}})
        assert asked.wait(PATIENCE)
        assert market.patch(MARKET, json={"links": {"north": None}}).status_code == 200
        gone.set()
        answer = change.result()
    assert (answer.status_code, fields(answer)) == (422, ["links.north.url", "links.north.relay"])
    assert market.get(MARKET).json()["links"] == {}


def test_with_links_every_decision_is_by_link(market: AppClient) -> None:
    market.patch(MARKET, json={"links": {"north": NORTH, "east": {**NORTH, "relay": "other"}}})
    body = {"subscriptions": [{"id": "n", "box": {"price": [12, 13]}, "link": "north"}]}
    (made,) = market.post(f"{MARKET}/subscriptions", json=body).json()["results"]
    assert made == {"id": "n", "forward": {"east": False}, "covered_by": {"east": ["s1"]}}
    event = {"values": {"price": 12, "volume": 6}}
    answers = [
        market.post(f"{MARKET}/notifications", json={"notifications": [{**event, **more}]}).json()["results"][0]
        for more in ({}, {"from": "north"})
    ]
    assert [answer["links"] for answer in answers] == [["north"], []]
    ended = market.delete(f"{MARKET}/subscriptions/s1").json()
    assert ended["forward_unsubscribe"] == {"north": True, "east": True}
    assert ended["forward_subscribe"] == {"north": ["s2"], "east": ["s2", "n"]}
    bad = market.put(f"{MARKET}/subscriptions/x", json={"link": "west"})
    assert (bad.status_code, fields(bad)) == (422, ["link"])


def test_a_link_that_stands_keeps_its_url_where_none_is_said_but_not_where_a_bad_one_is(market: AppClient) -> None:
    assert market.patch(MARKET, json={"links": {"north": NORTH}}).status_code == 200
    for url in ("", "http://xn--", "http://north.example:0"):
        answer = market.patch(MARKET, json={"links": {"north": {"url": url}}})
        assert (answer.status_code, fields(answer)) == (422, ["links.north.url"])
    kept = market.patch(MARKET, json={"links": {"north": {"url": None}}}).json()["links"]["north"]
    assert kept["url"] == NORTH["url"]


def test_a_notification_from_no_link_is_passed_over_in_every_form(market: AppClient) -> None:
    market.patch(MARKET, json={"links": {"north": NORTH}})
    path, values = f"{MARKET}/notifications", {"price": 70, "volume": 1}
    said = [{"values": values, "from": "east"}, {"values": values, "from": "north"}, {"values": values}]
    columns: dict[str, list[Any]] = {"price": [70.0] * 3, "volume": [1.0] * 3, "from": ["east", "north", None]}
    before = market.get(MARKET).json()["seq"]
    refused = market.post(path, json={"notifications": said})
    assert (refused.status_code, fields(refused)) == (422, ["notifications[0].from"])
    forms = [
        market.post(path, json={"notifications": said, "on_error": "skip"}),
        market.post(f"{path}?on_error=skip", content=ndjson(said), headers={"Content-Type": NDJSON}),
        market.post(f"{path}?on_error=skip", content=arrow(pa.table(columns)), headers={"Content-Type": ARROW}),
    ]
    for times, answer in enumerate(forms, 1):
        assert answer.status_code == 200, answer.text
        body = answer.json()
        assert body["seq"] == before + 2 * times
        assert [result["index"] for result in body["results"]] == [1, 2]
        assert [error["field"] for error in body["errors"]] == ["notifications[0].from"]


def test_hosts_of_links_can_be_limited(make_client: MakeClient) -> None:
    client = make_client(link_hosts="north.example")
    refused = client.put(MARKET, json={**CONFIG, "links": {"n": {**NORTH, "url": "http://south.example"}}})
    assert (refused.status_code, fields(refused)) == (422, ["links.n.url"])


def test_a_link_to_itself_or_to_who_is_there_already_is_refused(make_client: MakeClient) -> None:
    client = make_client(service="here")
    client.put(MARKET, json={**CONFIG, "links": {"north": NORTH, "east": NORTH}})
    path = f"{MARKET}/links/north/probe"
    assert client.post(path, json={"identity": "north:market"}).json() == {
        "identity": "here:market",
        "behind": ["here:market"],
    }
    refused = client.post(path, json={"identity": "here:market"})
    assert (refused.status_code, refused.json()["type"]) == (409, "/problems/cycle")
    nobody = client.post(f"{MARKET}/links/no name/probe", json={"identity": "north:market"})
    assert (nobody.status_code, fields(nobody)) == (422, ["link"])
    body = {"epoch": "e", "messages": [], "identity": "north:market", "behind": ["north:market", "far:market"]}
    told = client.post(f"{MARKET}/links/north/messages", json=body).json()
    assert (told["next"], told["behind"]) == (0, ["here:market"])
    assert client.post(f"{MARKET}/links/east/probe", json={"identity": "far:market"}).status_code == 409
    again = client.post(f"{MARKET}/links/east/messages", json={**body, "identity": "far:market", "behind": []})
    assert again.status_code == 409
    assert client.post(f"{MARKET}/links/east/probe", json={"identity": "else:market"}).json()["behind"] == [
        "far:market",
        "here:market",
        "north:market",
    ]


def test_messages_are_applied_once_and_in_order(make_client: MakeClient) -> None:
    client = make_client(service="here")
    client.put(MARKET, json={**CONFIG, "links": {"north": NORTH}})
    path = f"{MARKET}/links/north/messages"
    messages = [
        {"n": 0, "op": "reset", "follow": 1},
        {"n": 1, "op": "subscribe", "id": "north:market:s1", "box": {"price": [0, 50]}},
        {"n": 2, "op": "notify", "values": {"price": 2, "volume": 3}, "payload": {"a": 1}, "mark": ["e1", 0]},
    ]

    def send(these: list[Any], epoch: str = "e1") -> int:
        answer = client.post(path, json={"epoch": epoch, "messages": these})
        assert answer.status_code == 200, answer.text
        found: int = answer.json()["next"]
        return found

    assert send(messages[1:]) == 0, "an epoch begins with a reset"
    assert send(messages) == 3
    seq = client.get(MARKET).json()["seq"]
    assert send(messages) == 3
    assert client.get(MARKET).json()["seq"] == seq
    assert send([{"n": 5, "op": "unsubscribe", "id": "north:market:s1"}]) == 3, "there is a hole"
    assert client.get(f"{MARKET}/subscriptions").json()["items"] == [
        {"id": "north:market:s1", "box": {"price": [0, 50]}, "link": "north"}
    ]
    assert send([{"n": 3, "op": "unsubscribe", "id": "north:market:s1"}]) == 4
    assert client.get(MARKET).json()["subscriptions"] == 0
    own = {"n": 4, "op": "subscribe", "id": "here:market:s1", "box": {}}
    back = client.post(path, json={"epoch": "e1", "messages": [own]})
    assert (back.status_code, back.json()["type"]) == (409, "/problems/cycle")
    missing = client.post(f"{MARKET}/links/south/messages", json={"epoch": "e1", "messages": []})
    assert (missing.status_code, fields(missing)) == (404, ["link"])


@pytest.mark.parametrize(
    ("message", "field"),
    [
        ({"n": -1, "op": "reset", "follow": 0}, "messages[0].n"),
        ({"n": 0, "op": "reset"}, "messages[0].follow"),
        ({"n": 0, "op": "zap"}, "messages[0].op"),
        ({"n": 0, "op": "subscribe", "id": "a b", "box": {}}, "messages[0].id"),
        ({"n": 0, "op": "subscribe", "id": "a" * 401, "box": {}}, "messages[0].id"),
        ({"n": 0, "op": "subscribe", "id": "a", "box": {"price": [2, 1]}}, "messages[0].box.price"),
        ({"n": 0, "op": "subscribe", "id": "a", "box": {"age": [1, 2]}}, "messages[0].box.age"),
        ({"n": 0, "op": "notify", "values": {"price": 1}}, "messages[0].values.volume"),
    ],
)
def test_bad_messages_are_named(make_client: MakeClient, message: dict[str, Any], field: str) -> None:
    client = make_client()
    client.put(MARKET, json={**CONFIG, "links": {"north": NORTH}})
    refused = client.post(f"{MARKET}/links/north/messages", json={"epoch": "e1", "messages": [message]})
    assert (refused.status_code, fields(refused)) == (422, [field])


# --- subscriptions and commands ---------------------------------------------------------------------------------------


def test_subscriptions_are_shown_and_taken_back_by_put(market: AppClient) -> None:
    shown = market.get(f"{MARKET}/subscriptions/s2").json()
    assert shown == {"seq": 3, "id": "s2", "box": {"price": [10, 20], "volume": [0, None]}, "link": None}
    again = market.put(f"{MARKET}/subscriptions/s2", json=shown)
    assert (again.status_code, again.json()) == (200, shown)
    changed = market.patch(f"{MARKET}/subscriptions/s1", json={"box": {"price": None, "volume": [1, 2]}, "ttl": 60})
    assert changed.json() == {
        "seq": 4,
        "id": "s1",
        "box": {"volume": [1, 2]},
        "link": None,
        "ttl": 60,
        "forward": True,
        "covered_by": [],
        "forward_unsubscribe": True,
        "forward_subscribe": ["s2"],
    }
    assert market.put(f"{MARKET}/subscriptions/s1", json=changed.json()).json()["seq"] == 4
    assert market.delete(f"{MARKET}/subscriptions/none").status_code == 404
    some = market.post(f"{MARKET}/subscriptions/delete", json={"ids": ["s3", "none", "s1"]}).json()
    assert (some["deleted"], [one["id"] for one in some["results"]]) == (2, ["s3", "s1"])


def test_ids_are_made_up_and_errors_skipped_in_every_form(market: AppClient) -> None:
    path = f"{MARKET}/subscriptions"
    good, bad = {"box": {"price": [1, 2]}}, {"id": "bad", "box": {"price": [2, 1]}}
    table = pa.table({"price_min": [1.0, 2.0], "price_max": [2.0, 1.0], "id": pa.array([None, "bad"])})
    answers = [
        market.post(path, json={"subscriptions": [good, bad], "on_error": "skip"}),
        market.post(f"{path}?on_error=skip", content=ndjson([good, bad]), headers={"Content-Type": NDJSON}),
        market.post(f"{path}?on_error=skip", content=arrow(table), headers={"Content-Type": ARROW}),
    ]
    for seq, answer in enumerate(answers, 4):
        found = answer.json()
        assert (answer.status_code, found["seq"]) == (201, seq)
        (made,), (error,) = found["results"], found["errors"]
        assert made["index"] == 0 and re.fullmatch(r"s-[0-9a-f]{16}-0", made["id"])
        assert (error["index"], error["field"]) == (1, "subscriptions[1].box.price")
    taken = market.post(path, json={"subscriptions": [{"id": "s1"}, {"id": "x"}, {"id": "x"}]})
    assert (taken.status_code, fields(taken)) == (409, ["subscriptions[0].id", "subscriptions[2].id"])


def test_commands_are_answered_in_order_each_with_its_seq(market: AppClient) -> None:
    said = [
        {"op": "subscribe", "id": "x", "box": {}},
        {"op": "unsubscribe", "id": "x"},
        {"op": "subscribe", "id": "x", "box": {"price": [1, 2]}},
    ]
    first, second, third = lines(talk(market, said))
    assert first == {"id": "x", "seq": 4, "forward": True, "covered_by": []}
    assert second == {"id": "x", "seq": 5, "forward_unsubscribe": True, "forward_subscribe": []}
    assert third == {"id": "x", "seq": 6, "forward": False, "covered_by": ["s1"]}
    assert lines(talk(market, [])) == []


@pytest.mark.parametrize(
    ("line", "status", "field"),
    [
        ({"op": "zap", "id": "x"}, 422, "commands[1].op"),
        ({"id": "x"}, 422, "commands[1].op"),
        ({"op": "subscribe", "id": "s1"}, 409, "commands[1].id"),
        ({"op": "subscribe", "id": "x", "box": {"price": [2, 1]}}, 422, "commands[1].box.price"),
        ({"op": "subscribe", "id": "x", "link": "north"}, 422, "commands[1].link"),
        ({"op": "unsubscribe", "id": "none"}, 422, "commands[1].id"),
        ({"op": "unsubscribe"}, 422, "commands[1].id"),
        ({"op": "unsubscribe", "id": "s1", "box": {}}, 422, "commands[1].box"),
    ],
)
def test_a_line_that_cannot_be_changes_nothing(market: AppClient, line: Any, status: int, field: str) -> None:
    good = [{"op": "subscribe", "id": "good"}, line, {"op": "unsubscribe", "id": "s3"}]
    refused = talk(market, good)
    assert (refused.status_code, fields(refused)) == (status, [field])
    assert "(line 2)" in refused.json()["errors"][0]["reason"]
    assert market.get(MARKET).json()["seq"] == 3
    first, second, third = lines(talk(market, good, on_error="skip"))
    assert (first["index"], first["seq"], third["index"], third["seq"]) == (0, 4, 2, 5)
    assert (second["index"], [error["field"] for error in second["errors"]]) == (1, [field])


def test_a_line_that_is_not_json_refuses_the_body(market: AppClient) -> None:
    content = b'{"op":"subscribe","id":"x"}\n{"op":\n'
    for params in ({}, {"on_error": "skip"}):
        refused = market.post(f"{MARKET}/commands", content=content, headers={"Content-Type": NDJSON}, params=params)
        assert refused.status_code == 400 and "line 2" in refused.json()["detail"]
    assert market.get(MARKET).json()["seq"] == 3
    assert market.post(f"{MARKET}/commands", json=[]).status_code == 415


def test_a_conversation_that_passes_lines_over_is_answered_again_as_it_was(
    market: AppClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.api.relays.routes.commands.PIECE", 3)
    said: list[Any] = [{"op": "subscribe", "id": f"x{i}"} for i in range(8)]
    said[1], said[5] = {"op": "zap", "id": "x"}, {"op": "subscribe", "id": "x0"}
    key = {"Idempotency-Key": "once"}
    first = lines(talk(market, said, key, on_error="skip"))
    assert [line["index"] for line in first] == list(range(8))
    assert [line["index"] for line in first if "errors" in line] == [1, 5]
    again = lines(talk(market, said, key, on_error="skip"))
    assert again == [line if "errors" in line else {**line, "replayed": True} for line in first]


def test_a_long_conversation_keeps_what_was_answered(market: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.api.relays.routes.commands.PIECE", 3)
    said = [{"op": "subscribe", "id": f"x{i}", "box": {"price": [i, i]}} for i in range(8)]
    said[7] = {"op": "subscribe", "id": "x0"}
    *answers, last = lines(talk(market, said))
    assert [answer["id"] for answer in answers] == [f"x{i}" for i in range(6)]
    assert (last["problem"]["status"], last["problem"]["errors"][0]["field"]) == (409, "commands[7].id")
    assert market.get(MARKET).json()["seq"] == 9
    assert market.get(f"{MARKET}/subscriptions/x6").status_code == 404


def test_a_conversation_sent_again_under_its_key_goes_on(market: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.api.relays.routes.commands.PIECE", 2)
    said = [{"op": "subscribe", "id": f"x{i}", "box": {"price": [i, i]}} for i in range(5)]
    key = {"Idempotency-Key": "once"}
    assert len(lines(talk(market, said[:2], key))) == 2
    again = lines(talk(market, said, key))
    assert [answer.get("replayed", False) for answer in again] == [True, True, False, False, False]
    assert [answer["seq"] for answer in again] == [4, 5, 6, 7, 8]
    assert lines(talk(market, said, key)) == [{**answer, "replayed": True} for answer in again]
    other = talk(market, said[1:], key)
    assert (other.status_code, other.json()["type"]) == (422, "/problems/key-reused")


def test_retries_get_the_first_decisions(market: AppClient) -> None:
    requests: list[tuple[str, str, Any]] = [
        ("POST", "/subscriptions", {"subscriptions": [{"id": "y", "box": {"price": [1, 2]}}]}),
        ("PUT", "/subscriptions/y", {"box": {"price": [1, 3]}}),
        ("PATCH", "/subscriptions/s1", {"box": {"price": [0, 2]}}),
        ("DELETE", "/subscriptions/s1", None),
        ("POST", "/subscriptions/delete", {"ids": ["s2"]}),
        ("POST", "/notifications", {"notifications": [{"values": {"price": 1, "volume": 6}}]}),
    ]
    for n, (method, path, body) in enumerate(requests):
        headers = {"Idempotency-Key": f"k{n}"}
        first, second = (market.request(method, MARKET + path, json=body, headers=headers) for _ in range(2))
        assert first.status_code == second.status_code < 300, first.text
        assert second.json() == {**first.json(), "replayed": True}


# --- notifications ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("event", "field"),
    [
        ({"values": {"price": 1}}, "values.volume"),
        ({"values": {"price": 1, "volume": None}}, "values.volume"),
        ({"values": {"price": 1, "volume": 2, "age": 3}}, "values.age"),
        ({"values": {"price": 1, "volume": 1e301}}, "values.volume"),
        ({"values": {"price": 1, "volume": 2}, "payload": "x" * 5000}, "payload"),
        ({"values": {"price": 1, "volume": 2}, "from": "north"}, "from"),
        ({}, "values"),
    ],
)
def test_a_bad_notification_is_named(market: AppClient, event: dict[str, Any], field: str) -> None:
    good = {"values": {"price": 12, "volume": 6}}
    body: dict[str, Any] = {"notifications": [good, event]}
    refused = market.post(f"{MARKET}/notifications", json=body)
    assert (refused.status_code, fields(refused)) == (422, [f"notifications[1].{field}"])
    assert market.get(MARKET).json()["seq"] == 3
    answer = market.post(f"{MARKET}/notifications", json={**body, "on_error": "skip"}).json()
    assert answer["results"] == [{"index": 0, "subscriptions": ["s1", "s2", "s3"], "links": []}]
    assert answer["errors"][0]["index"] == 1


def test_scopes(make_client: MakeClient) -> None:
    client = make_client()
    client.put(MARKET, json=CONFIG)
    admin = client.post("/v1/admin/keys", json={"name": "a", "scopes": ["admin"]}).json()["key"]
    auth = {"Authorization": f"Bearer {admin}"}
    keys = {}
    link = "relays/market:link.n"
    for scope in ("relays:read", "relays:subscribe", "relays:publish", "relays:write", link):
        made = client.post("/v1/admin/keys", json={"name": scope, "scopes": [scope]}, headers=auth)
        keys[scope] = {"Authorization": f"Bearer {made.json()['key']}"}
    event = {"notifications": [{"values": {"price": 1, "volume": 2}}]}
    asked: dict[tuple[str, ...], list[Any]] = {
        ("relays:read", "relays:subscribe", "relays:write"): [("GET", "", None), ("GET", "/subscriptions", None)],
        ("relays:subscribe", "relays:write"): [("PUT", "/subscriptions/x", {})],
        ("relays:publish", "relays:write"): [("POST", "/notifications", event)],
        (link,): [("POST", "/links/n/probe", {"identity": "n:market"})],
    }
    for allowed, requests in asked.items():
        for method, path, body in requests:
            for held, headers in keys.items():
                status = client.request(method, MARKET + path, json=body, headers=headers).status_code
                assert (status < 300) == (held in allowed), (method, path, held)
                assert status in (200, 201, 403)
    other = client.post(f"{MARKET}/links/m/probe", json={"identity": "m:market"}, headers=keys[link])
    assert other.status_code == 403, "the key is bound to its link"


def test_decisions_of_a_put_are_worked_out_again_after_a_crash(make_client: MakeClient, tmp_path: Path) -> None:
    """What applying tells is written beside a later row; here there is none before the end."""
    client = make_client()
    client.put(MARKET, json=CONFIG)
    client.put(f"{MARKET}/subscriptions/y", json={"box": {"price": [1, 2]}})
    key = {"Idempotency-Key": "once"}
    first = client.put(f"{MARKET}/subscriptions/y", json={"box": {"price": [1, 3]}}, headers=key)
    shutil.copytree(tmp_path / "data", tmp_path / "copy", ignore=shutil.ignore_patterns("*lock*", "LOCK"))
    again = make_client(data=tmp_path / "copy")
    second = again.put(f"{MARKET}/subscriptions/y", json={"box": {"price": [1, 3]}}, headers=key)
    assert second.json() == {**first.json(), "replayed": True}


def test_a_conversation_without_lines_is_checked_all_the_same(market: AppClient) -> None:
    refused = talk(market, [], {"Idempotency-Key": "a b"})
    assert (refused.status_code, fields(refused)) == (422, ["Idempotency-Key"])
    refused = talk(market, [], on_error="retry")
    assert (refused.status_code, fields(refused)) == (422, ["on_error"])


# --- messages of links ------------------------------------------------------------------------------------------------


def test_a_reset_in_the_middle_of_an_epoch_is_refused(make_client: MakeClient) -> None:
    client = make_client()
    client.put(MARKET, json={**CONFIG, "links": {"north": NORTH}})
    path, said = f"{MARKET}/links/north/messages", {"n": 1, "op": "subscribe", "id": "north:market:s1", "box": {}}
    first = [{"n": 0, "op": "reset", "follow": 1}, said]
    assert client.post(path, json={"epoch": "e1", "messages": first}).json()["next"] == 2
    seq = client.get(MARKET).json()["seq"]
    late = {"n": 2, "op": "reset", "follow": 0}
    for messages, field in (
        ([late], "messages[0].op"),
        ([{**late, "n": 9}], "messages[0].op"),
        ([*first, late], "messages[2].op"),
        ([{"n": 2, "op": "unsubscribe", "id": "north:market:s1"}, {**late, "n": 3}], "messages[1].op"),
    ):
        refused = client.post(path, json={"epoch": "e1", "messages": messages})
        assert (refused.status_code, refused.json()["type"]) == (422, "/problems/invalid")
        assert fields(refused) == [field]
    shown = client.get(MARKET).json()
    assert (shown["seq"], shown["subscriptions"]) == (seq, 1)
    assert client.post(path, json={"epoch": "e1", "messages": first}).json()["next"] == 2
    assert client.post(path, json={"epoch": "e2", "messages": [{**late, "n": 7}]}).json()["next"] == 8
    assert client.get(MARKET).json()["subscriptions"] == 0


def test_many_messages_are_taken_apart_and_checked_off_the_loop(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make_client()
    client.put(MARKET, json={**CONFIG, "links": {"north": NORTH}})
    threads: dict[str, set[int]] = {}

    def watched(name: str, fn: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            threads.setdefault(name, set()).add(threading.get_ident())
            return fn(*given)

        return call

    monkeypatch.setattr(relay_links, "INLINE", 2_000)
    monkeypatch.setattr(Receive, "at_once", 50)
    for owner, name in ((relay_links, "validated"), (Inbox, "admit"), (engine, "message_faults")):
        monkeypatch.setattr(owner, name, watched(name, getattr(owner, name)))
    monkeypatch.setattr(RelayType, "encode", staticmethod(watched("encode", RelayType.encode)))
    n = 200
    said = [{"n": i, "op": "subscribe", "id": f"north:market:s{i}", "box": {"price": [0, i]}} for i in range(1, n + 1)]
    body = {"epoch": "e1", "messages": [{"n": 0, "op": "reset", "follow": n}, *said]}
    assert client.post(f"{MARKET}/links/north/messages", json=body).json()["next"] == n + 1
    assert client.get(MARKET).json()["subscriptions"] == n
    assert client.portal is not None
    loop = client.portal.call(threading.get_ident)
    assert threads.keys() == {"validated", "admit", "message_faults", "encode"}
    assert all(loop not in found for found in threads.values())
    few = {"epoch": "e1", "messages": [{"n": n + 1, "op": "unsubscribe", "id": "north:market:s1"}]}
    assert client.post(f"{MARKET}/links/north/messages", json=few).json()["next"] == n + 2
    assert all(loop in found for found in threads.values())


# --- long answers to notifications ------------------------------------------------------------------------------------


def crowd(client: AppClient, n: int = 40) -> list[str]:
    """So many subscriptions that every notification meets."""
    ids = [f"c{i}" for i in range(n)]
    made = client.post(f"{MARKET}/subscriptions", json={"subscriptions": [{"id": id, "box": {}} for id in ids]})
    assert made.status_code == 201
    return ids


def points(*prices: Any) -> list[Any]:
    return [{"values": {"price": price, "volume": 100}} for price in prices]


def test_a_long_answer_is_written_in_pieces_off_the_loop(market: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = crowd(market)
    body = {"notifications": points(1, "x", 15), "on_error": "skip"}
    before = market.post(f"{MARKET}/notifications", json=body).json()
    assert [one["subscriptions"] for one in before["results"]] == [["s1", *ids], ["s1", "s2", *ids]]
    written: list[tuple[int, int]] = []

    def watched(*given: Any) -> Iterator[bytes]:
        for piece in pieces(*given):
            written.append((len(piece), threading.get_ident()))
            yield piece

    monkeypatch.setattr(notifications, "pieces", watched)
    monkeypatch.setattr(notifications, "INLINE", 10)
    monkeypatch.setattr("app.rendering.recipients.PIECE", 8)
    monkeypatch.setattr("app.api.chunked_response.WHOLE", 100)
    for name in ("indexes.relays.plans.subscriptions", "indexes.relays.recipients"):
        monkeypatch.setattr(f"{name}.FEW", 10)
    again = market.post(f"{MARKET}/notifications", json=body)
    assert again.json() == {**before, "seq": before["seq"] + 2}
    assert len(written) > 10 and max(size for size, _ in written) < 200
    assert market.portal is not None
    assert market.portal.call(threading.get_ident) not in {thread for _, thread in written}


def test_an_answer_names_a_bounded_number(market: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("indexes.relays.plans.subscriptions.MOST_NAMED", 3)
    answer = market.post(f"{MARKET}/notifications", json={"notifications": points(15, 15, 99)}).json()
    assert answer["results"] == [
        {"subscriptions": ["s1", "s2"], "links": []},
        {"subscriptions": ["s1"], "links": [], "truncated": True},
        {"subscriptions": [], "links": []},
    ]


def test_what_is_kept_of_notifications_is_bounded(market: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("app.api.relays.routes.notifications", "indexes.relays.plans.subscriptions"):
        monkeypatch.setattr(f"{name}.MOST_KEPT", 3)
    body = {"notifications": points(15, "x", 15), "on_error": "skip"}
    first, again = (
        market.post(f"{MARKET}/notifications", json=body, headers={"Idempotency-Key": "k"}).json() for _ in range(2)
    )
    whole = [{"index": 0, "subscriptions": ["s1", "s2"], "links": []}]
    cut = {"index": 2, "subscriptions": ["s1"], "links": [], "truncated": True}
    assert first["results"] == [*whole, {"index": 2, "subscriptions": ["s1", "s2"], "links": []}]
    assert again == {**first, "results": [*whole, cut], "replayed": True}
    seq = market.get(MARKET).json()["seq"]
    many = {"notifications": points(1, 2, 3, 4)}
    refused = market.post(f"{MARKET}/notifications", json=many, headers={"Idempotency-Key": "many"})
    assert (refused.status_code, refused.json()["type"]) == (413, "/problems/too-large")
    assert fields(refused) == ["notifications"]
    assert market.get(MARKET).json()["seq"] == seq
    assert market.post(f"{MARKET}/notifications", json=many).json()["seq"] == seq + 4


def test_what_notifications_met_is_worked_out_again_after_a_crash(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = {"notifications": points(15, "x", 60), "on_error": "skip"}

    def run(use: Callable[[AppClient], None]) -> None:
        with AppClient(create_app(Settings(data=tmp_path)), base_url=URL, raise_server_exceptions=False) as client:
            use(client)

    def before(client: AppClient) -> None:
        client.put(MARKET, json=CONFIG)
        client.post(f"{MARKET}/subscriptions", json={"subscriptions": [{"id": "s1", "box": {"price": [0, 50]}}]})
        with monkeypatch.context() as patch:
            patch.setattr(
                "app.write_path.applying.Applier.apply", lambda self, group: [p.future.cancel() for p in group]
            )
            client.post(f"{MARKET}/notifications", json=body, headers={"Idempotency-Key": "k"})

    def after(client: AppClient) -> None:
        again = client.post(f"{MARKET}/notifications", json=body, headers={"Idempotency-Key": "k"}).json()
        assert (again["replayed"], again["seq"]) == (True, 3)
        assert again["results"] == [
            {"index": 0, "subscriptions": ["s1"], "links": []},
            {"index": 2, "subscriptions": [], "links": []},
        ]

    run(before)
    run(after)


def test_what_cannot_be_encoded_is_refused_alone(market: AppClient, monkeypatch: pytest.MonkeyPatch) -> None:
    encode = RelayType.encode

    def some(command: Any, count: int) -> Any:
        if isinstance(command, Notify) and 13.0 in command.values:
            raise OverflowError("Integer value out of range")
        return encode(command, count)

    monkeypatch.setattr(RelayType, "encode", staticmethod(some))
    seq = market.get(MARKET).json()["seq"]
    for key in ("k", "k"):
        bad = market.post(
            f"{MARKET}/notifications", json={"notifications": points(1, 13)}, headers={"Idempotency-Key": key}
        )
        assert (bad.status_code, bad.json()["type"]) == (500, "/problems/internal")
        assert bad.json()["detail"] == "a Notify of relay 'market' cannot be encoded; nothing was changed"
    assert market.get(MARKET).json()["seq"] == seq
    assert market.post(f"{MARKET}/notifications", json={"notifications": points(1)}).json()["seq"] == seq + 1
