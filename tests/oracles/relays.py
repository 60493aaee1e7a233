"""Subscription covering by brute force: the definition, in plain Python, to be read as the specification.

A box is a list of closed intervals (lo, hi), one for each attribute, whose ends may be infinite. Subscriptions are
known by numbers of any kind in order of creation: dictionaries keep it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

Box = Sequence[tuple[float, float]]


def contains(outer: Box, inner: Box) -> bool:
    """Whether every point of one box is in the other."""
    return all(a <= c and d <= b for (a, b), (c, d) in zip(outer, inner, strict=True))


def meets(box: Box, point: Sequence[float]) -> bool:
    """Whether a point lies in a box, its border included."""
    return all(lo <= x <= hi for (lo, hi), x in zip(box, point, strict=True))


def matching(boxes: Mapping[Hashable, Box], point: Sequence[float]) -> list[Hashable]:
    """The subscriptions that a notification meets, oldest first."""
    return [key for key, box in boxes.items() if meets(box, point)]


@dataclass
class Router:
    """The subscriptions towards one neighbour, and which of them it has been told of."""

    boxes: dict[Hashable, Box] = field(default_factory=dict)
    forwarded: set[Hashable] = field(default_factory=set)

    def coverers(self, key: Hashable) -> list[Hashable]:
        """What covers a subscription: boxes that contain its own, of equal ones the older only; oldest first."""
        return list(self._coverers(key))

    def _coverers(self, key: Hashable) -> Iterator[Hashable]:
        mine = self.boxes[key]
        older = True
        for other, box in self.boxes.items():
            if other == key:
                older = False
            elif contains(box, mine) and (older or not contains(mine, box)):
                yield other

    def direct(self, key: Hashable) -> list[Hashable]:
        """The coverers that do not cover another coverer."""
        above = self.coverers(key)
        return [x for x in above if not any(x in self.coverers(y) for y in above)]

    def subscribe(self, key: Hashable, box: Box) -> bool:
        """Whether the new subscription is forwarded."""
        self.boxes[key] = box
        forward = not self.coverers(key)
        if forward:
            self.forwarded.add(key)
        return forward

    def unsubscribe(self, key: Hashable) -> tuple[bool, list[Hashable]]:
        """Whether the unsubscription is forwarded, and what is to be subscribed in its place, oldest first.

        Of what it contained, that which nothing covers now.
        """
        was = key in self.forwarded
        gone = self.boxes.pop(key)
        self.forwarded.discard(key)
        lost = [t for t, box in self.boxes.items() if t not in self.forwarded and contains(gone, box)]
        promoted = [t for t in lost if all(False for _ in self._coverers(t))]
        self.forwarded.update(promoted)
        return was, promoted
