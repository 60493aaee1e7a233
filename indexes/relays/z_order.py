"""The space-filling curve: points in the order of their interleaved bits (the paper, IV-D).

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

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.lean import inner_kernel
from indexes.relays.points import Int32, Points, covers, reaches, width_of
from indexes.relays.search import COMPARISONS, NODES, QUERIES, CoverIndex, implement

from numba.cpython.unsafe.numbers import leading_zeros  # isort: skip
from numba.extending import overload  # isort: skip

TAIL = 1024
"""Points that wait to be merged, unless said otherwise."""

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

    key: NDArray[np.uint64]  # (room, words), the first bit highest
    place: Int32  # (room, D): coordinates as integers
    held: Int32  # the slot of each entry, or -1: deleted
    at: Int32  # by slot
    tail_key: NDArray[np.uint64]  # (tail, words), as the next four
    tail_place: Int32
    tail_row: NDArray[np.float32]  # flat: coarse coordinates, to be scanned
    tail: Int32
    order: Int32
    stack: Int32  # stretches that are left
    corner: NDArray[np.int64]  # the coordinates of what is searched, as integers
    least: NDArray[np.float64]  # by dimension: what becomes 0
    greatest: NDArray[np.float64]  # by dimension: what becomes the largest integer
    scale: NDArray[np.float64]  # by dimension: integers to a unit; all 0 until the first points are sorted in
    size: NDArray[np.int64]


def _leading_zeros(word: int) -> int:
    """Zero bits before the highest that is set, of 64."""
    return WORD - int(word).bit_length()


@overload(_leading_zeros, jit_options={"forceinline": True}, strict=False)
def _compiled_leading_zeros(word):  # type: ignore[no-untyped-def]
    return lambda word: np.int64(leading_zeros(word))  # type: ignore[call-arg]


@inner_kernel
def _place(o, x, j):  # type: ignore[no-untyped-def]
    """A coordinate as an integer."""
    return np.int64((min(max(x, o.least[j]), o.greatest[j]) - o.least[j]) * o.scale[j])


@inner_kernel
def _choose_scale(o, points):  # type: ignore[no-untyped-def]
    """Spread what waits over all integers, dimension by dimension; what has no bound counts for nothing."""
    for j in range(o.scale.size):
        least, most = np.inf, -np.inf
        for i in range(o.size[WAITING]):
            x = points.exact[o.tail[i], j] if o.tail[i] >= 0 else np.inf
            if abs(x) < np.inf:
                least, most = min(least, x), max(most, x)
        if least <= most:
            o.least[j] = min(max(least, -FAR), FAR)
            o.greatest[j] = min(max(most, -FAR), FAR)
        o.scale[j] = MOST / max(o.greatest[j] - o.least[j], TINY)


@inner_kernel
def _write_key(o, points, t, i):  # type: ignore[no-untyped-def]
    """The key of slot t, whose place in the tail is i."""
    coordinates = o.scale.size
    for w in range(o.tail_key.shape[1]):
        o.tail_key[i, w] = 0
    for j in range(coordinates):
        x = _place(o, points.exact[t, j], j)
        o.tail_place[i, j] = x
        for b in range(BITS):
            place = b * coordinates + j
            bit = np.uint64((x >> (BITS - 1 - b)) & 1)
            o.tail_key[i, place >> 6] |= bit << np.uint64(WORD - 1 - (place & 63))


@inner_kernel
def _is_less(a, i, b, j):  # type: ignore[no-untyped-def]
    w = 0
    while w < a.shape[1] - 1 and a[i, w] == b[j, w]:
        w += 1
    return a[i, w] < b[j, w]


@inner_kernel
def _sort_tail(o):  # type: ignore[no-untyped-def]
    """The waiting entries that were not deleted, in the order of their keys, to `order`; returns how many."""
    n = 0
    for i in range(o.size[WAITING]):
        if o.tail[i] >= 0:
            lo, hi = 0, n
            while lo < hi:
                m = (lo + hi) >> 1
                if _is_less(o.tail_key, i, o.tail_key, o.order[m]):
                    hi = m
                else:
                    lo = m + 1
            for z in range(n, lo, -1):
                o.order[z] = o.order[z - 1]
            o.order[lo] = i
            n += 1
    return n


@inner_kernel
def _move(o, i, j):  # type: ignore[no-untyped-def]
    """Make entry i of the sorted array what entry j is."""
    for w in range(o.key.shape[1]):
        o.key[i, w] = o.key[j, w]
    for d in range(o.place.shape[1]):
        o.place[i, d] = o.place[j, d]
    o.held[i] = o.held[j]
    if o.held[i] >= 0:
        o.at[o.held[i]] = i


@inner_kernel
def _take(o, i, j):  # type: ignore[no-untyped-def]
    """Make entry i of the sorted array what waits at j of the tail."""
    for w in range(o.key.shape[1]):
        o.key[i, w] = o.tail_key[j, w]
    for d in range(o.place.shape[1]):
        o.place[i, d] = o.tail_place[j, d]
    o.held[i] = o.tail[j]
    o.at[o.held[i]] = i


@inner_kernel
def _merge(o, points):  # type: ignore[no-untyped-def]
    """Drop what was deleted, then merge the tail in from behind."""
    if o.scale[0] == 0 and o.size[LIVE] > 0:
        _choose_scale(o, points)
    n = 0
    for i in range(o.size[SORTED]):
        if o.held[i] >= 0:
            if n < i:
                _move(o, n, i)
            n += 1
    for i in range(o.size[WAITING]):
        if o.tail[i] >= 0:
            _write_key(o, points, o.tail[i], i)
    more = _sort_tail(o)
    o.size[SORTED] = n + more
    o.size[WAITING] = 0
    i = n - 1
    j = more - 1
    while j >= 0:
        if i >= 0 and _is_less(o.tail_key, o.order[j], o.key, i):
            _move(o, i + j + 1, i)
            i -= 1
        else:
            _take(o, i + j + 1, np.int64(o.order[j]))
            j -= 1


@inner_kernel
def _insert(o, points, t):  # type: ignore[no-untyped-def]
    if o.size[WAITING] == o.tail.size:
        _merge(o, points)
    width = o.size[WIDTH]
    i = o.size[WAITING]
    for d in range(width):
        o.tail_row[i * width + d] = points.coarse[np.int64(t) * width + d]
    o.tail[i] = t
    o.at[t] = -2 - i
    o.size[WAITING] += 1
    o.size[LIVE] += 1


@inner_kernel
def _delete(o, points, t):  # type: ignore[no-untyped-def]
    i = o.at[t]
    if i >= 0:
        o.held[i] = -1
    else:
        o.tail[-2 - i] = -1
    o.at[t] = ABSENT
    o.size[LIVE] -= 1


@inner_kernel
def _common(key, a, b, words):  # type: ignore[no-untyped-def]
    """How many bits two keys begin with in common."""
    w = 0
    while w < words - 1 and key[a, w] == key[b, w]:
        w += 1
    return w * WORD + _leading_zeros(key[a, w] ^ key[b, w])


@inner_kernel
def _beyond(key, a, b, bit):  # type: ignore[no-untyped-def]
    """Where in key[a:b], which are equal before this bit, it turns to 1."""
    w = bit >> 6
    shift = np.uint64(WORD - 1 - (bit & 63))
    lo, hi = a, b - 1
    while lo + 1 < hi:
        m = (lo + hi) >> 1
        if (key[m, w] >> shift) & np.uint64(1):
            hi = m
        else:
            lo = m
    return hi


@inner_kernel
def _is_above(o, i):  # type: ignore[no-untyped-def]
    """Whether entry i is at least what is searched in every coordinate, as far as integers tell."""
    j = 0
    while j < o.corner.size and o.place[i, j] >= o.corner[j]:
        j += 1
    return j == o.corner.size


@inner_kernel
def _cover(o, points, t, k, out, first, seen, u):  # type: ignore[no-untyped-def]
    coarse, stack = points.coarse, o.stack
    D, width = o.size[COORDINATES], o.size[WIDTH]
    words = o.key.shape[1]
    row = np.int64(t) * width
    for j in range(D):
        o.corner[j] = _place(o, points.exact[t, j], j)
    found = 0
    nodes = 0
    compared = 0
    stack[0], stack[1] = 0, o.size[SORTED]
    sp = 2 if o.size[SORTED] > 0 else 0
    while sp > 0 and found < k:
        sp -= 2
        a, b = np.int64(stack[sp]), np.int64(stack[sp + 1])
        nodes += 1
        shared = _common(o.key, a, b - 1, words)
        full = shared // D
        rest = shared - full * D
        may = True
        inside = True
        j = 0
        while may and j < D:
            free = max(BITS - full - (1 if j < rest else 0), 0)
            low = (np.int64(o.place[a, j]) >> free) << free
            may = low + (1 << free) > o.corner[j]
            inside &= low >= o.corner[j]
            j += 1
        if may and (inside or b - a <= FEW):
            i = b - 1
            while i >= a and found < k:
                x = o.held[i]
                if x >= 0:
                    compared += 1
                    if (inside or _is_above(o, i)) and covers(points, x, t):
                        out[first + found] = x
                        found += 1
                i -= 1
        elif may:
            middle = _beyond(o.key, a, b, shared)
            stack[sp], stack[sp + 1] = a, middle
            stack[sp + 2], stack[sp + 3] = middle, b
            sp += 4
    i = o.size[WAITING] - 1
    while i >= 0 and found < k:
        x = o.tail[i]
        if x >= 0:
            compared += 1
            if reaches(o.tail_row, i * width, coarse, row, width) and covers(points, x, t):
                out[first + found] = x
                found += 1
        i -= 1
    seen[u, NODES] += nodes
    seen[u, COMPARISONS] += compared
    seen[u, QUERIES] += 1
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

    def load(self, points: Points, slots: Int32) -> None:
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

    def slots(self) -> Int32:
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


def _keys_of(place: Int32) -> NDArray[np.uint64]:
    """The keys of points whose coordinates are these integers, of shape (n, D)."""
    n, coordinates = place.shape
    bits = np.zeros((n, -(-BITS * coordinates // WORD) * WORD), np.uint8)
    halved = place[:, None, :] >> np.arange(BITS - 1, -1, -1)[:, None]
    bits[:, : BITS * coordinates] = (halved & 1).reshape(n, BITS * coordinates)
    return np.packbits(bits, axis=1).view(">u8").astype(np.uint64)
