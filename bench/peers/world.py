"""The work that all peers do: objects, subscriptions and updates, and the lists and counts that are right."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from bench.baselines.unicast import Recipients, make_recipients, unicast
from bench.boards.workload import COIN, World, make_ranges, make_world, new_y, object_index, scratch
from indexes.boards.kernels.forest import Forest
from indexes.boards.kernels.object_index import set_y, top
from indexes.boards.kernels.paint import paint
from indexes.boards.kernels.range_tree import RangeTree
from indexes.boards.kernels.scratch import PaintContext
from indexes.boards.subscription_index import SubscriptionIndex
from indexes.core.arrays import Floats, Ints, Ints32


class Peers(NamedTuple):
    """n objects at (x, y), m ranges [l, r], and updates: object and new y. Object i was created i-th."""

    k: int
    x: Floats
    y: Floats
    l: Floats
    r: Floats
    object: Ints
    new_y: Floats


class Lists(NamedTuple):
    """The list of subscription i is `rows[i, : length[i]]`, best first; `kth` is the y of its k-th object, infinite
    where it is shorter."""

    rows: Ints32
    length: Ints32
    kth: Floats


class Peer(Protocol):
    """One implementation. `update` returns when all recipients have been notified."""

    name: str

    def update(self, item: int, y: float) -> int:
        """Give an object a new y; returns the bytes that were sent about it."""

    def lists(self, some: list[int]) -> list[list[int]]:
        """The lists of some subscriptions now."""

    def memory(self) -> int:
        """Bytes that it needs for the objects and subscriptions."""

    def close(self) -> None:
        """Leave nothing behind."""


def make_peers(n: int, m: int, k: int, updates: int) -> Peers:
    """The paper's default workload (V), with updates by a fair coin."""
    world = make_world(n, updates)
    l, r = make_ranges(m)
    y = world.y.copy()
    items = (world.events[:, 0] * n).astype(np.int64)
    values = np.empty(updates)
    for e, item in enumerate(items.tolist()):
        y[item] = values[e] = new_y(y[item], world.events[e, 1], world.events[e, 2], COIN)
    return Peers(k, world.x, world.y, l, r, items, values)


def lists_at(peers: Peers, after: int, some: Ints) -> Lists:
    """The right lists of some subscriptions after so many updates, without any index: best objects are gone through
    once for all. O(n) numpy passes over the subscriptions that are not full yet."""
    y = peers.y.copy()
    for item, value in zip(peers.object[:after].tolist(), peers.new_y[:after].tolist(), strict=True):
        y[item] = value
    order = np.lexsort((np.arange(len(y)), y))
    l, r = peers.l[some], peers.r[some]
    rows = np.full((len(some), peers.k), -1, np.int32)
    length = np.zeros(len(some), np.int32)
    left = np.arange(len(some))
    for item in order.tolist():
        if not len(left):
            break
        x = peers.x[item]
        hit = left[(l[left] <= x) & (x <= r[left])]
        rows[hit, length[hit]] = item
        length[hit] += 1
        if len(hit) and (length[hit] == peers.k).any():
            left = left[length[left] < peers.k]
    full = length == peers.k
    return Lists(rows, length, np.where(full, y[rows[:, -1]], np.inf))


class InProcess:
    """The indexes that both kernels work on, in this process."""

    def __init__(self, peers: Peers) -> None:
        self._peers = peers
        self._forest, self._objects = _indexes(peers)
        self._work, self._tiles = scratch(peers.k)

    def lists(self, some: list[int]) -> list[list[int]]:
        """What the object index answers."""
        p, o = self._peers, self._objects
        found, slots = [], np.empty(p.k, np.int64)
        for sid in some:
            n = top(o, p.l[sid], p.r[sid], p.k, slots)
            found.append(o.row[slots[:n]].tolist())
        return found

    def memory(self) -> int:
        return sum(a.nbytes for a in (*self._forest, *self._objects))

    def close(self) -> None:
        pass


class UnicastPeer(InProcess):
    """Unicast of [Range top-k] V, made exact: every affected subscription is found and notified on its own, of the
    object that changed, and of the one that enters if there is one."""

    name = "Unicast (kernel)"

    def __init__(self, peers: Peers) -> None:
        super().__init__(peers)
        self._recipients: Recipients = make_recipients(len(peers.l))
        self._notify(0, float(peers.y[0]) / 2)  # compiles

    def update(self, item: int, y: float) -> int:
        o = self._objects
        notified = self._notify(item, y) if y != o.y[o.pos[item]] else 0
        set_y(o, int(o.pos[item]), y)
        return 24 * (notified + int((self._recipients.entering[:notified] >= 0).sum()))

    def _notify(self, item: int, y: float) -> int:
        o = self._objects
        notified, _ = unicast(o, self._forest, self._peers.k, int(o.pos[item]), y, self._work, True, self._recipients)
        return int(notified)


class PaintPeer(InProcess):
    """Paint-Sparse without the service around it."""

    name = "Paint-Sparse (kernel)"

    def __init__(self, peers: Peers) -> None:
        super().__init__(peers)
        self._ks = np.array([peers.k], np.int64)
        self._paint(0, float(peers.y[0]) / 2)  # compiles

    def update(self, item: int, y: float) -> int:
        o = self._objects
        tiles = self._paint(item, y) if y != o.y[o.pos[item]] else 0
        set_y(o, int(o.pos[item]), y)
        return 24 * tiles

    def _paint(self, item: int, y: float) -> int:
        o, tiles = self._objects, self._tiles
        tiles.n[0] = 0
        context = PaintContext(self._forest, self._ks, False, 0, self._work, tiles)
        paint(o, context, int(o.pos[item]), y)
        return int(tiles.n[0])


def _indexes(peers: Peers) -> tuple[Forest, RangeTree]:
    index = SubscriptionIndex([peers.k])
    index.insert_many(0, np.arange(len(peers.l)), peers.l, peers.r)
    return index.arrays, object_index(World(peers.x, peers.y, np.empty((0, 3))))
