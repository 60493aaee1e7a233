"""The configuration of a relay, its links, and the messages that are sent over them.

There are two sorts of ids. Those of *clients* are known here alone; they are sent as ``<service>:<relay>:<id>``. Those
that came over a link in a message (*travelled*) are complete already, and are sent on as they are. The two never clash:
the internal key of a travelled id begins with `TRAVELLED`, which no id does. Responses show ids, never keys.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.compute as pc

UPSTREAM = ""
"""The one neighbour of a relay without links; no link has this name."""

TRAVELLED = "~"
"""Prefix of the key of an id that came over a link. It sorts after all characters of ids."""

MOST_ID = 400
"""Characters of an id that travelled."""

REVERSED = "lo must be at most hi"
"""The reason for refusing a side of a box."""

Values = Mapping[str, Any]


def shown(key: str) -> str:
    """The id of a key."""
    return key.removeprefix(TRAVELLED)


def shown_column(keys: pa.LargeStringArray) -> pa.LargeStringArray:
    """As `shown` for each key, several times faster."""
    bare = pc.utf8_slice_codeunits(keys, len(TRAVELLED))
    return pc.if_else(pc.starts_with(keys, TRAVELLED), bare, keys)


@dataclass(frozen=True, slots=True)
class Link:
    """The way to a relay of another service: its url, its name, the name of this link there, and the key to be sent
    with requests, which is never shown.

    `private` says that it may lead to addresses that are not public, as one that an administrator made.
    """

    url: str
    relay: str
    link: str
    key: str | None = field(default=None, repr=False)
    private: bool = True

    def same_peer(self, other: Link) -> bool:
        """Whether both lead to the same relay; the key may differ."""
        return (self.url, self.relay, self.link) == (other.url, other.relay, other.link)

    def same_place(self, url: str) -> bool:
        """Whether a URL leads to the same server, to which the key may be sent."""
        try:
            mine, other = urlsplit(self.url), urlsplit(url)
        except ValueError:
            return False
        return (mine.scheme, mine.netloc.lower()) == (other.scheme, other.netloc.lower())


@dataclass(frozen=True, slots=True)
class RelayConfig:
    """A relay: its named numeric attributes, its relation graph and its covering index. `k` is of G only.

    Only the `links`, by name, can change: see `commands.ChangeLinks`.
    """

    attributes: tuple[str, ...]
    graph: Literal["G", "G*", "poset"] = "G"
    k: int = 1
    index: Literal["kd", "zorder", "linear"] = "kd"
    links: Mapping[str, Link] = field(default_factory=dict)


Op = Literal["reset", "subscribe", "unsubscribe", "notify"]


class Message(NamedTuple):
    """A message from one relay to another, numbered without gaps within an epoch.

    `reset`: the first message of an epoch. The next `follow` messages are subscriptions, all that are forwarded; with
    the last of them, subscriptions from before the reset that were not repeated end, so that there is no gap. `follow`
    0 ends all at once.

    `subscribe`: `id` and `box`, both ends of every attribute in order; an id that is present gets this box.
    `unsubscribe`: `id`; an unknown one is ignored.

    `notify`: `values` of every attribute in order, and `payload`, compact JSON text. `mark` stays with it from epoch to
    epoch: the epoch in which it was first queued, and its number among the notifications of that epoch, from 0. A
    receiver that has had it, or a later one of that epoch, ignores it; None is never ignored.

    `own`: in an outgoing message, whether a client here made the `id`: it is sent as ``<service>:<relay>:<id>``, any
    other as it is. It has no meaning in a message that was received.
    """

    n: int
    op: Op
    id: str = ""
    box: tuple[tuple[float, float], ...] = ()
    follow: int = 0
    values: tuple[float, ...] = ()
    payload: bytes | None = None
    mark: tuple[str, int] | None = None
    own: bool = False
