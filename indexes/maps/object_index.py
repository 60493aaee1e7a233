"""The objects of a map as an index: a packed base, a tombstone for each of its objects that was deleted, and a delta.

The delta holds the objects inserted or changed since the base was packed, in blocks of up to `BLOCK` under bounds of
their own: a search treats them as further leaves. An object is inserted into the block whose rectangle grows least, and
a full block is split at the median of its longer side, as in an R-tree of one level: blocks stay small and a search
opens few of them, in whatever order objects arrive. An object that moves out of its block's rectangle is inserted
again; an object of the base that changes gets a tombstone and enters the delta, or stays where it is in its leaf's
bounds (`PlaceIndex.change`).

Source of the rule: Guttman, R-trees: a dynamic index structure for spatial searching, 1984.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from indexes.compiled.simd import LANES
from indexes.core import aligned
from indexes.core.arrays import INF, Bools, Floats, Ints, Ints32
from indexes.maps.kernels.object_index import (
    ABSENT,
    BLOCK,
    BLOCKS,
    CHANGED,
    DELTA,
    TOMBSTONES,
    NodeColumns,
    ObjectColumns,
    View,
    bound_blocks,
    change_objects,
    delete_objects,
    put_objects,
    read_objects,
)
from indexes.maps.kernels.rtree import Tree, check, pack, refuse


class PlaceIndex:
    """Objects by slot, each with a place and d static values, smaller being better; see the module's text.

    `view` is what kernels take; a change may replace it.
    """

    def __init__(self, tree: Tree, created: Ints, slots: int) -> None:
        """Over a packed tree, with the order of creation of its slots, which are below `slots`."""
        n, d = len(tree.slot), len(tree.statics)
        self.d = d
        at = np.full(slots, ABSENT, np.int32)
        at[tree.slot] = np.arange(n, dtype=np.int32)
        none = np.empty(0)
        lower, upper = tree.lower.reshape(-1), tree.upper.reshape(-1)
        self.view = View(
            base=ObjectColumns(tree.x, tree.y, tree.statics.reshape(-1), tree.slot),
            dead=np.zeros(n + LANES, np.uint8),
            nodes=NodeColumns(tree.x0, tree.y0, tree.x1, tree.y1, lower, upper),
            first=tree.first,
            end=tree.end,
            delta=ObjectColumns(none, none, none, np.empty(0, np.int32)),
            blocks=NodeColumns(none, none, none, none, none, none),
            block_end=np.empty(0, np.int32),
            at=at,
            created=created,
            size=np.array([int(tree.leaves[0]), 0, 0, 0, 0]),
        )
        self.tree = tree
        self._reserve_blocks(1)

    @classmethod
    def build(
        cls,
        points: ArrayLike,
        statics: ArrayLike,
        slots: ArrayLike | None = None,
        created: ArrayLike | None = None,
        fanout: int | None = None,
        along: int | None = None,
    ) -> PlaceIndex:
        """The index of these objects, all in its base; see `rtree.pack`. Without `created` slots count by age."""
        tree = pack(points, statics, slots, fanout, along)
        room = int(tree.slot.max(initial=-1)) + 1
        order = np.arange(room, dtype=np.int64)
        if created is not None:
            order[np.arange(room) if slots is None else np.asarray(slots)] = created
        return cls(tree, order, room)

    def __len__(self) -> int:
        return len(self.tree.slot) - int(self.view.size[TOMBSTONES]) + int(self.view.size[DELTA])

    @property
    def delta(self) -> int:
        """How many objects are in the delta."""
        return int(self.view.size[DELTA])

    @property
    def churn(self) -> float:
        """The delta and the tombstones as a share of the live objects: what there is to gain by a new base."""
        # Asked about each command: the numbers are read once.
        size = self.view.size.tolist()
        delta, dead = size[DELTA], size[TOMBSTONES]
        return float((delta + dead) / max(1, len(self.tree.slot) - dead + delta))

    def __contains__(self, slot: int) -> bool:
        return 0 <= slot < len(self.view.at) and self.view.at[slot] != ABSENT

    def holds(self, slots: Ints) -> Bools:
        """Which of some slots, of 0 and up, hold an object."""
        at = self.view.at
        found = slots < len(at)
        found[found] = at[slots[found]] != ABSENT
        return found

    def put(self, slots: ArrayLike, points: ArrayLike, statics: ArrayLike, created: ArrayLike | None = None) -> None:
        """Insert or change objects; `created` is by default the number of the slot, and stays as it is where the slot
        holds an object. O(BLOCK d + blocks of the delta) each.

        Raises:
            ValueError: a place is not finite, a static value is NaN or -inf, or the shapes do not fit; nothing has
                changed.
        """
        numbers = np.atleast_1d(np.asarray(slots, np.int32))
        n = len(numbers)
        places = np.asarray(points, np.float64).reshape(n, 2) + 0.0
        values = np.asarray(statics, np.float64).reshape(n, self.d) + 0.0
        refuse(places, values)
        order = numbers.astype(np.int64) if created is None else np.asarray(created, np.int64).reshape(n)
        self._reserve_slots(int(numbers.max(initial=-1)) + 1)
        self.reserve_changes(n)
        put_objects(self.view, numbers, places, np.ascontiguousarray(values), order)

    def change(self, slots: Ints32, signs: Floats, points: Floats, statics: Floats) -> Ints:
        """Change objects that are there, each once, to numbers that may be in an index, as the kernel
        `change_objects`; returns which of them have changed. O(BLOCK d + blocks of the delta) each."""
        n = len(slots)
        self.reserve_changes(n)
        changed = np.empty(n, np.int64)
        some = int(change_objects(self.view, slots, signs, points, statics, changed))
        return changed if some == n else changed[:some]

    def delete(self, slots: ArrayLike) -> None:
        """Delete objects; empty slots are passed over. O(BLOCK d) each."""
        numbers = np.atleast_1d(np.asarray(slots, np.int32))
        delete_objects(self.view, numbers[(numbers >= 0) & (numbers < len(self.view.at))])

    def slots(self) -> Ints32:
        """The slots that hold an object, in order."""
        return np.flatnonzero(self.view.at != ABSENT).astype(np.int32)

    def rows(self, slots: ArrayLike) -> tuple[Floats, Floats]:
        """The places (n, 2) and static values (n, d) of the objects in some slots."""
        some = np.ascontiguousarray(slots, np.int64)
        points, statics = np.empty((len(some), 2)), np.empty((len(some), self.d))
        read_objects(self.view, some, points, statics)
        return points, statics

    def folded(self, fanout: int | None = None, along: int | None = None) -> PlaceIndex:
        """The same objects, all in a new base. O(d n log n); reads only. The result does not depend on when objects
        came to the index."""
        slots = self.slots()
        return PlaceIndex.build(*self.rows(slots), slots, self.view.created[slots], fanout, along)

    def copy(self) -> PlaceIndex:
        """A copy that stays as it is whatever changes here. For reads only. O(d n)."""
        other = object.__new__(PlaceIndex)
        v, t = self.view, self.tree
        statics = t.statics.copy()
        other.d, other.tree = self.d, t._replace(x=t.x.copy(), y=t.y.copy(), statics=statics)
        other.view = v._replace(
            base=ObjectColumns(other.tree.x, other.tree.y, statics.reshape(-1), t.slot),
            dead=v.dead.copy(),
            delta=ObjectColumns(v.delta.x.copy(), v.delta.y.copy(), v.delta.statics.copy(), v.delta.slot.copy()),
            blocks=NodeColumns(*(column.copy() for column in v.blocks)),
            block_end=v.block_end.copy(),
            at=v.at.copy(),
            created=v.created.copy(),
            size=v.size.copy(),
        )
        return other

    def _reserve_slots(self, slots: int) -> None:
        v = self.view
        if slots > len(v.at):
            room = max(slots, len(v.at) * 5 // 4)
            at, created = np.full(room, ABSENT, np.int32), np.zeros(room, np.int64)
            at[: len(v.at)], created[: len(v.at)] = v.at, v.created
            self.view = v._replace(at=at, created=created)

    def reserve_changes(self, n: int) -> None:
        """Make room for all blocks that so many insertions or changes need."""
        # Each block may be full, and split once; from then on a split takes half a block of insertions.
        self._reserve_blocks(min(n, int(self.view.size[BLOCKS]) + n // (BLOCK // 2)) + 1)

    def _reserve_blocks(self, blocks: int) -> None:
        """Make room for this many more blocks."""
        v = self.view
        if int(v.size[BLOCKS]) + blocks > len(v.block_end):
            if self.delta * 8 < int(v.size[BLOCKS]) * BLOCK:
                self._compact()
            if int(v.size[BLOCKS]) + blocks > len(v.block_end):
                self._grow(max(int(v.size[BLOCKS]) + blocks, len(v.block_end) * 3 // 2))

    def _compact(self) -> None:
        """Insert the objects of the delta again: most of its blocks are nearly empty."""
        v = self.view
        recent = np.flatnonzero(v.at < ABSENT).astype(np.int32)
        points, statics = self.rows(recent)
        created = v.created[recent]
        delete_objects(v, recent)
        put_objects(v, recent, points, statics, created)

    def _grow(self, blocks: int) -> None:
        v, held, used = self.view, len(self.view.delta.x), len(self.view.block_end)
        columns = aligned.full((2 + self.d, blocks * BLOCK), INF)
        columns[:2, :held] = v.delta.x, v.delta.y
        columns[2:, :held] = v.delta.statics.reshape(self.d, held)
        line = -(-(blocks + LANES) // 8) * 8
        lowest, highest = aligned.full((2 + self.d, line), INF), aligned.full((2 + self.d, line), -INF)
        slot = np.full(blocks * BLOCK, ABSENT, np.int32)
        slot[:held] = v.delta.slot
        end = np.arange(blocks, dtype=np.int32) * BLOCK
        end[:used] = v.block_end
        self.view = v._replace(
            delta=ObjectColumns(columns[0], columns[1], columns[2:].reshape(-1), slot),
            blocks=NodeColumns(
                x0=lowest[0],
                y0=lowest[1],
                x1=highest[0],
                y1=highest[1],
                lower=lowest[2:].reshape(-1),
                upper=highest[2:].reshape(-1),
            ),
            block_end=end,
        )
        bound_blocks(self.view)

    def check(self) -> None:
        """Raise AssertionError unless every slot is where `at` says and nowhere else, and bounds are tight: those of
        leaves only until one of their objects is changed in place. O(n d)."""
        v, n = self.view, len(self.tree.slot)
        check(self.tree, tight=not v.size[CHANGED])
        based = np.flatnonzero(v.at >= 0)
        assert (v.base.slot[v.at[based]] == based).all()
        assert (np.sort(v.at[based]) == np.flatnonzero(v.dead[:n] == 0)).all()
        assert v.size[TOMBSTONES] == v.dead.sum() and not v.dead[n:].any()
        recent = np.flatnonzero(v.at < ABSENT)
        assert (v.delta.slot[-2 - v.at[recent]] == recent).all()
        columns = np.vstack([v.delta.x, v.delta.y, v.delta.statics.reshape(self.d, len(v.delta.x))])
        full = [np.arange(b * BLOCK, end) for b, end in enumerate(v.block_end.tolist())]
        assert (np.sort(-2 - v.at[recent]) == np.concatenate(full)).all() and len(recent) == self.delta
        used = int(v.size[BLOCKS])
        assert all(len(places) for places in full[:used]) and not any(len(places) for places in full[used:])
        assert np.isinf(np.delete(columns, np.concatenate(full), axis=1)).all()
        lowest = np.vstack([v.blocks.x0, v.blocks.y0, v.blocks.lower.reshape(self.d, len(v.blocks.x0))])
        highest = np.vstack([v.blocks.x1, v.blocks.y1, v.blocks.upper.reshape(self.d, len(v.blocks.x0))])
        for b, places in enumerate(full):
            own = columns[:, places]
            assert (lowest[:, b] == own.min(axis=1, initial=INF)).all()
            assert (highest[:, b] == own.max(axis=1, initial=-INF)).all()
