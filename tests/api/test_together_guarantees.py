"""What is promised of a write holds in a group as by itself, for each kind of small write, over HTTP and a socket.

Keys, refusals of all, and recovery: what was answered is there once, and what was refused changed nothing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import msgpack
import pytest

from app.api.together.lane import MANY
from app.errors import LogUnavailable
from app.storage.log import Log
from app.storage.rows import LogEntry
from tests.support.asker import BOARD, socket_of
from tests.support.one_turn import Asked, Door, in_one_turn, in_turns, request
from tests.support.running import Running
from tests.support.service_fixtures import Start

COUNT = 12
"""Requests of a group."""


class Writes(NamedTuple):
    """Writes of one kind to a resource with this configuration: the n-th is `write(n)`. `making` comes before them,
    `shown` is what they change. `keys`: whether one with an Idempotency-Key is carried out in a group too.
    """

    resource: str
    config: dict[str, Any]
    write: Callable[[int], tuple[str, str, Any]]
    shown: str
    making: Sequence[tuple[str, str, Any]] = ()
    keys: bool = True


MATCHER = {"dimensions": ["age"], "mode": "relaxed"}
RELAY = {"attributes": ["price"]}
MAP = {"attributes": {"price": "low"}, "bounds": [0, 0, 100, 100]}
FEED = {"window": 500, "bounds": [0, 0, 100, 100]}

RANGE = {"range": {"x": [1, 5]}, "k": 3}
SCORE = {"kind": "weighted_sum", "weights": {"price": 0.1, "distance": 0.9}}
TOP = {"kind": "top", "k": 1, "m": 1, "score": SCORE}


def interval(n: int) -> dict[str, Any]:
    return {"intervals": {"age": [n, n + 9]}, "weights": {"age": n + 1}}


def words(n: int) -> dict[str, Any]:
    return {"keywords": ["abc"[n % 3]], "location": [n, 1]}


KINDS = {
    "objects of a board": Writes(
        "boards/b",
        BOARD,
        lambda n: ("PUT", f"objects/o{n}?messages=count", {"values": {"x": n, "y": n}}),
        "objects",
        [
            (
                "POST",
                "subscriptions",
                {"subscriptions": [{"id": f"s{n}", "range": {"x": [n, 9]}, "k": 3} for n in range(9)]},
            )
        ],
    ),
    "events of a board": Writes(
        "boards/b",
        BOARD,
        lambda n: ("POST", "events", {"events": [{"op": "upsert", "id": f"o{n}", "values": {"x": n, "y": n}}]}),
        "objects",
    ),
    "deleted objects of a board": Writes(
        "boards/b",
        BOARD,
        lambda n: ("DELETE", f"objects/o{n}", None),
        "objects",
        [
            (
                "POST",
                "events",
                {"events": [{"op": "upsert", "id": f"o{n}", "values": {"x": n, "y": n}} for n in range(50)]},
            )
        ],
    ),
    "subscriptions of a board": Writes(
        "boards/b", BOARD, lambda n: ("PUT", f"subscriptions/s{n}", RANGE | {"ttl": 600 + n}), "subscriptions"
    ),
    "changed subscriptions of a board": Writes(
        "boards/b",
        BOARD,
        lambda n: ("PATCH", f"subscriptions/s{n}", {"range": {"x": [n, n + 1]}}),
        "subscriptions",
        [("POST", "subscriptions", {"subscriptions": [{"id": f"s{n}", **RANGE} for n in range(50)]})],
    ),
    "subscriptions of a matcher": Writes(
        "matchers/m", MATCHER, lambda n: ("PUT", f"subscriptions/s{n}", interval(n)), "subscriptions"
    ),
    "changed subscriptions of a matcher": Writes(
        "matchers/m",
        MATCHER,
        lambda n: ("PATCH", f"subscriptions/s{n}", {"weights": {"age": n + 2}}),
        "subscriptions",
        [("POST", "subscriptions", {"subscriptions": [{"id": f"s{n}", **interval(n)} for n in range(50)]})],
    ),
    "published events": Writes(
        "matchers/m",
        MATCHER,
        lambda n: ("POST", "match", {"events": [{"values": {"age": n}, "payload": n}], "k": 2, "notify": True}),
        "subscriptions",
        [("POST", "subscriptions", {"subscriptions": [{"id": f"w{n}", **interval(n)} for n in range(9)]})],
    ),
    "subscriptions of a relay": Writes(
        "relays/r",
        RELAY,
        lambda n: ("PUT", f"subscriptions/s{n}", {"box": {"price": [n % 4, 9 - n % 5]}}),
        "subscriptions",
    ),
    "ended subscriptions of a relay": Writes(
        "relays/r",
        RELAY,
        lambda n: ("DELETE", f"subscriptions/s{n}", None),
        "subscriptions",
        [("PUT", f"subscriptions/s{n}", {"box": {"price": [n % 4, 9 - n % 5]}}) for n in range(4 * COUNT)],
    ),
    "notifications": Writes(
        "relays/r",
        RELAY,
        lambda n: ("POST", "notifications", {"notifications": [{"values": {"price": n}, "payload": n}]}),
        "subscriptions",
        [
            ("PUT", "subscriptions/s", {"box": {"price": [0, 5]}}),
            # How long answers are is known from the first one on.
            ("POST", "notifications", {"notifications": [{"values": {"price": 1}}]}),
        ],
        keys=False,
    ),
    "objects of a map": Writes(
        "maps/m", MAP, lambda n: ("PUT", f"objects/o{n}", {"location": [n, 1], "values": {"price": n}}), "objects"
    ),
    "moves": Writes(
        "maps/m",
        MAP,
        lambda n: ("PATCH", f"queries/q{n}", {"location": [n + n % 3 * 20, 1]}),
        "queries",
        [
            ("POST", "objects", {"objects": [{"id": "x", "location": [9, 9], "values": {"price": 1}}]}),
            ("POST", "queries", {"queries": [{"id": f"q{n}", "location": [n, 1], **TOP} for n in range(50)]}),
        ],
    ),
    "posts": Writes("feeds/f", FEED, lambda n: ("POST", "posts", {"posts": [{"id": f"p{n}", **words(n)}]}), "posts"),
    "subscriptions of a feed": Writes(
        "feeds/f", FEED, lambda n: ("PUT", f"subscriptions/s{n}", {**words(n), "k": 3}), "subscriptions"
    ),
}

ONCE = {"tiles", "list", "skyline", "candidates", "truncated"}
"""What only the first answer to a request has, and that to a retry has not."""


class Got(NamedTuple):
    """An answer."""

    status: int
    body: Any
    retry_after: str | None

    @property
    def replayed(self) -> tuple[int, Any]:
        """Status and body of the answer to a retry."""
        return self.status, {name: value for name, value in self.body.items() if name not in ONCE} | {"replayed": True}


class Sent(NamedTuple):
    """A request of a kind, with its key."""

    kind: str
    n: int
    key: str = ""

    @property
    def parts(self) -> tuple[str, str, Any]:
        """Method, path and body."""
        method, path, body = KINDS[self.kind].write(self.n)
        return method, f"/v1/{KINDS[self.kind].resource}/{path}", body


def over_http(running: Running, some: Sequence[Sent]) -> list[Got]:
    """The answers to requests that come in one turn, each on a connection of its own."""
    window = []
    for one in some:
        method, path, body = one.parts
        headers = [b"idempotency-key: " + one.key.encode()] if one.key else []
        window.append(Asked(request(method, path, None if body is None else json.dumps(body).encode(), *headers)))
    found = []
    for (answer,) in running.call(in_one_turn, Door(running), window):
        head, _, body = answer.partition(b"\r\n\r\n")
        first, *lines = head.decode().lower().split("\r\n")
        named = dict(line.split(": ", 1) for line in lines)
        found.append(Got(int(first.split()[1]), json.loads(body), named.get("retry-after")))
    return found


def over_a_socket(running: Running, some: Sequence[Sent], packed: bool = False) -> list[Got]:
    """The answers to requests that come in one piece on a socket."""
    with socket_of(running.client) as asker:
        frames = [asker.frame(*one.parts, **({"Idempotency_Key": one.key} if one.key else {})) for one in some]
        if packed:
            asker.socket.send_all_bytes([msgpack.packb(frame) for frame in frames])
            answers = [msgpack.unpackb(asker.socket.receive_bytes()) for _ in frames]
        else:
            asker.socket.send_all(frames)
            answers = [asker.socket.receive_json() for _ in frames]
    by_ref = {
        answer["ref"]: Got(answer["status"], answer["body"], answer.get("headers", {}).get("Retry-After"))
        for answer in answers
    }
    return [by_ref[frame["ref"]] for frame in frames]


def over_a_packed_socket(running: Running, some: Sequence[Sent]) -> list[Got]:
    """The same in MessagePack."""
    return over_a_socket(running, some, packed=True)


Way: TypeAlias = Callable[[Running, Sequence[Sent]], list[Got]]

WAYS: list[Way] = [over_http, over_a_socket, over_a_packed_socket]

every_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


def make(running: Running, kinds: Iterable[str]) -> None:
    """Make the resources of these kinds, with what comes before their writes."""
    for kind in kinds:
        writes = KINDS[kind]
        assert running.client.put(f"/v1/{writes.resource}", json=writes.config).status_code in (200, 201)
        for method, path, body in writes.making:
            answer = running.client.request(method, f"/v1/{writes.resource}/{path}", json=body)
            assert answer.status_code < 300, answer.text


def state(running: Running, kind: str) -> tuple[Any, Any]:
    """The resource of a kind, and all that its writes change."""
    path = f"/v1/{KINDS[kind].resource}"
    items = running.client.get(f"{path}/{KINDS[kind].shown}?limit=1000").json()["items"]
    return running.client.get(path).json()["seq"], items


def logged(monkeypatch: pytest.MonkeyPatch) -> list[list[LogEntry]]:
    """The rows of each commit from now on."""
    commits: list[list[LogEntry]] = []
    append = Log.append

    def noted(self: Log, entries: Sequence[LogEntry], *more: Any) -> int:
        commits.append(list(entries))
        return append(self, entries, *more)

    monkeypatch.setattr(Log, "append", noted)
    return commits


@every_way
@pytest.mark.parametrize("kind", [kind for kind, writes in KINDS.items() if writes.keys])
def test_a_key_twice_in_one_turn_is_carried_out_once(start: Start, tmp_path: Path, kind: str, way: Way) -> None:
    """Also beside others, under another body, in a retry, and in one after a restart."""
    running: Running = start(data=tmp_path / "data")
    make(running, [kind])
    before, _ = state(running, kind)
    some = [Sent(kind, 0, "one"), Sent(kind, 1, "two"), Sent(kind, 0, "one"), Sent(kind, 2, "one"), Sent(kind, 3)]
    first, beside, same, other, behind = way(running, some)
    assert max(first.status, beside.status, behind.status) < 300, (first, beside, behind)
    assert same.status == 409 or same.body["replayed"]
    assert other.status in (409, 422)
    assert state(running, kind)[0] == before + 3
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    for one in (running, start(data=tmp_path / "copy")):
        there = state(one, kind)
        assert there == state(running, kind) and there[0] == before + 3
        again = way(one, some[:4])
        for got, wanted in zip(again, (first, beside, first), strict=False):
            assert (got.status, got.body) == wanted.replayed
        assert again[3].status == 422
        assert state(one, kind) == there


@every_way
@pytest.mark.parametrize("kind", KINDS)
def test_a_group_is_one_commit_and_comes_back_as_it_was(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, way: Way
) -> None:
    """After a kill right behind the answers, each request is there under its own seq."""
    running: Running = start(data=tmp_path / "data")
    make(running, [kind])
    before, _ = state(running, kind)
    commits = logged(monkeypatch)
    some = [Sent(kind, n, f"k{n}" if KINDS[kind].keys else "") for n in range(COUNT)]
    found = way(running, some)
    assert all(got.status < 300 for got in found), found
    assert [got.body["seq"] for got in found] == list(range(before + 1, before + COUNT + 1))
    assert [len(rows) for rows in commits] in ([1], [COUNT]), "one row for all of them, or one each, by one commit"
    monkeypatch.undo()
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    again: Running = start(data=tmp_path / "copy")
    assert state(again, kind) == state(running, kind)
    if KINDS[kind].keys:
        for got, wanted in zip(way(again, some), found, strict=True):
            assert (got.status, got.body) == wanted.replayed
        assert state(again, kind) == state(running, kind)


@pytest.mark.parametrize(
    ("turns", "rows"), [([2, 1, 2], [5]), ([1, 1], [1, 1]), ([MANY, 1], [MANY, 1]), ([2, MANY - 2, 1], [MANY, 1])]
)
def test_a_group_has_what_comes_while_others_are_read(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, turns: list[int], rows: list[int]
) -> None:
    """Up to so many, and a request by itself waits for no other."""
    running: Running = start(data=tmp_path / "data")
    make(running, ["objects of a board"])
    commits = logged(monkeypatch)
    ids = count()
    windows = [
        [Asked(request("PUT", f"/v1/boards/b/objects/o{next(ids)}", b'{"values":{"x":1,"y":1}}')) for _ in range(many)]
        for many in turns
    ]
    answers = running.call(in_turns, Door(running), windows)
    assert len(answers) == sum(turns) and all(b"201 Created" in answer for (answer,) in answers)
    assert [row.last_seq - row.first_seq + 1 for commit in commits for row in commit] == rows


DISTINCT = (
    "objects of a board",
    "subscriptions of a board",
    "subscriptions of a matcher",
    "published events",
    "subscriptions of a relay",
    "notifications",
    "objects of a map",
    "moves",
    "posts",
    "subscriptions of a feed",
)
"""Kinds that share no names, with one group or two for each resource."""


def refuse_all(running: Running, way: Way, slug: str) -> list[Sent]:
    """Requests of all kinds, which come in one turn: each is refused with this problem, and changed nothing."""
    some = [
        Sent(kind, n, f"{number}-{n}" if KINDS[kind].keys else "")
        for n in range(3)
        for number, kind in enumerate(DISTINCT)
    ]
    before = {kind: state(running, kind) for kind in DISTINCT}
    for one, got in zip(some, way(running, some), strict=True):
        assert (got.status, got.body["type"]) == (503, f"/problems/{slug}"), (one, got)
        assert got.retry_after, one
    assert {kind: state(running, kind) for kind in DISTINCT} == before
    return some


@every_way
@pytest.mark.parametrize("why", ["busy", "log-unavailable"])
def test_what_cannot_be_taken_refuses_the_groups_of_all_resources(
    start: Start, monkeypatch: pytest.MonkeyPatch, way: Way, why: str
) -> None:
    """A full queue, and a log that fails: each gets its 503, nothing has changed, and its key is free."""
    running: Running = start()
    make(running, DISTINCT)

    def fail(*given: Any) -> None:
        raise LogUnavailable("no room")

    with monkeypatch.context() as broken:
        if why == "busy":
            broken.setattr(running.service.writer, "_max_queue", 0)
        else:
            broken.setattr(Log, "append", fail)
        some = refuse_all(running, way, why)
    before = {kind: state(running, kind)[0] for kind in DISTINCT}
    for one, got in zip(some, way(running, some), strict=True):
        assert got.status < 300 and "replayed" not in got.body, (one, got)
    resources = [KINDS[kind].resource for kind in DISTINCT]
    for kind in DISTINCT:
        assert state(running, kind)[0] == before[kind] + 3 * resources.count(KINDS[kind].resource)
