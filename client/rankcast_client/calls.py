"""A request as a value: what to send and how to read the response. No I/O."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar
from urllib.parse import quote

from rankcast_client.models import OnError, Pair, Unset

T = TypeVar("T")
Info = TypeVar("Info")
Sub = TypeVar("Sub")

ARROW = "application/vnd.apache.arrow.stream"
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


def segment(name: str) -> str:
    if not NAME.fullmatch(name) or name in (".", ".."):
        raise ValueError(f"{name!r} is no name: 1-128 of A-Z a-z 0-9 . _ : -, and not . or ..")
    return quote(name)


def dumps(value: Any) -> bytes:
    """Compact JSON. Raises ValueError for NaN and infinities, which JSON does not have."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def given(**fields: Any) -> dict[str, Any]:
    """The fields of a body that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def changed(**fields: Any) -> dict[str, Any]:
    """The fields of a body that are not `UNSET`; None removes what is there."""
    return {name: value for name, value in fields.items() if not isinstance(value, Unset)}


def wire_ranges(ranges: Mapping[str, Pair | None]) -> dict[str, list[float | None] | None]:
    """Ranges for the wire; None stays None."""
    return {name: None if pair is None else [finite(end) for end in pair] for name, pair in ranges.items()}


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


def deleted_of(data: Any) -> int:
    """How many a response says were deleted."""
    return int(data["deleted"])


@dataclass(frozen=True)
class ResourceCalls(Generic[Info, Sub]):
    """The requests that resources of one `type`, such as "boards", share. `subscriptions` is what their subscriptions
    are called in paths and bodies."""

    type: str
    info_of: Callable[[str, Mapping[str, Any]], Info]
    subscription_of: Callable[[Mapping[str, Any]], Sub]
    subscriptions: str = "subscriptions"

    def path(self, name: str, *parts: str) -> str:
        """`/v1/<type>/<name>/...`. Raises ValueError for what cannot be a name, before it becomes another path."""
        return "/".join([f"/v1/{self.type}", segment(name), *parts])

    def path_of(self, name: str, id: str, *parts: str) -> str:
        """The path of a subscription. Raises ValueError as `path` does."""
        return self.path(name, self.subscriptions, segment(id), *parts)

    def configure(self, method: str, name: str, body: Mapping[str, Any]) -> Call[Info]:
        return json_call(method, self.path(name), partial(self.info_of, name), body)

    def info(self, name: str) -> Call[Info]:
        return Call("GET", self.path(name), partial(self.info_of, name))

    def delete(self, name: str) -> Call[int]:
        return Call("DELETE", self.path(name), seq_of)

    def all(self, limit: int, cursor: str | None) -> Call[Page[Info]]:
        return page(f"/v1/{self.type}", partial(self.info_of, ""), limit, cursor)

    def publish(
        self, name: str, part: str, elements: Sequence[Any], read: Callable[[Any], T], **options: Any
    ) -> Call[T]:
        """Send elements to the part of the resource that is called as they are, such as "events"."""
        return Call("POST", self.path(name, part), read, **listed(part, elements, given(**options)))

    def publish_arrow(
        self, name: str, part: str, stream: bytes, read: Callable[[Any], T], on_error: OnError, **params: str
    ) -> Call[T]:
        """Send the rows of an Arrow IPC stream to a part of the resource."""
        return Call("POST", self.path(name, part), read, {**params, "on_error": on_error}, stream, ARROW)

    def get_subscription(self, name: str, id: str) -> Call[Sub]:
        return Call("GET", self.path_of(name, id), self.subscription_of)

    def write_subscription(
        self, method: str, name: str, id: str, body: Mapping[str, Any], ttl: float | Unset | None
    ) -> Call[Sub]:
        """PUT or PATCH a subscription. `ttl` None removes the time limit in a PATCH; a PUT has no limit without it."""
        limit = given(ttl=ttl) if method == "PUT" else changed(ttl=ttl)
        return json_call(method, self.path_of(name, id), self.subscription_of, {**body, **limit})

    def delete_subscription(self, name: str, id: str) -> Call[int]:
        return Call("DELETE", self.path_of(name, id), seq_of)

    def delete_many(self, name: str, part: str, ids: Iterable[str]) -> Call[int]:
        """Delete many subscriptions or objects, by the `part` that they are; reads how many there were."""
        return json_call("POST", self.path(name, part, "delete"), deleted_of, {"ids": list(ids)})

    def all_subscriptions(self, name: str, limit: int, cursor: str | None) -> Call[Page[Sub]]:
        return page(self.path(name, self.subscriptions), self.subscription_of, limit, cursor)
