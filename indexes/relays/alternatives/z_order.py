"""The space-filling curve: points in the order of their interleaved bits ([Covering] IV-D).

A coordinate becomes an integer of 31 bits by its place between the least and the greatest of the first points that are
sorted in; what lies beyond is put at the end. That keeps the order, so it can only say too little. The key of a point
takes the highest bit of every coordinate, then the next of every one, and so on. What keys begin with is a *cell*:
a box, halved once for each bit, whose points are a stretch of the sorted keys. With a 1 before its bits a cell would be
an integer; here it is its stretch and the number of its bits, which say the same and need no more words than a point.

A search goes from the least cell round all points to smaller ones, the upper half first, so that the extremal points of
the curve are tried first and a large cell before those inside it; it leaves out cells whose largest corner does not
dominate and never looks at one without points. It ends in a scan where few points are left, or where the cell's least
corner dominates and every point in it does.

The sorted array is dynamic: the newest points wait in a tail that is scanned; when it is full they are sorted and
merged in, and what was deleted meanwhile is dropped. A change costs n / `TAIL` entries copied, amortised.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.compiled.jit import internal
from indexes.core.arrays import Floats, Ints, Ints32, UInt64s, int64
from indexes.relays.kernels.covering_index import COMPARISONS, NODES, QUERIES, CoverIndex, implement
from indexes.relays.kernels.points import Points, covers, reaches, width_of

from numba.cpython.unsafe.numbers import leading_zeros  # isort: skip
from numba.extending import overload  # isort: skip

TAIL = 1024
"""Points that wait to be merged, by default."""

FEW = 32
"""So many points of a cell are scanned."""

PIECE = 1 << 16
"""Points whose bits are laid out at once, a byte each."""

BITS = 31
"""Bits of a coordinate."""

MOST = (1 << BITS) - 1

TINY = 1e-290
"""A range is taken to be at least as wide."""

FAR = 1e307
"""A range ends there at the latest: the width of any range is a number, and no scale is 0."""

WORD = 64

SORTED, WAITING, LIVE, COORDINATES, WIDTH = range(5)
"""Places in `size`: entries of the sorted array, of the tail, and points in all."""

ABSENT = -1
"""`at` of a slot that is not there; a place p of the sorted array is p, one of the tail -2 - p."""


class ZOrder(NamedTuple):
    """The arrays of the curve; see the module's text."""

    key: UInt64s  # (room, words), the first bit highest
    place: Ints32  # (room, D): coordinates as integers
    held: Ints32  # the slot of each entry, or -1: deleted
    at: Ints32  # by slot
    tail_key: UInt64s  # (tail, words), as the next four
    tail_place: Ints32
    tail_row: NDArray[np.float32]  # flat: coarse coordinates, to be scanned
    tail: Ints32
    order: Ints32
    stack: Ints32  # stretches that are left
    corner: Ints  # the coordinates of what is searched, as integers
    least: Floats  # by dimension: what becomes 0
    greatest: Floats  # by dimension: what becomes the largest integer
    scale: Floats  # by dimension: integers to a unit; all 0 until the first points are sorted in
    size: Ints


def _leading_zeros(word: int) -> int:
    """Zero bits before the highest that is set, of 64."""
    return WORD - int(word).bit_length()


@overload(_leading_zeros, jit_options={"forceinline": True}, strict=False)
def _compiled_leading_zeros(word: int) -> Any:
    return lambda word: int64(leading_zeros(word))  # type: ignore[call-arg]


@internal
def _place(curve: ZOrder, value: float, coordinate: int) -> int:
    """A value of a coordinate as an integer."""
    least, greatest = curve.least[coordinate], curve.greatest[coordinate]
    return int64((min(max(value, least), greatest) - least) * curve.scale[coordinate])


@internal
def _choose_scale(curve: ZOrder, points: Points) -> None:
    """Spread what waits over all integers, dimension by dimension; what has no bound counts for nothing."""
    for j in range(curve.scale.size):
        least, most = np.inf, -np.inf
        for i in range(curve.size[WAITING]):
            x = points.exact[curve.tail[i], j] if curve.tail[i] >= 0 else np.inf
            if abs(x) < np.inf:
                least, most = min(least, x), max(most, x)
        if least <= most:
            curve.least[j] = min(max(least, -FAR), FAR)
            curve.greatest[j] = min(max(most, -FAR), FAR)
        curve.scale[j] = MOST / max(curve.greatest[j] - curve.least[j], TINY)


@internal
def _write_key(curve: ZOrder, points: Points, slot: int, waiting: int) -> None:
    """Write the key of a slot that waits in the tail."""
    coordinates = curve.scale.size
    for w in range(curve.tail_key.shape[1]):
        curve.tail_key[waiting, w] = 0
    for j in range(coordinates):
        x = _place(curve, points.exact[slot, j], j)
        curve.tail_place[waiting, j] = x
        for b in range(BITS):
            place = b * coordinates + j
            bit = np.uint64((x >> (BITS - 1 - b)) & 1)
            curve.tail_key[waiting, place >> 6] |= bit << np.uint64(WORD - 1 - (place & 63))


@internal
def _is_less(keys: UInt64s, entry: int, other_keys: UInt64s, other: int) -> bool:
    w = 0
    while w < keys.shape[1] - 1 and keys[entry, w] == other_keys[other, w]:
        w += 1
    return keys[entry, w] < other_keys[other, w]


@internal
def _sort_tail(curve: ZOrder) -> int:
    """The waiting entries that were not deleted, in the order of their keys, to `order`; returns how many."""
    n = 0
    for i in range(curve.size[WAITING]):
        if curve.tail[i] >= 0:
            lo, hi = 0, n
            while lo < hi:
                m = (lo + hi) >> 1
                if _is_less(curve.tail_key, i, curve.tail_key, curve.order[m]):
                    hi = m
                else:
                    lo = m + 1
            for z in range(n, lo, -1):
                curve.order[z] = curve.order[z - 1]
            curve.order[lo] = i
            n += 1
    return n


@internal
def _move(curve: ZOrder, to: int, entry: int) -> None:
    """Copy an entry of the sorted array to another place."""
    for w in range(curve.key.shape[1]):
        curve.key[to, w] = curve.key[entry, w]
    for d in range(curve.place.shape[1]):
        curve.place[to, d] = curve.place[entry, d]
    curve.held[to] = curve.held[entry]
    if curve.held[to] >= 0:
        curve.at[curve.held[to]] = to


@internal
def _take(curve: ZOrder, to: int, waiting: int) -> None:
    """Copy an entry of the tail to a place of the sorted array."""
    for w in range(curve.key.shape[1]):
        curve.key[to, w] = curve.tail_key[waiting, w]
    for d in range(curve.place.shape[1]):
        curve.place[to, d] = curve.tail_place[waiting, d]
    curve.held[to] = curve.tail[waiting]
    curve.at[curve.held[to]] = to


@internal
def _merge(curve: ZOrder, points: Points) -> None:
    """Drop what was deleted, then merge the tail in from behind."""
    if curve.scale[0] == 0 and curve.size[LIVE] > 0:
        _choose_scale(curve, points)
    n = 0
    for i in range(curve.size[SORTED]):
        if curve.held[i] >= 0:
            if n < i:
                _move(curve, n, i)
            n += 1
    for i in range(curve.size[WAITING]):
        if curve.tail[i] >= 0:
            _write_key(curve, points, curve.tail[i], i)
    more = _sort_tail(curve)
    curve.size[SORTED] = n + more
    curve.size[WAITING] = 0
    i = n - 1
    j = more - 1
    while j >= 0:
        if i >= 0 and _is_less(curve.tail_key, curve.order[j], curve.key, i):
            _move(curve, i + j + 1, i)
            i -= 1
        else:
            _take(curve, i + j + 1, int64(curve.order[j]))
            j -= 1


@internal
def _insert(curve: ZOrder, points: Points, slot: int) -> None:
    if curve.size[WAITING] == curve.tail.size:
        _merge(curve, points)
    width = curve.size[WIDTH]
    i = curve.size[WAITING]
    for d in range(width):
        curve.tail_row[i * width + d] = points.coarse[int64(slot) * width + d]
    curve.tail[i] = slot
    curve.at[slot] = -2 - i
    curve.size[WAITING] += 1
    curve.size[LIVE] += 1


@internal
def _delete(curve: ZOrder, points: Points, slot: int) -> None:
    i = curve.at[slot]
    if i >= 0:
        curve.held[i] = -1
    else:
        curve.tail[-2 - i] = -1
    curve.at[slot] = ABSENT
    curve.size[LIVE] -= 1


@internal
def _common(key: UInt64s, first: int, last: int, words: int) -> int:
    """How many bits two keys begin with in common."""
    w = 0
    while w < words - 1 and key[first, w] == key[last, w]:
        w += 1
    return w * WORD + _leading_zeros(key[first, w] ^ key[last, w])


@internal
def _beyond(key: UInt64s, begin: int, end: int, bit: int) -> int:
    """Where in key[begin:end], which are equal before this bit, it turns to 1."""
    w = bit >> 6
    shift = np.uint64(WORD - 1 - (bit & 63))
    lo, hi = begin, end - 1
    while lo + 1 < hi:
        m = (lo + hi) >> 1
        if (key[m, w] >> shift) & np.uint64(1):
            hi = m
        else:
            lo = m
    return hi


@internal
def _is_above(curve: ZOrder, entry: int) -> bool:
    """Whether an entry is at least what is searched in every coordinate, as far as integers tell."""
    j = 0
    while j < curve.corner.size and curve.place[entry, j] >= curve.corner[j]:
        j += 1
    return j == curve.corner.size


@internal
def _cover(curve: ZOrder, points: Points, slot: int, k: int, out: Ints32, first: int, seen: Ints, seen_row: int) -> int:
    coarse, stack = points.coarse, curve.stack
    D, width = curve.size[COORDINATES], curve.size[WIDTH]
    words = curve.key.shape[1]
    row = int64(slot) * width
    for j in range(D):
        curve.corner[j] = _place(curve, points.exact[slot, j], j)
    found = 0
    nodes = 0
    compared = 0
    stack[0], stack[1] = 0, curve.size[SORTED]
    sp = 2 if curve.size[SORTED] > 0 else 0
    while sp > 0 and found < k:
        sp -= 2
        a, b = int64(stack[sp]), int64(stack[sp + 1])
        nodes += 1
        shared = _common(curve.key, a, b - 1, words)
        full = shared // D
        rest = shared - full * D
        may = True
        inside = True
        j = 0
        while may and j < D:
            free = max(BITS - full - (1 if j < rest else 0), 0)
            low = (int64(curve.place[a, j]) >> free) << free
            may = low + (1 << free) > curve.corner[j]
            inside &= low >= curve.corner[j]
            j += 1
        if may and (inside or b - a <= FEW):
            i = b - 1
            while i >= a and found < k:
                x = curve.held[i]
                if x >= 0:
                    compared += 1
                    if (inside or _is_above(curve, i)) and covers(points, x, slot):
                        out[first + found] = x
                        found += 1
                i -= 1
        elif may:
            middle = _beyond(curve.key, a, b, shared)
            stack[sp], stack[sp + 1] = a, middle
            stack[sp + 2], stack[sp + 3] = middle, b
            sp += 4
    i = curve.size[WAITING] - 1
    while i >= 0 and found < k:
        x = curve.tail[i]
        if x >= 0:
            compared += 1
            if reaches(curve.tail_row, i * width, coarse, row, width) and covers(points, x, slot):
                out[first + found] = x
                found += 1
        i -= 1
    seen[seen_row, NODES] += nodes
    seen[seen_row, COMPARISONS] += compared
    seen[seen_row, QUERIES] += 1
    return found


implement(ZOrder, cover=_cover, insert=_insert, delete=_delete)


class ZIndex(CoverIndex):
    """The curve as an index; `tail` points wait to be merged."""

    arrays: ZOrder

    def __init__(self, coordinates: int, tail: int = TAIL) -> None:
        width, words = width_of(coordinates), -(-BITS * coordinates // WORD)
        none = np.empty(0, np.int32)
        self.arrays = ZOrder(
            key=np.empty((0, words), np.uint64),
            place=np.empty((0, coordinates), np.int32),
            held=none,
            at=none,
            tail_key=np.zeros((tail, words), np.uint64),
            tail_place=np.zeros((tail, coordinates), np.int32),
            tail_row=np.zeros(tail * width, np.float32),
            tail=np.zeros(tail, np.int32),
            order=np.zeros(tail, np.int32),
            stack=np.zeros(2 * BITS * coordinates + 4, np.int32),
            corner=np.zeros(coordinates, np.int64),
            least=np.zeros(coordinates),
            greatest=np.zeros(coordinates),
            scale=np.zeros(coordinates),
            size=np.array([0, 0, 0, coordinates, width]),
        )

    def __len__(self) -> int:
        return int(self.arrays.size[LIVE])

    def reserve(self, inserts: int, slots: int) -> None:
        o = self.arrays
        if slots > len(o.at):
            at = np.full(max(slots, len(o.at) * 3 // 2), ABSENT, np.int32)
            at[: len(o.at)] = o.at
            o = o._replace(at=at)
        used = int(o.size[SORTED])
        need = used + int(o.size[WAITING]) + inserts
        if need > len(o.held):
            room = max(need, len(o.held) * 3 // 2)
            key, place = np.empty((room, o.key.shape[1]), np.uint64), np.empty((room, o.place.shape[1]), np.int32)
            held = np.empty(room, np.int32)
            key[:used], place[:used], held[:used] = o.key[:used], o.place[:used], o.held[:used]
            o = o._replace(key=key, place=place, held=held)
        self.arrays = o

    def load(self, points: Points, slots: Ints32) -> None:
        """O(n log n): all keys sorted, with the scale that fits all points."""
        n = len(slots)
        self.reserve(n, len(points.age))
        if not n:
            return
        o, exact = self.arrays, points.exact[slots]
        for j in range(exact.shape[1]):
            bounded = exact[np.isfinite(exact[:, j]), j]
            if len(bounded):
                o.least[j], o.greatest[j] = np.clip([bounded.min(), bounded.max()], -FAR, FAR)
            o.scale[j] = MOST / max(o.greatest[j] - o.least[j], TINY)
        place = ((np.clip(exact, o.least, o.greatest) - o.least) * o.scale).astype(np.int64).astype(np.int32)
        keys = np.concatenate([_keys_of(place[i : i + PIECE]) for i in range(0, n, PIECE)])
        order = np.lexsort(keys.T[::-1])
        o.key[:n], o.place[:n], o.held[:n] = keys[order], place[order], slots[order]
        o.at[slots[order]] = np.arange(n)
        o.size[SORTED] = o.size[LIVE] = n

    def trimmed(self) -> ZOrder:
        o, n = self.arrays, int(self.arrays.size[SORTED])
        return o._replace(key=o.key[:n], place=o.place[:n], held=o.held[:n])

    def slots(self) -> Ints32:
        o = self.arrays
        both = np.concatenate([o.held[: o.size[SORTED]], o.tail[: o.size[WAITING]]])
        return both[both >= 0]

    def check(self, points: Points) -> None:
        o, width = self.arrays, int(self.arrays.size[WIDTH])
        n, waiting = int(o.size[SORTED]), int(o.size[WAITING])
        keys = [tuple(key) for key in o.key[:n].tolist()]
        assert keys == sorted(keys)
        assert (o.key[:n] == _keys_of(o.place[:n])).all()
        tail_row = o.tail_row.reshape(-1, width)[:waiting]
        there, waits = o.held[:n] >= 0, o.tail[:waiting] >= 0
        held = np.clip(points.exact[o.held[:n][there]], o.least, o.greatest)
        assert (((held - o.least) * o.scale).astype(np.int64) == o.place[:n][there]).all()
        assert (o.at[o.held[:n][there]] == np.flatnonzero(there)).all()
        assert (o.at[o.tail[:waiting][waits]] == -2 - np.flatnonzero(waits)).all()
        assert (tail_row[waits] == points.coarse.reshape(-1, width)[o.tail[:waiting][waits]]).all()
        assert len(self.slots()) == len(self) == (o.at != ABSENT).sum()


def _keys_of(place: Ints32) -> UInt64s:
    """The keys of points whose coordinates are these integers, of shape (n, D)."""
    n, coordinates = place.shape
    bits = np.zeros((n, -(-BITS * coordinates // WORD) * WORD), np.uint8)
    halved = place[:, None, :] >> np.arange(BITS - 1, -1, -1)[:, None]
    bits[:, : BITS * coordinates] = (halved & 1).reshape(n, BITS * coordinates)
    return np.packbits(bits, axis=1).view(">u8").astype(np.uint64)
