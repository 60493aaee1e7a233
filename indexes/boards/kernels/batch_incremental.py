"""A batch that is small compared with its board: each change is painted by itself.

First all promotions are applied, in order of x. Then each demotion is painted just before it is applied, in order of x.
Most are independent: no other change of the batch meets their region, and painting is that of a single change. A
demotion among others restricts the recipients of what it exposes to those who gain the object by the whole batch
(`batch_interactions`). Where another demotion crosses the one at hand, its recipients are known only when all changes
are applied; it is *deferred*. Last come the promoted objects and the deferred ones, painted in the state after the
batch.

Tiles are made in this order and sorted into that of the messages at the end (`indexes.boards.batch.put_in_order`).
"""

from __future__ import annotations

from typing import NamedTuple

from indexes.boards.kernels.batch_demotions import paint_demotion, remove_restored, slot_of_demoted
from indexes.boards.kernels.batch_diff import (
    ITEMS,
    MISSING,
    BatchDiff,
    Draft,
    any_passing,
    collect_diff,
    crossing,
    enter_list,
)
from indexes.boards.kernels.batch_interactions import DEMOTIONS, PROMOTIONS, BatchInteractions, begin_demotion
from indexes.boards.kernels.changes import Changes
from indexes.boards.kernels.object_index import (
    AHEAD,
    ObjectArrays,
    delete,
    expect,
    insert,
    look_ahead,
    look_ahead_applied,
    set_y,
)
from indexes.boards.kernels.paint import greatest, paint, paint_near
from indexes.boards.kernels.region import nearest
from indexes.boards.kernels.scratch import PaintContext
from indexes.boards.kernels.staircase import Moments
from indexes.boards.kernels.step import DONE, FULL_TILES
from indexes.compiled.jit import inlined, kernel
from indexes.core.arrays import INF, Ints, int64

NEXT, MADE, DEFERRED, LEFT = range(4)
"""Entries of `progress`: the next item, tiles made, the number of deferred demotions, and of items that are left. Items
-p to -1 are the p promotions before they are applied."""

START = -(1 << 62)
"""The next item while the difference is not computed."""

UNDECIDED, GONE = 3, 4
"""Next to DONE and FULL_TILES: the difference is computed except for the order of its items, or complete and such that
the index needs room first, for objects that move or are deleted."""


class Source(NamedTuple):
    """What the difference is computed from: the changes, the rows with another payload, and arrays to do it in."""

    changes: Changes
    touched: Ints
    draft: Draft


@inlined
def _apply_promotions(objects: ObjectArrays, diff: BatchDiff, start: int, end: int) -> None:
    """Apply promotions start..end - 1 without painting. One that moved in x keeps its old place under a spare row,
    until its demotion is applied."""
    items = diff.promoted
    for item in range(start, end):
        look_ahead_applied(objects, items.row, item, items.size[ITEMS])
        row, spare, y = int(items.row[item]), int(items.spare[item]), items.y1[item]
        if spare >= 0:
            slot = objects.pos[row]
            old_x, old_y, old_c = objects.x[slot], objects.y[slot], objects.c[slot]
            delete(objects, row)
            insert(objects, spare, old_x, old_y, old_c)
        if objects.pos[row] < 0:
            insert(objects, row, items.x[item], y, items.c[item])
        elif y != objects.y[objects.pos[row]]:
            set_y(objects, int(objects.pos[row]), y)


@kernel
def paint_incremental(
    objects: ObjectArrays,
    context: PaintContext,
    interactions: BatchInteractions,
    source: Source,
    progress: Ints,
    most_applied: int,
    most_painted: int,
    keep: bool,
) -> int:
    """Process items from `progress[NEXT]` on: all promotions are applied, demotions are painted and then applied,
    promotions and the deferred demotions are painted. At START the difference is computed first.

    `objects` is O0 at first, O1 after all demotions. At most so many promotions are applied, and so many items painted.
    With `keep` tiles are collected in `tiles`, else each item's overwrite the last one's. Returns DONE, FULL_TILES when
    the buffer has to grow before the next item, UNDECIDED or GONE. An independent item costs what `paint` and the
    change of the index cost, and O(log m).
    """
    diff, tiles, deferred = interactions.diff, context.tiles, source.draft.rows.slot
    status = DONE
    if progress[NEXT] == START:
        status = _compute_diff(objects, source, diff)
        progress[NEXT] = -diff.promoted.size[ITEMS]
    promotions, demotions = diff.promoted.size[ITEMS], diff.demoted.size[ITEMS]
    kmax = greatest(context)
    item = progress[NEXT]
    stop = max(item, int64(0)) + most_painted
    if item < 0 and status == DONE:
        applied = min(-item, most_applied)
        _apply_promotions(objects, diff, promotions + item, promotions + item + applied)
        item += applied
        stop = stop if item == 0 else item
    while item < min(stop, demotions + promotions + progress[DEFERRED]) and status == DONE:
        if not keep:
            tiles.n[0] = 0
        start = tiles.n[0]
        final = True
        promoted = demotions <= item < demotions + promotions
        number = item
        if promoted:
            number -= demotions
            look_ahead(objects, diff.promoted.row, diff.promoted.y1, number, promotions)
            slot = int64(objects.pos[diff.promoted.row[number]])
            ok = paint(objects, context, slot, objects.y[slot]) == 1
        elif item < demotions:
            look_ahead(objects, diff.demoted.row, diff.demoted.y0, number, demotions)
            ok, final = _demote(objects, context, kmax, interactions, number)
        else:
            number = item - demotions - promotions
            # As `look_ahead` does, for rows that are not next to each other.
            if number + AHEAD < progress[DEFERRED]:
                expect(objects, int(diff.demoted.row[deferred[number + AHEAD]]))
            number = deferred[number]
            ok = _paint_deferred(objects, context, kmax, interactions.moments, diff, number)
        if ok:
            items = diff.promoted if promoted else diff.demoted
            items.first[number], items.end[number] = start, tiles.n[0]
            if not final:
                deferred[progress[DEFERRED]] = number
                progress[DEFERRED] += 1
            progress[MADE] += tiles.n[0] - start
            item += 1
        else:
            tiles.n[0] = start
            status = FULL_TILES
    progress[NEXT], progress[LEFT] = item, demotions + promotions + progress[DEFERRED] - item
    return status


@inlined
def _compute_diff(objects: ObjectArrays, source: Source, diff: BatchDiff) -> int:
    """Compute the difference; returns DONE, UNDECIDED or GONE."""
    changes, touched, draft = source.changes, source.touched, source.draft
    status = DONE
    if not collect_diff(objects.pos, objects.x, objects.y, objects.c, changes, touched, draft, diff):
        status = UNDECIDED
    elif diff.demoted.size[MISSING] > 0:
        status = GONE
    return status


@inlined
def _demote(
    objects: ObjectArrays, context: PaintContext, kmax: int, interactions: BatchInteractions, item: int
) -> tuple[bool, bool]:
    """Steps 1 and 2 for one object, then apply it. Returns whether the tiles fit, and whether its own are final."""
    items, scratch, tiles = interactions.diff.demoted, context.scratch, context.tiles
    row = int(items.row[item] if items.spare[item] < 0 else items.spare[item])
    y, y_new, c = items.y0[item], items.y1[item], items.c[item]
    slot = int64(objects.pos[row])
    ok = final = True
    if kmax > 0:
        start = tiles.n[0]
        a, b = nearest(objects, slot, y, kmax, scratch)
        l, r = scratch.all_west[kmax], scratch.all_east[kmax]
        begin_demotion(interactions, item, l, r)
        demoted_later = interactions.at[DEMOTIONS] != 0 or crossing(items, item + 1, True, y_new, y, r) >= 0
        if interactions.at[PROMOTIONS] == 0 and not demoted_later:
            ok = paint_near(objects, context, slot, y_new, a, b, True, None)
        else:
            final = not demoted_later or not any_passing(items, item - 1, item + 1, y, c, l, r)
            twin = objects.pos[items.row[item]]
            if items.spare[item] >= 0 and objects.y[twin] == y:
                # The object moved and ranks as before: not before itself, but before all that it exposes.
                final = False
                if objects.x[twin] > items.x[item]:
                    b = enter_list(scratch.all_east, kmax, b, objects.x[twin], True)
                else:
                    a = enter_list(scratch.all_west, kmax, a, objects.x[twin], False)
            ok = paint_near(objects, context, slot, y_new, a, b, final, interactions)
        if items.spare[item] >= 0:
            for t in range(start, tiles.n[0]):
                tiles.row[t] = items.row[item] if tiles.row[t] == row else tiles.row[t]
    if ok:
        if y_new == INF:
            delete(objects, row)
        else:
            set_y(objects, int(slot), y_new)
    return ok, final


@inlined
def _paint_deferred(
    objects: ObjectArrays, context: PaintContext, kmax: int, moments: Moments, diff: BatchDiff, number: int
) -> bool:
    """Step 1 for a deferred demotion. False when `tiles` is too small."""
    slot = slot_of_demoted(objects, diff.demoted, number)
    ok = paint_demotion(objects, context, slot, kmax, moments, diff, number)
    remove_restored(objects, diff.demoted, number)
    return ok
