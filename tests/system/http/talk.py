"""How the tests talk to a live service: plain requests, and what a refusal must look like."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from typing import Any

import httpx
import pyarrow as pa

from tests.support.patience import PATIENCE

Json = dict[str, Any]

NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
_NUMBERS = itertools.count(1)


def fresh(prefix: str = "b") -> str:
    """A name that no test has used on this service."""
    return f"{prefix}{next(_NUMBERS)}"


def strict(text: str | bytes) -> Any:
    """JSON without NaN and Infinity, which are not JSON."""

    def refuse(literal: str) -> None:
        raise AssertionError(f"{literal} in an answer")

    return json.loads(text, parse_constant=refuse)


ZONED: set[str] = set()
"""The services whose boards have zones."""


class Talk:
    """Requests to one service. `calls` holds the last ones, for messages of failed tests."""

    def __init__(self, url: str, key: str | None = None, http: httpx.Client | None = None) -> None:
        self.url = url
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.http = http or httpx.Client(base_url=url, headers=headers, timeout=PATIENCE)
        self.calls: list[str] = []

    def close(self) -> None:
        self.http.close()

    def ask(self, method: str, path: str, body: Any = None, **more: Any) -> httpx.Response:
        """One request; `body` is JSON, or bytes with the header given in `more`."""
        headers = dict(more.pop("headers", None) or {})
        content = None
        if self.url in ZONED and method == "PUT" and path.count("/") == 3 and isinstance(body, dict):
            body = {"zones": 4, **body} if "range_attributes" in body else body
        if body is not None:
            content = body if isinstance(body, bytes) else json.dumps(body).encode()
            headers.setdefault("Content-Type", "application/json")
        answer = self.http.request(method, path, content=content, headers=headers, **more)
        shown = content[:2000] if content else b""
        self.calls = [
            *self.calls[-30:],
            f"{method} {answer.request.url} {shown!r} -> {answer.status_code} {answer.text[:600]}",
        ]
        assert answer.status_code < 500 or answer.status_code == 503, self.calls[-1]
        if method != "HEAD" and answer.headers.get("content-type") in ("application/json", "application/problem+json"):
            assert answer.content.endswith(b"}\n"), self.calls[-1]
        return answer

    def good(self, method: str, path: str, body: Any = None, **more: Any) -> Json:
        """The answer of a request that must be accepted."""
        answer = self.ask(method, path, body, **more)
        assert answer.status_code in (200, 201), self.calls[-1]
        assert answer.headers["content-type"] == "application/json", self.calls[-1]
        found: Json = strict(answer.content)
        return found

    def pages(self, path: str, limit: int) -> list[Json]:
        """All items of a list, page by page; every page but the last is full."""
        items: list[Json] = []
        cursor = None
        while True:
            page = self.good("GET", path, params={"limit": limit} | ({} if cursor is None else {"cursor": cursor}))
            assert page.keys() >= {"items", "next"}
            items += page["items"]
            cursor = page["next"]
            if cursor is None:
                return items
            assert len(page["items"]) == limit

    def state(self, board: str) -> Json:
        """All that can be seen of a board."""
        path = f"/v1/boards/{board}"
        subscriptions = self.pages(f"{path}/subscriptions", 1000)
        lists = {s["id"]: self.good("GET", f"{path}/subscriptions/{s['id']}") for s in subscriptions}
        shown = self.good("GET", path)
        top = self.good("GET", f"{path}/top", params={"k": 1000})
        return {
            "board": shown,
            "objects": self.pages(f"{path}/objects", 1000),
            "subscriptions": subscriptions,
            "lists": lists,
            "top": top,
        }


def problem(answer: httpx.Response, status: int, *fields: str, exact: bool = True) -> Json:
    """The problem document of a refusal, checked: status, type, and the fields that it names (`exact`: no others)."""
    assert answer.status_code == status, f"{answer.status_code} {answer.text[:500]}"
    assert answer.headers["content-type"] == "application/problem+json"
    found: Json = strict(answer.content)
    assert found["status"] == status
    assert found["type"].startswith("/problems/") and len(found["type"]) > len("/problems/")
    assert isinstance(found["title"], str) and found["title"]
    assert isinstance(found["detail"], str) and found["detail"]
    named = [error["field"] for error in found["errors"]]
    assert all(error["reason"] and isinstance(error["reason"], str) for error in found["errors"])
    if exact and fields:
        assert sorted(named) == sorted(fields), found
    assert set(fields) <= set(named), found
    if status == 503:
        assert int(answer.headers["retry-after"]) >= 0
    return found


def ndjson(elements: Iterable[Any]) -> bytes:
    """One element a line."""
    return b"".join(json.dumps(element).encode() + b"\n" for element in elements)


def arrow(table: pa.Table, rows: int | None = None) -> bytes:
    """A table as an Arrow IPC stream, in batches of so many rows."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=rows)
    return bytes(sink.getvalue())


def event_table(events: list[Json], attributes: Iterable[str], text: Callable[[], pa.DataType] = pa.string) -> pa.Table:
    """Events as the Arrow columns op, id, <attribute>..., payload (JSON text; null: not given)."""
    columns: dict[str, pa.Array] = {
        "op": pa.array([event["op"] for event in events], text()),
        "id": pa.array([event["id"] for event in events], text()),
    }
    for name in attributes:
        given = [event.get("values", {}).get(name) for event in events]
        columns[name] = pa.array([None if value is None else float(value) for value in given], pa.float64())
    payloads = [json.dumps(event["payload"]) if "payload" in event else None for event in events]
    columns["payload"] = pa.array(payloads, text())
    return pa.table(columns)


def subscription_table(subscriptions: list[Json], attribute: str) -> pa.Table:
    """Subscriptions as the Arrow columns id, k, <attribute>_min, <attribute>_max, and offset where one has it."""
    ranges = [one.get("range", {}).get(attribute, [None, None]) for one in subscriptions]
    ranges = [[None if end is None else float(end) for end in pair] for pair in ranges]
    offsets = [one.get("offset", 0) for one in subscriptions]
    return pa.table(
        {
            "id": pa.array([one["id"] for one in subscriptions], pa.string()),
            "k": pa.array([one["k"] for one in subscriptions], pa.int32()),
            f"{attribute}_min": pa.array([pair[0] for pair in ranges], pa.float64()),
            f"{attribute}_max": pa.array([pair[1] for pair in ranges], pa.float64()),
            **({"offset": pa.array(offsets, pa.int32())} if any(offsets) else {}),
        }
    )
