"""A board against a scan: every list from the index beside the same list without it, and every index against the
columns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from indexes.boards.forest import CAP, DEPTH, SLOT, Forest
from indexes.boards.objects import MAX, ObjectIndex, top
from indexes.boards.subscriptions import SubscriptionIndex
from indexes.boards.upkeep import Captured
from indexes.ids import is_sorted
from indexes.lean import lean_kernel

Int32 = npt.NDArray[np.int32]
Int64 = npt.NDArray[np.int64]
Float64 = npt.NDArray[np.float64]

PIECE = 1 << 20
"""Entries of lists that are compared at once."""


SHOWN = 100
"""Differing lists of a piece that are shown whole."""


class Difference(NamedTuple):
    """What is wrong with what: "list", "live list", "object", "subscription" or "index"."""

    kind: str
    id: str
    expected: list[str] | str
    found: list[str] | str


class Checked(NamedTuple):
    """How many lists have been compared since the last one, of how many, how many differences were found, and the first
    of them."""

    compared: int
    of: int
    wrong: int
    differences: list[Difference]


class Lists(NamedTuple):
    """Lists of object rows, best first: that of subscription i is `rows[i, : length[i]]`."""

    rows: Int32
    length: Int32

    def of(self, i: int) -> Int32:
        """The list of subscription i."""
        return self.rows[i, : self.length[i]]


def lists_of(index: ObjectIndex, l: Float64, r: Float64, k: Int32) -> Lists:
    """The lists of many ranges (ends finite or infinite), as the index answers them. O(k log n) each."""
    out = Lists(np.empty((len(l), int(k.max(initial=1))), np.int32), np.zeros(len(l), np.int32))
    _ask(index.arrays, np.clip(l, -MAX, MAX), np.clip(r, -MAX, MAX), k, np.empty(out.rows.shape[1], np.int64), out)
    return out


def verify(captured: Captured) -> Iterator[Checked]:
    """Compare everything, a piece at a time. The capture must have copies of its indexes.

    O(sqrt(k n)) a list in the mean, O(n) at worst.
    """
    assert captured.indexes is not None, "captured without indexes"
    names = _names(captured)
    sids = np.flatnonzero(captured.k).astype(np.int32)
    live = captured.indexes.live
    total = len(sids) + len(live)
    found = [*_objects(captured), *_subscriptions(captured, names, sids)]
    yield Checked(0, total, len(found), found)
    scan = Scan(captured)
    step = max(1, PIECE // int(captured.k.max(initial=1)))
    for start in range(0, len(sids), step):
        part = sids[start : start + step]
        asked = captured.l[part], captured.r[part], captured.k[part]
        want, got = scan.lists(*asked), lists_of(captured.indexes.reading, *asked)
        unlike = _unlike(want, got)
        shown = [(i, names[int(part[i])]) for i in unlike[:SHOWN]]
        found = [_difference("list", name, captured, want.of(i), got.of(i)) for i, name in shown]
        yield Checked(len(part), total, len(unlike), found)
    for start in range(0, len(live), step):
        some = live[start : start + step]
        part = np.array([sid for sid, _ in some], np.int32)
        want = scan.lists(captured.l[part], captured.r[part], captured.k[part])
        unlike = [i for i, (_, rows) in enumerate(some) if not np.array_equal(rows, want.of(i))]
        shown = [(i, names[some[i][0]]) for i in unlike[:SHOWN]]
        found = [_difference("live list", name, captured, want.of(i), some[i][1]) for i, name in shown]
        yield Checked(len(some), total, len(unlike), found)


def all_lists(captured: Captured) -> Iterator[tuple[Int32, Lists]]:
    """The lists of all subscriptions as the reading index answers them, with their sids, a piece at a time."""
    assert captured.indexes is not None, "captured without indexes"
    sids = np.flatnonzero(captured.k).astype(np.int32)
    step = max(1, PIECE // int(captured.k.max(initial=1)))
    for start in range(0, len(sids), step):
        part = sids[start : start + step]
        yield part, lists_of(captured.indexes.reading, captured.l[part], captured.r[part], captured.k[part])


class Scan:
    """Lists without an index: the objects once by rank and once by x.

    A wide range is filled from the best object on; of a narrow one all objects are looked at. The number of objects in
    the range says which is shorter.
    """

    def __init__(self, captured: Captured) -> None:
        by_rank = np.lexsort((captured.c, captured.y))
        self._x, self._row = captured.x[by_rank], captured.row[by_rank]
        self._by_x = np.argsort(self._x, kind="stable")
        self._sorted_x = self._x[self._by_x]

    def lists(self, l: Float64, r: Float64, k: Int32) -> Lists:
        """The lists of many ranges."""
        first = np.searchsorted(self._sorted_x, l, side="left")
        last = np.searchsorted(self._sorted_x, r, side="right")
        out = Lists(np.empty((len(l), int(k.max(initial=1))), np.int32), np.zeros(len(l), np.int32))
        places = np.empty(out.rows.shape[1], np.int64)
        _scan(self._x, self._row, self._by_x, l, r, k, first, last, places, out)
        return out


def _names(captured: Captured) -> dict[int, str]:
    base = captured.ids
    text, ends = base.text.tobytes(), base.offset.tolist()
    names = _Names(text, ends, np.full(captured.subscription_rows, -1, np.int64))
    present = np.flatnonzero(base.row >= 0)
    names.at[base.row[present]] = present
    names.update({sid: key for key, sid in captured.recent.items()})
    return names


class _Names(dict[int, str]):
    """Ids by sid, those of the base decoded when asked for."""

    def __init__(self, text: bytes, ends: list[int], at: Int64) -> None:
        super().__init__()
        self._text, self._ends, self.at = text, ends, at

    def __missing__(self, sid: int) -> str:
        at = int(self.at[sid])
        return self._text[self._ends[at] : self._ends[at + 1]].decode() if at >= 0 else f"(sid {sid})"


def _difference(kind: str, key: str, captured: Captured, want: Int32, got: Int32) -> Difference:
    ids = captured.object_ids
    return Difference(kind, key, [ids[row] for row in want.tolist()], [ids[row] for row in got.tolist()])


def _unlike(a: Lists, b: Lists) -> list[int]:
    inside = np.arange(a.rows.shape[1]) < a.length[:, None]
    return [int(i) for i in np.flatnonzero((a.length != b.length) | (inside & (a.rows != b.rows)).any(1))]


def _objects(captured: Captured) -> Iterator[Difference]:
    """Both object indexes against each other, and their inner order."""
    indexes = captured.indexes
    assert indexes is not None
    mine = _by_row(*indexes.painting.contents())
    theirs = _by_row(captured.x, captured.y, captured.c, captured.row)
    for row in sorted(mine.keys() | theirs.keys()):
        if mine.get(row) != theirs.get(row):
            yield Difference("object", captured.object_ids[row], str(theirs.get(row)), str(mine.get(row)))
    for name, index in (("painting", indexes.painting), ("reading", indexes.reading)):
        try:
            index.check()
        except AssertionError:
            yield Difference("index", f"objects ({name})", "every invariant of the layout holds", "one is broken")


def _by_row(x: Float64, y: Float64, c: Int64, row: Int32) -> dict[int, tuple[float, float, int]]:
    return dict(zip(row.tolist(), zip(x.tolist(), y.tolist(), c.tolist(), strict=True), strict=True))


def _subscriptions(captured: Captured, names: dict[int, str], sids: Int32) -> Iterator[Difference]:
    """The forest against the columns, and the ids against both."""
    indexes = captured.indexes
    assert indexes is not None
    f = indexes.forest
    index = SubscriptionIndex()
    index.adopt(indexes.classes, f)
    try:
        index.check()
    except (AssertionError, IndexError) as error:
        yield Difference("index", "subscriptions", "every invariant of the layout holds", f"class, node: {error}"[:200])
    l, r, k = _in_forest(f, indexes.classes, captured.subscription_rows)
    good = (l == np.clip(captured.l, -MAX, MAX)) & (r == np.clip(captured.r, -MAX, MAX))
    wrong = np.flatnonzero((k != captured.k) | ((captured.k > 0) & ~good))
    for sid in wrong[:1000].tolist():
        stands = f"[{captured.l[sid]}, {captured.r[sid]}] k {captured.k[sid]}"
        yield Difference("subscription", names[sid], stands, f"[{l[sid]}, {r[sid]}] k {k[sid]}")
    known = np.sort(np.concatenate([captured.ids.row[captured.ids.row >= 0], np.array(list(captured.recent.values()))]))
    if not np.array_equal(known, sids) or not is_sorted(captured.ids):
        yield Difference("index", "ids", "one id for each subscription, in order", "they differ")


def _in_forest(f: Forest, classes: Int64, sids: int) -> tuple[Float64, Float64, Int32]:
    l, r, k = np.zeros(sids), np.zeros(sids), np.zeros(sids, np.int32)
    for q, one in enumerate(classes.tolist()):
        first = int(f.head[q, SLOT])
        slots = first + np.flatnonzero(f.sid[first : first + (int(f.head[q, CAP]) << int(f.head[q, DEPTH]))] >= 0)
        there = f.sid[slots]
        l[there], r[there], k[there] = f.l[slots], f.r[slots], one
    return l, r, k


@lean_kernel
def _ask(o: Any, l: Float64, r: Float64, k: Int32, places: Int64, out: Lists) -> None:
    for i in range(l.size):
        n = top(o, l[i], r[i], k[i], places)
        out.length[i] = n
        for z in range(n):
            out.rows[i, z] = o.row[places[z]]


@lean_kernel
def _scan(
    x: Float64,
    row: Int32,
    by_x: Int64,
    l: Float64,
    r: Float64,
    k: Int32,
    first: Int64,
    last: Int64,
    places: Int64,
    out: Lists,
) -> None:
    """`x` and `row` are in order of rank; by_x[first:last] are the ranks of the objects in a range."""
    for i in range(l.size):
        inside = last[i] - first[i]
        n = 0
        if inside * inside > k[i] * x.size:
            rank = 0
            while n < k[i] and rank < x.size:
                if l[i] <= x[rank] and x[rank] <= r[i]:
                    out.rows[i, n] = row[rank]
                    n += 1
                rank += 1
        else:
            for p in range(first[i], last[i]):
                rank = by_x[p]
                if n < k[i] or rank < places[n - 1]:
                    z = n if n < k[i] else n - 1
                    while z > 0 and places[z - 1] > rank:
                        places[z] = places[z - 1]
                        z -= 1
                    places[z] = rank
                    n = min(n + 1, k[i])
            for z in range(n):
                out.rows[i, z] = row[places[z]]
        out.length[i] = n
