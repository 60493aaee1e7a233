"""The dynamic range tree: objects in position order in a packed-memory array under an implicit wide tree.

Layout: level 0 is the slots, in leaves of 16, filled from the left; holes have x = y = +inf and row = -1. A node of
level v + 1 stands above 16 neighbours of level v, up to a level of at most 16 nodes. The levels lie one after another
in ``least`` and ``holder`` (level v from ``off[v]``; ``y`` and ``c`` are views of level 0): the lexicographically least
(y, created) below a node, (inf, NOBODY) if no finite y is there. ``fence`` is a lower bound of the positions below a
node: everything to its left lies strictly before its fence, everything in it or to its right does not.

A slot is looked for in blocks of 16: one vector comparison of a block with a threshold gives a bit mask, and only lanes
in that mask are looked at for ties. An insertion shifts within its leaf; a full leaf spreads the smallest enclosing
window of 4, 16, 64, ... leaves that has room, where the room asked for grows with the window (Bender, Demaine and
Farach-Colton, "Cache-oblivious B-trees"), so that n insertions in any order cost O(n log^2 n) moves.

The paper's dynamic range tree (IV-D) with the least y per node in place of sorted secondary lists.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from indexes import aligned
from indexes.boards.objects import BEFORE_ALL, MAX, ObjectIndex, implement
from indexes.jit import inline_kernel
from indexes.lanes import bit_count, high_bit, lanes_least, lanes_upto, low_bit, prefetch_block
from indexes.lean import inner_kernel, lean_kernel, pasted_kernel

NOBODY = int(np.iinfo(np.int64).max)
"""The `holder` of a node without an object of finite y."""

FULL, ROOT = 15.0, 14.0
"""Objects a leaf that a window of 4 leaves, and the whole array, may hold."""

BUILD = 13.4
"""Objects a leaf after a build or a growth, at most."""


class RangeTree(NamedTuple):
    """The arrays of a range tree; see the module's text."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]
    c: NDArray[np.int64]
    row: NDArray[np.int32]
    pos: NDArray[np.int32]
    least: NDArray[np.float64]  # slots, then the nodes of every level
    holder: NDArray[np.int64]
    fence_x: NDArray[np.float64]  # nodes only: node i of the levels above 0 is entry i - slots
    fence_c: NDArray[np.int64]
    live: NDArray[np.int32]  # finite y below each node
    fill: NDArray[np.int32]  # objects in each leaf
    off: NDArray[np.int64]
    size: NDArray[np.int64]


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
    """The number of leaves that so many objects are laid out in."""
    return _families(int(np.ceil(objects / BUILD)))


def _packed(x: Any, y: Any, c: Any, row: Any, leaves: int, rows: int) -> RangeTree:
    """A tree of objects that are given in position order."""
    o, n = _empty(leaves, rows), len(x)
    o.x[:n], o.y[:n], o.c[:n], o.row[:n] = x, y, c, row
    o.fill[:] = np.clip(n - 16 * np.arange(len(o.fill)), 0, 16)
    o.size[0] = n
    _spread(o, 0, len(o.fill))
    return o


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

    def contents(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.int32]]:
        """In order of position."""
        o = self.arrays
        s = np.flatnonzero(o.row >= 0)
        return o.x[s], o.y[s], o.c[s], o.row[s]

    def in_order(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.int64], NDArray[np.int32]]:
        o = self.arrays
        return o.x, o.y, o.c, o.row

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
        o = self.arrays
        n, leaves = len(self) + inserts, len(o.fill)
        if n > int(ROOT * leaves) or (leaves > 16 and n < leaves):
            s = np.flatnonzero(o.row >= 0)
            wanted = int(np.ceil(max(n, 1.25 * len(self)) / BUILD))
            o = _packed(o.x[s], o.y[s], o.c[s], o.row[s], wanted, len(o.pos))
        if rows > len(o.pos):
            more = max(rows, len(o.pos) * 5 // 4) - len(o.pos)
            o = o._replace(pos=np.append(o.pos, np.full(more, -1, np.int32)))
        self.arrays = o

    def frozen(self) -> Self:
        copy = super().frozen()
        o, slots = copy.arrays, len(copy.arrays.y)
        copy.arrays = o._replace(y=o.least[:slots], c=o.holder[:slots])
        return copy

    def check(self) -> None:
        """Raise AssertionError, with the state, if an invariant is broken; O(n)."""
        o = self.arrays
        slots, leaves = len(o.y), len(o.fill)
        held = np.arange(slots) % 16 < np.repeat(o.fill, 16)
        s = np.flatnonzero(held)
        assert int(o.size[0]) == len(s) <= FULL * leaves, o
        assert np.isfinite(o.x[held]).all(), o
        holes = (np.isposinf(o.x) & np.isposinf(o.y) & (o.c == NOBODY) & (o.row == -1))[~held]
        assert holes.all(), o
        assert (np.lexsort((o.c[s], o.x[s])) == np.arange(len(s))).all(), o
        assert len(np.unique(o.c[s])) == len(s), o
        assert (o.pos[o.row[s]] == s).all() and (o.pos >= 0).sum() == len(s), o
        assert np.shares_memory(o.y, o.least) and np.shares_memory(o.c, o.holder), o
        for v in range(1, len(o.off) - 1):
            width = (int(o.off[v]) - int(o.off[v - 1])) // 16
            below = slice(int(o.off[v - 1]), int(o.off[v]))
            y, c = o.least[below].reshape(width, 16), o.holder[below].reshape(width, 16)
            nodes = slice(int(o.off[v]), int(o.off[v]) + width)
            assert (o.least[nodes] == y.min(1)).all(), o
            holder = np.where((y == y.min(1)[:, None]) & np.isfinite(y), c, NOBODY).min(1)
            assert (o.holder[nodes] == holder).all(), o
            live = np.isfinite(y) if v == 1 else o.live[below.start - slots : below.stop - slots].reshape(width, 16)
            assert (o.live[nodes.start - slots : nodes.stop - slots] == live.sum(1)).all(), o
            assert np.isposinf(o.least[nodes.stop : int(o.off[v + 1])]).all(), o
            for fence, first in ((o.fence_x, np.inf), (o.fence_c, None)):
                here = fence[nodes.start - slots : nodes.stop - slots]
                if v > 1:
                    assert (here == fence[below.start - slots : below.stop - slots : 16]).all(), o
                if first is not None:
                    assert (fence[nodes.stop - slots : int(o.off[v + 1]) - slots] == first).all(), o
        fences = [(float(x), int(c)) for x, c in zip(o.fence_x[:leaves], o.fence_c[:leaves], strict=True)]
        assert fences == sorted(fences) and fences[0] == (-np.inf, BEFORE_ALL), o
        for b in np.flatnonzero(o.fill):
            first, last = int(b) * 16, int(b) * 16 + int(o.fill[b]) - 1
            assert fences[b] <= (o.x[first], o.c[first]), o
            assert b + 1 == leaves or (o.x[last], o.c[last]) < fences[b + 1], o


@inline_kernel
def _beyond(o, base, lane, T, east):  # type: ignore[no-untyped-def]
    """The lanes of a block that are at most T and lie east, or west, of one of them."""
    return lanes_upto(o.least, base, T) & ((-2 << lane) if east else (1 << lane) - 1)


@inline_kernel
def _expect(o, base, east):  # type: ignore[no-untyped-def]
    """A walk that is in this leaf will ask for the x of its hits, and for the next leaf soon."""
    prefetch_block(o.x, base)
    prefetch_block(o.least, base + 16 if east else base - 16)


@inline_kernel
def _next(o, s, T, Tc, east):  # type: ignore[no-untyped-def]
    """Climb until a sibling on that side holds something better, then go down along the nearest such children."""
    _expect(o, s & -16, east)
    found = -1
    at = s
    v = 0
    down = False
    while found < 0 and v < o.off.size - 1:
        base = o.off[v] + (at & -16)
        hits = lanes_upto(o.least, base, T) if down else _beyond(o, base, at & 15, T, east)
        lane = -1
        while hits != 0 and lane < 0:
            j = low_bit(hits) if east else high_bit(hits)
            if o.least[base + j] < T or o.holder[base + j] < Tc:
                lane = j
            else:
                hits ^= 1 << j
        if lane < 0:
            at >>= 4
            v += 1
        else:
            down = True
            at = (at & -16) + lane
            if v == 0:
                found = at
            else:
                v -= 1
                at <<= 4
    return found


@lean_kernel
def next_west(o: RangeTree, s: int, T: float, Tc: int) -> int:
    """O(log n)."""
    return _next(o, s, T, Tc, False)


@lean_kernel
def next_east(o: RangeTree, s: int, T: float, Tc: int) -> int:
    """O(log n)."""
    return _next(o, s, T, Tc, True)


@inline_kernel
def _first(o, s, T, Tc, k, out, east):  # type: ignore[no-untyped-def]
    """Take all hits of a leaf from one mask, then climb and go down to the next leaf that has any."""
    n = 0
    at = s
    v = 0
    base = at & -16
    _expect(o, base, east)
    hits = _beyond(o, base, at & 15, T, east)
    while v < o.off.size - 1:
        lane = -1
        while hits != 0 and lane < 0:
            j = low_bit(hits) if east else high_bit(hits)
            hits ^= 1 << j
            if o.least[base + j] < T or o.holder[base + j] < Tc:
                if v == 0:
                    out[n] = base + j
                    n += 1
                    hits = hits if n < k else 0
                else:
                    lane = j
        if lane >= 0:
            v -= 1
            at = ((at & -16) + lane) << 4
            base = o.off[v] + at
            if v == 0:
                _expect(o, base, east)
            hits = lanes_upto(o.least, base, T)
        else:
            v = v + 1 if n < k else o.off.size
            at >>= 4
            if v < o.off.size - 1:
                base = o.off[v] + (at & -16)
                hits = _beyond(o, base, at & 15, T, east)
    return n


@lean_kernel
def first_west(o: RangeTree, s: int, T: float, Tc: int, k: int, out: NDArray[Any]) -> int:
    """O(k + log n) where a part of the objects is better, O(k log n) at worst."""
    return _first(o, s, T, Tc, k, out, False)


@lean_kernel
def first_east(o: RangeTree, s: int, T: float, Tc: int, k: int, out: NDArray[Any]) -> int:
    """As `first_west`."""
    return _first(o, s, T, Tc, k, out, True)


@pasted_kernel
def _pull(least: NDArray[np.float64], holder: NDArray[np.int64], i: int, below: int) -> bool:
    """Recompute the least object of node `i` from its children, at `below` and after; whether it changed."""
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


@pasted_kernel
def _count_live(o: RangeTree, s: int, change: int) -> None:
    """Add to the number of present objects on the path above slot `s`."""
    b = s
    for v in range(1, o.off.size - 1):
        b >>= 4
        o.live[o.off[v] + b - o.y.size] += change


@lean_kernel
def set_y(o: RangeTree, s: int, y: float) -> None:
    """Recompute the path's least objects as far as `s` was or may become one of them: seldom even the first.

    That one test, rather than a case for rising and one for falling, is what branch prediction likes.
    """
    old = o.least[s]
    c = o.holder[s]
    o.least[s] = y
    if (old <= MAX) != (y <= MAX):
        _count_live(o, s, 1 if y <= MAX else -1)
    b = s >> 4
    i = o.off[1] + b
    v = 1
    going = True
    while going and v < o.off.size - 1 and ((o.least[i] >= y) | (o.holder[i] == c)):
        going = _pull(o.least, o.holder, i, o.off[v - 1] + (b << 4))
        b >>= 4
        v += 1
        i = o.off[v] + b


@inner_kernel
def _leaf_of(o: RangeTree, x: float, c: int) -> int:
    """The last leaf whose fence is not after (x, c): the only one that may hold that position."""
    b = 0
    for up in range(o.off.size - 2):
        base = o.off[o.off.size - 2 - up] - o.y.size + (b << 4)
        lane = high_bit(lanes_upto(o.fence_x, base, x))
        while o.fence_x[base + lane] == x and o.fence_c[base + lane] > c:
            lane -= 1
        b = (b << 4) + lane
    return b


@inline_kernel
def _shift(o, s, t):  # type: ignore[no-untyped-def]
    """Copy slot `s` to slot `t`."""
    o.x[t] = o.x[s]
    o.y[t] = o.y[s]
    o.c[t] = o.c[s]
    o.row[t] = o.row[s]
    o.pos[o.row[s]] = t


@inline_kernel
def _clear(o, s):  # type: ignore[no-untyped-def]
    """Make slot `s` a hole."""
    o.x[s] = np.inf
    o.y[s] = np.inf
    o.c[s] = NOBODY
    o.row[s] = -1


@lean_kernel
def _spread(o: RangeTree, a: int, e: int) -> None:
    """Spread the objects of leaves a..e-1 evenly over them: pack them to the left, then place them from the right."""
    n = 0
    for b in range(a, e):
        for s in range(b << 4, (b << 4) + o.fill[b]):
            t = (a << 4) + n
            n += 1
            if s != t:
                _shift(o, s, t)
    end = n
    for b in range(e - 1, a - 1, -1):
        start = n * (b - a) // (e - a)
        for i in range(end - start - 1, -1, -1):
            _shift(o, (a << 4) + start + i, (b << 4) + i)
        for s in range((b << 4) + end - start, (b << 4) + 16):
            _clear(o, s)
        o.fill[b] = end - start
        end = start
    # Fences within the window (an empty leaf takes the one to its right), then the levels above.
    for b in range(e - 1, a, -1):
        if o.fill[b] > 0:
            o.fence_x[b] = o.x[b << 4]
            o.fence_c[b] = o.c[b << 4]
        elif b + 1 < o.fill.size:
            o.fence_x[b] = o.fence_x[b + 1]
            o.fence_c[b] = o.fence_c[b + 1]
        else:
            o.fence_x[b] = np.inf
    first = a
    last = e - 1
    for v in range(1, o.off.size - 1):
        here = o.off[v] - o.y.size
        for b in range(first, last + 1):
            _pull(o.least, o.holder, o.off[v] + b, o.off[v - 1] + (b << 4))
            live = 0
            if v == 1:
                live = bit_count(lanes_upto(o.y, b << 4, MAX))
            else:
                below = o.off[v - 1] - o.y.size + (b << 4)
                for j in range(below, below + 16):
                    live += o.live[j]
                o.fence_x[here + b] = o.fence_x[below]
                o.fence_c[here + b] = o.fence_c[below]
            o.live[here + b] = live
        first >>= 4
        last >>= 4


@inner_kernel
def _make_room(o: RangeTree, leaf: int) -> bool:
    """Spread the smallest window around a full leaf that has room; False if the whole array has none."""
    leaves = o.fill.size
    steps = 1
    while 4**steps < leaves:
        steps += 1
    made = False
    step = 1
    while step <= steps and not made:
        width = 4**step
        a = leaf // width * width
        e = min(a + width, leaves)
        n = 0
        for b in range(a, e):
            n += o.fill[b]
        room = FULL if step == steps else FULL - (FULL - ROOT) * step / steps
        made = n < int(room * (e - a))
        if made:
            _spread(o, a, e)
        step += 1
    return made


@lean_kernel
def insert(o: RangeTree, row: int, x: float, y: float, c: int) -> int:
    """Find the leaf by fences, make room if it is full, shift the rest of the leaf by one."""
    leaf = _leaf_of(o, x, c)
    room = o.fill[leaf] < 16
    if not room:
        room = _make_room(o, leaf)
        leaf = _leaf_of(o, x, c)
    s = -1
    if room:
        s = (leaf << 4) + o.fill[leaf]
        while s > leaf << 4 and (o.x[s - 1] > x or (o.x[s - 1] == x and o.c[s - 1] > c)):
            _shift(o, s - 1, s)
            s -= 1
        o.x[s] = x
        o.c[s] = c
        o.y[s] = np.inf
        o.row[s] = row
        o.pos[row] = s
        o.fill[leaf] += 1
        o.size[0] += 1
        set_y(o, s, y)
    return s


@lean_kernel
def delete(o: RangeTree, row: int) -> None:
    """Hide the object, then close the gap in its leaf."""
    s = o.pos[row]
    set_y(o, s, np.inf)
    leaf = s >> 4
    end = (leaf << 4) + o.fill[leaf] - 1
    for t in range(s, end):
        _shift(o, t + 1, t)
    _clear(o, end)
    o.pos[row] = -1
    o.fill[leaf] -= 1
    o.size[0] -= 1


# A query over a range of x works on slots a..e, then on their parents, and so on: of each level it takes the nodes at
# either end that are no whole families, and leaves the rest to the next level.


@inline_kernel
def _ends(a, e):  # type: ignore[no-untyped-def]
    """Of the nodes a..e of one level: a..l and r..e are to be taken; (l + 16) >> 4 to (r - 1) >> 4 are left above."""
    l, r = e, e + 1
    if a >> 4 != e >> 4:
        l = a | 15 if a & 15 != 0 else a - 1
        r = e & -16 if e & 15 != 15 else e + 1
    return l, r


@inner_kernel
def _slot_from(o: RangeTree, lo: float) -> int:
    """A slot before every object with x >= lo and after every other one."""
    leaf = _leaf_of(o, min(lo, MAX), BEFORE_ALL)
    s = leaf << 4
    while s < (leaf << 4) + o.fill[leaf] and o.x[s] < lo:
        s += 1
    return s


@inner_kernel
def _slot_upto(o: RangeTree, hi: float) -> int:
    """A slot at or after the last object with x <= hi and before every other one."""
    leaf = _leaf_of(o, min(hi, MAX), NOBODY)
    s = (leaf << 4) + o.fill[leaf] - 1
    while s >= leaf << 4 and o.x[s] > hi:
        s -= 1
    return s


@lean_kernel
def count(o: RangeTree, lo: float, hi: float) -> int:
    """Add up the counts of whole nodes; O(log n)."""
    n = 0
    a = _slot_from(o, lo)
    e = _slot_upto(o, hi)
    v = 0
    while a <= e:
        l, r = _ends(a, e)
        n += _live_in(o, v, a, l) + _live_in(o, v, r, e)
        a = (l + 16) >> 4
        e = (r - 1) >> 4
        v += 1
    return n


@inner_kernel
def _live_in(o: RangeTree, v: int, a: int, e: int) -> int:
    """The number of objects of finite y below siblings a..e of level v."""
    n = 0
    if v == 0 and a <= e:
        n = bit_count(lanes_upto(o.y, a & -16, MAX) & (-1 << (a & 15)) & ((2 << (e & 15)) - 1))
    elif v > 0:
        for j in range(o.off[v] - o.y.size + a, o.off[v] - o.y.size + e + 1):
            n += o.live[j]
    return n


@lean_kernel
def top(o: RangeTree, lo: float, hi: float, k: int, out: NDArray[Any]) -> int:
    """Best first, and `out` is the queue: the k most promising nodes and slots in order of their least objects.

    The first entry that is a node gives way to its child with the same least object, and the other children are put in
    their places; what falls off the end has k better entries, so k better objects, before it.
    """
    n = 0
    a = _slot_from(o, lo)
    e = _slot_upto(o, hi)
    v = 0
    while a <= e and k > 0:
        l, r = _ends(a, e)
        for j in range(a, l + 1):
            n = _enqueue(o, k, out, n, o.off[v] + j)
        for j in range(r, e + 1):
            n = _enqueue(o, k, out, n, o.off[v] + j)
        a = (l + 16) >> 4
        e = (r - 1) >> 4
        v += 1
    place = 0
    while place < n:
        i = out[place]
        if i < o.y.size:
            place += 1
        else:
            v = 1
            while i >= o.off[v + 1]:
                v += 1
            below = o.off[v - 1] + ((i - o.off[v]) << 4)
            last = out[n - 1]
            hits = lanes_upto(o.least, below, o.least[last] if n == k else MAX)
            while hits != 0:
                child = below + low_bit(hits)
                hits &= hits - 1
                if o.holder[child] == o.holder[i]:
                    out[place] = child
                else:
                    n = _enqueue(o, k, out, n, child)
    return n


@inner_kernel
def _enqueue(o: RangeTree, k: int, out: NDArray[Any], n: int, i: int) -> int:
    """Put node or slot i in its place among the best k of the queue; returns the new length."""
    y = o.least[i]
    c = o.holder[i]
    z = n
    if n == k:
        last = out[n - 1]
        z = n - 1 if y < o.least[last] or (y == o.least[last] and c < o.holder[last]) else -1
    if y <= MAX and z >= 0:
        n = z + 1
        while z > 0 and (o.least[out[z - 1]] > y or (o.least[out[z - 1]] == y and o.holder[out[z - 1]] > c)):
            out[z] = out[z - 1]
            z -= 1
        out[z] = i
    return n


@lean_kernel
def min_y(o: RangeTree, lo: float, hi: float, y0: float, c0: int) -> int:
    """Go down only where a node's least object is at or before the bound; else it is the node's answer."""
    best = -1
    a = _slot_from(o, lo)
    e = _slot_upto(o, hi)
    v = 0
    while a <= e:
        l, r = _ends(a, e)
        best = _least_beyond(o, v, a, l, y0, c0, best)
        best = _least_beyond(o, v, r, e, y0, c0, best)
        a = (l + 16) >> 4
        e = (r - 1) >> 4
        v += 1
    while best >= o.y.size:
        v = 1
        while best >= o.off[v + 1]:
            v += 1
        c = o.holder[best]
        best = o.off[v - 1] + ((best - o.off[v]) << 4)
        while o.holder[best] != c:
            best += 1
    return best


@inner_kernel
def _least_beyond(o: RangeTree, level: int, a: int, e: int, y0: float, c0: int, best: int) -> int:
    """The slot or node whose least object is the least beyond (y0, c0) below siblings a..e of a level, unless `best` is
    better. In preorder without a stack: the number of a node says what comes next.
    """
    v = level
    b = a
    while b <= e or v < level:
        i = o.off[v] + b
        y = o.least[i]
        c = o.holder[i]
        promising = y <= MAX and (best < 0 or y < o.least[best] or (y == o.least[best] and c < o.holder[best]))
        beyond = y > y0 or (y == y0 and c > c0)
        if promising and beyond:
            best = i
        if promising and not beyond and v > 0:
            b <<= 4
            v -= 1
        else:
            while v < level and b & 15 == 15:
                b >>= 4
                v += 1
            b += 1
    return best


@lean_kernel
def expect(o: RangeTree, row: int) -> None:
    """O(1)."""
    s = int(o.pos[row])
    if s >= 0:
        base = s & -16
        for leaf in range(base - 16, base + 32, 16):
            prefetch_block(o.least, leaf)
            prefetch_block(o.x, leaf)
        prefetch_block(o.holder, base)
        prefetch_block(o.least, int(o.off[1]) + ((s >> 4) & -16))


implement(RangeTree, next_west, next_east, first_west, first_east, min_y, top, count, set_y, insert, delete, expect)
