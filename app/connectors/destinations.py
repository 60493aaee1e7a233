"""Where events go: one of the five resources, and what a request to it looks like."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app.connectors.errors import ConnectorError

MOST_WINNERS = 50_000
"""Winners for which the service keeps an answer under an Idempotency-Key."""

_NAME = re.compile(r"[A-Za-z0-9_.:-]{1,128}")
_INDEXED = re.compile(r"[a-z]+\[\d+\]\.?")


class Kind(NamedTuple):
    """How one type of resource takes events: the end of the path, the list of the body, and what stands beside it."""

    path: str
    elements: str
    beside: Mapping[str, Any]


KINDS = {
    "boards": Kind("events", "events", {"messages": "none"}),
    "feeds": Kind("posts", "posts", {}),
    "maps": Kind("objects", "objects", {}),
    "matchers": Kind("match", "events", {"notify": True}),
    "relays": Kind("notifications", "notifications", {}),
}


@dataclass(frozen=True)
class Destination:
    """A resource by type and name. `k` is how many subscriptions a matcher notifies of an event."""

    type: str
    name: str
    k: int = 20
    _before: bytes = field(init=False, repr=False)

    def __post_init__(self) -> None:
        kind = KINDS[self.type]
        beside = {**kind.beside, "on_error": "skip"} | ({"k": self.k} if self.type == "matchers" else {})
        head = json.dumps(beside, separators=(",", ":"))
        object.__setattr__(self, "_before", f'{head[:-1]},"{kind.elements}":['.encode())

    def __str__(self) -> str:
        return f"{self.type}/{self.name}"

    @property
    def path(self) -> str:
        """The path of requests."""
        return f"/v1/{self.type}/{self.name}/{KINDS[self.type].path}"

    def most(self, batch: int) -> int:
        """How many elements a request may have where a user asks for so many."""
        return max(1, min(batch, MOST_WINNERS // self.k)) if self.type == "matchers" else batch

    def body(self, elements: Iterable[str]) -> bytes:
        """A request with these elements, which are JSON. The same elements give the same bytes."""
        return self._before + ",".join(elements).encode() + b"]}"

    def applied(self, answer: Mapping[str, Any], sent: int) -> int:
        """How many elements an answer says were applied, of those sent."""
        if isinstance(applied := answer.get("applied"), int):
            return applied
        results = answer.get("results")
        return len(results) if isinstance(results, list) else sent


def relative(path: str) -> str:
    """A field of an element, from the path in an answer.

    >>> relative("events[3].values.delay")
    'values.delay'
    """
    return _INDEXED.sub("", path, count=1)


def parse_destination(text: str, k: int = 20) -> Destination:
    """The destination that ``boards/delays`` names. Raises ConnectorError."""
    type, _, name = text.partition("/")
    if type not in KINDS or not _NAME.fullmatch(name) or name in (".", ".."):
        raise ConnectorError(f"{text!r} is none of {', '.join(f'{one}/NAME' for one in KINDS)}")
    return Destination(type, name, k)
