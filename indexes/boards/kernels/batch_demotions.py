"""Tiles for demoted objects, computed on the object index after the batch (O1).

These are the tiles of step 1 of Paint-Batch (`indexes.boards.batch`): a demoted or deleted object on (R0 and R01) or
R1.
"""

from __future__ import annotations

from indexes.boards.kernels.batch_diff import ITEMS, BatchDiff, DiffItems, any_passing, revert_lists
from indexes.boards.kernels.object_index import ObjectArrays, delete, insert
from indexes.boards.kernels.paint import is_painted, put_strips
from indexes.boards.kernels.paint_sparse import cover_strips
from indexes.boards.kernels.region import nearest, region_strips
from indexes.boards.kernels.scratch import MIN_Y, PaintContext, Scratch
from indexes.boards.kernels.staircase import Moments, demotion_strips
from indexes.boards.kernels.tiles import sign
from indexes.compiled.jit import inlined, internal
from indexes.core.arrays import INF, Floats, int64


@inlined
def slot_of_demoted(objects: ObjectArrays, items: DiffItems, item: int) -> int:
    """The slot of a demoted object, to search from. A deleted one has none in O1: it is inserted again, hidden, under
    the last row, until `remove_restored`."""
    row = int(items.row[item])
    if items.y1[item] == INF:
        row = len(objects.pos) - 1
        insert(objects, row, items.x[item], INF, items.c[item])
    return int64(objects.pos[row])


@inlined
def remove_restored(objects: ObjectArrays, items: DiffItems, item: int) -> None:
    """Remove the object that `slot_of_demoted` inserted, if it did."""
    if items.y1[item] == INF:
        delete(objects, len(objects.pos) - 1)


@internal
def lists_at(objects: ObjectArrays, slot: int, y: float, k: int, scratch: Scratch, west: Floats, east: Floats) -> None:
    """Write the lists of the object in a slot as they would be if its y were `y`. O(k log n)."""
    nearest(objects, slot, y, k, scratch)
    for z in range(k + 1):
        west[z] = scratch.all_west[z]
        east[z] = scratch.all_east[z]


@inlined
def lists_before(
    diff: BatchDiff, promoted_at: int, demoted_at: int, y: float, c: int, k: int, moments: Moments
) -> None:
    """Write the lists before the batch to the `old` ones, as far as the `kept` ones, those after it, extend. Their
    object lies before item `promoted_at` of the promoted and `demoted_at` of the demoted."""
    for z in range(k + 1):
        moments.old_west[z] = moments.kept_west[z]
        moments.old_east[z] = moments.kept_east[z]
    revert_lists(diff, promoted_at, demoted_at, diff.demoted.size[ITEMS], y, c, k, moments.old_west, moments.old_east)


@inlined
def paint_demotion(
    objects: ObjectArrays, context: PaintContext, slot: int, kmax: int, moments: Moments, diff: BatchDiff, item: int
) -> bool:
    """Step 1 for a demoted object, given its slot in O1. False when `tiles` is too small."""
    items, scratch = diff.demoted, context.scratch
    y, y_new, c = items.y0[item], items.y1[item], items.c[item]
    lists_at(objects, slot, y, kmax, scratch, moments.kept_west, moments.kept_east)
    crossed = any_passing(items, item - 1, item + 1, y, c, moments.kept_west[kmax], moments.kept_east[kmax])
    if crossed:
        lists_before(diff, items.other[item], item, y, c, kmax, moments)
        if y_new < INF:
            lists_at(objects, slot, y_new, kmax, scratch, moments.new_west, moments.new_east)
    return paint_demotion_lists(context, moments, items, item, crossed)


@inlined
def paint_demotion_lists(context: PaintContext, moments: Moments, items: DiffItems, item: int, crossed: bool) -> bool:
    """Step 1 for a demoted object, given its lists in `moments`. Without `crossed` no other demotion crossed its old
    rank, so R01 lies in R0, and only the `kept` lists are read. False when `tiles` is too small."""
    scratch = context.scratch
    row, x, y_new, c = items.row[item], items.x[item], items.y1[item], items.c[item]
    gone = y_new == INF
    y = items.y0[item] if gone else y_new
    ok = True
    scratch.stats[MIN_Y] += 1
    for k_class in range(len(context.ks)):
        if ok and is_painted(context, k_class):
            k = context.ks[k_class]
            if crossed:
                n = demotion_strips(scratch, moments, k, gone)
            else:
                _copy_lists(scratch, moments.kept_west, moments.kept_east, k)
                n = region_strips(scratch, k, k, k, 0)
            ok = put_tiles(context, n, k_class, row, x, y, gone, c, True)
    return ok


@inlined
def _copy_lists(scratch: Scratch, west: Floats, east: Floats, k: int) -> None:
    """Take the first k entries of two lists as those of the class at hand."""
    for z in range(k + 1):
        scratch.west[z] = west[z]
        scratch.east[z] = east[z]


# Nine arguments: the columns of a tile, as for `put_strips`.
@inlined
def put_tiles(
    context: PaintContext, n: int, k_class: int, row: int, x: float, y: float, gone: bool, c: int, own: bool
) -> bool:
    """Append the tiles of one object for the n strips, which are a chain unless `own`. False when `tiles` is too
    small."""
    tiles = context.tiles
    start = tiles.n[0]
    if context.dense:
        ok = put_strips(context, n, k_class, row, x, y, gone, c, own)
    else:
        ok = cover_strips(context, k_class, n, not own)[0]
        sign(tiles, start, k_class, row, x, y, gone, c, own)
    return ok
