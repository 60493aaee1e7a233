"""Every request to a board as a value: what to send and how to read the answer. No I/O.

Both clients are built on these, so that they say the same thing.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from rankcast_client.explained import Explanation, SubscriptionCost
from rankcast_client.models import (
    UNSET,
    Algorithm,
    AnyRange,
    BoardInfo,
    Entry,
    Event,
    Messages,
    Mode,
    OnError,
    Order,
    Pair,
    Published,
    Ranges,
    Registered,
    Subscription,
    Unset,
    Want,
    Where,
    entries,
)
from rankcast_client.shapes import Shape

T = TypeVar("T")

NAME = re.compile(r"[A-Za-z0-9._:-]{1,128}")
JSON_ELEMENTS = 1_000
"""Up to so many elements go as one JSON list; more go as NDJSON, for which the service allows larger bodies."""


@dataclass(frozen=True)
class Call(Generic[T]):
    """One request. `read` turns the JSON of its answer, as `decode` finds it, into a value. A `write` carries an
    Idempotency-Key; one that `asks` changes nothing, whatever its method, and is none."""

    method: str
    path: str
    read: Callable[[Any], T]
    params: Mapping[str, str] = field(default_factory=dict)
    content: bytes | None = None
    content_type: str | None = None
    asks: bool = False
    decode: Callable[[bytes], Any] = json.loads

    @property
    def write(self) -> bool:
        return self.method != "GET" and not self.asks

    @property
    def headers(self) -> dict[str, str]:
        return {"Content-Type": self.content_type} if self.content_type else {}


def board_path(board: str, *parts: str) -> str:
    """`/v1/boards/{board}/...`; raises ValueError for what cannot be a name, before it becomes another path."""
    return "/".join(["/v1/boards", segment(board), *parts])


def segment(name: str) -> str:
    if not NAME.fullmatch(name) or name in (".", ".."):
        raise ValueError(f"{name!r} is no name: 1-128 of A-Z a-z 0-9 . _ : -, and not . or ..")
    return quote(name)


def dumps(value: Any) -> bytes:
    """Compact JSON. Raises ValueError for NaN and infinities, which JSON does not have."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def wire_ranges(ranges: Ranges) -> dict[str, list[float | None]]:
    return {name: [finite(low), finite(high)] for name, (low, high) in ranges.items()}


def finite(end: float | None) -> float | None:
    """An end of a range for the wire: infinite is null."""
    return None if end is None or math.isinf(end) else end


def json_call(method: str, path: str, read: Callable[[Any], T], body: Any, **params: str) -> Call[T]:
    """A call with a JSON body."""
    return Call(method, path, read, params, dumps(body), "application/json")


def listed(name: str, elements: Sequence[Any], rest: Mapping[str, Any]) -> dict[str, Any]:
    """A body in JSON, or in NDJSON when there are many elements: as arguments of `Call`."""
    if len(elements) <= JSON_ELEMENTS:
        return {"content": dumps({**rest, name: elements}), "content_type": "application/json"}
    lines = b"\n".join(dumps(element) for element in elements)
    params = {key: json.dumps(value) if isinstance(value, bool) else str(value) for key, value in rest.items()}
    return {"content": lines, "content_type": "application/x-ndjson", "params": params}


# Boards


def put_board(
    board: str,
    range_attributes: Sequence[str],
    rank: str,
    order: Order,
    ks: Iterable[int],
    algorithm: Algorithm | None,
    epsilon: float | None,
    sketch: int | None,
    indexed: Sequence[str],
) -> Call[BoardInfo]:
    body: dict[str, Any] = {
        "range_attributes": list(range_attributes),
        "rank": {"attribute": rank, "order": order},
        "ks": list(ks),
    }
    if algorithm is not None:
        body["algorithm"] = algorithm
    if epsilon is not None:
        body["epsilon"] = epsilon
    if sketch is not None:
        body["sketch"] = sketch
    if indexed:
        body["indexed"] = list(indexed)
    return json_call("PUT", board_path(board), lambda data: BoardInfo.from_json(board, data), body)


def patch_board(
    board: str,
    ks: Iterable[int] | None,
    algorithm: Algorithm | None,
    epsilon: float | Unset | None,
    sketch: int | Unset | None,
) -> Call[BoardInfo]:
    body: dict[str, Any] = {}
    if ks is not None:
        body["ks"] = list(ks)
    if algorithm is not None:
        body["algorithm"] = algorithm
    if not isinstance(epsilon, Unset):
        body["epsilon"] = epsilon
    if not isinstance(sketch, Unset):
        body["sketch"] = sketch
    return json_call("PATCH", board_path(board), lambda data: BoardInfo.from_json(board, data), body)


def board_info(board: str) -> Call[BoardInfo]:
    return Call("GET", board_path(board), lambda data: BoardInfo.from_json(board, data))


def delete_board(board: str) -> Call[int]:
    return Call("DELETE", board_path(board), seq_of)


def seq_of(data: Any) -> int:
    """The seq of an answer."""
    return int(data["seq"])


@dataclass(frozen=True)
class Page(Generic[T]):
    """One page of a list; `next` is the cursor of the one after it."""

    items: tuple[T, ...]
    next: str | None


def page(path: str, item: Callable[[Any], T], limit: int, cursor: str | None) -> Call[Page[T]]:
    params = {"limit": str(limit)} | ({"cursor": cursor} if cursor is not None else {})
    return Call("GET", path, lambda data: Page(tuple(map(item, data["items"])), data["next"]), params)


def boards(limit: int, cursor: str | None) -> Call[Page[BoardInfo]]:
    return page("/v1/boards", lambda data: BoardInfo.from_json(str(data.get("name", "")), data), limit, cursor)


# Objects


def publish(board: str, events: Sequence[Event], mode: Mode, messages: Messages, on_error: OnError) -> Call[Published]:
    rest = {"mode": mode, "messages": messages, "on_error": on_error}
    return Call("POST", board_path(board, "events"), Published.from_json, **listed("events", events, rest))


def publish_arrow(board: str, stream: bytes, mode: Mode, messages: Messages, on_error: OnError) -> Call[Published]:
    return Call(
        "POST",
        board_path(board, "events"),
        Published.from_json,
        {"mode": mode, "messages": messages, "on_error": on_error},
        stream,
        "application/vnd.apache.arrow.stream",
    )


def write_object(method: str, board: str, id: str, values: Mapping[str, float] | None, payload: Any) -> Call[Published]:
    body: dict[str, Any] = {}
    if values is not None:
        body["values"] = values
    if payload is not UNSET:
        body["payload"] = payload
    return json_call(method, board_path(board, "objects", segment(id)), Published.from_json, body)


def delete_object(board: str, id: str) -> Call[Published]:
    return Call("DELETE", board_path(board, "objects", segment(id)), Published.from_json)


def get_object(board: str, id: str) -> Call[Entry]:
    return Call("GET", board_path(board, "objects", segment(id)), Entry.from_json)


def objects(board: str, limit: int, cursor: str | None) -> Call[Page[Entry]]:
    return page(board_path(board, "objects"), Entry.from_json, limit, cursor)


End = float | None | Mapping[str, float | None]


def top(
    board: str,
    l: End,  # noqa: E741
    r: End,
    k: int | None,
    offset: int,
    where: Where | None,
) -> Call[tuple[Entry, ...]]:
    params = _end_params("l", l) | _end_params("r", r)
    params |= {f"where.{name}": dumps(value).decode() for name, value in (where or {}).items()}
    if k is not None:
        params["k"] = str(k)
    if offset:
        params["offset"] = str(offset)
    return Call("GET", board_path(board, "top"), lambda data: entries(data["list"]), params)


def _end_params(name: str, end: End) -> dict[str, str]:
    named = {f"{name}.{at}": value for at, value in end.items()} if isinstance(end, Mapping) else {name: end}
    return {key: repr(value) for key, end in named.items() if (value := finite(end)) is not None}


# Asking why


def explain(board: str, event: Event, algorithm: Algorithm | None, epsilon: float | Unset | None) -> Call[Explanation]:
    body: dict[str, Any] = {"event": event}
    if algorithm is not None:
        body["algorithm"] = algorithm
    if not isinstance(epsilon, Unset):
        body["epsilon"] = epsilon
    return replace(json_call("POST", board_path(board, "explain"), Explanation.from_json, body), asks=True)


def explain_subscription(board: str, id: str) -> Call[SubscriptionCost]:
    return Call("GET", board_path(board, "subscriptions", segment(id), "explain"), SubscriptionCost.from_json)


# Subscriptions


def ranges_of(range: Pair | Ranges | None, attributes: Sequence[str]) -> Ranges:
    """A range by attribute. A pair is for the board's only one."""
    if range is None:
        return {}
    if isinstance(range, Mapping):
        return range
    if len(attributes) != 1:
        raise ValueError(f"the board has the range attributes {', '.join(attributes)}: say which the range is for")
    return {attributes[0]: pair(range)}


def pair(range: Any) -> Pair:
    low, high = range
    return low, high


def wire_region(range: AnyRange, attributes: Sequence[str]) -> dict[str, Any]:
    """The field that says a subscription's region."""
    if isinstance(range, Shape):
        return {range.name: range.wire()}
    return {"range": wire_ranges(ranges_of(range, attributes))}


def register(
    board: str, wants: Iterable[Want], attributes: Sequence[str], lists: bool | None, on_error: OnError
) -> Call[Registered]:
    elements = []
    for want in wants:
        element: dict[str, Any] = dict(want)
        if "range" in want:
            del element["range"]
            element |= wire_region(want["range"], attributes)
        elements.append(element)
    rest: dict[str, Any] = {"on_error": on_error} | ({} if lists is None else {"lists": lists})
    path = board_path(board, "subscriptions")
    return Call("POST", path, Registered.from_json, **listed("subscriptions", elements, rest))


def get_subscription(board: str, id: str) -> Call[Subscription]:
    return Call("GET", board_path(board, "subscriptions", segment(id)), Subscription.from_json)


def write_subscription(
    method: str,
    board: str,
    id: str,
    region: Ranges | Shape | None,
    k: int | None,
    ttl: float | Unset | None,
    offset: int | None,
    where: Where | None,
) -> Call[Subscription]:
    body: dict[str, Any] = {} if region is None else wire_region(region, ())
    if k is not None:
        body["k"] = k
    if offset is not None:
        body["offset"] = offset
    if where is not None:
        body["where"] = where
    if not isinstance(ttl, Unset):
        body["ttl"] = ttl
    return json_call(method, board_path(board, "subscriptions", segment(id)), Subscription.from_json, body)


def delete_subscription(board: str, id: str) -> Call[int]:
    return Call("DELETE", board_path(board, "subscriptions", segment(id)), seq_of)


def delete_subscriptions(board: str, ids: Iterable[str]) -> Call[int]:
    path = board_path(board, "subscriptions", "delete")
    return json_call("POST", path, lambda data: int(data["deleted"]), {"ids": list(ids)})


def subscriptions(board: str, limit: int, cursor: str | None) -> Call[Page[Subscription]]:
    return page(board_path(board, "subscriptions"), Subscription.from_json, limit, cursor)
