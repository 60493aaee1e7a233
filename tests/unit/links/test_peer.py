"""What a link's other side answers is not trusted, and what is said of it gives nothing away."""

from __future__ import annotations

import asyncio
import gzip
import tracemalloc
from collections.abc import AsyncIterator, Callable

import httpx
import pytest

from app.links.address import bad_url
from app.links.peer import LARGEST_ANSWER, Answer, Peers, Refusal, Unanswered, encoded
from indexes.relays.config import Link, Message

LINK = Link("http://north.example/rankcast/", "market", "south", "secret-key")
INF = float("inf")


def send(reply: Callable[[httpx.Request], httpx.Response]) -> Answer:
    async def main() -> Answer:
        peers = Peers(httpx.MockTransport(reply))
        try:
            return await peers.send(LINK, "e1", b'{"n":0}', "here:market", ["here:market"])
        finally:
            await peers.close()

    return asyncio.run(main())


def test_a_request_carries_the_key_and_who_sends_it() -> None:
    probed: list[httpx.Request] = []

    def reply(request: httpx.Request) -> httpx.Response:
        probed.append(request)
        return httpx.Response(200, json={"epoch": "x", "next": 7, "identity": "north:market", "behind": ["far:market"]})

    assert send(reply) == Answer("north:market", frozenset({"north:market", "far:market"}), 7)
    (request,) = probed
    assert str(request.url) == "http://north.example/rankcast/v1/relays/market/links/south/messages"
    assert request.headers["Authorization"] == "Bearer secret-key"
    body = b'{"epoch": "e1", "identity": "here:market", "behind": ["here:market"],"messages":[{"n":0}]}'
    assert request.content == body


@pytest.mark.parametrize(
    "answer",
    [
        {"json": []},
        {"json": {"identity": "north:market"}},
        {"json": {"next": -1}},
        {"json": {"next": True}},
        {"json": {"next": 1 << 62}},
        {"json": {"next": 0, "behind": ["north:market"] * 10_001}},
        {"content": b"[" * 100_000},
        {"json": {"next": 0, "identity": 5}},
        {"json": {"next": 0, "identity": "a b"}},
        {"json": {"next": 0, "behind": "north"}},
        {"text": "<html>secret</html>"},
        {"content": b"\xff\xfe"},
        {"content": b'{"next": 0, "identity": "\\ud800"}'},
        {"content": b'{"next": ' + b"9" * 5_000 + b"}"},
    ],
)
def test_what_is_no_answer_is_none(answer: dict[str, object]) -> None:
    with pytest.raises(Unanswered) as raised:
        send(lambda _: httpx.Response(200, **answer))  # type: ignore[arg-type]
    assert str(raised.value) == "what answers there is no relay"


def test_of_what_is_not_asked_for_nothing_is_made() -> None:
    answer = b'{"next": 3, "more": [' + b"{}," * 100_000 + b"{}]}"
    tracemalloc.start()
    try:
        assert send(lambda _: httpx.Response(200, content=answer)) == Answer(None, frozenset(), 3)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 10 * len(answer), "an object each would be twenty times as much"


def test_a_compressed_answer_is_not_unpacked() -> None:
    class Packed(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield gzip.compress(bytes(1 << 20))

    with pytest.raises(Unanswered, match="compressed"):
        send(lambda _: httpx.Response(200, headers={"Content-Encoding": "gzip"}, stream=Packed()))


def test_an_answer_without_end_is_given_up() -> None:
    sent = 0

    class Endless(httpx.AsyncByteStream):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            nonlocal sent
            while True:
                sent += 1 << 16
                yield b"x" * (1 << 16)

    with pytest.raises(Unanswered, match="more than it should"):
        send(lambda _: httpx.Response(200, stream=Endless()))
    assert sent <= LARGEST_ANSWER + (2 << 16)


@pytest.mark.parametrize("status", [301, 307, 401, 404, 409, 422, 500, 503])
def test_nothing_but_200_is_taken_and_no_redirect_followed(status: int) -> None:
    probed = []

    def reply(request: httpx.Request) -> httpx.Response:
        probed.append(request.url)
        return httpx.Response(status, headers={"Location": "http://inner.example/"}, text="secret")

    with pytest.raises(Refusal) as raised:
        send(reply)
    assert (raised.value.status, len(probed)) == (status, 1)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("status", "fields", "at", "field"),
    [
        (422, ["messages[7].payload", "messages[3].values.price", "epoch"], 3, "values.price"),
        (422, ["messages[3]"], 3, None),
        (422, ["behind[2]"], None, "behind[2]"),
        (400, [], None, None),
        (422, ["secret", "messages[0].secret", "messages[0].box.a secret", 5, None], None, None),
        (413, ["messages"], None, "messages"),
        (409, ["messages[0].id"], None, None),
    ],
)
def test_of_a_refusal_only_the_field_of_a_message_is_known(
    status: int, fields: list[object], at: int | None, field: str | None
) -> None:
    document = {"detail": "secret", "errors": [*({"field": field, "reason": "secret"} for field in fields), "secret"]}
    with pytest.raises(Refusal) as raised:
        send(lambda _: httpx.Response(status, json=document))
    assert (raised.value.status, raised.value.at, raised.value.field) == (status, at, field)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("content", [b"[" * 60_000, b"x" * (1 << 20), b"[]", b'{"errors": {}}', b'{"errors": [[]]}'])
def test_a_refusal_that_makes_no_sense_is_one_all_the_same(content: bytes) -> None:
    with pytest.raises(Refusal) as raised:
        send(lambda _: httpx.Response(422, content=content))
    assert (raised.value.at, raised.value.field) == (None, None)


def test_a_connection_that_fails_is_told_without_its_key() -> None:
    def reply(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError(f"no route for {request.headers['Authorization']}")

    with pytest.raises(Unanswered) as raised:
        send(reply)
    assert str(raised.value) == "the other side does not answer (ConnectError)"
    assert "secret" not in repr(LINK)


def test_messages_travel_by_attribute_and_own_ids_with_the_name_of_their_relay() -> None:
    box = ((0.0, INF), (-INF, 2.5))
    messages = [
        Message(0, "reset", follow=2),
        Message(1, "subscribe", "s1", box=box, own=True),
        Message(2, "subscribe", "far:market:s1", box=box),
        Message(3, "unsubscribe", "s1", own=True),
        Message(4, "notify", values=(1.0, 0.5), payload=b'{"a":1}', mark=("e0", 3)),
        Message(5, "notify", values=(1.0, 0.5)),
    ]
    assert encoded(messages, ["x", "y"], "here:market").decode().split(',{"n"') == [
        '{"n":0,"op":"reset","follow":2}',
        ':1,"op":"subscribe","id":"here:market:s1","box":{"x":[0,null],"y":[null,2.5]}}',
        ':2,"op":"subscribe","id":"far:market:s1","box":{"x":[0,null],"y":[null,2.5]}}',
        ':3,"op":"unsubscribe","id":"here:market:s1"}',
        ':4,"op":"notify","values":{"x":1,"y":0.5},"payload":{"a":1},"mark":["e0",3]}',
        ':5,"op":"notify","values":{"x":1,"y":0.5}}',
    ]


def test_urls_lead_to_services_and_nowhere_else() -> None:
    good = ["http://a", "https://a.example:8443/rankcast", "http://[::1]:8000", "http://127.0.0.1:8000/"]
    assert [bad_url(url) for url in good] == [None] * 4
    bad = [
        "",
        "a",
        "ftp://a",
        "file:///a",
        "http://",
        "http://u@a",
        "http://u:p@a",
        "http://a?b",
        "http://a/#b",
        "http://a:b",
        "http://a:0",
        "http://a:65536",
        "http://xn--",
    ]
    assert all(bad_url(url) for url in bad), [url for url in bad if not bad_url(url)]
    assert bad_url("http://B.example", {"a.example", "b.example"}) is None
    assert bad_url("http://c.example", {"a.example", "b.example"}) is not None
