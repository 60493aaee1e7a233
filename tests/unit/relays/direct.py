"""A relay without an engine: commands are checked, executed and committed at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from indexes.core.arrays import Floats
from indexes.relays.config import UPSTREAM
from indexes.relays.kernels.forward import SUBSCRIBE, UNSUBSCRIBE, any_ends
from indexes.relays.kernels.points import as_boxes, as_points
from indexes.relays.relay import Relay, RelayState, Steps, in_order, wrong_sides
from indexes.relays.results import Delivery, Rederived, Subscribed, Unsubscribed


class Subscribe(NamedTuple):
    """A new subscription: its box, (lo, hi) by attribute in order, and the link that it came over, if any."""

    id: str
    lo: Sequence[float]
    hi: Sequence[float]
    link: str | None = None


class Unsubscribe(NamedTuple):
    """The end of a subscription."""

    id: str


def match(
    relay: Relay, values: Floats, origin: Sequence[str | None] | None = None, links_alone: bool = False
) -> list[Delivery]:
    """The recipients of notifications, by id: see `Relay.met`."""
    met = relay.met(values, origin, links_alone)
    keys = relay.names.many(met.slots).to_pylist()
    ends = met.upto.tolist()
    begins = [0, *ends[:-1]]
    return [Delivery(keys[a:b], list(links)) for a, b, links in zip(begins, ends, met.links, strict=True)]


def box(relay: Relay, key: str) -> dict[str, tuple[float, float]]:
    """The box of a subscription. Raises KeyError."""
    lo, hi = as_boxes(relay.point(key)[None])
    return dict(zip(relay.config.attributes, zip(lo[0].tolist(), hi[0].tolist(), strict=True), strict=True))


class DirectRelay(Relay):
    """Subscriptions with the forwarding decisions for each neighbour, changed one command after the other."""

    def apply(self, commands: Sequence[Subscribe | Unsubscribe]) -> list[Subscribed | Unsubscribed]:
        """Execute, commit and release commands in order; returns the outcome of each.

        Raises ValueError or KeyError, with nothing changed, for a wrong box, an id that is taken at that point or not
        present, or an unknown link.
        """
        points = self._checked(commands)
        begins = [isinstance(c, Subscribe) for c in commands]
        op = np.array([SUBSCRIBE if new else UNSUBSCRIBE for new in begins], np.uint8)
        every = np.zeros((len(commands), points.shape[1]))
        every[begins] = points
        links = [c.link if isinstance(c, Subscribe) else None for c in commands]
        return self._at_once(Steps(op, [c.id for c in commands], every, links, all_begin=not any_ends(op)))

    def _at_once(self, steps: Steps) -> list[Subscribed | Unsubscribed]:
        ran = self.run(steps)
        answers = self.answers(ran).made(0, len(ran.slots))
        self.commit(ran)
        self.release(ran.gone)
        if self.names.crowded:
            self.names.swap(self.names.merged())
        return answers

    def subscribe(self, key: str, box: Mapping[str, tuple[float, float]], link: str | None = None) -> Subscribed:
        """One subscription; attributes that the box leaves out are unbounded. Raises as `apply`, and ValueError for an
        unknown attribute.
        """
        (answer,) = self.apply([Subscribe(key, *self.sides(box), link)])
        assert isinstance(answer, Subscribed)
        return answer

    def unsubscribe(self, key: str) -> Unsubscribed:
        """The end of one subscription. Raises KeyError."""
        (answer,) = self.apply([Unsubscribe(key)])
        assert isinstance(answer, Unsubscribed)
        return answer

    def replace(self, key: str, box: Mapping[str, tuple[float, float]]) -> tuple[Unsubscribed, Subscribed]:
        """Give a subscription another box: it ends and begins again, as the youngest. Raises as `apply`."""
        link = self.link(key)
        ended, begun = self.apply([Unsubscribe(key), Subscribe(key, *self.sides(box), link)])
        assert isinstance(ended, Unsubscribed) and isinstance(begun, Subscribed)
        return ended, begun

    def sides(self, box: Mapping[str, tuple[float, float]]) -> tuple[list[float], list[float]]:
        """A box by name as its least and greatest ends in order of the attributes. Raises ValueError for an unknown
        one.
        """
        for name in box:
            if name not in self.config.attributes:
                raise ValueError(f"box.{name}: there is no such attribute")
        ends = [box.get(name, (-np.inf, np.inf)) for name in self.config.attributes]
        return [lo for lo, _ in ends], [hi for _, hi in ends]

    def _checked(self, commands: Sequence[Subscribe | Unsubscribe]) -> Floats:
        """The points of the new subscriptions."""
        lo, hi = [], []
        now: dict[str, bool] = {}
        for command in commands:
            there = now.get(command.id, self.names.find(command.id) >= 0)
            if isinstance(command, Subscribe):
                if there:
                    raise ValueError(f"id: {command.id!r} is taken")
                if command.link is not None and command.link not in self._links:
                    raise ValueError(f"link: there is no link {command.link!r}")
                lo.append(command.lo)
                hi.append(command.hi)
            elif not there:
                raise KeyError(command.id)
            now[command.id] = isinstance(command, Subscribe)
        shape = (len(lo), len(self.config.attributes))
        least, most = np.array(lo, np.float64).reshape(shape), np.array(hi, np.float64).reshape(shape)
        for i, j in np.argwhere(wrong_sides(least, most))[:1].tolist():
            raise ValueError(f"box.{self.config.attributes[j]}: lo must be at most hi (subscription {i})")
        return as_points(least, most)

    def box(self, key: str) -> dict[str, tuple[float, float]]:
        """The box of a subscription. Raises KeyError."""
        return box(self, key)

    def add_link(self, link: str) -> list[str]:
        """Add a link; returns the keys to forward over it, oldest first: the least set that covers all. Raises
        ValueError for a name that is taken or empty.
        """
        if link == UPSTREAM or link in self._links:
            raise ValueError(f"link: {link!r} is taken")
        self.change_links([], [link])
        return self.forwarded(link)

    def remove_link(self, link: str) -> list[Subscribed | Unsubscribed]:
        """Remove a link with the subscriptions that came over it; returns the outcome of their ends at other
        neighbours. After the last link, `UPSTREAM` is forwarded the least set that covers all. Raises KeyError.
        """
        if link not in self._links:
            raise KeyError(link)
        ran = self.change_links([link], [])
        answers = self.answers(ran).made(0, len(ran.slots))
        self.commit(ran)
        self.release(ran.gone)
        return answers

    def rederive(self, neighbour: str = UPSTREAM) -> Rederived:
        """Recompute the least set that covers all, with its index and graph: a subscription forwarded before one that
        covers it need not be known to the neighbour any more. Returns the difference. O(n log^2 n). Raises KeyError.
        """
        subscribe, unsubscribe = self.adopt(neighbour, self.derived(neighbour))
        return Rederived(self._keys(subscribe, {}), self._keys(unsubscribe, {}))

    def state(self) -> RelayState:
        """All subscriptions in order of creation. O(n log n)."""
        return in_order(self.copied())

    def covering_ratio(self, neighbour: str = UPSTREAM) -> float:
        """The share of the subscriptions that concern a neighbour that need not be forwarded; 0 where there are none.
        Raises KeyError.
        """
        forwarded, n = self.forwarded_count(neighbour)
        return 1 - forwarded / n if n else 0.0
