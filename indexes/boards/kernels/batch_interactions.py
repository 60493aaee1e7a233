"""The other changes of a batch that meet the demotion at hand: who receives what it exposes.

A demotion is painted when all promotions of the batch are applied, and the demotions west of it. From then on objects
only get worse, so a range gains an unchanged object at exactly one demotion, and receives it then, unless it had the
object before the batch, when promoted objects had not yet crossed it. Let (l, r) gain it now: it holds k - 1 better
ones then and k before this demotion; before the batch it held one more for each demoted object in the range that
crossed it already, and one fewer for each promoted one that crossed it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.boards.kernels.batch_diff import (
    BatchDiff,
    DiffItems,
    crossing,
    insert_entry,
    is_changed,
    passes,
    passing,
    remove_entry,
    revert_lists,
)
from indexes.boards.kernels.region import gain_strips
from indexes.boards.kernels.scratch import Scratch, Shortlist
from indexes.boards.kernels.staircase import Moments, new_gain_strips
from indexes.compiled.jit import inlined, vectorized
from indexes.compiled.simd import LANES, lanes_from, lanes_upto, low_bit
from indexes.core.arrays import INF, Floats, Ints, int64

NONE, CLEAR, SOME, ALL = range(4)
"""Which of the subscriptions that gain an exposed object receive it: none, since the object itself changed and is sent
as such; those whose range holds no promoted object that crossed it, a simple test; those that did not have it before
the batch; or all."""

FEW = 2 * LANES
"""Up to so many promotions and so many demotions that may cross what a demotion exposes are listed once."""

PROMOTIONS, DEMOTIONS, ITEM, WESTERN = range(4)
"""Entries of `BatchInteractions.at`: how many promotions are listed, and how many demotions, -1 for more than FEW, to
be searched for; the demotion at hand, an item of `diff.demoted`; how many of the listed promotions lie west of it. The
first two are also the kinds of what is listed."""

X, LEAST, MOST, COLUMNS = 0, FEW, 2 * FEW, 3 * FEW
"""Where the columns of `BatchInteractions.value` begin for one kind, and how long they are together."""


class BatchInteractions(NamedTuple):
    """The changes that may have crossed what the demotion at hand exposes: promotions on both sides of it, and the
    demotions that are already applied.

    For each kind `listed` has FEW items, the nearest first on each side, and `value` their x, least and greatest values
    in columns of FEW; those of a block that is begun and not filled are such that nothing crosses them. `near` is the
    x of the nearest promoted item that crossed the exposed object, west and east. The lists of `moments` are scratch.
    """

    diff: BatchDiff
    at: Ints
    listed: Ints
    value: Floats
    near: Floats
    moments: Moments


def make_interactions(diff: BatchDiff, moments: Moments) -> BatchInteractions:
    """The interactions of a batch."""
    return BatchInteractions(
        diff, np.zeros(4, np.int64), np.empty(2 * FEW, np.int64), np.empty(2 * COLUMNS), np.empty(2), moments
    )


@inlined
def begin_demotion(interactions: BatchInteractions, item: int, l: float, r: float) -> None:
    """Prepare for demoted item `item`, whose lists end at `l` and `r`."""
    items, promoted, at = interactions.diff.demoted, interactions.diff.promoted, interactions.at
    lower, upper, east = items.y0[item], items.y1[item], items.other[item]
    n = _list(interactions, PROMOTIONS, promoted, east - 1, False, upper, lower, l, int64(0))
    at[ITEM], at[WESTERN] = item, n
    n = _list(interactions, PROMOTIONS, promoted, east, True, upper, lower, r, n)
    at[PROMOTIONS] = n if n <= FEW else -1
    n = _list(interactions, DEMOTIONS, items, item - 1, False, upper, lower, l, int64(0))
    at[DEMOTIONS] = n if n <= FEW else -1


# Nine arguments: a search, and where to list what it finds.
@inlined
def _list(
    interactions: BatchInteractions,
    kind: int,
    items: DiffItems,
    place: int,
    east: bool,
    upper: float,
    lower: float,
    x_end: float,
    n: int,
) -> int:
    """Append the items that cross, from `place` on, to the n of their kind that are listed, and fill the block; returns
    how many there are now, or FEW + 1."""
    first, value = kind * COLUMNS, interactions.value
    step = 1 if east else -1
    place = crossing(items, place, east, upper, lower, x_end)
    while place >= 0 and n <= FEW:
        if n < FEW:
            interactions.listed[kind * FEW + n] = place
            value[first + X + n], value[first + LEAST + n] = items.x[place], items.least[place]
            value[first + MOST + n] = items.most[place]
        n += 1
        place = crossing(items, place + step, east, upper, lower, x_end)
    unused = n
    while unused & (LANES - 1) and unused < FEW:
        value[first + LEAST + unused] = INF
        unused += 1
    return n


@inlined
def _may_pass(interactions: BatchInteractions, kind: int, y: float, l: float, r: float) -> int:
    """The listed items, as bits, with l <= x <= r that crossed `y`: all that crossed an object of this y, and perhaps
    some that have it too."""
    value, first = interactions.value, kind * COLUMNS
    found = int64(0)
    for p in range(0, interactions.at[kind], LANES):
        near = lanes_from(value, first + X + p, l) & lanes_upto(value, first + X + p, r)
        crossed = lanes_upto(value, first + LEAST + p, y) & lanes_from(value, first + MOST + p, y)
        found |= (near & crossed) << p
    return found


@inlined
def _from_passing(interactions: BatchInteractions, kind: int, items: DiffItems, found: int, y: float, c: int) -> int:
    """Those bits of listed items from the first one on that `passes`."""
    while found != 0 and not passes(items, interactions.listed[kind * FEW + low_bit(found)], y, c):
        found &= found - 1
    return found


@inlined
def recipients_of(interactions: BatchInteractions, scratch: Scratch, k: int, row: int, y: float, c: int) -> int:
    """Who receives the object of this row and rank, which is about to enter the lists: NONE, CLEAR, SOME or ALL."""
    diff = interactions.diff
    recipients = NONE
    if not is_changed(diff, row):
        recipients = ALL
        if interactions.at[PROMOTIONS] != 0:
            _find_near(interactions, y, c, scratch.west[k], scratch.east[k])
            if interactions.near[0] > -INF or interactions.near[1] < INF:
                # If no demotion has crossed it yet, one promotion that crossed it decides.
                recipients = SOME if _any_demoted(interactions, y, c, scratch.west[k]) else CLEAR
    return recipients


@inlined
def _any_demoted(interactions: BatchInteractions, y: float, c: int, l: float) -> bool:
    """Whether an applied demotion with x >= l has crossed (y, c)."""
    items = interactions.diff.demoted
    if interactions.at[DEMOTIONS] < 0:
        there = passing(items, interactions.at[ITEM] - 1, False, y, c, l) >= 0
    else:
        found = _may_pass(interactions, DEMOTIONS, y, l, INF)
        there = _from_passing(interactions, DEMOTIONS, items, found, y, c) != 0
    return there


@inlined
def _find_near(interactions: BatchInteractions, y: float, c: int, l: float, r: float) -> None:
    """Write the x of the nearest promoted objects in [l, r] that crossed (y, c), infinite for none, to `near`."""
    items, at = interactions.diff.promoted, interactions.at
    west, east = -INF, INF
    if at[PROMOTIONS] < 0:
        east_place = interactions.diff.demoted.other[at[ITEM]]
        place = passing(items, east_place - 1, False, y, c, l)
        west = items.x[place] if place >= 0 else -INF
        place = passing(items, east_place, True, y, c, r)
        east = items.x[place] if place >= 0 else INF
    else:
        found = _may_pass(interactions, PROMOTIONS, y, l, r)
        if found != 0:
            western = (int64(1) << at[WESTERN]) - 1
            on_side = _from_passing(interactions, PROMOTIONS, items, found & western, y, c)
            west = interactions.value[X + low_bit(on_side)] if on_side != 0 else -INF
            on_side = _from_passing(interactions, PROMOTIONS, items, found & ~western, y, c)
            east = interactions.value[X + low_bit(on_side)] if on_side != 0 else INF
    interactions.near[0], interactions.near[1] = west, east


@inlined
def recipient_strips(
    interactions: BatchInteractions,
    scratch: Scratch,
    k: int,
    a: int,
    b: int,
    x_h: float,
    y: float,
    c: int,
    recipients: int,
) -> int:
    """As `gain_strips` for the object at `x_h`, exactly, for those of its recipients alone; returns how many."""
    n = int64(0)
    if recipients == SOME:
        n = _cut_by_lists(interactions, scratch, k, x_h, y, c)
    elif recipients != NONE:
        n = gain_strips(scratch, k, a, b, x_h, int64(0))
        if recipients == CLEAR:
            n = _cut_between(scratch, n, interactions.near[0], interactions.near[1])
    return n


@inlined
def _cut_between(scratch: Scratch, n: int, west: float, east: float) -> int:
    """Cut the n strips to west < l and r < east; returns how many are left."""
    left = 0
    for t in range(n):
        lo, hi = max(scratch.strip[t, 0], west), scratch.strip[t, 1]
        bottom, top = scratch.strip[t, 2], min(scratch.strip[t, 3], east)
        scratch.strip[left, 0], scratch.strip[left, 1] = lo, hi
        scratch.strip[left, 2], scratch.strip[left, 3] = bottom, top
        left += (lo < hi) & (bottom < top)
    return left


@inlined
def _cut_by_lists(interactions: BatchInteractions, scratch: Scratch, k: int, x_h: float, y: float, c: int) -> int:
    """Write the strips that gain the object and did not have it before the batch, by the lists of then; returns how
    many."""
    diff, at = interactions.diff, interactions.at[ITEM]
    west, east = interactions.moments.old_west, interactions.moments.old_east
    for z in range(k + 1):
        west[z] = scratch.west[z]
        east[z] = scratch.east[z]
    if _all_at_hand(interactions):
        _revert_lists(interactions, y, c, k)
    else:
        revert_lists(diff, diff.demoted.other[at], at, at, y, c, k, west, east)
    return new_gain_strips(scratch, west, east, k, x_h)


@inlined
def _all_at_hand(interactions: BatchInteractions) -> bool:
    """Whether all changes that may have crossed are listed."""
    return interactions.at[PROMOTIONS] >= 0 and interactions.at[DEMOTIONS] >= 0


@inlined
def _revert_lists(interactions: BatchInteractions, y: float, c: int, k: int) -> None:
    """As `batch_diff.revert_lists`, from the listed changes."""
    promoted, demoted = interactions.diff.promoted, interactions.diff.demoted
    west, east = interactions.moments.old_west, interactions.moments.old_east
    l, r = west[k], east[k]
    found = _may_pass(interactions, PROMOTIONS, y, l, r)
    while found != 0:
        place = interactions.listed[PROMOTIONS * FEW + low_bit(found)]
        found &= found - 1
        if passes(promoted, place, y, c):
            remove_entry(west, east, k, promoted.x[place])
    found = _may_pass(interactions, DEMOTIONS, y, max(l, west[k]), INF)
    while found != 0:
        place = interactions.listed[DEMOTIONS * FEW + low_bit(found)]
        found &= found - 1
        if passes(demoted, place, y, c):
            insert_entry(west, k, demoted.x[place], False)


@inlined
def drop_non_recipients(
    interactions: BatchInteractions,
    scratch: Scratch,
    k: int,
    y: float,
    c: int,
    shortlist: Shortlist,
    n: int,
    recipients: int,
) -> None:
    """Of the shortlist, let the subscriptions that gain the object and do not receive it count as gone."""
    if recipients == CLEAR:
        _drop_holders(shortlist, n, k, interactions.near[0], interactions.near[1])
    elif recipients == SOME:
        _drop_by_count(interactions, scratch, k, y, c, shortlist, n)


@vectorized
def _drop_holders(shortlist: Shortlist, n: int, k: int, west: float, east: float) -> None:
    """Drop the subscriptions whose range holds the nearest crossing object on either side."""
    for i in range(n):
        shortlist.better[i] += (shortlist.better[i] == k) & ((shortlist.l[i] <= west) | (shortlist.r[i] >= east))


@inlined
def _drop_by_count(
    interactions: BatchInteractions, scratch: Scratch, k: int, y: float, c: int, shortlist: Shortlist, n: int
) -> None:
    """Drop the subscriptions whose range holds more crossings upwards than downwards."""
    diff, at = interactions.diff, interactions.at[ITEM]
    shortlist.passed[:n] = 0
    l, r = scratch.west[k], scratch.east[k]
    if _all_at_hand(interactions):
        found = _may_pass(interactions, PROMOTIONS, y, l, r)
        while found != 0:
            place = interactions.listed[PROMOTIONS * FEW + low_bit(found)]
            found &= found - 1
            if passes(diff.promoted, place, y, c):
                _add_passes(shortlist, n, diff.promoted.x[place], 1)
        found = _may_pass(interactions, DEMOTIONS, y, l, INF)
        while found != 0:
            place = interactions.listed[DEMOTIONS * FEW + low_bit(found)]
            found &= found - 1
            if passes(diff.demoted, place, y, c):
                _add_passes(shortlist, n, diff.demoted.x[place], -1)
    else:
        _count_passes(diff, at, y, c, l, r, shortlist, n)
    _drop_passed(shortlist, n, k)


@inlined
def _count_passes(diff: BatchDiff, at: int, y: float, c: int, l: float, r: float, shortlist: Shortlist, n: int) -> None:
    """Add up the crossings by searching the difference."""
    east_place = diff.demoted.other[at]
    place = passing(diff.promoted, east_place - 1, False, y, c, l)
    while place >= 0:
        _add_passes(shortlist, n, diff.promoted.x[place], 1)
        place = passing(diff.promoted, place - 1, False, y, c, l)
    place = passing(diff.promoted, east_place, True, y, c, r)
    while place >= 0:
        _add_passes(shortlist, n, diff.promoted.x[place], 1)
        place = passing(diff.promoted, place + 1, True, y, c, r)
    # From `at` on no demotion is applied yet, except for ties in x.
    place = passing(diff.demoted, at - 1, False, y, c, l)
    while place >= 0:
        _add_passes(shortlist, n, diff.demoted.x[place], -1)
        place = passing(diff.demoted, place - 1, False, y, c, l)


@vectorized
def _add_passes(shortlist: Shortlist, n: int, x: float, by: int) -> None:
    """Add `by` to `passed` of the subscriptions whose range holds x."""
    for i in range(n):
        shortlist.passed[i] += by * ((shortlist.l[i] <= x) & (shortlist.r[i] >= x))


@vectorized
def _drop_passed(shortlist: Shortlist, n: int, k: int) -> None:
    """Let the subscriptions that gain the object now and had it before the batch count as gone."""
    for i in range(n):
        shortlist.better[i] += (shortlist.better[i] == k) & (shortlist.passed[i] > 0)
