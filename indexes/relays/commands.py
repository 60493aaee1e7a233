"""The commands of a relay: all that can change its state, and the only things that its log holds.

A command carries its data whole, so that applying the same commands in the same order gives the same state: epochs too
are made by whoever submits them.

How two relays keep in step. Each queues, by link, what the other has to hear (`model.Message`), numbered within an
*epoch* of ours. A sender

1. submits a `Restart` with a new epoch whenever the queue is `stale`, as it is when a link is new, and after this data
   directory was restored;
2. sends messages from `first` on with the epoch, and submits an `Acked` with the `next` that is answered;
3. goes on from that `next`. Where the queue has no longer what the neighbour lacks, `Acked` leaves it stale. So that
   this is noticed when nothing waits, too, it sends an empty request at its start and now and then.

The receiver submits a `Receive`, whose outcome says what to answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from indexes.relays.model import Link, Message
from indexes.relays.points import as_points

Float64 = npt.NDArray[np.float64]


class Standing(NamedTuple):
    """A subscription: its box as a point (`points.as_points`), the link that it came over, and its time limit in
    seconds, None for none."""

    point: Float64
    link: str | None
    ttl: float | None

    def same_box(self, other: Standing) -> bool:
        """Whether both have the same box and came the same way."""
        return self.link == other.link and np.array_equal(self.point, other.point)


def local(n: int) -> pa.StringArray:
    """The links of so many local subscriptions."""
    return pa.nulls(n, pa.string())


@dataclass(slots=True)
class AddSubscriptions:
    """New subscriptions: boxes by their ends, `lo` and `hi` of shape (n, d) in order of the attributes, infinite where
    unbounded. `link` names the one that each came over, null for a local one; None for all local. `ttl` maps an index
    to seconds. Each takes a seq.

    With `skip` those that do not apply are left out and reported (`plan.faults`, and `plan.positions` of the others);
    without it one of them refuses the whole command.

    Outcome: `plan.results`, a `Subscribed` each; `told()` is ``{"results": [{"id", "forward", "covered_by"}]}``.
    """

    ids: pa.StringArray
    lo: Float64
    hi: Float64
    link: pa.StringArray | None = None
    ttl: dict[int, float] = field(default_factory=dict)
    skip: bool = False

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: list[int]) -> AddSubscriptions:
        """Those at these places, in this order."""
        place = {old: new for new, old in enumerate(rows)}
        ttl = {place[i]: seconds for i, seconds in self.ttl.items() if i in place}
        at = pa.array(rows, pa.int64())
        link = None if self.link is None else self.link.take(at)
        return AddSubscriptions(self.ids.take(at), self.lo[rows], self.hi[rows], link, ttl, self.skip)

    def standing(self, i: int) -> Standing:
        """What the one at this place will be."""
        link = None if self.link is None else self.link[i].as_py()
        return Standing(as_points(self.lo[[i]], self.hi[[i]])[0], link, self.ttl.get(i))


@dataclass(slots=True)
class EditSubscriptions:
    """Subscriptions made and ended in order, each with a seq of its own: `op` is `SUBSCRIBE` or `UNSUBSCRIBE` of
    `forward.py`, and the rest as in `AddSubscriptions`; what stands in `lo`, `hi` and `link` for one that ends means
    nothing. An id may come several times.

    Outcome: `plan.results`, a `Subscribed` or `Unsubscribed` each; `told()` is ``{"results": [{"id", "seq", ...}]}``.
    """

    op: npt.NDArray[np.uint8]
    ids: pa.StringArray
    lo: Float64
    hi: Float64
    link: pa.StringArray | None = None
    ttl: dict[int, float] = field(default_factory=dict)
    skip: bool = False

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: list[int]) -> EditSubscriptions:
        """Those at these places, in this order."""
        rest = AddSubscriptions(self.ids, self.lo, self.hi, self.link, self.ttl, self.skip).take(rows)
        return EditSubscriptions(self.op[rows], rest.ids, rest.lo, rest.hi, rest.link, rest.ttl, rest.skip)

    def standing(self, i: int) -> Standing:
        """What the one at this place will be, which begins."""
        link = None if self.link is None else self.link[i].as_py()
        return Standing(as_points(self.lo[[i]], self.hi[[i]])[0], link, self.ttl.get(i))


@dataclass(slots=True)
class SetSubscription:
    """Make a subscription, or end it and begin it anew with this box (`lo`, `hi` of shape (d,)), in one seq: it becomes
    the youngest. The same box, link and time limit as before change nothing.

    Outcome: `plan.made`; `plan.ended`, an `Unsubscribed`, None where it was made or only its `ttl` changed; and
    `plan.begun`, a `Subscribed`, None where only its `ttl` changed, or nothing. `told()` is the fields of both.
    """

    id: str
    lo: Float64
    hi: Float64
    link: str | None = None
    ttl: float | None = None


@dataclass(slots=True)
class ChangeSubscription:
    """Change what is named of a subscription and leave the rest: the ends of attributes in `box`, None for unbounded. A
    `ttl` of 0 takes the time limit away, None leaves it. It is logged as the `SetSubscription` that it comes to, and
    its outcome is that one's."""

    id: str
    box: Mapping[str, tuple[float, float] | None] = field(default_factory=dict)
    ttl: float | None = None


@dataclass(slots=True)
class DeleteSubscriptions:
    """End subscriptions that clients made, each with a seq. Unknown ids are passed over unless `must_exist`.

    Outcome: `plan.results`, an `Unsubscribed` each; `told()` is ``{"results": [{"id", "forward_unsubscribe",
    "forward_subscribe"}]}``.
    """

    ids: list[str]
    must_exist: bool = False

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(slots=True)
class Notify:
    """Notifications: points of shape (n, d) in order of the attributes. `payload` maps an index to compact JSON text,
    `links` one to the link that the notification came over, to which it does not go back. Each takes a seq, is told to
    the live local subscriptions that it meets, and is queued for the links.

    Refused, with nothing changed, where a link's queue could not hold them (`outbox.FULL`).

    Outcome: `plan.found`, by column, and `plan.results`, a `Delivery` each; `told()` is ``{"results":
    [{"subscriptions", "links"}]}``, in which a bounded number is named (`plans.MOST_KEPT`).
    """

    values: Float64
    payload: dict[int, bytes] = field(default_factory=dict)
    links: dict[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.values)


@dataclass(slots=True)
class ChangeLinks:
    """Add links, change them, or with None take them out; one seq. A new key alone changes nothing else; another url,
    relay or name leaves the queue stale. With a link goes all that came over it."""

    links: Mapping[str, Link | None]


@dataclass(slots=True)
class Receive:
    """Messages from the neighbour behind a link, under its `epoch`. Each that is new and in order takes a seq and is
    applied; known numbers are ignored, and a hole stops there. An epoch that is not known begins with a `reset`, of
    whatever number; before that nothing is expected but number 0. One that another has followed is over: nothing of it
    is applied any more.

    Refused, with nothing changed, where a `reset` follows another message, or is a new one of an epoch that has begun.
    One that was `logged` was taken when it came, and is again.

    Outcome: `plan.epoch` (ours, None before the first `Restart`) and `plan.next`, the number that is expected
    next, both from the beginning on; `told()` is ``{"epoch", "next"}``.
    """

    at_once: ClassVar[int] = 500
    """Messages up to which they are checked in one piece."""

    link: str
    epoch: str
    messages: Sequence[Message]
    logged: bool = field(default=False, compare=False)

    def __len__(self) -> int:
        return len(self.messages)


@dataclass(slots=True)
class Acked:
    """The neighbour has all messages of our `epoch` below `next`: they leave the queue. A `next` before the first that
    the queue has says that the neighbour has lost what it had: the queue becomes stale. One seq; one of another epoch
    changes nothing."""

    link: str
    epoch: str
    next: int


@dataclass(slots=True)
class Restart:
    """Begin a new epoch of ours on a link: its queue becomes a `reset`, all that is forwarded over it, and the
    notifications that were in it. `epoch` is one that was never used before. One seq."""

    link: str
    epoch: str


@dataclass(slots=True)
class Rederive:
    """Find anew, for every neighbour, the least that covers everything, and queue what that changes. One seq.

    Outcome: `plan.changed`, a `Changed` by neighbour, and `plan.anew`, an `Anew`; `told()` is ``{"links": {name:
    {"subscribe", "unsubscribe"}}}``, or without links ``{"subscribe", "unsubscribe"}``.
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
