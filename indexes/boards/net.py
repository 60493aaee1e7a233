"""What a batch does to objects, net: of each object counts what it was before the batch (O0) and what it is after (O1).

Two groups. In `fallen` are the objects that are worse after it, and those that went; in `risen` those that are better
or came, and those with another payload alone. What moved in x is in both: it went here and came there. Each group lies
in order of x, under a tree of fan-out 16 that knows the least and the greatest value below each node, old or new. So
the next item on a side that crosses a value, being better on one side of the batch and worse on the other, is found in
O(log m), however many lie between that do not.

That is all that the lists of one moment have to know of the other: what passed the object at hand is put in or taken
out (`turn_back`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.boards.changes import DELETE, Changes
from indexes.boards.radix import DIGITS, order_of, place_of
from indexes.jit import inline_kernel
from indexes.lean import inner_kernel, lean_kernel, pasted_kernel

INF = np.inf

FALLEN, RISEN = 1, 2
"""What became of an object, as bits."""


class Group(NamedTuple):
    """`size[ITEMS]` items in order of x; the columns have room for more. `y0` and `y1` are the rank values before and
    after, inf for what was or is not there.

    `other[i]` is the place in the other group before which item i lies. `spare[i]` is the row under which what moved in
    x stays at its old place for a while, -1 for everything else. The item's tiles begin at `first[i]` in the buffer and
    end before `end[i]`. Level v of `size[LEVELS]` of the tree begins at `off[v]` of `least` and `most`, and ends before
    `off[v + 1]`; level 0 are the items. Of `size[MISSING]` items one of both values is inf.
    """

    row: NDArray[np.int32]
    x: NDArray[np.float64]
    y0: NDArray[np.float64]
    y1: NDArray[np.float64]
    c: NDArray[np.int64]
    other: NDArray[np.int64]
    spare: NDArray[np.int32]
    first: NDArray[np.int64]
    end: NDArray[np.int64]
    least: NDArray[np.float64]
    most: NDArray[np.float64]
    off: NDArray[np.int64]
    size: NDArray[np.int64]


ITEMS, LEVELS, MISSING = range(3)
"""Entries of a group's `size`."""

MOST_LEVELS = 16


class Rows(NamedTuple):
    """The `size[NAMED]` rows that a batch names, by column, in the order of their first change. `table` finds a row's
    place in them: open addressing in `size[SLOTS]` entries, a power of 2; place + 1, 0 where it is empty. `of` is the
    place of each change's row, `slot` scratch. `became` says in which groups it is; `ends` are x and y before and x and
    y after, inf for the y of what is not there; `c` is `created` before and after."""

    size: NDArray[np.int64]
    table: NDArray[np.int32]
    of: NDArray[np.int32]
    slot: NDArray[np.int64]
    row: NDArray[np.int32]
    became: NDArray[np.uint8]
    ends: NDArray[np.float64]
    c: NDArray[np.int64]


NAMED, SLOTS = range(2)
"""Entries of the rows' `size`."""


class Items(NamedTuple):
    """What will be the items of both groups: its place among the rows, its group, its x there and its `created`; and
    their order by x, as words of `radix.py`. The others are scratch for that."""

    of: NDArray[np.int32]
    kind: NDArray[np.uint8]
    x: NDArray[np.float64]
    c: NDArray[np.int64]
    order: NDArray[np.uint64]
    spare: NDArray[np.uint64]
    heads: NDArray[np.int32]


class Net(NamedTuple):
    """Both groups, the rows that were named, and a bit for each row that is in a group: a batch asks for that of every
    object that a fall exposes, and of a table of the rows it would wait for memory. Rows from `spares[0]` on are none
    of the board's."""

    fallen: Group
    risen: Group
    rows: Rows
    changed: NDArray[np.uint64]
    spares: NDArray[np.int64]


KEPT, SHARE = 1 << 14, 4
"""Changes for which there is room from one batch to the next, or a share of the rows, by bits: beside what more of them
cost, or what the board takes, room is cheap."""


class Room:
    """Room for what a batch changes, used again by the next one: a `Net` is good until then."""

    def __init__(self) -> None:
        self._changes = 0
        self._net, self._items = _room(0, np.zeros(1, np.uint64)), _items(0)
        self._unclear = False
        """Whether there may be bits that the rows in the room do not tell of."""

    def net_of(self, o: Any, changes: Changes, touched: NDArray[np.int64], spares: int) -> Net:
        """What these changes do to the object index `o`, which knows all their rows and is as it was before them.

        `touched` are the rows with another payload after them; rows from `spares` on were never handed out. O(m) for m
        changes.
        """
        m = len(changes.row)
        net, items = self._take(m, spares)
        net.spares[0], net.rows.size[SLOTS] = spares, _slots(m)
        if not take_together(o, changes, touched, items, net):
            n = int(net.fallen.size[ITEMS] + net.risen.size[ITEMS])
            items.order[:n] = np.lexsort((items.c[:n], items.kind[:n], items.x[:n]))
            lay(items, net)
        return net

    def _take(self, m: int, spares: int) -> tuple[Net, Items]:
        """Room for m changes among so many rows; O(1) but where there is too little."""
        changed, words = self._net.changed, (spares >> 6) + 1
        if words > len(changed):
            changed = np.zeros(words + (words >> 3), np.uint64)
            self._net = self._net._replace(changed=changed)
            self._unclear = False
        if self._unclear:
            changed[:] = 0
            self._unclear = False
        if m <= self._changes:
            return self._net, self._items
        kept = max(KEPT, spares >> SHARE)
        room = max(m, min(2 * m, kept))
        changed[:] = 0
        net, items = _room(room, changed), _items(room)
        if room <= kept:
            self._changes, self._net, self._items = room, net, items
        else:
            self._unclear = True
        return net, items


def _room(m: int, changed: NDArray[np.uint64]) -> Net:
    """For m changes."""
    rows = Rows(
        np.zeros(2, np.int64), np.empty(_slots(m), np.int32), np.empty(m, np.int32), np.empty(m, np.int64),
        np.empty(m, np.int32), np.empty(m, np.uint8), np.empty((m, 4)), np.empty((m, 2), np.int64),
    )  # fmt: skip
    return Net(_group(m), _group(m), rows, changed, np.zeros(1, np.int64))


def _items(m: int) -> Items:
    """For m changes, each of which may be an item of both groups."""
    return Items(
        np.empty(2 * m, np.int32), np.empty(2 * m, np.uint8), np.empty(2 * m), np.empty(2 * m, np.int64),
        np.empty(2 * m, np.uint64), np.empty(2 * m, np.uint64), np.empty((DIGITS, 256), np.int32),
    )  # fmt: skip


def _group(n: int) -> Group:
    nodes = n + n // 15 + 16 * MOST_LEVELS
    return Group(
        np.empty(n, np.int32), np.empty(n), np.empty(n), np.empty(n), np.empty(n, np.int64), np.empty(n, np.int64),
        np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(nodes), np.empty(nodes),
        np.empty(MOST_LEVELS + 1, np.int64), np.zeros(3, np.int64),
    )  # fmt: skip


def _slots(m: int) -> int:
    """At most half of the slots are taken."""
    return 1 << int(2 * m).bit_length()


@inline_kernel
def _place(rows, row):  # type: ignore[no-untyped-def]
    """Where the table has the row, or would have it."""
    mask = rows.size[SLOTS] - 1
    at = ((np.int64(row) * 2654435769) >> 16) & mask
    while rows.table[at] != 0 and rows.row[rows.table[at] - 1] != row:
        at = (at + 1) & mask
    return at


@pasted_kernel
def is_changed(net, row):  # type: ignore[no-untyped-def]
    """Is the object of this row in one of the groups? Rows from `spares[0]` on are."""
    return row >= net.spares[0] or (net.changed[row >> 6] >> np.uint64(row & 63)) & np.uint64(1) != 0


@lean_kernel
def take_together(o, changes, touched, items, net):  # type: ignore[no-untyped-def]
    """Write the rows that change and what they are before and after, their items and both groups in order of x, and
    their bits. False where some have the same x, so that the order is not decided: the groups are not laid then. O(1) a
    change."""
    rows, fallen, risen = net.rows, net.fallen, net.risen
    for i in range(rows.size[NAMED]):
        net.changed[rows.row[i] >> 6] = 0
    _gather(o, changes, rows)
    fallen.size[ITEMS], risen.size[ITEMS] = _weigh(rows, touched, items, net.changed)
    both = fallen.size[ITEMS] + risen.size[ITEMS]
    decided = order_of(items.x, both, items.order, items.spare, items.heads)
    if decided:
        _lay(items, net)
    return decided


@inner_kernel
def _gather(o, changes, rows):  # type: ignore[no-untyped-def]
    """Write the rows that change, and what they are before and after.

    What a change needs of the index lies anywhere in memory: it is fetched in loops of their own, in which one does not
    wait for the other.
    """
    m = len(changes.row)
    n = 0
    for at in range(rows.size[SLOTS]):
        rows.table[at] = 0
    for e in range(m):
        at = _place(rows, changes.row[e])
        if rows.table[at] == 0:
            rows.row[n] = changes.row[e]
            rows.became[n] = 0
            n += 1
            rows.table[at] = n
        rows.of[e] = rows.table[at] - 1
    for i in range(n):
        rows.slot[i] = o.pos[rows.row[i]]
    for i in range(n):
        s = rows.slot[i]
        x, y, c = (o.x[s], o.y[s], o.c[s]) if s >= 0 else (0.0, INF, np.int64(-1))
        rows.ends[i, 0] = rows.ends[i, 2] = x
        rows.ends[i, 1] = rows.ends[i, 3] = y
        rows.c[i, 0] = rows.c[i, 1] = c
    for e in range(m):
        i = rows.of[e]
        if changes.kind[e] == DELETE:
            rows.ends[i, 3] = INF
        elif rows.ends[i, 3] == INF:
            rows.ends[i, 2], rows.ends[i, 3] = changes.x[e], changes.y[e]
            rows.c[i, 1] = changes.created[e]
        else:
            rows.ends[i, 2] = rows.ends[i, 2] if np.isnan(changes.x[e]) else changes.x[e]
            rows.ends[i, 3] = rows.ends[i, 3] if np.isnan(changes.y[e]) else changes.y[e]
    rows.size[NAMED] = n


@inner_kernel
def _weigh(rows, touched, items, changed):  # type: ignore[no-untyped-def]
    """Say in which groups the rows are, and write their items and bits; returns how many are in each group."""
    for t in range(len(touched)):
        i = rows.table[_place(rows, touched[t])] - 1
        if i >= 0:
            rows.became[i] = RISEN
    p = rose = np.int64(0)
    for i in range(rows.size[NAMED]):
        x0, y0, x1, y1 = rows.ends[i, 0], rows.ends[i, 1], rows.ends[i, 2], rows.ends[i, 3]
        stays = y0 < INF and y1 < INF and x0 == x1 and rows.c[i, 0] == rows.c[i, 1]
        if stays:
            told = np.int64(rows.became[i]) if y1 == y0 else 0
            became = FALLEN if y1 > y0 else RISEN if y1 < y0 else told
        else:
            became = (FALLEN if y0 < INF else 0) | (RISEN if y1 < INF else 0)
        rows.became[i] = became
        if became & FALLEN:
            # Zeros of both signs are one place.
            items.of[p], items.kind[p], items.x[p], items.c[p] = i, FALLEN, x0 + 0.0, rows.c[i, 0]
            p += 1
        if became & RISEN:
            items.of[p], items.kind[p], items.x[p], items.c[p] = i, RISEN, x1 + 0.0, rows.c[i, 1]
            p += 1
            rose += 1
        if became != 0:
            changed[rows.row[i] >> 6] |= np.uint64(1) << np.uint64(rows.row[i] & 63)
    return p - rose, rose


@lean_kernel
def lay(items, net):  # type: ignore[no-untyped-def]
    """As `_lay`, for an order that was decided elsewhere."""
    _lay(items, net)


@inner_kernel
def _lay(items, net):  # type: ignore[no-untyped-def]
    """Lay both groups in their order, and the trees over them. An item of the other group at the same x has the fallen
    one before the risen."""
    fallen, risen, spares = net.fallen, net.risen, net.spares[0]
    fallen.size[MISSING] = risen.size[MISSING] = 0
    a = b = 0
    for t in range(fallen.size[ITEMS] + risen.size[ITEMS]):
        at = place_of(items.order[t])
        if items.kind[at] == FALLEN:
            _lay_item(net.rows, items.of[at], 0, spares, fallen, a, b)
            a += 1
        else:
            _lay_item(net.rows, items.of[at], 1, spares, risen, b, a)
            b += 1
    _lay_tree(fallen)
    _lay_tree(risen)


@inline_kernel
def _lay_item(rows, i, side, spares, g, p, other):  # type: ignore[no-untyped-def]
    both = rows.became[i] == FALLEN | RISEN
    g.row[p] = rows.row[i]
    g.x[p], g.c[p] = rows.ends[i, 2 * side], rows.c[i, side]
    g.y0[p] = INF if both and side == 1 else rows.ends[i, 1]
    g.y1[p] = INF if both and side == 0 else rows.ends[i, 3]
    g.size[MISSING] += g.y0[p] == INF or g.y1[p] == INF
    g.other[p] = other
    g.spare[p] = spares + i if both else -1
    g.first[p] = g.end[p] = 0


@inner_kernel
def _lay_tree(g):  # type: ignore[no-untyped-def]
    n, levels = g.size[ITEMS], 1
    width = max(n + 15, 16) & -16
    g.off[0], g.off[1] = 0, width
    while width > 16:
        width = ((width >> 4) + 15) & -16
        levels += 1
        g.off[levels] = g.off[levels - 1] + width
    g.size[LEVELS] = levels
    for at in range(g.off[levels]):
        g.least[at], g.most[at] = INF, -INF
    for p in range(n):
        g.least[p] = min(g.y0[p], g.y1[p])
        g.most[p] = max(g.y0[p], g.y1[p])
    for v in range(1, levels):
        for j in range(g.off[v - 1], g.off[v]):
            at = g.off[v] + ((j - g.off[v - 1]) >> 4)
            g.least[at] = min(g.least[at], g.least[j])
            g.most[at] = max(g.most[at], g.most[j])


@pasted_kernel
def crossing(g, p, east, upper, lower, x_end):  # type: ignore[no-untyped-def]
    """The nearest item from place p on, going east or west as far as `x_end`, with one value at or below `upper` and
    one at or above `lower`; -1 if there is none. O(log m) beyond what it steps over, O(1) where nothing is near."""
    found = -1
    if 0 <= p < g.size[ITEMS] and (g.x[p] <= x_end if east else g.x[p] >= x_end):
        found = _search(g.x, g.least, g.most, g.off, g.size, p, east, upper, lower, x_end)
    return found


@pasted_kernel
def _search(x, least, most, off, size, p, east, upper, lower, x_end):  # type: ignore[no-untyped-def]
    n, levels = size[ITEMS], size[LEVELS]
    step, edge = (1, 15) if east else (-1, 0)
    found, at, v = -1, p, 0
    going = 0 <= p < n
    while going:
        near = at << (4 * v) if east else min(((at + 1) << (4 * v)) - 1, n - 1)
        if near >= n or (x[near] > x_end if east else x[near] < x_end):
            going = False
        elif least[off[v] + at] <= upper and most[off[v] + at] >= lower:
            if v == 0:
                found = at
                going = False
            else:
                v -= 1
                at = (at << 4) + 15 - edge
        else:
            if at & 15 == edge and v + 1 < levels:
                at >>= 4
                v += 1
            at += step
            going = 0 <= at < off[v + 1] - off[v]
    return found


@inline_kernel
def better(y, c, than_y, than_c):  # type: ignore[no-untyped-def]
    return y < than_y or (y == than_y and c < than_c)


@pasted_kernel
def passes(g, p, y, c):  # type: ignore[no-untyped-def]
    """Is item p better than (y, c) on one side of the batch only?"""
    return better(g.y0[p], g.c[p], y, c) != better(g.y1[p], g.c[p], y, c)


@pasted_kernel
def passing(g, p, east, y, c, x_end):  # type: ignore[no-untyped-def]
    """The nearest item from place p on, as far as `x_end`, that passes (y, c); -1 if there is none."""
    p = crossing(g, p, east, y, y, x_end)
    while p >= 0 and not passes(g, p, y, c):
        p = crossing(g, p + 1 if east else p - 1, east, y, y, x_end)
    return p


@pasted_kernel
def any_passing(g, at, behind, y, c, l, r):  # type: ignore[no-untyped-def]
    """Does an item with l <= x <= r pass (y, c)? Looked for from place `at` westwards and from `behind` eastwards."""
    return passing(g, at, False, y, c, l) >= 0 or passing(g, behind, True, y, c, r) >= 0


@pasted_kernel
def turn_back(net, rise, fall, behind, y, c, k, west, east):  # type: ignore[no-untyped-def]
    """Make lists of what is better than (y, c) such as they were before the batch, as far as they reach.

    They begin with the x of the object at hand, which lies behind place `rise` of what rose and `fall` of what fell.
    Only the fallen before place `behind` have fallen already. Risen objects that passed are taken out, fallen ones put
    in. O(k (k + log m)).
    """
    x, l, r = west[0], west[k], east[k]
    for side in range(2):
        to_east = side == 1
        p = passing(net.risen, rise if to_east else rise - 1, to_east, y, c, r if to_east else l)
        while p >= 0:
            take_out(west, east, k, net.risen.x[p])
            p = passing(net.risen, p + 1 if to_east else p - 1, to_east, y, c, r if to_east else l)
    p = passing(net.fallen, fall - 1, False, y, c, max(l, west[k]))
    while p >= 0:
        if p < behind:
            put_in(west, k, net.fallen.x[p], False)
        p = passing(net.fallen, p - 1, False, y, c, max(l, west[k]))
    p = passing(net.fallen, fall, True, y, c, min(r, east[k]))
    while p >= 0 and p < behind:
        put_in(east, k, max(net.fallen.x[p], x), True)
        p = passing(net.fallen, p + 1, True, y, c, min(r, east[k]))


@inner_kernel
def take_out(west, east, k, x):  # type: ignore[no-untyped-def]
    """Take one entry x out of whichever list has it: those at the place of the object at hand may be in either."""
    z = 1
    while z <= k and west[z] > x:
        z += 1
    if z <= k and west[z] == x:
        for i in range(z, k):
            west[i] = west[i + 1]
        west[k] = -INF
    else:
        z = 1
        while z <= k and east[z] < x:
            z += 1
        if z <= k and east[z] == x:
            for i in range(z, k):
                east[i] = east[i + 1]
            east[k] = INF


@inner_kernel
def put_in(side, k, x, to_east):  # type: ignore[no-untyped-def]
    """Put an entry in its place and drop the k+1-st."""
    z = k
    while z > 1 and (side[z - 1] > x if to_east else side[z - 1] < x):
        side[z] = side[z - 1]
        z -= 1
    if side[z] > x if to_east else side[z] < x:
        side[z] = x


@inner_kernel
def enter_list(side, k, n, x, to_east):  # type: ignore[no-untyped-def]
    """Put an entry in a list of length n; returns the new length."""
    put_in(side, k, x, to_east)
    return min(n + 1, k)
