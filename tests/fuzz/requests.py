"""Plans of requests as requests: in one of their formats, mutated or not."""

from __future__ import annotations

import copy
import json
from random import Random
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from tests.fuzz.grammar import Plan, World, arrow_of
from tests.fuzz.sessions import Request, with_body
from tests.fuzz.values import NUMBERS, STRINGS, mutate_bytes, mutate_table, mutate_tree, text_of

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"

HEADERS: tuple[tuple[str, str], ...] = (
    ("content-type", "text/plain"),
    ("content-type", ""),
    ("content-type", "application/json; charset=utf-16"),
    ("content-type", ARROW),
    ("content-type", NDJSON),
    ("content-type", JSON),
    ("content-encoding", "gzip"),
    ("transfer-encoding", "chunked"),
    ("content-length", "-1"),
    ("content-length", "99999999999999999999"),
    ("content-length", "x"),
    ("accept", "text/html"),
    ("idempotency-key", ""),
    ("idempotency-key", "x" * 300),
    ("idempotency-key", "\x00"),
    ("x-request-id", "a b"),
    ("host", "evil.example"),
    ("origin", "https://evil.example"),
    ("authorization", "Bearer"),
    ("authorization", "Basic x"),
    ("authorization", "Bearer ey.ey.ey"),
    ("last-event-id", "x:1"),
    ("last-event-id", "9" * 400),
    ("if-none-match", "*"),
    ("if-none-match", '"1"'),
    ("range", "bytes=0-1"),
    ("expect", "100-continue"),
)

METHODS = ("GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS", "TRACE", "BREW")


def request_of(rng: Random, world: World, wild: float = 0.5) -> Request:
    """A request of a world; with the chance `wild` something about it is not as it should be."""
    return rendered(rng, world.request(), wild)


def rendered(rng: Random, plan: Plan, wild: float) -> Request:
    """A plan as a request."""
    body: Any = copy.deepcopy(plan.body)
    headers: dict[str, str] = {"idempotency-key": f"k{rng.randrange(6)}"} if rng.random() < 0.1 else {}
    query = list(plan.query)
    tree, raw, target = rng.random() < wild * 0.7, rng.random() < wild * 0.1, plan.path
    if tree and plan.elements is None and body is not None:
        body = _mutated(rng, body)
    content = b""
    if plan.elements is not None and rng.random() < (1.0 if plan.elements == "lines" else 0.4):
        elements = body.pop(plan.elements)
        query += [(name, json.dumps(value).strip('"')) for name, value in body.items()]
        if plan.elements == "lines" or rng.random() < 0.5:
            headers["content-type"] = NDJSON
            elements = _mutated(rng, elements) if tree else elements
            lines = elements if isinstance(elements, list) else [elements]
            end = "\r\n" if rng.random() < 0.05 else "\n"
            content = end.join(text_of(rng, line) for line in lines).encode("utf-8", "surrogatepass")
        else:
            headers["content-type"] = ARROW
            content = _arrow(rng, elements, tree)
    elif body is not None:
        headers["content-type"] = JSON
        if tree and plan.elements is not None:
            body = _mutated(rng, body)
        content = text_of(rng, body).encode("utf-8", "surrogatepass")
        if rng.random() < 0.02:
            content = content.decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-32", "utf-8-sig")))
    if raw and content:
        content = mutate_bytes(rng, content)
    method = rng.choice(METHODS) if rng.random() < wild * 0.04 else plan.method
    if rng.random() < wild * 0.12:
        name, value = rng.choice(HEADERS)
        headers[name] = value
    if rng.random() < wild * 0.1:
        names = [name for name, _ in query] or [
            "limit",
            "k",
            "l",
            "lists",
            "on_error",
            "after",
            "form",
            "cursor",
            "squash",
            "offset",
        ]
        odd = rng.choice((*STRINGS, *(str(number)[:400] for number in NUMBERS if number != 10**4000)))
        query.append((rng.choice(names), odd))
    if rng.random() < wild * 0.06:
        parts = target.split("/")
        parts[rng.randrange(len(parts))] = rng.choice(STRINGS)
        target = "/".join(quote(part, safe=":", errors="replace") for part in parts)
    if query:
        pairs = (f"{name}={quote(value, errors='replace')}" for name, value in query)
        target += "?" + "&".join(pairs)
    return with_body({"method": method, "target": target, "headers": headers}, content)


def _mutated(rng: Random, tree: Any) -> Any:
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        tree = mutate_tree(rng, tree)
    return tree


def _arrow(rng: Random, elements: list[dict[str, Any]], tree: bool) -> bytes:
    try:
        table = arrow_of(elements)
        if tree:
            for _ in range(rng.choice((1, 1, 2))):
                table = mutate_table(rng, table)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table, max_chunksize=rng.choice((1, 3, 1000)))
        return bytes(sink.getvalue())
    except (pa.ArrowException, ValueError, TypeError):
        return b""
