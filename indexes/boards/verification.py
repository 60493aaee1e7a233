"""Verification of a board: every list against a scan of all objects, and every index against the columns."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from indexes.boards.kernels.forest import CAP, DEPTH, SLOT, Forest
from indexes.boards.kernels.object_index import MAX, ObjectArrays, ObjectIndex, top
from indexes.boards.kernels.scan import Lists, Scan, SpaceScan, room
from indexes.boards.parts import AnyObjects
from indexes.boards.plans.maintenance import Captured
from indexes.boards.regions import Regions
from indexes.boards.space.kernels.arrays import SpaceArrays
from indexes.boards.space.kernels.search import RegionAt, best
from indexes.boards.space.kernels.shapes import SHAPES
from indexes.boards.space.subscription_index import SpaceSubscriptions
from indexes.boards.subscription_index import SubscriptionIndex
from indexes.compiled.jit import kernel
from indexes.core.arrays import Bytes, Counts, Floats, Ints, Rows, int64
from indexes.core.ids import is_sorted
from indexes.core.verification import Checked, Difference

LAST = int(np.iinfo(np.int64).max)

PIECE = 1 << 20
"""Entries of lists that are compared at once, at most."""

SLICE = 0.05
"""Seconds of work between two reports of progress, at which the verification can be stopped."""

SHOWN = 100
"""Differing lists of a piece that are reported in full."""


def lists_of(index: AnyObjects, regions: Regions, k: Rows) -> Lists:
    """The lists of many regions, from an index. O(k log n) each with one range attribute."""
    out = room(k)
    sides = np.clip(regions.sides, -MAX, MAX)
    if isinstance(index, ObjectIndex):
        _ask(index.arrays, sides[0], sides[1], k, np.empty(out.rows.shape[1], np.int64), out)
    else:
        places, box = np.empty(out.rows.shape[1], np.int32), np.empty(2 * regions.d)
        _ask_regions(index.arrays, regions.shape, sides.ravel(), k, places, box, out)
    return out


def verify(captured: Captured) -> Iterator[Checked]:
    """Compare all indexes, then all lists, `SLICE` seconds of them at a time. The capture must include indexes.

    The kinds of difference are "list", "live list", "object", "subscription" and "index". A list takes O(n) at worst:
    see `scan.Scan` and `scan.SpaceScan`.
    """
    assert captured.indexes is not None, "captured without indexes"
    names = _names(captured)
    sids = np.flatnonzero(captured.k).astype(np.int32)
    live = captured.indexes.live
    total = len(sids) + len(live)
    for differences in (_objects(captured), *_layouts(captured), _subscriptions(captured, names, sids)):
        found = list(differences)
        yield Checked(0, total, len(found), found)
    columns = captured.x, captured.y, captured.c, captured.row
    scan = Scan(*columns) if captured.regions.d == 1 else SpaceScan(*columns)
    most = max(1, PIECE // int(captured.k.max(initial=1)))
    for at in _slices(len(sids), most):
        part = sids[at]
        asked = captured.regions.take(part), captured.depths(part)
        want, got = scan.lists(*asked), lists_of(captured.indexes.reading, *asked)
        unlike = _unlike(want, got)
        shown = [(i, names[int(part[i])]) for i in unlike[:SHOWN]]
        found = [_difference("list", name, captured, want.of(i), got.of(i)) for i, name in shown]
        yield Checked(len(part), total, len(unlike), found)
    for at in _slices(len(live), most):
        some = live[at]
        part = np.array([sid for sid, _ in some], np.int32)
        want = scan.lists(captured.regions.take(part), captured.depths(part))
        unlike = [i for i, (_, rows) in enumerate(some) if not np.array_equal(rows, want.of(i))]
        shown = [(i, names[some[i][0]]) for i in unlike[:SHOWN]]
        found = [_difference("live list", name, captured, want.of(i), some[i][1]) for i, name in shown]
        yield Checked(len(some), total, len(unlike), found)


def _slices(size: int, most: int) -> Iterator[slice]:
    """Cut 0..size into slices of up to `most` that take about `SLICE` seconds each, as estimated from the last one."""
    start, step = 0, 16
    while start < size:
        stop = min(start + step, size)
        began = time.perf_counter()
        yield slice(start, stop)
        share = SLICE / max(time.perf_counter() - began, 1e-9)
        step = min(max(1, int(step * min(share, 4.0))), most)
        start = stop


def all_lists(captured: Captured) -> Iterator[tuple[Rows, Lists]]:
    """The lists of all subscriptions from the reading index, with their rows, a piece at a time."""
    assert captured.indexes is not None, "captured without indexes"
    sids = np.flatnonzero(captured.k).astype(np.int32)
    step = max(1, PIECE // int(captured.k.max(initial=1)))
    for start in range(0, len(sids), step):
        part = sids[start : start + step]
        yield part, lists_of(captured.indexes.reading, captured.regions.take(part), captured.depths(part))


def _names(captured: Captured) -> dict[int, str]:
    base = captured.ids.packed()
    text, ends = base.text.tobytes(), base.offset.tolist()
    names = _Names(text, ends, np.full(captured.subscription_rows, -1, np.int64))
    present = np.flatnonzero(base.row >= 0)
    names.at[base.row[present]] = present
    names.update({sid: key for key, sid in captured.recent.items()})
    return names


class _Names(dict[int, str]):
    """Ids by row; those of the base are decoded on first use."""

    def __init__(self, text: bytes, ends: list[int], at: Ints) -> None:
        super().__init__()
        self._text, self._ends, self.at = text, ends, at

    def __missing__(self, sid: int) -> str:
        at = int(self.at[sid])
        return self._text[self._ends[at] : self._ends[at + 1]].decode() if at >= 0 else f"(sid {sid})"


def _difference(kind: str, key: str, captured: Captured, want: Rows, got: Rows) -> Difference:
    ids = captured.object_ids
    return Difference(kind, key, [ids[row] for row in want.tolist()], [ids[row] for row in got.tolist()])


def _unlike(a: Lists, b: Lists) -> list[int]:
    inside = np.arange(a.rows.shape[1]) < a.length[:, None]
    return [int(i) for i in np.flatnonzero((a.length != b.length) | (inside & (a.rows != b.rows)).any(1))]


def _objects(captured: Captured) -> Iterator[Difference]:
    """Differences between the two object indexes."""
    assert captured.indexes is not None
    mine = _by_row(captured.object_rows, *captured.indexes.painting.contents())
    theirs = _by_row(captured.object_rows, captured.x, captured.y, captured.c, captured.row)
    for row in np.flatnonzero((mine.values != theirs.values).any(1) | (mine.c != theirs.c)).tolist():
        yield Difference("object", captured.object_ids[row], theirs.text(row), mine.text(row))


def _layouts(captured: Captured) -> Iterator[Iterator[Difference]]:
    """Broken invariants of the two object indexes."""
    assert captured.indexes is not None
    yield _layout("painting", captured.indexes.painting)
    yield _layout("reading", captured.indexes.reading)


def _layout(name: str, index: AnyObjects) -> Iterator[Difference]:
    try:
        index.check()
    except AssertionError:
        yield Difference("index", f"objects ({name})", "every invariant of the layout holds", "one is broken")


class _ByRow(NamedTuple):
    """The objects of an index by row: places and y, and `c`, which is -1 for none."""

    values: Floats
    c: Ints

    def text(self, row: int) -> str:
        """An object as text."""
        if self.c[row] < 0:
            return str(None)
        *place, y = self.values[row].tolist()
        return str((place[0] if len(place) == 1 else tuple(place), y, int(self.c[row])))


def _by_row(rows: int, x: Floats, y: Floats, c: Ints, row: Rows) -> _ByRow:
    columns = np.column_stack([x, y])
    found = _ByRow(np.zeros((rows, columns.shape[1])), np.full(rows, -1, np.int64))
    found.values[row], found.c[row] = columns, c
    return found


def _subscriptions(captured: Captured, names: dict[int, str], sids: Rows) -> Iterator[Difference]:
    """Differences between the subscription index, the columns and the ids."""
    indexes = captured.indexes
    assert indexes is not None
    index: SubscriptionIndex | SpaceSubscriptions
    if isinstance(indexes.forest, SpaceSubscriptions):
        index = indexes.forest
    else:
        index = SubscriptionIndex()
        index.adopt(indexes.classes, indexes.forest)
    try:
        index.check()
    except (AssertionError, IndexError) as error:
        yield Difference("index", "subscriptions", "every invariant of the layout holds", f"class, node: {error}"[:200])
    if isinstance(index, SpaceSubscriptions):
        held, k = _in_space(index, captured.subscription_rows)
    else:
        held, k = _in_forest(index.arrays, indexes.classes, captured.subscription_rows)
    stand = captured.regions
    good = (held.shape == stand.shape) & (held.sides == np.clip(stand.sides, -MAX, MAX)).all(0)
    wrong = np.flatnonzero((k != captured.k) | ((captured.k > 0) & ~good))
    for sid in wrong[:1000].tolist():
        yield Difference("subscription", names[sid], _text(stand, captured.k, sid), _text(held, k, sid))
    known = np.sort(np.concatenate([captured.ids.row[captured.ids.row >= 0], np.array(list(captured.recent.values()))]))
    if not np.array_equal(known, sids) or not is_sorted(captured.ids.packed()):
        yield Difference("index", "ids", "one id for each subscription, in order", "they differ")


def _text(regions: Regions, k: Counts, sid: int) -> str:
    shape, sides = regions.at(sid)
    return f"{'' if regions.d == 1 else shape + ' '}{list(sides)} k {k[sid]}"


def _in_space(index: SpaceSubscriptions, sids: int) -> tuple[Regions, Rows]:
    held, k = Regions.empty(index.d, sids), np.zeros(sids, np.int32)
    for q, (one, shape) in enumerate(zip(index.ks.tolist(), index.shapes, strict=True)):
        there, params = index.contents(q)
        held.shape[there], k[there] = SHAPES.index(shape), one
        held.sides[: params.shape[1], there] = np.clip(params, -MAX, MAX).T
    return held, k


def _in_forest(f: Forest, classes: Ints, sids: int) -> tuple[Regions, Rows]:
    held, k = Regions.empty(1, sids), np.zeros(sids, np.int32)
    for q, one in enumerate(classes.tolist()):
        first = int(f.head[q, SLOT])
        slots = first + np.flatnonzero(f.sid[first : first + (int(f.head[q, CAP]) << int(f.head[q, DEPTH]))] >= 0)
        there = f.sid[slots]
        held.l[there], held.r[there], k[there] = f.l[slots], f.r[slots], one
    return held, k


@kernel
def _ask(objects: ObjectArrays, l: Floats, r: Floats, k: Rows, places: Ints, out: Lists) -> None:
    for i in range(l.size):
        n = top(objects, l[i], r[i], k[i], places)
        out.length[i] = n
        for z in range(n):
            out.rows[i, z] = objects.row[places[z]]


@kernel
def _ask_regions(
    objects: SpaceArrays, shape: Bytes, sides: Floats, k: Rows, places: Rows, box: Floats, out: Lists
) -> None:
    """Side j of region i is sides[i + j * m]; `places` and `box` are scratch."""
    for i in range(shape.size):
        region = RegionAt(int64(shape[i]), sides, i, shape.size)
        n = best(objects, region, MAX, LAST, -1, k[i], places, box)
        out.length[i] = n
        for z in range(n):
            out.rows[i, z] = objects.row[places[z]]
