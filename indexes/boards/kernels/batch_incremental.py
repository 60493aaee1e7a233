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

from indexes.boards.kernels.batch_demotions import paint_demotion, remove_restored, slot_of_demoted
from indexes.boards.kernels.batch_diff import ITEMS, BatchDiff, any_passing, crossing, enter_list
from indexes.boards.kernels.batch_interactions import BatchInteractions, begin_demotion
from indexes.boards.kernels.object_index import (
    ObjectArrays,
    delete,
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

NEXT, MADE, DEFERRED = range(3)
"""Entries of `progress`: the next item, tiles made, and the number of deferred demotions."""


@kernel
def apply_promotions(objects: ObjectArrays, diff: BatchDiff, start: int, end: int) -> None:
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
    moments: Moments,
    interactions: BatchInteractions,
    deferred: Ints,
    progress: Ints,
    stop: int,
    keep: bool,
) -> int:
    """Paint items from `progress[NEXT]` on, up to `stop`: demotions, which are then applied, promotions, and the
    deferred demotions.

    `objects` is O0 with all promotions at first, O1 after all demotions. `deferred` has room for all demotions. With
    `keep` tiles are collected in `tiles`, else each item's overwrite the last one's. Returns DONE, or FULL_TILES when
    the buffer has to grow before the next item. An independent item costs what `paint` and the change of the index
    cost, and O(log m).
    """
    diff, tiles = interactions.diff, context.tiles
    promotions, demotions = diff.promoted.size[ITEMS], diff.demoted.size[ITEMS]
    kmax = greatest(context)
    status = DONE
    item = progress[NEXT]
    while item < min(stop, demotions + promotions + progress[DEFERRED]) and status == DONE:
        if not keep:
            tiles.n[0] = 0
        start = tiles.n[0]
        final = True
        promoted = demotions <= item < demotions + promotions
        number = item
        if promoted:
            number -= demotions
            look_ahead(objects, diff.promoted.row, number, promotions)
            slot = int64(objects.pos[diff.promoted.row[number]])
            ok = paint(objects, context, slot, objects.y[slot]) == 1
        elif item < demotions:
            look_ahead(objects, diff.demoted.row, number, demotions)
            ok, final = _demote(objects, context, kmax, interactions, number)
        else:
            number = deferred[item - demotions - promotions]
            ok = _paint_deferred(objects, context, kmax, moments, diff, number)
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
    progress[NEXT] = item
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
        demoted_later = interactions.at[2] != 0 or crossing(items, item + 1, True, y_new, y, r) >= 0
        if interactions.at[1] == 0 and not demoted_later:
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
