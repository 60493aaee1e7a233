"""Painting: from a change of one object to the tiles of all subscriptions it affects ([Range top-k] Algorithm 3).

A change is a new y of the object in a slot, painted before it is applied to the object index: an insertion is a
promotion from +inf, a deletion a demotion to +inf. A promotion paints the object on its new region. A demotion paints
the object on its old region, then every object that becomes exposed, in (y, created) order, on what it gains. Each
class of subscriptions is painted separately; all share the lists of the largest k.

Paint-Dense, here, makes the least number of tiles if every range may be subscribed to ([Range top-k] Theorem 2).
Paint-Sparse, in `paint_sparse`, uses the subscriptions that exist.

Source: [Range top-k] III.
"""

from __future__ import annotations

from indexes.boards.kernels.batch_interactions import BatchInteractions, recipient_strips, recipients_of
from indexes.boards.kernels.forest import NODE
from indexes.boards.kernels.object_index import ObjectArrays
from indexes.boards.kernels.paint_sparse import class_k_and_runs, paint_sparse
from indexes.boards.kernels.region import enter, exposed, gain_strips, nearest, region_strips, take_prefix
from indexes.boards.kernels.scratch import EXPOSED, MIN_Y, SNAP, PaintContext
from indexes.boards.kernels.tiles import sign
from indexes.compiled.jit import inlined, internal, kernel
from indexes.core.arrays import INF, int64, uint64


@kernel
def paint(objects: ObjectArrays, context: PaintContext, slot: int, y_new: float) -> int:
    """Append the tiles for the object in `slot` taking `y_new` to the context's; the index still holds the old y and is
    not changed.

    Either y may be +inf. A `y_new` equal to the old y makes the tiles of the object's present region, for a change that
    does not affect its rank. Each recipient gets each object at most once. Class after class: the tiles of the object
    from west to east, then those of exposed objects in (y, created) order. Returns 1, or 0 when `tiles` is too small;
    then it is as before. O(k log n) and O(k) for each tile, plus searches of the forest if not dense.
    """
    kmax = greatest(context)
    better = min(objects.y[slot], y_new)
    ok = True
    if kmax > 0 and better < INF:
        a, b = nearest(objects, slot, better, kmax, context.scratch)
        ok = paint_near(objects, context, slot, y_new, a, b, True, None)
    return 1 if ok else 0


@inlined
def is_painted(context: PaintContext, k_class: int) -> bool:
    """Whether a class may have recipients."""
    forest = context.forest
    return context.ks[k_class] > 0 and (context.dense or forest.cnt[forest.head[k_class, NODE] + 1] > 0)


@inlined
def greatest(context: PaintContext) -> int:
    """The greatest k of the classes that are painted, 0 if there are none."""
    kmax = int64(0)
    for k_class in range(len(context.ks)):
        if is_painted(context, k_class):
            kmax = max(kmax, context.ks[k_class])
    return kmax


@inlined
def paint_near(
    objects: ObjectArrays,
    context: PaintContext,
    slot: int,
    y_new: float,
    a: int,
    b: int,
    own: bool,
    interactions: BatchInteractions | None,
) -> bool:
    """As `paint`, given the lists at the better y in `all_west` and `all_east`, of lengths a and b.

    Without `own` the tiles of the object itself are left out. `interactions` is None, or the other changes of a batch,
    by which the recipients of exposed objects are restricted.
    """
    start = context.tiles.n[0]
    ok = True
    for k_class in range(len(context.ks)):
        if ok and is_painted(context, k_class):
            if context.dense:
                ok = _paint_dense(objects, context, k_class, slot, y_new, a, b, own, interactions)
            else:
                ok = paint_sparse(objects, context, k_class, slot, y_new, a, b, own, interactions)
    if not ok:
        context.tiles.n[0] = start
    return ok


# Nine arguments: those of `paint_near`, and the class.
@internal
def _paint_dense(
    objects: ObjectArrays,
    context: PaintContext,
    k_class: int,
    slot: int,
    y_new: float,
    a: int,
    b: int,
    own: bool,
    interactions: BatchInteractions | None,
) -> bool:
    """Paint-Dense for one class; otherwise as `paint_near`. False when `tiles` is too small."""
    scratch, tiles = context.scratch, context.tiles
    k, runs = class_k_and_runs(context, k_class)
    a, b = min(a, k), min(b, k)
    start = tiles.n[0]
    y, c = objects.y[slot], objects.c[slot]
    gone = y_new == INF
    take_prefix(scratch, k)
    n = region_strips(scratch, k, a, b, runs)
    ok = put_strips(context, n, k_class, objects.row[slot], objects.x[slot], y if gone else y_new, gone, c, True)
    if not own:
        tiles.n[0] = start
    scratch.stats[MIN_Y] += y_new > y
    more = y_new > y
    while more and ok:
        n, complete = exposed(objects, slot, k, y, c, y_new, -INF, INF, scratch)
        for e in range(n):
            hit_slot = scratch.hit[e] >> 1
            x_h = objects.x[hit_slot]
            y, c = objects.y[hit_slot], objects.c[hit_slot]
            if ok and scratch.west[k] < x_h < scratch.east[k]:
                scratch.stats[MIN_Y] += 1
                if interactions is None:
                    strips = gain_strips(scratch, k, a, b, x_h, runs)
                else:
                    recipients = recipients_of(interactions, scratch, k, objects.row[hit_slot], y, c)
                    strips = recipient_strips(interactions, scratch, k, a, b, x_h, y, c, recipients)
                scratch.stats[EXPOSED] += strips > 0
                ok = put_strips(context, strips, k_class, objects.row[hit_slot], x_h, y, y == INF, c, False)
                if scratch.hit[e] & 1:
                    b = enter(scratch.east, k, b, x_h, True)
                else:
                    a = enter(scratch.west, k, a, x_h, False)
        more = not complete
    return ok


# Nine arguments: the columns of a tile.
@inlined
def put_strips(
    context: PaintContext, n: int, k_class: int, row: int, x: float, y: float, gone: bool, c: int, own: bool
) -> bool:
    """Append the n strips as tiles of one object. False when `tiles` is too small."""
    scratch, tiles = context.scratch, context.tiles
    start = tiles.n[0]
    ok = start + n <= len(tiles.row)
    if ok:
        for t in range(n):
            # All four are read before one is written, which makes them one vector.
            l_outer, l_inner = scratch.strip[t, 0], scratch.strip[t, 1]
            r_inner, r_outer = scratch.strip[t, 2], scratch.strip[t, 3]
            at = uint64(start + t)
            tiles.side[at, 0], tiles.side[at, 1] = l_outer, l_inner
            tiles.side[at, 2], tiles.side[at, 3] = r_inner, r_outer
        tiles.n[0] = start + n
        sign(tiles, start, k_class, row, x, y, gone, c, own)
        scratch.stats[SNAP] += n
    return ok
