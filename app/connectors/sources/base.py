"""What a connector needs of a source, whichever broker it is."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from app.connectors.addresses import Address
from app.connectors.errors import ConnectorError
from app.connectors.messages import Chunk, Message, Span

WAIT = 1.0
"""Seconds that a source waits for messages before it says that there are none."""

SECONDS = 10.0
"""Until a broker that says nothing counts as lost."""


@dataclass(frozen=True, slots=True)
class Options:
    """The options of a source: who reads, where it begins when nothing is kept, and how much may be read ahead.

    `dead_elsewhere` says that dead letters do not go to the broker; `field` is the one of a Redis entry, ``*`` all.
    """

    name: str
    begin: Literal["first", "new"] = "first"
    ahead: int = 4_000
    dead_elsewhere: bool = False
    field: str = "data"


class Source(Protocol):
    """Messages of one broker, in order within each lane.

    A source with positions is `exact`: `begin` keeps at the broker which messages the next request has, so that after
    any end the same request is sent again, under the same key. The others deliver again what was not acknowledged.
    """

    exact: bool
    identity: str
    """What tells this source from others, and from one of this name that was recreated."""

    drop: Callable[[Iterable[str]], None]
    """Called with lanes that others read from now on."""

    async def open(self) -> None:
        """Connect, and go on from what is kept. Raises BrokerLost and ConnectorError, as all do."""
        ...

    async def read(self, most: int) -> Chunk | None:
        """What waits, up to so many messages; None when there was nothing for a while."""
        ...

    async def begin(self, span: Span) -> bool:
        """Keep that this request is about to be sent; false where others read its lane now."""
        ...

    async def done(self, span: Span, messages: Sequence[Message], dead: Sequence[bytes], more: bool) -> bool:
        """Publish the dead letters, acknowledge the messages, keep the position; false as with `begin`.

        With `more` the next `begin` follows soon, and says the same.
        """
        ...

    async def close(self) -> None:
        """Let the broker go, whatever state it is in."""
        ...


@dataclass(frozen=True, slots=True)
class Place:
    """How far a lane is: the last request and whether it is done. `source` tells which stream of this name it was."""

    first: str
    last: str
    done: bool
    source: str = ""
    at: float = 0.0

    def dump(self) -> bytes:
        """The place as it is kept at a broker."""
        fields = {"first": self.first, "last": self.last, "done": self.done, "source": self.source}
        return json.dumps({**fields, "at": int(time.time())}, separators=(",", ":")).encode()


def parse_place(raw: bytes | str, where: str) -> Place:
    """A place from a broker. Raises ConnectorError for what is none: to guess would lose events."""
    try:
        data: Any = json.loads(raw)
        place = Place(data["first"], data["last"], data["done"], data["source"], float(data["at"]))
    except (ValueError, KeyError, TypeError):
        raise ConnectorError(f"{where} holds no position of a connector: {raw[:80]!r}") from None
    if not all(isinstance(one, str) for one in (place.first, place.last, place.source)):
        raise ConnectorError(f"{where} holds no position of a connector: {raw[:80]!r}")
    return place


def taken_over(name: str) -> ConnectorError:
    """Another connector of this name reads the same source."""
    return ConnectorError(f"another connector named {name} reads this source now: give each a --name of its own")


def no_dead(address: Address, dead: str) -> ConnectorError:
    """Dead letters would come back as messages."""
    return ConnectorError(f"{dead} is part of what is read from {address}: name a file for dead letters by --dead")
