"""The dynamic range tree: objects in position order in a packed-memory array under an implicit wide tree.

Layout: level 0 is the slots, in leaves of 16, filled from the left; holes have x = y = +inf and row = -1. A node of level
v + 1 stands above 16 neighbours of level v, up to a level of at most 16 nodes. The levels lie one after another in
``least`` and ``holder`` (level v from ``off[v]``, ``y`` and ``c`` are views of level 0): the lexicographically least
(y, created) below a node, (inf, NOBODY) if no finite y is there. ``fence`` is a lower bound of the positions below a
node: everything to its left lies strictly before its fence, everything in it or to its right does not.

A slot is looked up in 16-wide blocks: one vector comparison of a block with a threshold gives a bit mask, and only lanes
in that mask are looked at for ties. An insertion shifts within its leaf; a full leaf spreads the smallest enclosing window
of 4, 16, 64, ... leaves that has room, where the room asked for grows with the window (Bender, Demaine, Farach-Colton,
"Cache-oblivious B-trees"), so that n insertions in any order cost O(n log^2 n) moves.

The paper's dynamic range tree (IV-D) with the least y per node in place of sorted secondary lists.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from indexes.boards.objects import MAX, implement
from indexes.jit import inline_kernel, kernel

from llvmlite import ir  # isort: skip  (indexes.jit has to come before numba)
from numba import types  # isort: skip
from numba.extending import intrinsic, overload  # isort: skip

NOBODY = int(np.iinfo(np.int64).max)
"""The `holder` of a node without an object of finite y."""

FIRST = int(np.iinfo(np.int64).min)
"""Before every `created`."""

FULL, ROOT = 15.0, 13.5
"""Objects a leaf that a window of 4 leaves, and the whole array, may hold."""

BUILD = 12.5
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
    widths = [-(-max(leaves, 1) // 16) * 16]
    while widths[-1] > 16:
        widths.append(-(-(widths[-1] // 16) // 16) * 16)
    slots, nodes = widths[0] * 16, sum(widths)
    off = np.cumsum([0, slots, *widths])
    least, holder = np.full(slots + nodes, np.inf), np.full(slots + nodes, NOBODY)
    fence_x, fence_c = np.full(nodes, np.inf), np.full(nodes, FIRST)
    fence_x[off[1:-1] - slots] = -np.inf
    return RangeTree(
        x=np.full(slots, np.inf), y=least[:slots], c=holder[:slots], row=np.full(slots, -1, np.int32),
        pos=np.full(rows, -1, np.int32), least=least, holder=holder, fence_x=fence_x, fence_c=fence_c,
        live=np.zeros(nodes, np.int32), fill=np.zeros(widths[0], np.int32), off=off, size=np.zeros(1, np.int64),
    )  # fmt: skip


def _packed(x: Any, y: Any, c: Any, row: Any, leaves: int, rows: int) -> RangeTree:
    """A tree of objects that are given in position order."""
    o, n = _empty(leaves, rows), len(x)
    o.x[:n], o.y[:n], o.c[:n], o.row[:n] = x, y, c, row
    o.fill[:] = np.clip(n - 16 * np.arange(len(o.fill)), 0, 16)
    o.size[0] = n
    _spread(o, 0, len(o.fill))
    return o


class RangeTreeIndex:
    """The object index as a range tree. Queries O(log n) for each object they find, updates O(log n) amortised
    (insertions O(log^2 n)); 28 bytes a slot, 37 a node.
    """

    def __init__(self, arrays: RangeTree | None = None) -> None:
        self.arrays = _empty(1, 0) if arrays is None else arrays

    @classmethod
    def build(cls, x: Any, y: Any, created: Any, rows: Any) -> Self:
        """The index of objects given by column; O(n log n)."""
        x, y, created, rows = (np.asarray(a, t) for a, t in ((x, float), (y, float), (created, np.int64), (rows, np.int32)))
        order = np.lexsort((created, x))
        leaves = int(np.ceil(len(x) / BUILD))
        return cls(_packed(x[order], y[order], created[order], rows[order], leaves, int(rows.max(initial=-1)) + 1))

    def __len__(self) -> int:
        return int(self.arrays.size[0])

    def reserve(self, inserts: int, rows: int = 0) -> None:
        """Make room for that many insertions by kernels and for rows below `rows`. Replaces `arrays` when it grows
        (or shrinks, below an eighth): O(n), amortised O(1) an insertion.
        """
        o = self.arrays
        n = len(self) + inserts
        leaves = len(o.fill)
        if n > ROOT * leaves or (leaves > 16 and 8 * n < leaves):
            s = np.flatnonzero(o.row >= 0)
            wanted = int(np.ceil(max(n, 1.25 * len(self)) / BUILD))
            o = _packed(o.x[s], o.y[s], o.c[s], o.row[s], wanted, len(o.pos))
        if rows > len(o.pos):
            o = o._replace(pos=np.append(o.pos, np.full(max(rows, len(o.pos) * 5 // 4) - len(o.pos), -1, np.int32)))
        self.arrays = o


# Sixteen lanes at once. Each primitive is one vector instruction sequence when compiled, and a loop otherwise.


def _block(context: Any, builder: Any, array_type: Any, array: Any, base: Any) -> Any:
    """Load a[base : base + 16]."""
    data = context.make_array(array_type)(context, builder, value=array).data
    lanes = ir.VectorType(ir.DoubleType(), 16).as_pointer()
    return builder.load(builder.bitcast(builder.gep(data, [base]), lanes), align=8)


@intrinsic
def _lanes_upto(typing: Any, a: Any, base: Any, T: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = _block(context, builder, signature.args[0], args[0], args[1])
        undefined = ir.Constant(block.type, ir.Undefined)
        one = builder.insert_element(undefined, args[2], ir.Constant(ir.IntType(32), 0))
        every = builder.shuffle_vector(one, undefined, ir.Constant(ir.VectorType(ir.IntType(32), 16), [0] * 16))
        mask = builder.bitcast(builder.fcmp_ordered("<=", block, every), ir.IntType(16))
        return builder.zext(mask, ir.IntType(64))

    return types.int64(a, types.int64, types.float64), codegen


@intrinsic
def _lanes_least(typing: Any, a: Any, base: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = _block(context, builder, signature.args[0], args[0], args[1])
        width = 16
        while width > 1:
            width //= 2
            index = ir.VectorType(ir.IntType(32), width)
            low = builder.shuffle_vector(block, block, ir.Constant(index, list(range(width))))
            high = builder.shuffle_vector(block, block, ir.Constant(index, list(range(width, 2 * width))))
            block = builder.select(builder.fcmp_ordered("<", low, high), low, high)
        return builder.extract_element(block, ir.Constant(ir.IntType(32), 0))

    return types.float64(a, types.int64), codegen


@intrinsic
def _bits_low(typing: Any, mask: Any) -> Any:
    return types.int64(types.int64), lambda c, b, s, args: b.cttz(args[0], ir.Constant(ir.IntType(1), 1))


@intrinsic
def _bits_high(typing: Any, mask: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zeros = builder.ctlz(args[0], ir.Constant(ir.IntType(1), 1))
        return builder.sub(ir.Constant(ir.IntType(64), 63), zeros)

    return types.int64(types.int64), codegen


@intrinsic
def _bits_count(typing: Any, mask: Any) -> Any:
    return types.int64(types.int64), lambda c, b, s, args: b.ctpop(args[0])


def lanes_upto(a: Any, base: int, T: float) -> int:
    """The bit mask of the lanes j < 16 with a[base + j] <= T."""
    return sum(1 << j for j in range(16) if a[base + j] <= T)


def lanes_least(a: Any, base: int) -> float:
    """The least of a[base : base + 16]."""
    return float(a[base : base + 16].min())


def low_bit(mask: int) -> int:
    """The number of the lowest bit set; mask is not 0."""
    return int(mask & -mask).bit_length() - 1


def high_bit(mask: int) -> int:
    """The number of the highest bit set; mask is not 0."""
    return int(mask).bit_length() - 1


def bit_count(mask: int) -> int:
    """How many bits are set."""
    return int(mask).bit_count()


_PASTED: dict[str, Any] = {"jit_options": {"nogil": True, "forceinline": True}, "strict": False}


@overload(lanes_upto, **_PASTED)
def _compiled_lanes_upto(a: Any, base: int, T: float) -> Any:
    return lambda a, base, T: _lanes_upto(a, base, T)


@overload(lanes_least, **_PASTED)
def _compiled_lanes_least(a: Any, base: int) -> Any:
    return lambda a, base: _lanes_least(a, base)


@overload(low_bit, **_PASTED)
def _compiled_low_bit(mask: int) -> Any:
    return lambda mask: _bits_low(mask)


@overload(high_bit, **_PASTED)
def _compiled_high_bit(mask: int) -> Any:
    return lambda mask: _bits_high(mask)


@overload(bit_count, **_PASTED)
def _compiled_bit_count(mask: int) -> Any:
    return lambda mask: _bits_count(mask)


@kernel
def next_west(o: RangeTree, s: int, T: float, Tc: int) -> int:
    """Climb until an earlier sibling holds something better, then go down along the last such children."""
    found = -1
    at = s
    v = 0
    down = False
    while found < 0 and v < o.off.size - 1:
        base = o.off[v] + (at & -16)
        hits = lanes_upto(o.least, base, T)
        if not down:
            hits &= (1 << (at & 15)) - 1
        lane = -1
        while hits != 0 and lane < 0:
            j = high_bit(hits)
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


@kernel
def next_east(o: RangeTree, s: int, T: float, Tc: int) -> int:
    """Climb until a later sibling holds something better, then go down along the first such children."""
    found = -1
    at = s
    v = 0
    down = False
    while found < 0 and v < o.off.size - 1:
        base = o.off[v] + (at & -16)
        hits = lanes_upto(o.least, base, T)
        if not down:
            hits &= -2 << (at & 15)
        lane = -1
        while hits != 0 and lane < 0:
            j = low_bit(hits)
            if o.least[base + j] < T or o.holder[base + j] < Tc:
                lane = j
            else:
                hits &= hits - 1
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


@kernel
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


@kernel
def _count_live(o: RangeTree, s: int, change: int) -> None:
    """Add to the number of present objects on the path above slot `s`."""
    b = s
    for v in range(1, o.off.size - 1):
        b >>= 4
        o.live[o.off[v] + b - o.y.size] += change


@kernel
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


@kernel
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


@kernel
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


@kernel
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


@kernel
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


@kernel
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


implement(RangeTree, next_west, next_east, set_y, insert, delete)
