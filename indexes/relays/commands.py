"""The commands of a relay: all that can change its state, and the only contents of its log.

A command carries its data whole, so that applying the same commands in the same order gives the same state: whoever
submits a command that begins an epoch also makes its name.

How two relays stay in step. Each has a queue for the other (`config.Message`), numbered within an *epoch* of its own. A
sender

1. submits a `Restart` with a new epoch whenever the queue is `stale`, as it is when a link is new, and after this data
   directory was restored;
2. sends messages from `first` on with the epoch, and submits an `Acked` with the `next` of the response;
3. continues from that `next`. Where the queue no longer has what the neighbour lacks, `Acked` makes it stale. To notice
   this when nothing waits, too, it sends an empty request at its start and now and then.

The receiver submits a `Receive`, whose outcome has the response.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from indexes.core.arrays import Bytes, Floats
from indexes.core.elements import Deletion, Elements
from indexes.relays.config import Link, Message
from indexes.relays.kernels.points import as_points


class SubscriptionState(NamedTuple):
    """A subscription: its box as a point (`points.as_points`), the link that it came over, and its time limit in
    seconds, None for none."""

    point: Floats
    link: str | None
    ttl: float | None

    def same_box(self, other: SubscriptionState) -> bool:
        """Whether both have the same box and link."""
        return self.link == other.link and np.array_equal(self.point, other.point)


def local(n: int) -> pa.StringArray:
    """The links of so many local subscriptions."""
    return pa.nulls(n, pa.string())


@dataclass(slots=True)
class AddSubscriptions(Elements):
    """New subscriptions: boxes by their ends, `lo` and `hi` of shape (n, d) in order of the attributes, infinite where
    unbounded. `link` names the one that each came over, null for a local one; None for all local. `ttl` maps an index
    to seconds. Each takes a seq.

    With `skip` invalid ones are left out and reported (`plan.faults`, and `plan.positions` of the others); without it
    one of them refuses the whole command.

    Outcome: `plan.results`, a `Subscribed` each. Response: ``{"results": [{"id", "forward", "covered_by"}]}``.
    """

    ids: pa.StringArray
    lo: Floats
    hi: Floats
    link: pa.StringArray | None = None
    ttl: dict[int, float] = field(default_factory=dict)
    skip: bool = False

    def state_at(self, i: int) -> SubscriptionState:
        """What the one at this place will be."""
        link = None if self.link is None else self.link[i].as_py()
        return SubscriptionState(as_points(self.lo[[i]], self.hi[[i]])[0], link, self.ttl.get(i))


@dataclass(slots=True)
class EditSubscriptions(Elements):
    """Subscriptions that begin and end in order, each with a seq of its own: `op` is `SUBSCRIBE` or `UNSUBSCRIBE` of
    `forward.py`, and the rest as in `AddSubscriptions`; `lo`, `hi` and `link` of one that ends have no meaning. An id
    may occur several times. They are some thousands at most, often one, so that ids and links are lists.

    Outcome: `plan.results`, a `Subscribed` or `Unsubscribed` each. Response: ``{"results": [{"id", "seq", ...}]}``.
    """

    op: Bytes
    ids: list[str]
    lo: Floats
    hi: Floats
    link: list[str | None] | None = None
    ttl: dict[int, float] = field(default_factory=dict)
    skip: bool = False

    def state_at(self, i: int) -> SubscriptionState:
        """What the one at this place will be, which begins."""
        link = None if self.link is None else self.link[i]
        return SubscriptionState(as_points(self.lo[[i]], self.hi[[i]])[0], link, self.ttl.get(i))


@dataclass(slots=True)
class SetSubscription:
    """Make a subscription, or end it and begin it again with this box (`lo`, `hi` of shape (d,)), in one seq: it
    becomes the youngest. The same box, link and time limit as before change nothing.

    Outcome: `plan.made`; `plan.ended`, an `Unsubscribed`, None where it was made or only its `ttl` changed; and
    `plan.begun`, a `Subscribed`, None where only its `ttl` changed, or nothing. The response has the fields of both.
    """

    id: str
    lo: Floats
    hi: Floats
    link: str | None = None
    ttl: float | None = None


@dataclass(slots=True)
class ChangeSubscription:
    """Change the given parts of a subscription: the ends of attributes in `box`, None for unbounded. A `ttl` of 0
    removes the time limit, None keeps it. It is logged as the resulting `SetSubscription`, and has its outcome."""

    id: str
    box: Mapping[str, tuple[float, float] | None] = field(default_factory=dict)
    ttl: float | None = None


class DeleteSubscriptions(Deletion):
    """End subscriptions that clients made, each with a seq. Unknown ids are ignored unless `must_exist`.

    Outcome: `plan.results`, an `Unsubscribed` each. Response: ``{"results": [{"id", "forward_unsubscribe",
    "forward_subscribe"}]}``.
    """


@dataclass(slots=True)
class Notify:
    """Notifications: points of shape (n, d) in order of the attributes. `payload` maps an index to compact JSON text,
    `links` an index to the link that the notification came over, to which it does not go back. Each takes a seq, is
    delivered to the live local subscriptions that it meets, and is queued for links.

    Refused, with nothing changed, where the queue of a link could not hold them (`outbox.FULL`). They come from so many
    `requests`, whose answers each name a bounded number.

    Outcome: `plan.found`, by column, and `plan.results`, a `Delivery` each. Response: ``{"results": [{"subscriptions",
    "links"}]}``, which names a bounded number (`plans.subscriptions.MOST_KEPT`).
    """

    values: Floats
    payload: dict[int, bytes] = field(default_factory=dict)
    links: dict[int, str] = field(default_factory=dict)
    requests: int = 1

    def __len__(self) -> int:
        return len(self.values)


@dataclass(slots=True)
class ChangeLinks:
    """Add links, change them, or with None remove them; one seq. A new key alone changes nothing else; another url,
    relay or name makes the queue stale. A link is removed with all subscriptions that came over it."""

    links: Mapping[str, Link | None]


@dataclass(slots=True)
class Receive:
    """Messages from the neighbour behind a link, under its `epoch`. Each that is new and in order takes a seq and is
    applied; known numbers are ignored, and a gap ends it. An unknown epoch begins with a `reset`, of whatever number;
    before that number 0 is expected. An epoch that another has followed is over: nothing of it is applied any more.

    Refused, with nothing changed, where a `reset` follows another message, or is a new one of an epoch that has begun.
    A command that was `logged` is not checked again.

    Outcome: `plan.epoch` (ours, None before the first `Restart`) and `plan.next`, the number that is expected next,
    both known once prepared. Response: ``{"epoch", "next"}``.
    """

    at_once: ClassVar[int] = 500
    """Up to so many messages are checked on the event loop."""

    link: str
    epoch: str
    messages: Sequence[Message]
    logged: bool = field(default=False, compare=False)

    def __len__(self) -> int:
        return len(self.messages)


@dataclass(slots=True)
class Acked:
    """The neighbour has all messages of our `epoch` below `next`: they leave the queue. A `next` before the first
    message of the queue says that the neighbour has lost what it had: the queue becomes stale. One seq; another epoch
    changes nothing."""

    link: str
    epoch: str
    next: int


@dataclass(slots=True)
class Restart:
    """Begin a new epoch of ours on a link: its queue becomes a `reset`, all that is forwarded over it, and the
    notifications that were in it. `epoch` was never used before. One seq."""

    link: str
    epoch: str


@dataclass(slots=True)
class Rederive:
    """Recompute, for every neighbour, the least set of subscriptions that covers all, and queue the difference to what
    has been forwarded. One seq.

    Outcome: `plan.changed`, `RederivedColumns` by neighbour, and `plan.rederived`, `Rederived` by neighbour. Response:
    ``{"links": {name: {"subscribe", "unsubscribe"}}}``, or without links ``{"subscribe", "unsubscribe"}``.
    """


Command: TypeAlias = (
    AddSubscriptions
    | EditSubscriptions
    | SetSubscription
    | ChangeSubscription
    | DeleteSubscriptions
    | Notify
    | ChangeLinks
    | Receive
    | Acked
    | Restart
    | Rederive
)
