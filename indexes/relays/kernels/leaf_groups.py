"""Groups of leaves of the k-d tree, whose corners are compared all at once.

A group is up to 64 leaves, all of those below one inner node, its root, which has a bucket for them: codes of the
corners of leaves as a leaf's bucket has codes of points. Lanes are given in order of the tree, and those that become
free are given again. A corner that has risen since codes were spread may have the greatest code, as others do.

A node of at most `WHOLE` times `full` points that is rebuilt becomes the root of a group of 32 leaves at most, with
lanes for as many more; where these run out, the group is split between the children of its root. An inner node above
groups with no more than `LEAST` times `full` points is rebuilt, so that by the balance of the tree a group keeps a
quarter of that. Only where the whole tree is one leaf is that in no group.
"""

from __future__ import annotations

from indexes.compiled.jit import internal
from indexes.compiled.masks import BLOCK, SHIFT, first_lane, lane
from indexes.compiled.simd import bit_count
from indexes.core.arrays import int64
from indexes.relays.kernels.kd_arrays import FULL, WIDTH, KdTree, free_bucket, spread_codes, take_bucket, write_codes

WHOLE, LEAST = 24, 6
"""Points of a group that is made, at most, and of a node above groups, more than that; in buckets of `full`."""


@internal
def take_group(tree: KdTree, root: int) -> int:
    """The bucket of a new group of this root, without leaves."""
    group = take_bucket(tree)
    tree.taken[group] = 0
    tree.bucket[root] = group
    return group


@internal
def add_leaf(tree: KdTree, group: int, node: int) -> None:
    """Give a leaf the first free lane of a group; its codes are still to be written."""
    at = int64(first_lane(~tree.taken[group]))
    tree.taken[group] |= lane(at)
    tree.held[group * BLOCK + at] = node
    tree.place[node] = group * BLOCK + at


@internal
def remove_leaf(tree: KdTree, node: int) -> None:
    """Take a leaf out of its group, if it is in one."""
    at = int64(tree.place[node])
    if at >= 0:
        tree.taken[at >> SHIFT] &= ~lane(at & BLOCK - 1)
        tree.place[node] = -1


@internal
def write_corner(tree: KdTree, node: int) -> None:
    """Write the codes of the corner of a leaf, if it is in a group. O(coordinates)."""
    at = int64(tree.place[node])
    if at >= 0:
        write_codes(tree, at >> SHIFT, at & BLOCK - 1, tree.corner, node * tree.size[WIDTH])


@internal
def is_doubled(tree: KdTree, group: int) -> bool:
    """Whether a group has 1, 2, 4, ... leaves."""
    leaves = bit_count(tree.taken[group])
    return leaves & (leaves - 1) == 0


@internal
def spread_corners(tree: KdTree, group: int) -> None:
    """Spread the codes of a group over the corners that its leaves have. O(64 coordinates)."""
    spread_codes(tree, group, tree.taken[group], tree.corner)


@internal
def _gather(tree: KdTree, root: int) -> None:
    """Make all leaves below an inner node a group."""
    group, stack = take_group(tree, root), tree.stack
    stack[0] = root
    sp = 1
    while sp > 0:
        sp -= 1
        w = int64(stack[sp])
        if tree.left[w] >= 0:
            stack[sp] = tree.right[w]
            stack[sp + 1] = tree.left[w]
            sp += 2
        elif tree.bucket[w] >= 0:
            add_leaf(tree, group, w)
    spread_corners(tree, group)


@internal
def group_for(tree: KdTree, node: int, count: int) -> int:
    """The bucket of the group that a node is below, with lanes for the leaves of so many points; -1 if it is below
    none. The node is a leaf without a bucket. Where there are too few lanes the group is split, which is
    O(coordinates) a leaf, amortised."""
    leaves = 1
    while 4 * count > 3 * leaves * tree.size[FULL]:
        leaves *= 2
    found = int64(-2)
    while found == -2:
        root = int64(node)
        while root >= 0 and tree.bucket[root] < 0:
            root = int64(tree.up[root])
        found = int64(tree.bucket[root]) if root >= 0 else -1
        if found >= 0 and bit_count(tree.taken[found]) + leaves > BLOCK:
            free_bucket(tree, root)
            for child in (int64(tree.left[root]), int64(tree.right[root])):
                if tree.left[child] >= 0:
                    _gather(tree, child)
                elif child != node:
                    tree.place[child] = -1
            found = -2
    return found
