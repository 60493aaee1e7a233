"""Painting with several range attributes: from a change of one object to the tiles of all subscriptions it affects.

A promotion affects the subscriptions whose region holds the object and fewer than k objects that rank before it: they
receive it. A demotion affects those that had the object; they receive its new y, and, if the k-th best of the others is
now better, that one too.

The tree of a class is searched from the root. A node stores the bounds of its subscriptions' parameters, so the region
that all of those that hold the object have in common is known: if it holds k better objects, none is affected. A few
hundred better objects, all in a box around x, nearly always decide; they are fetched once a change and counted 16 at a
time, the nearest first. The rest are single subscriptions. For those whose region extends beyond that box the better
objects are counted in the tree of objects.

The next best object for a demotion is searched in the same way: among all objects of a box around x that rank between
the old and the new y, in order of rank. For a region that extends beyond the box the result is a bound, which keeps the
search in the tree of objects short.

Tiles. Those of a leaf that receive the same object are joined as long as no other one of the leaf lies in their box; if
all of a leaf receive it, the leaf's bounds are the tile, and if all of two siblings do, their parent's. The boxes of
different leaves are disjoint unless equal values lie on both sides of a cut: then a box is used only if the tree
confirms that it holds no other subscription ([Range top-k] IV-C).
"""

from __future__ import annotations

from indexes.boards.kernels.forest import STEP
from indexes.boards.space.kernels.arrays import RankChange, SpaceArrays, SpaceContext
from indexes.boards.space.kernels.points import (
    BOUND,
    DEPTH,
    NODE,
    VALUE,
    WIDEST,
    WIDTH,
    Points,
    block_at,
    count_within,
    first_lanes,
    meeting,
    next_block,
)
from indexes.boards.space.kernels.scratch import (
    CHECKS,
    COUNTS,
    FETCHES,
    FIRST_LOOK,
    NEAR,
    NODES,
    SEARCHES,
    WANTED,
    Drafts,
    SpaceScratch,
)
from indexes.boards.space.kernels.search import (
    Ranks,
    RegionAt,
    best,
    best_first,
    bounding_box,
    count_before,
    covers,
    look_around,
    near_in_box,
    near_in_region,
    nearest_first,
    worse,
)
from indexes.boards.space.kernels.shapes import BOX, MAX, every, holds, some
from indexes.boards.space.kernels.tiles import write_sides
from indexes.compiled.jit import expanded, inlined, internal, kernel
from indexes.compiled.simd import ALL, LANES, bit_count, high_bit, lanes_from, lanes_upto, low_bit
from indexes.core.arrays import INF, Floats, int64

OWN, GAINED = range(2)
MERGED = -2


@kernel
def paint(
    objects: SpaceArrays, context: SpaceContext, x: Floats, point: int, row: int, y_old: float, y_new: float, c: int
) -> int:
    """Append the tiles for an object at x[point] whose y goes from `y_old` to `y_new`; either may be +inf.

    The index of objects holds it at `y_old`, or, if that is +inf, not at all or hidden. A `y_new` equal to `y_old`
    makes the tiles of its present region. Class after class: the tiles of the object, then those of exposed objects in
    (y, created) order. Returns 1, or 0 when `tiles` or the drafts are too small; then it is as before.
    """
    regions, ks, scratch, tiles = context.regions, context.ks, context.scratch, context.tiles
    change = RankChange(x, point, row, y_old, y_new, c)
    first = tiles.n[0]
    y = min(y_old, y_new)
    kmax = int64(0)
    for cls in range(len(ks)):
        if regions.total[cls] > 0:
            kmax = max(kmax, ks[cls])
    ok = True
    if kmax > 0 and y < INF:
        want = max(4 * kmax, scratch.ahead.size[WANTED])
        look_around(objects, x, point, Ranks(-INF, int64(-1), y, c), want, scratch.ahead, scratch.box)
        nearest_first(objects, x, point, scratch.ahead, scratch.box)
        scratch.stats[FETCHES] += 1
        scratch.behind.size[NEAR] = -1
        for cls in range(len(ks)):
            if ok and ks[cls] > 0 and regions.total[cls] > 0:
                scratch.drafts.n[0] = 0
                scratch.drafts.node[:, :] = 0
                ok = _walk(objects, context, cls, change)
                ok = ok and _write(objects, context, cls, change)
    if not ok:
        tiles.n[0] = first
    return 1 if ok else 0


@expanded
def _walk(objects: SpaceArrays, context: SpaceContext, cls: int, change: RankChange) -> bool:
    """Draft the tiles of one class. False when there is no room."""
    tree = context.regions.tree
    depth, bound, p = tree.head[cls, DEPTH], tree.head[cls, BOUND], tree.head[cls, WIDTH]
    leaves = 1 << depth
    ok = True
    block, lanes = 0, first_lanes(depth)
    while block >= 0 and ok:
        mask = _nodes_around(tree, cls, context.regions.shape[cls], block, change, objects.x.shape[1]) & lanes
        down = 0
        while mask and not down and ok:
            node = block + low_bit(mask)
            mask &= mask - 1
            context.scratch.stats[NODES] += 1
            if node >= leaves:
                at = tree.head[cls, VALUE] + ((node - leaves) << STEP) * p
                doubtful = _doubtful(objects, context, cls, at, tree.cnt[tree.head[cls, NODE] + node], change)
                if doubtful:
                    ok = _leaf(objects, context, cls, node, at, doubtful, change)
            else:
                if not _filled(objects, context, cls, bound + block_at(node, p), change):
                    down = node
        block, lanes = next_block(block, down, depth)
    return ok


@expanded
def _nodes_around(tree: Points, cls: int, shape: int, block: int, change: RankChange, d: int) -> int:
    """The mask of the 16 nodes of a block that may have a region which holds the object at hand."""
    x, point = change.x, change.point
    p = tree.head[cls, WIDTH]
    at = tree.head[cls, BOUND] + block * p
    mask = ALL
    if shape == BOX:
        for j in range(d):
            mask &= lanes_upto(tree.lo, at + 2 * j * LANES, x[point, j])
            mask &= lanes_from(tree.hi, at + (2 * j + 1) * LANES, x[point, j])
    else:
        last = min(LANES, (2 << tree.head[cls, DEPTH]) - block)
        for i in range(LANES):
            if (
                i >= last
                or tree.cnt[tree.head[cls, NODE] + block + i] == 0
                or not some(shape, d, tree.lo, tree.hi, at + i, LANES, x, point)
            ):
                mask &= ~(1 << i)
    return mask


@expanded
def _filled(objects: SpaceArrays, context: SpaceContext, cls: int, at: int, change: RankChange) -> bool:
    """Whether all regions of the node at `at` that hold the object at hand also hold k of the near
    objects."""
    tree, scratch, d = context.regions.tree, context.scratch, objects.x.shape[1]
    shape, k = context.regions.shape[cls], context.ks[cls]
    x, point = change.x, change.point
    if shape == BOX:
        for j in range(d):
            scratch.box[2 * j] = min(tree.hi[at + 2 * j * LANES], x[point, j])
            scratch.box[2 * j + 1] = max(tree.lo[at + (2 * j + 1) * LANES], x[point, j])
        total = near_in_box(scratch.ahead, FIRST_LOOK, d, scratch.box, k)
    else:
        total = 0
        i = 0
        while i < min(FIRST_LOOK, scratch.ahead.size[NEAR]) and total < k:
            total += every(shape, d, tree.lo, tree.hi, at, LANES, objects.x, scratch.ahead.slot[i])
            i += 1
    return total >= k


@expanded
def _doubtful(objects: SpaceArrays, context: SpaceContext, cls: int, at: int, n: int, change: RankChange) -> int:
    """The mask of the n regions of a leaf that hold the object at hand and fewer than k near ones that rank before it,
    whose number goes to `scratch.before`."""
    tree, scratch, d = context.regions.tree, context.scratch, objects.x.shape[1]
    shape, k = context.regions.shape[cls], context.ks[cls]
    x, point = change.x, change.point
    found = (1 << n) - 1
    if shape == BOX:
        for j in range(d):
            found &= lanes_upto(tree.v, at + 2 * j * LANES, x[point, j])
            found &= lanes_from(tree.v, at + (2 * j + 1) * LANES, x[point, j])
    else:
        for i in range(n):
            if not holds(shape, d, tree.v, at + i, LANES, x, point):
                found &= ~(1 << i)
    doubtful = 0
    while found:
        i = low_bit(found)
        found &= found - 1
        region = RegionAt(shape, tree.v, at + i, LANES)
        bounding_box(region, d, scratch.box)
        if shape == BOX:
            total = near_in_box(scratch.ahead, scratch.ahead.size[NEAR], d, scratch.box, k)
        else:
            total, _ = near_in_region(objects, scratch.ahead, region, scratch.box, k)
        if total < k:
            scratch.before[i] = total
            doubtful |= 1 << i
    return doubtful


@internal
def _leaf(
    objects: SpaceArrays, context: SpaceContext, cls: int, node: int, at: int, doubtful: int, change: RankChange
) -> bool:
    """Draft the tiles of a leaf's subscriptions, whose parameters begin at `at`. False when there is no room."""
    tree, scratch, d = context.regions.tree, context.scratch, objects.x.shape[1]
    shape, k = context.regions.shape[cls], context.ks[cls]
    y = min(change.y_old, change.y_new)
    everyone = (1 << tree.cnt[tree.head[cls, NODE] + node]) - 1
    concerned = 0
    while doubtful:
        i = low_bit(doubtful)
        doubtful &= doubtful - 1
        region = RegionAt(shape, tree.v, at + i, LANES)
        bounding_box(region, d, scratch.box)
        if not covers(scratch.ahead, d, scratch.box):
            scratch.stats[COUNTS] += 1
            scratch.before[i] = count_before(objects, region, y, change.c, k, scratch.box)
        if scratch.before[i] < k:
            concerned |= 1 << i
    ok = True
    if concerned:
        ok = _draft(tree, cls, node, at, concerned, everyone, -1, scratch)
        if change.y_new > change.y_old:
            ok = ok and _expose(objects, context, cls, node, at, concerned, everyone, change)
    return ok


@expanded
def _expose(
    objects: SpaceArrays,
    context: SpaceContext,
    cls: int,
    node: int,
    at: int,
    concerned: int,
    everyone: int,
    change: RankChange,
) -> bool:
    """Draft the tiles of the objects that a leaf's subscriptions gain. False when there is no room."""
    tree, scratch, d = context.regions.tree, context.scratch, objects.x.shape[1]
    shape, k = context.regions.shape[cls], context.ks[cls]
    x, point, y_old, c = change.x, change.point, change.y_old, change.c
    y_limit, c_limit = (change.y_new, c) if change.y_new < INF else (MAX, int64(0))
    if scratch.behind.size[NEAR] < 0:
        want = max(4 * k, scratch.behind.size[WANTED])
        look_around(objects, x, point, Ranks(y_old, c, y_limit, c_limit), want, scratch.behind, scratch.box)
        best_first(objects, scratch.behind)
        scratch.stats[FETCHES] += 1
    gains = 0
    left = concerned
    while left:
        i = low_bit(left)
        left &= left - 1
        need = k - scratch.before[i]
        region = RegionAt(shape, tree.v, at + i, LANES)
        bounding_box(region, d, scratch.box)
        n, gained_slot = near_in_region(objects, scratch.behind, region, scratch.box, need)
        gained = n == need
        if not covers(scratch.behind, d, scratch.box):
            # The near objects give only a bound: no worse object is gained.
            y_bound, c_bound = (objects.y[gained_slot], objects.c[gained_slot]) if gained else (y_limit, c_limit)
            scratch.stats[SEARCHES] += 1
            own, out = objects.pos[change.row], scratch.best
            n = best(objects, region, y_bound, c_bound, own, k, out, scratch.box)
            if n == k:
                gained_slot = scratch.best[k - 1]
                gained = True
        if gained:
            gains |= 1 << i
            scratch.gain[i] = gained_slot
    ok = True
    while gains and ok:
        gained_slot = scratch.gain[low_bit(gains)]
        same = 0
        left = gains
        while left:
            i = low_bit(left)
            left &= left - 1
            if scratch.gain[i] == gained_slot:
                same |= 1 << i
        gains &= ~same
        ok = _draft(tree, cls, node, at, same, everyone, gained_slot, scratch)
    return ok


# Drafts of tiles.


@inlined
def _draft(
    tree: Points, cls: int, node: int, at: int, members: int, everyone: int, slot: int, scratch: SpaceScratch
) -> bool:
    """Draft tiles for the members of a leaf, which receive the object in `slot`, or with -1 the one at hand. False when
    there is no room."""
    drafts, p = scratch.drafts, tree.head[cls, WIDTH]
    ok = True
    separate = members == members & -members or _apart(tree, cls, node, scratch)
    if members == everyone and separate:
        ok = _open_draft(drafts, slot)
        if ok:
            _bounds(tree, tree.head[cls, BOUND] + block_at(node, p), p, drafts, drafts.n[0] - 1)
            _join_siblings(tree, cls, node, slot, scratch)
    left = 0 if members == everyone and separate else members
    while left and ok:
        i = low_bit(left)
        left &= left - 1
        ok = _open_draft(drafts, slot)
        if ok:
            offset = (drafts.n[0] - 1) * WIDEST
            for j in range(p):
                drafts.low[offset + j] = drafts.high[offset + j] = tree.v[at + i + j * LANES]
            mine = 1 << i
            rest = left
            while rest:
                i = low_bit(rest)
                rest &= rest - 1
                for j in range(p):
                    value = tree.v[at + i + j * LANES]
                    scratch.low[j] = min(drafts.low[offset + j], value)
                    scratch.high[j] = max(drafts.high[offset + j], value)
                inside = meeting(tree.v, tree.v, at, p, scratch.low, scratch.high, 0) & everyone
                if inside & ~(mine | left) == 0 and (separate or _alone(tree, cls, bit_count(inside), scratch)):
                    mine |= inside
                    left &= ~inside
                    rest &= ~inside
                    for j in range(p):
                        drafts.low[offset + j], drafts.high[offset + j] = scratch.low[j], scratch.high[j]
    return ok


@inlined
def _open_draft(drafts: Drafts, slot: int) -> bool:
    """Begin a draft for the object in `slot`. False when there is no room."""
    ok = drafts.n[0] < len(drafts.slot)
    if ok:
        drafts.slot[drafts.n[0]] = slot
        drafts.n[0] += 1
    return ok


@inlined
def _bounds(tree: Points, at: int, width: int, drafts: Drafts, draft: int) -> None:
    """Make the bounds of the node at `at` the box of a draft."""
    for j in range(width):
        drafts.low[draft * WIDEST + j] = tree.lo[at + j * LANES]
        drafts.high[draft * WIDEST + j] = tree.hi[at + j * LANES]


@expanded
def _join_siblings(tree: Points, cls: int, node: int, slot: int, scratch: SpaceScratch) -> None:
    """Join the last draft, which covers all of `node`, with that of its sibling, and so on upwards."""
    base, bound, p = tree.head[cls, NODE], tree.head[cls, BOUND], tree.head[cls, WIDTH]
    drafts, kind = scratch.drafts, OWN if slot < 0 else GAINED
    draft = drafts.n[0] - 1
    level = high_bit(node)
    more = node > 1
    while more:
        sibling = node ^ 1
        more = tree.cnt[base + sibling] == 0
        if not more and node & 1 and drafts.node[kind, level] == sibling:
            other = drafts.draft[kind, level]
            more = drafts.slot[other] == slot and _apart(tree, cls, node >> 1, scratch)
            if more:
                _bounds(tree, bound + block_at(node >> 1, p), p, drafts, other)
                drafts.slot[draft] = MERGED
                draft = other
        if more:
            node >>= 1
            level -= 1
            more = node > 1
    drafts.node[kind, level], drafts.draft[kind, level] = node, draft


@inlined
def _apart(tree: Points, cls: int, node: int, scratch: SpaceScratch) -> bool:
    """Whether no point outside `node` lies within its bounds."""
    base, bound, p = tree.head[cls, NODE], tree.head[cls, BOUND], tree.head[cls, WIDTH]
    at = bound + block_at(node, p)
    tied = False
    above = node
    while above > 1:
        j = tree.axis[base + (above >> 1)] * LANES
        sibling = bound + block_at(above ^ 1, p) + j
        tied |= (tree.lo[sibling] <= tree.hi[at + j]) if above & 1 == 0 else (tree.lo[at + j] <= tree.hi[sibling])
        above >>= 1
    separate = not tied
    if tied:
        separate = _alone_node(tree, cls, at, p, tree.cnt[base + node], scratch)
    return separate


@inlined
def _alone(tree: Points, cls: int, n: int, scratch: SpaceScratch) -> bool:
    """Whether the box scratch.low..scratch.high holds no more than n points of the class."""
    scratch.stats[CHECKS] += 1
    total, _ = count_within(tree, cls, scratch.low, scratch.high, 0, n + 1)
    return total == n


@inlined
def _alone_node(tree: Points, cls: int, at: int, p: int, n: int, scratch: SpaceScratch) -> bool:
    """Whether the bounds at `at` hold no more than the n points of their node."""
    for j in range(p):
        scratch.low[j], scratch.high[j] = tree.lo[at + j * LANES], tree.hi[at + j * LANES]
    return _alone(tree, cls, n, scratch)


# Writing.


@internal
def _write(objects: SpaceArrays, context: SpaceContext, cls: int, change: RankChange) -> bool:
    """Append the drafts of a class to `tiles`: the object's own, then those of exposed objects by rank. False when they
    do not fit."""
    drafts, tiles, d = context.scratch.drafts, context.tiles, objects.x.shape[1]
    shape, low, high = context.regions.shape[cls], drafts.low, drafts.high
    row, c = change.row, change.c
    gone = change.y_new == INF
    y = change.y_old if gone else change.y_new
    n = tiles.n[0]
    gained = 0
    ok = True
    for i in range(drafts.n[0]):
        if drafts.slot[i] == -1 and ok:
            ok = n < len(tiles.row)
            if ok:
                write_sides(shape, d, low, high, i * WIDEST, tiles.side, n)
                tiles.row[n], tiles.y[n], tiles.gone[n], tiles.c[n], tiles.cls[n] = row, y, gone, c, cls
                tiles.own[n] = True
                for j in range(d):
                    tiles.x[n, j] = change.x[change.point, j]
                n += 1
        elif drafts.slot[i] >= 0:
            drafts.order[gained] = i
            gained += 1
    ok = ok and n + gained <= len(tiles.row)
    if ok:
        _sort(objects, drafts, gained)
        for r in range(gained):
            i = drafts.order[r]
            gained_slot = drafts.slot[i]
            write_sides(shape, d, low, high, i * WIDEST, tiles.side, n)
            row_h, y_h, c_h = objects.row[gained_slot], objects.y[gained_slot], objects.c[gained_slot]
            tiles.row[n], tiles.y[n], tiles.gone[n], tiles.c[n], tiles.cls[n] = row_h, y_h, False, c_h, cls
            tiles.own[n] = False
            for j in range(d):
                tiles.x[n, j] = objects.x[gained_slot, j]
            n += 1
        tiles.n[0] = n
    return ok


@internal
def _sort(objects: SpaceArrays, drafts: Drafts, n: int) -> None:
    """Order the drafts order[:n] by the rank of their objects, then by their numbers (Shell's method)."""
    gap = 1
    while gap < n // 3:
        gap = 3 * gap + 1
    while gap > 0:
        for r in range(gap, n):
            i = drafts.order[r]
            y, c = objects.y[drafts.slot[i]], objects.c[drafts.slot[i]]
            to = r
            while to >= gap and _later(objects, drafts, drafts.order[to - gap], y, c, i):
                drafts.order[to] = drafts.order[to - gap]
                to -= gap
            drafts.order[to] = i
        gap //= 3


@inlined
def _later(objects: SpaceArrays, drafts: Drafts, j: int, y: float, c: int, i: int) -> bool:
    """Whether draft j comes after draft i, whose object ranks (y, c)."""
    slot_j = drafts.slot[j]
    return worse(objects.y[slot_j], objects.c[slot_j], y, c) or (objects.c[slot_j] == c and j > i)
