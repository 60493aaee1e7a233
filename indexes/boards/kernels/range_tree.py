"""The dynamic range tree: objects in position order in a packed-memory array under an implicit wide tree.

Layout: level 0 is the slots, in leaves of 16, filled from the left; holes have x = y = +inf and row = -1. A node of
level v + 1 is the parent of 16 neighbours of level v, up to a level of at most 16 nodes. The levels lie one after
another in ``least`` and ``holder`` (level v from ``off[v]``; ``y`` and ``c`` are views of level 0): the
lexicographically least (y, created) below a node, (inf, NOBODY) if no finite y is there. ``fence`` is a lower bound of
the positions below a node: everything to its left lies strictly before its fence, everything in it or to its right does
not.

Searches read blocks of 16: one vector comparison of a block with a threshold gives a bit mask, and only lanes in that
mask are checked for ties. An insertion shifts within its leaf; a full leaf redistributes the smallest enclosing window
of 4, 16, 64, ... leaves that has room, where the room required grows with the window (Bender, Demaine and
Farach-Colton, "Cache-oblivious B-trees"), so that n insertions in any order cost O(n log^2 n) moves.

Source: the dynamic range tree of [Range top-k] IV-D, with the least y per node in place of sorted secondary lists.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from indexes.boards.kernels.object_index import BEFORE_ALL, MAX, ObjectIndex, implement
from indexes.compiled.jit import expanded, inlined, internal, kernel
from indexes.compiled.simd import bit_count, high_bit, lanes_least, lanes_upto, low_bit, prefetch_block, prefetch_line
from indexes.core import aligned
from indexes.core.arrays import Floats, Ints, Ints32, uint64

NOBODY = int(np.iinfo(np.int64).max)
"""The `holder` of a node without an object of finite y."""

EXPECTED = 4
"""Leaves that are prefetched at most on either side of an object for a search."""

FULL, ROOT = 15.0, 14.0
"""Objects a leaf that a window of 4 leaves, and the whole array, may hold."""

BUILD = 13.4
"""Objects a leaf after a build or a growth, at most."""


class RangeTree(NamedTuple):
    """The arrays of a range tree; see the module's docstring."""

    x: Floats
    y: Floats
    c: Ints
    row: Ints32
    pos: Ints32
    least: Floats  # slots, then the nodes of every level
    holder: Ints
    fence_x: Floats  # nodes only: node i of the levels above 0 is entry i - slots
    fence_c: Ints
    live: Ints32  # finite y below each node
    fill: Ints32  # objects in each leaf
    off: Ints
    size: Ints


def _empty(leaves: int, rows: int) -> RangeTree:
    """Arrays for that many leaves (rounded up to 16 at least) without any object."""
    widths = [_families(leaves)]
    while widths[-1] > 16:
        widths.append(-(-(widths[-1] // 16) // 16) * 16)
    slots, nodes = widths[0] * 16, sum(widths)
    off = np.cumsum([0, slots, *widths])
    least, holder = aligned.full(slots + nodes, np.inf), aligned.full(slots + nodes, NOBODY, np.int64)
    fence_x, fence_c = aligned.full(nodes, np.inf), aligned.full(nodes, BEFORE_ALL, np.int64)
    fence_x[off[1:-1] - slots] = -np.inf
    return RangeTree(
        x=aligned.full(slots, np.inf), y=least[:slots], c=holder[:slots], row=aligned.full(slots, -1, np.int32),
        pos=np.full(rows, -1, np.int32), least=least, holder=holder, fence_x=fence_x, fence_c=fence_c,
        live=aligned.zeros(nodes, np.int32), fill=aligned.zeros(widths[0], np.int32),
        off=off, size=np.zeros(1, np.int64),
    )  # fmt: skip


def _families(leaves: int) -> int:
    """That many leaves in whole families of 16."""
    return -(-max(leaves, 1) // 16) * 16


def leaves_for(objects: int) -> int:
    """The number of leaves in which so many objects are laid out."""
    return _families(int(np.ceil(objects / BUILD)))


def _packed(x: Any, y: Any, c: Any, row: Any, leaves: int, rows: int) -> RangeTree:
    """A tree of objects given in position order."""
    tree, n = _empty(leaves, rows), len(x)
    tree.x[:n], tree.y[:n], tree.c[:n], tree.row[:n] = x, y, c, row
    tree.fill[:] = np.clip(n - 16 * np.arange(len(tree.fill)), 0, 16)
    tree.size[0] = n
    _spread(tree, 0, len(tree.fill))
    return tree


class RangeTreeIndex(ObjectIndex):
    """The object index as a range tree.

    `set_y`, `delete` and each object that a query finds: O(log n). `insert` and `move`: O(log^2 n) amortised. `min_y`:
    O(log n) for each object of the range at or before the bound. About 50 bytes an object.
    """

    def __init__(self) -> None:
        self.arrays = _empty(1, 0)

    @classmethod
    def build(cls, x: ArrayLike, y: ArrayLike, created: ArrayLike, rows: ArrayLike) -> Self:
        """The index of objects given by column; O(n log n)."""
        x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
        created, rows = np.asarray(created, np.int64), np.asarray(rows, np.int32)
        order = np.lexsort((created, x))
        index = cls()
        index.arrays = _packed(
            x[order], y[order], created[order], rows[order], leaves_for(len(x)), int(rows.max(initial=-1)) + 1
        )
        return index

    def contents(self) -> tuple[Floats, Floats, Ints, Ints32]:
        """In order of position."""
        tree = self.arrays
        s = np.flatnonzero(tree.row >= 0)
        return tree.x[s], tree.y[s], tree.c[s], tree.row[s]

    def in_order(self) -> tuple[Floats, Floats, Ints, Ints32]:
        tree = self.arrays
        return tree.x, tree.y, tree.c, tree.row

    def laid_out(self) -> Self:
        x, y, created, rows = self.contents()
        index = type(self)()
        index.arrays = _packed(x, y, created, rows, leaves_for(len(x)), int(rows.max(initial=-1)) + 1)
        return index

    @classmethod
    def of_slots(cls, x: ArrayLike, y: ArrayLike, created: ArrayLike, row: ArrayLike) -> Self:
        row = np.asarray(row, np.int32)
        s = np.flatnonzero(row >= 0)
        rows = row[s]
        x, y, created = np.asarray(x)[s], np.asarray(y)[s], np.asarray(created)[s]
        index = cls()
        index.arrays = _packed(x, y, created, rows, len(row) // 16, int(rows.max(initial=-1)) + 1)
        return index

    def reserve(self, inserts: int, rows: int = 0) -> None:
        """Make room for that many insertions by kernels, and for rows below `rows`.

        O(1) unless the array has to grow, or to shrink where it is nearly empty: then O(n), O(1) an insertion in all.
        """
        tree = self.arrays
        held, leaves = int(tree.size[0]), len(tree.fill)
        n = held + inserts
        if n > int(ROOT * leaves) or (leaves > 16 and n < leaves):
            s = np.flatnonzero(tree.row >= 0)
            wanted = int(np.ceil(max(n, 1.25 * held) / BUILD))
            tree = _packed(tree.x[s], tree.y[s], tree.c[s], tree.row[s], wanted, len(tree.pos))
        if rows > len(tree.pos):
            more = max(rows, len(tree.pos) * 5 // 4) - len(tree.pos)
            tree = tree._replace(pos=np.append(tree.pos, np.full(more, -1, np.int32)))
        self.arrays = tree

    def frozen(self) -> Self:
        copy = super().frozen()
        tree, slots = copy.arrays, len(copy.arrays.y)
        copy.arrays = tree._replace(y=tree.least[:slots], c=tree.holder[:slots])
        return copy

    def check(self) -> None:
        """Raise AssertionError, with the state, if an invariant is broken; O(n)."""
        tree = self.arrays
        slots, leaves = len(tree.y), len(tree.fill)
        held = np.arange(slots) % 16 < np.repeat(tree.fill, 16)
        s = np.flatnonzero(held)
        assert int(tree.size[0]) == len(s) <= FULL * leaves, tree
        assert np.isfinite(tree.x[held]).all(), tree
        holes = (np.isposinf(tree.x) & np.isposinf(tree.y) & (tree.c == NOBODY) & (tree.row == -1))[~held]
        assert holes.all(), tree
        assert (np.lexsort((tree.c[s], tree.x[s])) == np.arange(len(s))).all(), tree
        assert len(np.unique(tree.c[s])) == len(s), tree
        assert (tree.pos[tree.row[s]] == s).all() and (tree.pos >= 0).sum() == len(s), tree
        assert np.shares_memory(tree.y, tree.least) and np.shares_memory(tree.c, tree.holder), tree
        for v in range(1, len(tree.off) - 1):
            width = (int(tree.off[v]) - int(tree.off[v - 1])) // 16
            below = slice(int(tree.off[v - 1]), int(tree.off[v]))
            y, c = tree.least[below].reshape(width, 16), tree.holder[below].reshape(width, 16)
            nodes = slice(int(tree.off[v]), int(tree.off[v]) + width)
            assert (tree.least[nodes] == y.min(1)).all(), tree
            holder = np.where((y == y.min(1)[:, None]) & np.isfinite(y), c, NOBODY).min(1)
            assert (tree.holder[nodes] == holder).all(), tree
            live = np.isfinite(y) if v == 1 else tree.live[below.start - slots : below.stop - slots].reshape(width, 16)
            assert (tree.live[nodes.start - slots : nodes.stop - slots] == live.sum(1)).all(), tree
            assert np.isposinf(tree.least[nodes.stop : int(tree.off[v + 1])]).all(), tree
            for fence, first in ((tree.fence_x, np.inf), (tree.fence_c, None)):
                here = fence[nodes.start - slots : nodes.stop - slots]
                if v > 1:
                    assert (here == fence[below.start - slots : below.stop - slots : 16]).all(), tree
                if first is not None:
                    assert (fence[nodes.stop - slots : int(tree.off[v + 1]) - slots] == first).all(), tree
        fences = [(float(x), int(c)) for x, c in zip(tree.fence_x[:leaves], tree.fence_c[:leaves], strict=True)]
        assert fences == sorted(fences) and fences[0] == (-np.inf, BEFORE_ALL), tree
        for b in np.flatnonzero(tree.fill):
            first, last = int(b) * 16, int(b) * 16 + int(tree.fill[b]) - 1
            assert fences[b] <= (tree.x[first], tree.c[first]), tree
            assert b + 1 == leaves or (tree.x[last], tree.c[last]) < fences[b + 1], tree


@expanded
def _beyond(tree: RangeTree, base: int, lane: int, y_limit: float, east: bool) -> int:
    """The lanes of a block that are at most `y_limit` and lie east, or west, of `lane`."""
    return lanes_upto(tree.least, base, y_limit) & ((-2 << lane) if east else (1 << lane) - 1)


@expanded
def _expect(tree: RangeTree, base: int, east: bool) -> None:
    """Prefetch what a search in this leaf reads next: the x of its hits, and the next leaf but one."""
    prefetch_block(tree.x, base)
    prefetch_block(tree.least, base + 32 if east else base - 32)


@expanded
def _expect_hit(tree: RangeTree, base: int, east: bool) -> None:
    """As `_expect`, for a caller that reads all of its hits: their `created` at once, their rows later."""
    _expect(tree, base, east)
    prefetch_block(tree.holder, base + 16 if east else base - 16)
    prefetch_line(tree.row, base)


@expanded
def _next(tree: RangeTree, slot: int, y_limit: float, c_limit: int, east: bool) -> int:
    """Climb until a sibling on that side holds something better, then descend along the nearest such children."""
    _expect_hit(tree, slot & -16, east)
    found = -1
    at = slot
    level = 0
    down = False
    while found < 0 and level < tree.off.size - 1:
        base = tree.off[uint64(level)] + (at & -16)
        hits = lanes_upto(tree.least, base, y_limit) if down else _beyond(tree, base, at & 15, y_limit, east)
        lane = -1
        while hits != 0 and lane < 0:
            j = low_bit(hits) if east else high_bit(hits)
            if tree.least[uint64(base + j)] < y_limit or tree.holder[uint64(base + j)] < c_limit:
                lane = j
            else:
                hits ^= 1 << j
        if lane < 0:
            at >>= 4
            level += 1
        else:
            down = True
            at = (at & -16) + lane
            if level == 0:
                found = at
            else:
                level -= 1
                at <<= 4
    return found


@kernel
def next_west(tree: RangeTree, slot: int, y_limit: float, c_limit: int) -> int:
    """O(log n)."""
    return _next(tree, slot, y_limit, c_limit, False)


@kernel
def next_east(tree: RangeTree, slot: int, y_limit: float, c_limit: int) -> int:
    """O(log n)."""
    return _next(tree, slot, y_limit, c_limit, True)


@expanded
def _first(tree: RangeTree, slot: int, y_limit: float, c_limit: int, k: int, out: NDArray[Any], east: bool) -> int:
    """Take all hits of a leaf from one mask, then climb and descend to the next leaf that has any."""
    n = 0
    at = slot
    level = 0
    base = at & -16
    _expect(tree, base, east)
    hits = _beyond(tree, base, at & 15, y_limit, east)
    while level < tree.off.size - 1:
        lane = -1
        while hits != 0 and lane < 0:
            j = low_bit(hits) if east else high_bit(hits)
            hits ^= 1 << j
            if tree.least[uint64(base + j)] < y_limit or tree.holder[uint64(base + j)] < c_limit:
                if level == 0:
                    out[uint64(n)] = base + j
                    n += 1
                    hits = hits if n < k else 0
                else:
                    lane = j
        if lane >= 0:
            level -= 1
            at = ((at & -16) + lane) << 4
            base = tree.off[uint64(level)] + at
            if level == 0:
                _expect(tree, base, east)
            hits = lanes_upto(tree.least, base, y_limit)
        else:
            level = level + 1 if n < k else tree.off.size
            at >>= 4
            if level < tree.off.size - 1:
                base = tree.off[uint64(level)] + (at & -16)
                hits = _beyond(tree, base, at & 15, y_limit, east)
    return n


@kernel
def first_west(tree: RangeTree, slot: int, y_limit: float, c_limit: int, k: int, out: NDArray[Any]) -> int:
    """O(k + log n) where a part of the objects is better, O(k log n) at worst."""
    return _first(tree, slot, y_limit, c_limit, k, out, False)


@kernel
def first_east(tree: RangeTree, slot: int, y_limit: float, c_limit: int, k: int, out: NDArray[Any]) -> int:
    """As `first_west`."""
    return _first(tree, slot, y_limit, c_limit, k, out, True)


@inlined
def _pull(least: Floats, holder: Ints, i: int, below: int) -> bool:
    """Recompute the least object of node `i` from its children, at `below` and after; returns whether it changed."""
    y = lanes_least(least, below)
    c = NOBODY
    if y <= MAX:
        ties = lanes_upto(least, below, y)
        c = holder[below + low_bit(ties)]
        ties &= ties - 1
        while ties != 0:
            c = min(c, holder[below + low_bit(ties)])
            ties &= ties - 1
    changed = least[i] != y or holder[i] != c
    least[i] = y
    holder[i] = c
    return changed


@inlined
def _count_live(tree: RangeTree, slot: int, change: int) -> None:
    """Add `change` to the number of visible objects on the path above a slot."""
    b = slot
    for level in range(1, tree.off.size - 1):
        b >>= 4
        tree.live[tree.off[level] + b - tree.y.size] += change


@kernel
def set_y(tree: RangeTree, slot: int, y: float) -> None:
    """Recompute the least objects on the path as far as the slot was or may become one of them: rarely even the first.

    One test for promotion and demotion alike is easier to predict than a branch for each.
    """
    old = tree.least[slot]
    c = tree.holder[slot]
    tree.least[slot] = y
    if (old <= MAX) != (y <= MAX):
        _count_live(tree, slot, 1 if y <= MAX else -1)
    b = slot >> 4
    i = tree.off[1] + b
    level = 1
    going = True
    while going and level < tree.off.size - 1 and ((tree.least[i] >= y) | (tree.holder[i] == c)):
        going = _pull(tree.least, tree.holder, i, tree.off[level - 1] + (b << 4))
        b >>= 4
        level += 1
        i = tree.off[level] + b


@internal
def _leaf_of(tree: RangeTree, x: float, c: int) -> int:
    """The last leaf whose fence is not after (x, c): the only one that may hold that position."""
    b = 0
    for up in range(tree.off.size - 2):
        base = tree.off[tree.off.size - 2 - up] - tree.y.size + (b << 4)
        lane = high_bit(lanes_upto(tree.fence_x, base, x))
        while tree.fence_x[base + lane] == x and tree.fence_c[base + lane] > c:
            lane -= 1
        b = (b << 4) + lane
    return b


@expanded
def _shift(tree: RangeTree, here: int, there: int) -> None:
    """Copy slot `here` to slot `there`."""
    tree.x[there] = tree.x[here]
    tree.y[there] = tree.y[here]
    tree.c[there] = tree.c[here]
    tree.row[there] = tree.row[here]
    tree.pos[tree.row[here]] = there


@expanded
def _clear(tree: RangeTree, slot: int) -> None:
    """Make the slot a hole."""
    tree.x[slot] = np.inf
    tree.y[slot] = np.inf
    tree.c[slot] = NOBODY
    tree.row[slot] = -1


@kernel
def _spread(tree: RangeTree, first_leaf: int, end_leaf: int) -> None:
    """Distribute the objects of leaves first_leaf..end_leaf - 1 evenly: pack them to the left, then place them from the
    right."""
    n = 0
    for b in range(first_leaf, end_leaf):
        for s in range(b << 4, (b << 4) + tree.fill[b]):
            t = (first_leaf << 4) + n
            n += 1
            if s != t:
                _shift(tree, s, t)
    end = n
    for b in range(end_leaf - 1, first_leaf - 1, -1):
        start = n * (b - first_leaf) // (end_leaf - first_leaf)
        for i in range(end - start - 1, -1, -1):
            _shift(tree, (first_leaf << 4) + start + i, (b << 4) + i)
        for s in range((b << 4) + end - start, (b << 4) + 16):
            _clear(tree, s)
        tree.fill[b] = end - start
        end = start
    # Fences within the window (an empty leaf takes the one to its right), then the levels above.
    for b in range(end_leaf - 1, first_leaf, -1):
        if tree.fill[b] > 0:
            tree.fence_x[b] = tree.x[b << 4]
            tree.fence_c[b] = tree.c[b << 4]
        elif b + 1 < tree.fill.size:
            tree.fence_x[b] = tree.fence_x[b + 1]
            tree.fence_c[b] = tree.fence_c[b + 1]
        else:
            tree.fence_x[b] = np.inf
    first = first_leaf
    last = end_leaf - 1
    for level in range(1, tree.off.size - 1):
        here = tree.off[level] - tree.y.size
        for b in range(first, last + 1):
            _pull(tree.least, tree.holder, tree.off[level] + b, tree.off[level - 1] + (b << 4))
            live = 0
            if level == 1:
                live = bit_count(lanes_upto(tree.y, b << 4, MAX))
            else:
                below = tree.off[level - 1] - tree.y.size + (b << 4)
                for j in range(below, below + 16):
                    live += tree.live[j]
                tree.fence_x[here + b] = tree.fence_x[below]
                tree.fence_c[here + b] = tree.fence_c[below]
            tree.live[here + b] = live
        first >>= 4
        last >>= 4


@internal
def _make_room(tree: RangeTree, leaf: int) -> bool:
    """Redistribute the smallest window around a full leaf that has room; False if the whole array has none."""
    leaves = tree.fill.size
    steps = 1
    while 4**steps < leaves:
        steps += 1
    made = False
    step = 1
    while step <= steps and not made:
        width = 4**step
        first = leaf // width * width
        end = min(first + width, leaves)
        n = 0
        for b in range(first, end):
            n += tree.fill[b]
        room = FULL if step == steps else FULL - (FULL - ROOT) * step / steps
        made = n < int(room * (end - first))
        if made:
            _spread(tree, first, end)
        step += 1
    return made


@kernel
def insert(tree: RangeTree, row: int, x: float, y: float, c: int) -> int:
    """Find the leaf by fences, make room if it is full, shift the rest of the leaf by one. O(log^2 n) amortised."""
    leaf = _leaf_of(tree, x, c)
    room = tree.fill[leaf] < 16
    if not room:
        room = _make_room(tree, leaf)
        leaf = _leaf_of(tree, x, c)
    slot = -1
    if room:
        slot = (leaf << 4) + tree.fill[leaf]
        while slot > leaf << 4 and (tree.x[slot - 1] > x or (tree.x[slot - 1] == x and tree.c[slot - 1] > c)):
            _shift(tree, slot - 1, slot)
            slot -= 1
        tree.x[slot] = x
        tree.c[slot] = c
        tree.y[slot] = np.inf
        tree.row[slot] = row
        tree.pos[row] = slot
        tree.fill[leaf] += 1
        tree.size[0] += 1
        set_y(tree, slot, y)
    return slot


@kernel
def delete(tree: RangeTree, row: int) -> None:
    """Hide the object, then close the gap in its leaf. O(log n)."""
    slot = tree.pos[row]
    set_y(tree, slot, np.inf)
    leaf = slot >> 4
    end = (leaf << 4) + tree.fill[leaf] - 1
    for t in range(slot, end):
        _shift(tree, t + 1, t)
    _clear(tree, end)
    tree.pos[row] = -1
    tree.fill[leaf] -= 1
    tree.size[0] -= 1


# A query over a range of x works on slots first..last, then on their parents, and so on: of each level it takes the
# nodes at either end that are not whole families, and leaves the rest to the next level.


@expanded
def _ends(first: int, last: int) -> tuple[int, int]:
    """Of the nodes first..last of one level, those that are not whole families: first..l and r..last. The parents (l +
    16) >> 4 to (r - 1) >> 4 cover the rest."""
    l, r = last, last + 1
    if first >> 4 != last >> 4:
        l = first | 15 if first & 15 != 0 else first - 1
        r = last & -16 if last & 15 != 15 else last + 1
    return l, r


@internal
def _slot_from(tree: RangeTree, lo: float) -> int:
    """A slot before every object with x >= lo and after every other one."""
    leaf = _leaf_of(tree, min(lo, MAX), BEFORE_ALL)
    slot = leaf << 4
    while slot < (leaf << 4) + tree.fill[leaf] and tree.x[slot] < lo:
        slot += 1
    return slot


@internal
def _slot_upto(tree: RangeTree, hi: float) -> int:
    """A slot at or after the last object with x <= hi and before every other one."""
    leaf = _leaf_of(tree, min(hi, MAX), NOBODY)
    slot = (leaf << 4) + tree.fill[leaf] - 1
    while slot >= leaf << 4 and tree.x[slot] > hi:
        slot -= 1
    return slot


@kernel
def count(tree: RangeTree, lo: float, hi: float) -> int:
    """Add up the counts of whole nodes; O(log n)."""
    n = 0
    first = _slot_from(tree, lo)
    last = _slot_upto(tree, hi)
    level = 0
    while first <= last:
        l, r = _ends(first, last)
        n += _live_in(tree, level, first, l) + _live_in(tree, level, r, last)
        first = (l + 16) >> 4
        last = (r - 1) >> 4
        level += 1
    return n


@internal
def _live_in(tree: RangeTree, level: int, first: int, last: int) -> int:
    """The number of objects of finite y below siblings first..last of a level."""
    n = 0
    if level == 0 and first <= last:
        n = bit_count(lanes_upto(tree.y, first & -16, MAX) & (-1 << (first & 15)) & ((2 << (last & 15)) - 1))
    elif level > 0:
        for j in range(tree.off[level] - tree.y.size + first, tree.off[level] - tree.y.size + last + 1):
            n += tree.live[j]
    return n


@kernel
def top(tree: RangeTree, lo: float, hi: float, k: int, out: NDArray[Any]) -> int:
    """Best-first search with `out` as the queue: the k most promising nodes and slots in order of their least objects.

    The first entry that is a node is replaced by its child with the same least object, and the other children are
    inserted in order; what falls off the end has k better entries, so k better objects, before it. O(k log n) where
    objects are spread evenly.
    """
    n = 0
    first = _slot_from(tree, lo)
    last = _slot_upto(tree, hi)
    level = 0
    while first <= last and k > 0:
        l, r = _ends(first, last)
        for j in range(first, l + 1):
            n = _enqueue(tree, k, out, n, tree.off[level] + j)
        for j in range(r, last + 1):
            n = _enqueue(tree, k, out, n, tree.off[level] + j)
        first = (l + 16) >> 4
        last = (r - 1) >> 4
        level += 1
    place = 0
    while place < n:
        i = out[place]
        if i < tree.y.size:
            place += 1
        else:
            level = 1
            while i >= tree.off[level + 1]:
                level += 1
            below = tree.off[level - 1] + ((i - tree.off[level]) << 4)
            worst = out[n - 1]
            hits = lanes_upto(tree.least, below, tree.least[worst] if n == k else MAX)
            while hits != 0:
                child = below + low_bit(hits)
                hits &= hits - 1
                if tree.holder[child] == tree.holder[i]:
                    out[place] = child
                else:
                    n = _enqueue(tree, k, out, n, child)
    return n


@internal
def _enqueue(tree: RangeTree, k: int, out: NDArray[Any], n: int, i: int) -> int:
    """Insert node or slot i among the best k of the queue; returns the new length."""
    y = tree.least[i]
    c = tree.holder[i]
    z = n
    if n == k:
        last = out[n - 1]
        z = n - 1 if y < tree.least[last] or (y == tree.least[last] and c < tree.holder[last]) else -1
    if y <= MAX and z >= 0:
        n = z + 1
        while z > 0 and (tree.least[out[z - 1]] > y or (tree.least[out[z - 1]] == y and tree.holder[out[z - 1]] > c)):
            out[z] = out[z - 1]
            z -= 1
        out[z] = i
    return n


@kernel
def min_y(tree: RangeTree, lo: float, hi: float, y0: float, c0: int) -> int:
    """Descend only where a node's least object is at or before the bound; else it is the node's answer. O(log n) for
    each object at or before the bound."""
    best = -1
    first = _slot_from(tree, lo)
    last = _slot_upto(tree, hi)
    level = 0
    while first <= last:
        l, r = _ends(first, last)
        best = _least_beyond(tree, level, first, l, y0, c0, best)
        best = _least_beyond(tree, level, r, last, y0, c0, best)
        first = (l + 16) >> 4
        last = (r - 1) >> 4
        level += 1
    while best >= tree.y.size:
        level = 1
        while best >= tree.off[level + 1]:
            level += 1
        c = tree.holder[best]
        best = tree.off[level - 1] + ((best - tree.off[level]) << 4)
        while tree.holder[best] != c:
            best += 1
    return best


@internal
def _least_beyond(tree: RangeTree, top_level: int, first: int, last: int, y0: float, c0: int, best: int) -> int:
    """The slot or node whose least object is the least beyond (y0, c0) below siblings first..last of a level, unless
    `best` is better. Preorder traversal without a stack: the number of a node determines the next."""
    level = top_level
    b = first
    while b <= last or level < top_level:
        i = tree.off[level] + b
        y = tree.least[i]
        c = tree.holder[i]
        promising = y <= MAX and (best < 0 or y < tree.least[best] or (y == tree.least[best] and c < tree.holder[best]))
        beyond = y > y0 or (y == y0 and c > c0)
        if promising and beyond:
            best = i
        if promising and not beyond and level > 0:
            b <<= 4
            level -= 1
        else:
            while level < top_level and b & 15 == 15:
                b >>= 4
                level += 1
            b += 1
    return best


@kernel
def expect(tree: RangeTree, row: int) -> None:
    """O(1)."""
    slot = int(tree.pos[row])
    if slot >= 0:
        base = slot & -16
        for leaf in range(base - 16, base + 32, 16):
            prefetch_block(tree.least, leaf)
            prefetch_block(tree.x, leaf)
        prefetch_block(tree.least, base - 32)
        prefetch_block(tree.least, base + 32)
        node = int(tree.off[1]) + (slot >> 4)
        prefetch_block(tree.holder, base)
        prefetch_line(tree.row, base)
        prefetch_block(tree.least, node & -16)
        prefetch_line(tree.holder, node)


@kernel
def expect_applied(tree: RangeTree, row: int) -> None:
    """O(1)."""
    slot = int(tree.pos[row])
    if slot >= 0:
        node = int(tree.off[1]) + (slot >> 4)
        prefetch_line(tree.x, slot)
        prefetch_line(tree.least, slot)
        prefetch_line(tree.holder, slot)
        prefetch_line(tree.least, node)
        prefetch_line(tree.holder, node)


@kernel
def expect_walk(tree: RangeTree, row: int, y: float) -> None:
    """Those leaves of the block of 16 that hold something better, the nearest on either side. O(1)."""
    slot = int(tree.pos[row])
    if slot >= 0:
        first = (slot >> 4) & -16
        lane = (slot >> 4) & 15
        better = lanes_upto(tree.least, int(tree.off[1]) + first, min(tree.least[slot], y))
        west, east = better & ((1 << lane) - 1), better & (-2 << lane)
        for _ in range(EXPECTED):
            if west != 0:
                _expect_leaf(tree, first + high_bit(west))
                west ^= 1 << high_bit(west)
            if east != 0:
                _expect_leaf(tree, first + low_bit(east))
                east &= east - 1


@expanded
def _expect_leaf(tree: RangeTree, leaf: int) -> None:
    """Prefetch what a search reads of a leaf."""
    prefetch_block(tree.least, leaf << 4)
    prefetch_block(tree.x, leaf << 4)


implement(
    RangeTree,
    *(next_west, next_east, first_west, first_east, min_y, top, count, set_y, insert, delete),
    *(expect, expect_applied, expect_walk),
)
