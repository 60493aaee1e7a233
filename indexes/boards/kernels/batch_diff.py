"""The difference that a batch makes: of each object, what it was before the batch (O0) and what it is after it (O1).

`demoted` holds the objects that are worse after the batch, or deleted; `promoted` those that are better or inserted,
and those whose payload alone changed. An object that moved in x is in both, deleted at its old place and inserted at
its new one. Both are sorted by x, under a tree of fan-out 16 whose nodes store the least and the greatest rank value
below them, old or new. So the next item on a side that crosses a value, better on one side of the batch and worse on
the other, is found in O(log m), however many others lie between.

The lists of one moment follow from those of the other: the items that crossed the rank at hand are inserted or removed
(`revert_lists`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.boards.kernels.changes import DELETE, Changes
from indexes.boards.kernels.object_index import ObjectArrays
from indexes.boards.kernels.radix import DIGITS, order_of, place_of
from indexes.compiled.jit import expanded, inlined, internal, kernel
from indexes.compiled.simd import high_bit, lanes_from, lanes_upto, low_bit
from indexes.core.arrays import INF, Bytes, Floats, Ints, Ints32, UInt64s, int64, uint64

DEMOTED, PROMOTED = 1, 2
"""What a batch did to an object, as bits: one that moved in x is both."""


class DiffItems(NamedTuple):
    """`size[ITEMS]` items sorted by x; the columns have room for more. `y0` and `y1` are the rank values before and
    after, inf where the object is absent.

    `other[i]` is the place among the items of the other kind before which item i lies. `spare[i]` is the row under
    which an object that moved in x stays at its old place for a while, else -1. The item's tiles are first[i] to end[i]
    - 1 of the buffer. Level v of the tree is off[v] to off[v + 1] - 1 of `least` and `most`; level 0
    are the items. For `size[MISSING]` items one of both values is inf.
    """

    row: Ints32
    x: Floats
    y0: Floats
    y1: Floats
    c: Ints
    other: Ints
    spare: Ints32
    first: Ints
    end: Ints
    least: Floats
    most: Floats
    off: Ints
    size: Ints


ITEMS, MISSING = range(2)
"""Entries of `DiffItems.size`."""

MOST_LEVELS = 16


class Rows(NamedTuple):
    """The `size[NAMED]` rows that a batch names, by column, in the order of their first change; room for each change.

    `table` is a hash table of them with open addressing in `size[SLOTS]` entries, a power of 2: index + 1 of the row, 0
    for an empty entry. `of` is the index of each change's row. `slot` is scratch, also when the difference is made.
    `became` is DEMOTED, PROMOTED or both; `ends` are x and y before and x and y after, y being inf where the object is
    absent; `c` is `created` before and after.
    """

    size: Ints
    table: Ints32
    of: Ints32
    slot: Ints
    row: Ints32
    became: Bytes
    ends: Floats
    c: Ints


NAMED, SLOTS = range(2)
"""Entries of `Rows.size`."""


class Draft(NamedTuple):
    """What a difference is made from: the named rows, and the items of both kinds before they are sorted, each with the
    index of its row, DEMOTED or PROMOTED, x there and `created`; and their order by x, as words of `radix`. `spare` and
    `heads` are scratch for that."""

    rows: Rows
    of: Ints32
    kind: Bytes
    x: Floats
    c: Ints
    order: UInt64s
    spare: UInt64s
    heads: Ints32


class BatchDiff(NamedTuple):
    """The items of both kinds, and a bit for each row that is among them: a batch tests it for every object that a
    demotion exposes, where a lookup in a hash table would wait for memory. Rows from `spares[0]` on belong to no object
    of the board."""

    demoted: DiffItems
    promoted: DiffItems
    changed: UInt64s
    spares: Ints


KEPT, SHARE = 1 << 14, 4
"""Arrays for at most max(KEPT, rows >> SHARE) changes are kept from one batch to the next: a small part of what the
board itself takes."""


class DiffBuffers:
    """Arrays for the difference of a batch, reused by the next one: a `BatchDiff` is valid until then."""

    def __init__(self) -> None:
        self._changes = 0
        self._diff, self._draft = _make_diff(0, np.zeros(1, np.uint64)), _make_draft(0)
        self._unclear = False
        """Whether bits may be set for rows that the kept arrays do not name."""

    def diff_of(self, objects: ObjectArrays, changes: Changes, touched: Ints, spares: int) -> BatchDiff:
        """The difference that these changes make to `objects`: `take`, then `compute_diff`."""
        diff, draft = self.take(len(changes.row), spares)
        compute_diff(objects, changes, touched, draft, diff)
        return diff

    def take(self, m: int, spares: int) -> tuple[BatchDiff, Draft]:
        """Arrays for the difference of m changes, where rows from `spares` on were never handed out."""
        diff, draft = self._arrays(m, spares)
        diff.spares[0], draft.rows.size[SLOTS] = spares, _slots(m)
        return diff, draft

    def _arrays(self, m: int, spares: int) -> tuple[BatchDiff, Draft]:
        """Arrays for m changes among so many rows; O(1) if those kept suffice."""
        changed, words = self._diff.changed, (spares >> 6) + 1
        if words > len(changed):
            changed = np.zeros(words + (words >> 3), np.uint64)
            self._diff = self._diff._replace(changed=changed)
            self._unclear = False
        if self._unclear:
            changed[:] = 0
            self._unclear = False
        if m <= self._changes:
            return self._diff, self._draft
        kept = max(KEPT, spares >> SHARE)
        room = max(m, min(2 * m, kept))
        changed[:] = 0
        diff, draft = _make_diff(room, changed), _make_draft(room)
        if room <= kept:
            self._changes, self._diff, self._draft = room, diff, draft
        else:
            self._unclear = True
        return diff, draft


def compute_diff(objects: ObjectArrays, changes: Changes, touched: Ints, draft: Draft, diff: BatchDiff) -> None:
    """Write the difference that these changes make to `objects`, which has room for all their rows and is in the state
    before them; `touched` are the rows with another payload after them. O(m) for m changes."""
    # Single columns: each array of a call takes its time.
    if not collect_diff(objects.pos, objects.x, objects.y, objects.c, changes, touched, draft, diff):
        sort_and_lay(draft, diff)


def sort_and_lay(draft: Draft, diff: BatchDiff) -> None:
    """Lay out the items that `collect_diff` has left: those of which some have the same x."""
    n = int(diff.demoted.size[ITEMS] + diff.promoted.size[ITEMS])
    draft.order[:n] = np.lexsort((draft.c[:n], draft.kind[:n], draft.x[:n]))
    lay(draft, diff)


def _make_diff(capacity: int, changed: UInt64s) -> BatchDiff:
    """Arrays for `capacity` changes."""
    return BatchDiff(_make_items(capacity), _make_items(capacity), changed, np.zeros(1, np.int64))


def _make_draft(capacity: int) -> Draft:
    """Arrays for the items of `capacity` changes, each of which may be of both kinds."""
    n = capacity
    rows = Rows(
        np.zeros(2, np.int64), np.empty(_slots(n), np.int32), np.empty(n, np.int32), np.empty(n, np.int64),
        np.empty(n, np.int32), np.empty(n, np.uint8), np.empty((n, 4)), np.empty((n, 2), np.int64),
    )  # fmt: skip
    n = 2 * capacity
    return Draft(
        rows, np.empty(n, np.int32), np.empty(n, np.uint8), np.empty(n), np.empty(n, np.int64),
        np.empty(n, np.uint64), np.empty(n, np.uint64), np.empty((DIGITS, 256), np.int32),
    )  # fmt: skip


def _make_items(n: int) -> DiffItems:
    """Arrays for n items of one kind."""
    nodes = n + n // 15 + 16 * MOST_LEVELS
    return DiffItems(
        np.empty(n, np.int32), np.empty(n), np.empty(n), np.empty(n), np.empty(n, np.int64), np.empty(n, np.int64),
        np.empty(n, np.int32), np.empty(n, np.int64), np.empty(n, np.int64), np.empty(nodes), np.empty(nodes),
        np.empty(MOST_LEVELS + 1, np.int64), np.zeros(2, np.int64),
    )  # fmt: skip


def _slots(m: int) -> int:
    """The size of a hash table for m rows, at most half full."""
    return 1 << int(2 * m).bit_length()


@expanded
def _place(rows: Rows, row: int) -> int:
    """The entry of the hash table where the row is, or would be inserted."""
    mask = rows.size[SLOTS] - 1
    at = ((int64(row) * 2654435769) >> 16) & mask
    while rows.table[at] != 0 and rows.row[rows.table[at] - 1] != row:
        at = (at + 1) & mask
    return at


@inlined
def is_changed(diff: BatchDiff, row: int) -> bool:
    """Whether the object of this row is in the difference. Rows from `spares[0]` on are."""
    return row >= diff.spares[0] or (diff.changed[row >> 6] >> uint64(row & 63)) & uint64(1) != 0


@kernel
def collect_diff(
    pos: Ints32, x: Floats, y: Floats, c: Ints, changes: Changes, touched: Ints, draft: Draft, diff: BatchDiff
) -> bool:
    """Collect the changed rows with their state before, by the columns of an object index, and after, and sort them as
    items of both kinds. O(m).

    False if some have the same x, so that the order is not decided: then the items are not laid out.
    """
    rows, demoted, promoted = draft.rows, diff.demoted, diff.promoted
    for i in range(rows.size[NAMED]):
        diff.changed[rows.row[i] >> 6] = 0
    _collect_rows(pos, x, y, c, changes, rows)
    demoted.size[ITEMS], promoted.size[ITEMS] = _classify(touched, draft, diff.changed)
    both = demoted.size[ITEMS] + promoted.size[ITEMS]
    decided = order_of(draft.x, both, draft.order, draft.spare, draft.heads)
    if decided:
        _lay(draft, diff)
    return decided


@internal
def _collect_rows(pos: Ints32, x: Floats, y: Floats, c: Ints, changes: Changes, rows: Rows) -> None:
    """Collect the rows that change, with their state before and after.

    The slots that the changes need are scattered in memory: they are read in loops of their own, so that reads overlap.
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
        rows.slot[i] = pos[rows.row[i]]
    for i in range(n):
        s = rows.slot[i]
        x0, y0, c0 = (x[s], y[s], c[s]) if s >= 0 else (0.0, INF, int64(-1))
        rows.ends[i, 0] = rows.ends[i, 2] = x0
        rows.ends[i, 1] = rows.ends[i, 3] = y0
        rows.c[i, 0] = rows.c[i, 1] = c0
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


@internal
def _classify(touched: Ints, draft: Draft, changed: UInt64s) -> tuple[int, int]:
    """Classify the rows as demoted, promoted or both, and write their items and bits; returns how many are demoted and
    how many promoted."""
    rows = draft.rows
    for t in range(len(touched)):
        i = rows.table[_place(rows, touched[t])] - 1
        if i >= 0:
            rows.became[i] = PROMOTED
    place = promotions = int64(0)
    for i in range(rows.size[NAMED]):
        x0, y0, x1, y1 = rows.ends[i, 0], rows.ends[i, 1], rows.ends[i, 2], rows.ends[i, 3]
        stays = y0 < INF and y1 < INF and x0 == x1 and rows.c[i, 0] == rows.c[i, 1]
        if stays:
            same_rank = int64(rows.became[i]) if y1 == y0 else 0
            became = DEMOTED if y1 > y0 else PROMOTED if y1 < y0 else same_rank
        else:
            became = (DEMOTED if y0 < INF else 0) | (PROMOTED if y1 < INF else 0)
        rows.became[i] = became
        if became & DEMOTED:
            # Adding 0.0 turns -0.0 into 0.0: zeros of both signs are one place.
            draft.of[place], draft.kind[place], draft.x[place], draft.c[place] = i, DEMOTED, x0 + 0.0, rows.c[i, 0]
            place += 1
        if became & PROMOTED:
            draft.of[place], draft.kind[place], draft.x[place], draft.c[place] = i, PROMOTED, x1 + 0.0, rows.c[i, 1]
            place += 1
            promotions += 1
        if became != 0:
            changed[rows.row[i] >> 6] |= uint64(1) << uint64(rows.row[i] & 63)
    return place - promotions, promotions


@kernel
def lay(draft: Draft, diff: BatchDiff) -> None:
    """As `_lay`, for an order that was decided elsewhere."""
    _lay(draft, diff)


@internal
def _lay(draft: Draft, diff: BatchDiff) -> None:
    """Write the items of both kinds in order, and the trees over them. At equal x demoted items come first."""
    demoted, promoted, spares = diff.demoted, diff.promoted, diff.spares[0]
    demoted.size[MISSING] = promoted.size[MISSING] = 0
    a = b = 0
    for t in range(demoted.size[ITEMS] + promoted.size[ITEMS]):
        at = place_of(draft.order[t])
        if draft.kind[at] == DEMOTED:
            _lay_item(draft.rows, draft.of[at], 0, spares, demoted, a, b)
            a += 1
        else:
            _lay_item(draft.rows, draft.of[at], 1, spares, promoted, b, a)
            b += 1
    _lay_tree(demoted)
    _lay_tree(promoted)


@expanded
def _lay_item(rows: Rows, i: int, side: int, spares: int, items: DiffItems, place: int, other: int) -> None:
    """Write item `place` of one kind: row i as it was before (side 0) or is after the batch (side 1)."""
    both = rows.became[i] == DEMOTED | PROMOTED
    items.row[place] = rows.row[i]
    items.x[place], items.c[place] = rows.ends[i, 2 * side], rows.c[i, side]
    items.y0[place] = INF if both and side == 1 else rows.ends[i, 1]
    items.y1[place] = INF if both and side == 0 else rows.ends[i, 3]
    items.size[MISSING] += items.y0[place] == INF or items.y1[place] == INF
    items.other[place] = other
    items.spare[place] = spares + i if both else -1
    items.first[place] = items.end[place] = 0


@internal
def _lay_tree(items: DiffItems) -> None:
    """Compute the least and greatest values of the nodes over the items. O(m)."""
    n, levels = items.size[ITEMS], 1
    width = max(n + 15, 16) & -16
    items.off[0], items.off[1] = 0, width
    while width > 16:
        width = ((width >> 4) + 15) & -16
        levels += 1
        items.off[levels] = items.off[levels - 1] + width
    for node in range(items.off[levels]):
        items.least[node], items.most[node] = INF, -INF
    for item in range(n):
        items.least[item] = min(items.y0[item], items.y1[item])
        items.most[item] = max(items.y0[item], items.y1[item])
    for level in range(1, levels):
        for j in range(items.off[level - 1], items.off[level]):
            node = items.off[level] + ((j - items.off[level - 1]) >> 4)
            items.least[node] = min(items.least[node], items.least[j])
            items.most[node] = max(items.most[node], items.most[j])


@inlined
def crossing(items: DiffItems, place: int, east: bool, upper: float, lower: float, x_end: float) -> int:
    """The nearest item from `place` on, going east or west as far as `x_end`, with one value at or below `upper` and
    one at or above `lower`; -1 if there is none. O(log m) for each node that it skips, O(1) where nothing is near."""
    found = -1
    if 0 <= place < items.size[ITEMS] and (items.x[place] <= x_end if east else items.x[place] >= x_end):
        found = _search(items.x, items.least, items.most, items.off, items.size, place, east, upper, lower, x_end)
    return found


# Ten arguments: the columns of `DiffItems` that the search reads, and the search.
@inlined
def _search(
    x: Floats,
    least: Floats,
    most: Floats,
    off: Ints,
    size: Ints,
    place: int,
    east: bool,
    upper: float,
    lower: float,
    x_end: float,
) -> int:
    """`crossing`, for a place within bounds: climb while nothing in a block of 16 nodes crosses, descend where
    something may."""
    n = size[ITEMS]
    found, at, level = -1, place, 0
    going = 0 <= place < n
    while going:
        block, lane = at & -16, at & 15
        base = off[level] + block
        hits = lanes_upto(least, base, upper) & lanes_from(most, base, lower)
        hits &= (-1 << lane) if east else (2 << lane) - 1
        if hits != 0:
            at = block + (low_bit(hits) if east else high_bit(hits))
            near = at << (4 * level) if east else min(((at + 1) << (4 * level)) - 1, n - 1)
        else:
            near = (block + 16) << (4 * level) if east else (block << (4 * level)) - 1
        if near < 0 or near >= n or (x[near] > x_end if east else x[near] < x_end):
            going = False
        elif hits == 0:
            at = (block >> 4) + (1 if east else -1)
            level += 1
        elif level == 0:
            found = at
            going = False
        else:
            level -= 1
            at = at << 4 if east else (at << 4) + 15
    return found


@expanded
def better(y: float, c: int, than_y: float, than_c: int) -> bool:
    """Whether (y, c) ranks before (than_y, than_c)."""
    return y < than_y or (y == than_y and c < than_c)


@inlined
def passes(items: DiffItems, place: int, y: float, c: int) -> bool:
    """Whether an item is better than (y, c) on one side of the batch only."""
    return better(items.y0[place], items.c[place], y, c) != better(items.y1[place], items.c[place], y, c)


@inlined
def passing(items: DiffItems, place: int, east: bool, y: float, c: int, x_end: float) -> int:
    """The nearest item from `place` on, as far as `x_end`, that crosses (y, c); -1 if there is none."""
    place = crossing(items, place, east, y, y, x_end)
    while place >= 0 and not passes(items, place, y, c):
        place = crossing(items, place + 1 if east else place - 1, east, y, y, x_end)
    return place


@inlined
def any_passing(items: DiffItems, west_place: int, east_place: int, y: float, c: int, l: float, r: float) -> bool:
    """Whether an item with l <= x <= r crosses (y, c). Searched from `west_place` westwards and from `east_place`
    eastwards."""
    return passing(items, west_place, False, y, c, l) >= 0 or passing(items, east_place, True, y, c, r) >= 0


# Nine arguments: three positions, a rank and a pair of lists.
@inlined
def revert_lists(
    diff: BatchDiff,
    promoted_at: int,
    demoted_at: int,
    applied: int,
    y: float,
    c: int,
    k: int,
    west: Floats,
    east: Floats,
) -> None:
    """Turn lists of what is better than (y, c) into those before the batch, as far as they extend. O(k (k + log m)).

    They begin with the x of the object at hand, which lies before item `promoted_at` of the promoted and `demoted_at`
    of the demoted. Of the demotions only those before item `applied` are in effect. Promoted objects that crossed are
    removed, demoted ones inserted.
    """
    x, l, r = west[0], west[k], east[k]
    for side in range(2):
        to_east = side == 1
        place = passing(diff.promoted, promoted_at if to_east else promoted_at - 1, to_east, y, c, r if to_east else l)
        while place >= 0:
            remove_entry(west, east, k, diff.promoted.x[place])
            place = passing(diff.promoted, place + 1 if to_east else place - 1, to_east, y, c, r if to_east else l)
    place = passing(diff.demoted, demoted_at - 1, False, y, c, max(l, west[k]))
    while place >= 0:
        if place < applied:
            insert_entry(west, k, diff.demoted.x[place], False)
        place = passing(diff.demoted, place - 1, False, y, c, max(l, west[k]))
    place = passing(diff.demoted, demoted_at, True, y, c, min(r, east[k]))
    while place >= 0 and place < applied:
        insert_entry(east, k, max(diff.demoted.x[place], x), True)
        place = passing(diff.demoted, place + 1, True, y, c, min(r, east[k]))


@internal
def remove_entry(west: Floats, east: Floats, k: int, x: float) -> None:
    """Remove one entry x from the list that has it: those at the place of the object at hand may be in either."""
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


@internal
def insert_entry(side: Floats, k: int, x: float, to_east: bool) -> None:
    """Insert an entry in order and drop the entry k + 1."""
    z = k
    while z > 1 and (side[z - 1] > x if to_east else side[z - 1] < x):
        side[z] = side[z - 1]
        z -= 1
    if side[z] > x if to_east else side[z] < x:
        side[z] = x


@internal
def enter_list(side: Floats, k: int, n: int, x: float, to_east: bool) -> int:
    """Insert an entry in a list of length n; returns the new length."""
    insert_entry(side, k, x, to_east)
    return min(n + 1, k)
