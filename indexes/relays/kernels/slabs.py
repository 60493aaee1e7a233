"""Which boxes hold a point: codes in columns, for notifications.

The range of every attribute is cut into slabs, at ends of boxes, and these into parts; a number's *code* of 16 bits is
its slab and its part. Of two numbers the greater has no lesser code. Ends are encoded as open ones, the numbers next to
them outside. A tree of points would be walked nearly whole for wide boxes (`docs/design.md`).

A box has a *position*. Sixty-four positions are a block, which has a column of bytes for each end: the *steps* of its
codes, from the least to the greatest code of the block. A box does not hold a point whose step is outside the steps of
its ends in some attribute, surely holds one whose steps lie strictly between them in all, and only where two steps are
equal the numbers are looked at. Where boxes share ends no step is in two slabs, so a point on an end that many of them
share is not in doubt, if the end is where a slab begins.

The greatest slab of each column of a block is in a column for sixty-four blocks, a *group*, and that of a group in a
column for sixty-four groups. All are compared 64 at once, and only what may hold the point is read. When slabs are cut,
boxes that are alike get positions near each other: they are halved as in a k-d tree, each time by the end where points
meet the fewest halves.

Several points are searched together, group by group, so that what one of them has brought into the cache the others
find there: first the masks of the boxes that hold them, then, once it is known how many there are, their slots.
"""

from __future__ import annotations

import numpy as np

from indexes.compiled.kept import Keeper
from indexes.core.arrays import Floats, Ints, Ints32
from indexes.relays.kernels.comparisons import BIAS, BLOCK, CODES
from indexes.relays.kernels.points import Points, longer
from indexes.relays.kernels.slab_codes import (
    BOXES,
    CLUSTER,
    CUT_AT,
    FREE,
    GROUP,
    LAST,
    PARTS,
    USED,
    Slabs,
    delete,
    empty_slabs,
    encode_boxes,
    insert,
    lay_out,
    rewrite,
    whole,
)
from indexes.relays.kernels.slab_order import halve
from indexes.relays.kernels.slab_search import TOGETHER, KeptSlabs, search

SETTLED = 1 << 15
"""From so many boxes on, slabs are no longer cut again. Until then they are cut whenever boxes have doubled: at most
some tens of milliseconds. Later boxes have positions behind the others until the next rebuild, and are put in order
group by group, as groups fill up."""

SAMPLE = 4096
"""Slabs are cut by so many boxes at most."""


class SlabIndex:
    """Slots of a table of `points.py` by the values that their boxes hold. Kernels work on `arrays`."""

    arrays: Slabs

    def __init__(self, attributes: int) -> None:
        self.arrays = empty_slabs(attributes)
        self._keeper = Keeper(KeptSlabs)

    def __len__(self) -> int:
        return int(self.arrays.size[BOXES])

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays, room kept for more included."""
        return sum(int(column.nbytes) for column in self.arrays)

    @property
    def _ends(self) -> int:
        return 2 * len(self.arrays.last)

    @property
    def _width(self) -> int:
        """How long a row of codes is."""
        return whole(self._ends, CODES)

    def reserve(self, inserts: int, slots: int) -> None:
        """Make room for that many insertions, of slots below `slots`; may replace `arrays`."""
        o = self.arrays
        if slots > len(o.at):
            at = np.full(max(slots, len(o.at) * 3 // 2), -1, np.int32)
            at[: len(o.at)] = o.at
            self.arrays = o = o._replace(at=at)
        _, _, used, free = o.size.tolist()
        positions = used + max(0, inserts - free)
        if positions > len(o.held):
            room = whole(max(positions, len(o.held) * 3 // 2), BLOCK)
            best = longer(o.best, whole(room, GROUP) // BLOCK * self._ends)
            top = longer(o.top, whole(room, CLUSTER) // GROUP * self._ends)
            best[len(o.best) :], top[len(o.top) :] = -BIAS, -BIAS
            self.arrays = o._replace(
                step=longer(o.step, room * self._ends),
                low=longer(o.low, room // BLOCK * self._width),
                scale=longer(o.scale, room // BLOCK * self._width),
                best=best,
                top=top,
                held=longer(o.held, room),
                free=longer(o.free, room),
            )

    def insert(self, points: Points, slots: Ints32) -> None:
        """Add slots that are not there. O(attributes) each, twice where a group fills up; O(n log n) where boxes have
        doubled."""
        before = self.used_before(len(slots))
        if before < 0:
            self._cut(points, np.concatenate([self.slots(), slots]))
        else:
            self.reserve(len(slots), int(slots.max(initial=-1)) + 1)
            insert(self.arrays, points, slots)
            self.settle(points, before)

    def used_before(self, more: int) -> int:
        """How many positions have been given, before so many more boxes are added by `put_slots`; -1 where slabs have
        to be cut again for these."""
        boxes, cut_at, used, _ = self.arrays.size.tolist()
        return -1 if cut_at < SETTLED and boxes + more > 2 * cut_at else int(used)

    def settle(self, points: Points, before: int) -> None:
        """Put the groups in order that have become full since so many positions had been given `before`."""
        begin, upto = before // GROUP * GROUP, int(self.arrays.size[USED]) // GROUP * GROUP
        if upto > begin:
            self._arrange(points, begin, upto)

    def _arrange(self, points: Points, begin: int, upto: int) -> None:
        """Put what has the positions of whole groups in order, where none is free: none is while more are given."""
        o = self.arrays
        best = slice(begin // BLOCK * self._ends, upto // BLOCK * self._ends)
        o.best[best] = -BIAS
        self._lay_out(points, self._ordered(points, o.held[begin:upto]), begin)

    def load(self, points: Points, slots: Ints32) -> None:
        """Add all slots at once where there are none. O(n log n)."""
        self._cut(points, slots)

    def delete(self, points: Points, slots: Ints32) -> None:
        """Take out slots that are there. O(attributes) each."""
        delete(self.arrays, slots)

    def _cut(self, points: Points, slots: Ints32) -> None:
        """Cut slabs by these slots, and have them, in order, and no others."""
        before = self.arrays
        some = points.exact[slots[:: -(-len(slots) // SAMPLE) or 1]]
        none = empty_slabs(len(before.last))
        # Finite numbers are neither in the first slab nor in the last: what is unbounded is never in doubt there.
        inner = min(LAST - 2, len(slots) // 16)
        for j in range(len(none.last)):
            with np.errstate(over="ignore"):
                ends = np.concatenate([-some[:, 2 * j], np.nextafter(some[:, 2 * j + 1], np.inf)])
            ends = np.sort(ends[np.isfinite(ends)])
            chosen = ends[np.arange(1, inner + 1) * len(ends) // (inner + 1)] if len(ends) else ends
            cuts = np.unique([-np.finfo(np.float64).max, *(chosen + 0.0), np.inf])
            none.last[j], none.cut[j, : len(cuts)] = len(cuts), cuts
            if len(ends):
                bounds = np.array([ends[0], ends[0], *cuts[1:-1], ends[-1]])
                none.least[j, : len(bounds)] = bounds
                with np.errstate(divide="ignore", over="ignore"):
                    by_unit = PARTS / np.diff(bounds)
                none.parts[j, : len(by_unit)] = np.where(np.isfinite(by_unit), by_unit, 0)
        self.arrays = none
        self.arrays.size[CUT_AT] = max(1, len(slots))
        self.reserve(len(slots), max(len(before.at), int(slots.max(initial=-1)) + 1))
        self._lay_out(points, self._ordered(points, slots), 0)
        self.arrays.size[BOXES] = self.arrays.size[USED] = len(slots)

    def _lay_out(self, points: Points, slots: Ints32, first: int) -> None:
        lay_out(self.arrays, points, slots, first, np.empty(BLOCK, np.int64))

    def _ordered(self, points: Points, slots: Ints32) -> Ints32:
        """The slots in an order in which those next to each other are alike."""
        n, ordered = len(slots), slots.copy()
        rows = np.zeros((n, self._width // 8), np.int64)
        slab = rows.view(np.uint8).reshape(n, self._width)
        encode_boxes(self.arrays, points, slots, slab)
        count, stack = np.empty((self._ends, LAST + 1), np.int64), np.empty((64, 2), np.int64)
        halve(rows, ordered, self._ends, np.empty_like(rows), np.empty_like(slots), count, stack)
        return ordered

    def containing(self, points: Points, values: Floats) -> tuple[Ints32, Ints]:
        """For each of the points of shape (n, attributes), the slots whose boxes hold it, all of them in no particular
        order, and where each's end. O(positions / 4096) comparisons of groups, those of the blocks that they leave, and
        what is found."""
        many = [self._containing(points, values[i : i + TOGETHER]) for i in range(0, len(values), TOGETHER)]
        if len(many) == 1:
            return many[0]
        found = [slots for slots, _ in many]
        before = np.cumsum([0, *map(len, found)])
        upto = [ends + begin for (_, ends), begin in zip(many, before[:-1], strict=True)]
        none = np.empty(0, np.int64)
        return np.concatenate([none.astype(np.int32), *found]), np.concatenate([none, *upto])

    def _containing(self, points: Points, values: Floats) -> tuple[Ints32, Ints]:
        """As `containing`, for at least one point and at most `TOGETHER` of them."""
        o = self.arrays
        groups = len(o.best) // (self._ends * BLOCK)
        return search(self._keeper.kept((o, points.exact)), self._width, groups, values)

    def trimmed(self) -> Slabs:
        """The arrays without the room that is kept for more, to be written down. Once they are `arrays` again, there is
        no room before `reserve`."""
        o = self.arrays
        room = whole(int(o.size[USED]), BLOCK)
        return o._replace(
            step=o.step[: room * self._ends],
            low=o.low[: room // BLOCK * self._width],
            scale=o.scale[: room // BLOCK * self._width],
            best=o.best[: whole(room, GROUP) // BLOCK * self._ends],
            top=o.top[: whole(room, CLUSTER) // GROUP * self._ends],
            held=o.held[:room],
            free=o.free[:room],
        )

    def slots(self) -> Ints32:
        """What is in it, in order."""
        return np.flatnonzero(self.arrays.at >= 0).astype(np.int32)

    def check(self, points: Points) -> None:
        """Raise AssertionError if an invariant is broken. O(n log slabs)."""
        o, slots = self.arrays, self.slots()
        places, free = o.at[slots], o.free[: o.size[FREE]]
        assert len(slots) == len(self) and (o.held[places] == slots).all()
        assert sorted([*places.tolist(), *free.tolist()]) == list(range(o.size[USED]))
        again = SlabIndex(len(o.last))
        again.arrays = o._replace(
            step=np.full_like(o.step, -BIAS),
            low=o.low.copy(),
            scale=o.scale.copy(),
            best=np.full_like(o.best, -BIAS),
            top=np.full_like(o.top, -BIAS),
        )
        rewrite(again.arrays, points, slots)
        given = -(-int(o.size[USED]) // BLOCK) * self._ends * BLOCK
        assert (again.arrays.step[:given] == o.step[:given]).all() and (o.held[free] == -1).all()
        assert (again.arrays.low == o.low).all() and (again.arrays.scale == o.scale).all()
        assert (again.arrays.best <= o.best).all() and (again.arrays.top <= o.top).all()
        assert ((o.cut[:, 1:] > o.cut[:, :-1]) | np.isinf(o.cut[:, 1:])).all()
        assert (np.isfinite(o.cut).sum(axis=1) <= o.last).all()
