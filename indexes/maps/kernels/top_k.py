"""The k best objects at a place: best-first over nodes, whole leaves at once.

The key of a node is a lower bound of the scores of all objects below it. Nodes are opened in order of key as long as
one may contain an object of the list; the scores of a leaf are computed block by block, and only objects that enter the
list are handled one by one. So there is no queue of objects, and few nodes wait. Ties go to the object created first.

All computed scores are kept, in runs, and so are all nodes that were not opened: the search for a zone (`top_zone.py`)
continues from there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.simd import LANES, lanes_upto, low_bit
from indexes.core.arrays import Floats, Ints, int64
from indexes.maps.kernels.floats import float_inlined, float_internal, float_kernel
from indexes.maps.kernels.heaps import Ages, drop_first, older, push
from indexes.maps.kernels.metrics import distance
from indexes.maps.kernels.object_index import BLOCK, BLOCKS, LEAVES, TOMBSTONES, View
from indexes.maps.kernels.scores import Scoring, bound_nodes, score_objects
from indexes.maps.kernels.top_scratch import FOUND, NODES, TopScratch


class Tops(NamedTuple):
    """The k best at each of q points, by row: their slots, scores (infinite where there is none) and distances."""

    slots: Ints  # (q, k)
    scores: Floats  # (q, k)
    far: Floats  # (q, k)
    number: Ints  # (q,) how many there are


@float_internal
def place_of(view: View, i: int) -> tuple[float, float]:
    """The place of object i."""
    n = view.base.slot.size
    if i < n:
        x, y = view.base.x[i], view.base.y[i]
    else:
        x, y = view.delta.x[i - n], view.delta.y[i - n]
    return x, y


@float_internal
def slot_of(view: View, i: int) -> int:
    """The slot of object i."""
    n = view.base.slot.size
    return int64(view.base.slot[i] if i < n else view.delta.slot[i - n])


@float_inlined
def is_leaf(view: View, node: int) -> bool:
    """Whether the children of a node are objects: it is a leaf of the base, or a block of the delta."""
    return node >= view.size[LEAVES]


@float_inlined
def score_leaf(
    view: View, scoring: Scoring, qx: float, qy: float, node: int, scratch: TopScratch, run: int
) -> tuple[int, int]:
    """Append the scores of a leaf to those of all runs, as run number `run`; tombstones get NaN. Returns where they
    begin and end, both at blocks."""
    nodes, at = view.first.size, scratch.runs.at[run]
    if node < nodes:
        first, end = int64(view.first[node]), int64(view.end[node])
        score_objects(scoring, qx, qy, view.base, first, end, scratch.runs.score, at)
        if view.size[TOMBSTONES] > 0:
            for i in range(first, end):
                if view.dead[i]:
                    scratch.runs.score[at + i - first] = np.nan
        scratch.runs.first[run] = first
    else:
        first = (node - nodes) * BLOCK
        end = int64(view.block_end[node - nodes])
        score_objects(scoring, qx, qy, view.delta, first, end, scratch.runs.score, at)
        scratch.runs.first[run] = view.base.slot.size + first
    stop = at + end - first
    upto = at + (end - first + LANES - 1) // LANES * LANES
    for t in range(stop, upto):
        scratch.runs.score[t] = np.nan
    scratch.runs.at[run + 1] = upto
    scratch.counted[NODES] += 1
    return at, upto


@float_inlined
def bound_children(
    view: View, scoring: Scoring, qx: float, qy: float, node: int, scratch: TopScratch
) -> tuple[int, int]:
    """Write the keys of the children of a node to `bound`; returns the first child, and the end."""
    first, end = int64(view.first[node]), int64(view.end[node])
    bound_nodes(scoring, qx, qy, view.nodes, first, end, scratch.bound)
    scratch.counted[NODES] += 1
    return first, end


@float_internal
def insert_best(ages: Ages, scores: Floats, best: Ints, found: int, most: int, score: float, i: int) -> int:
    """Insert object i into the list of the best `most`, which has `found`; returns its new length."""
    j = found
    room = True
    if found == most:
        j = most - 1
        room = score < scores[j] or (score == scores[j] and older(ages, i, best[j]))
    else:
        found += 1
    if room:
        up = j > 0
        while up:
            other = scores[j - 1]
            if other > score or (other == score and older(ages, i, best[j - 1])):
                scores[j] = other
                best[j] = best[j - 1]
                j -= 1
                up = j > 0
            else:
                up = False
        scores[j] = score
        best[j] = i
    return found


@float_internal
def search(view: View, scoring: Scoring, qx: float, qy: float, most: int, scratch: TopScratch) -> tuple[int, int, int]:
    """Fill the list with the best `most` objects; returns the numbers of runs, of queued nodes and of deferred nodes.
    FOUND is the length of the list."""
    key, node, score = scratch.key, scratch.node, scratch.runs.score
    best_score, best = scratch.best_score, scratch.best
    ages = Ages(view.base.slot, view.delta.slot, view.created)
    found = runs = late = 0
    scratch.runs.at[0] = 0
    key[0] = -np.inf
    node[0] = 0
    n = 1
    # The base first: most blocks of the delta are behind what is found in it, and need not wait in the queue.
    first, end = int64(0), int64(0)
    blocks = view.size[BLOCKS]
    going = True
    while going:
        if n > 0 and not (found == most and key[0] > best_score[most - 1]):
            e = node[0]
            drop_first(key, node, n)
            n -= 1
            if is_leaf(view, e):
                at, upto = score_leaf(view, scoring, qx, qy, e, scratch, runs)
                start = scratch.runs.first[runs]
                runs += 1
                for block in range(at, upto, LANES):
                    mask = lanes_upto(score, block, best_score[most - 1] if found == most else np.inf)
                    while mask != 0:
                        t = block + low_bit(mask)
                        mask &= mask - 1
                        found = insert_best(ages, best_score, best, found, most, score[t], start + t - at)
            else:
                first, end = bound_children(view, scoring, qx, qy, e, scratch)
        elif blocks > 0:
            bound_nodes(scoring, qx, qy, view.blocks, 0, blocks, scratch.bound)
            first = int64(view.first.size)
            end = first + blocks
            blocks = 0
        else:
            going = False
        for c in range(first, end):
            k = scratch.bound[c - first]
            if found == most and k > best_score[most - 1]:
                scratch.late_key[late] = k
                scratch.late_node[late] = c
                late += 1
            else:
                push(key, node, n, k, c)
                n += 1
        end = first
    scratch.counted[FOUND] = found
    return runs, n, late


@float_kernel
def tops(view: View, scoring: Scoring, points: Floats, k: int, scratch: TopScratch, found: Tops) -> None:
    """Write the k best at each of the points (q, 2)."""
    for q in range(len(points)):
        qx, qy = points[q, 0], points[q, 1]
        search(view, scoring, qx, qy, k, scratch)
        found.number[q] = scratch.counted[FOUND]
        for i in range(scratch.counted[FOUND]):
            x, y = place_of(view, scratch.best[i])
            found.slots[q, i] = slot_of(view, scratch.best[i])
            found.scores[q, i] = scratch.best_score[i]
            found.far[q, i] = distance(scoring.metric, qx, qy, x, y)
