"""The k best objects at a place: best-first over nodes, whole leaves at once.

A node's key is what the scores of all objects below it are at least. Nodes are opened in order of key as long as one
may hold an object of the list; a leaf's scores are worked out block by block, and only those that get into the list are
touched one by one. So there is no queue of objects, and few nodes wait. Ties go to the object created first.

All scores that were worked out stay in runs, and all nodes that were passed over are kept beside: the search for a
zone (`top_zone.py`) goes on from there.
"""

from __future__ import annotations

import numpy as np

from indexes.lanes import LANES, lanes_upto, low_bit
from indexes.maps.floats import float_kernel, float_part, float_pasted
from indexes.maps.heaps import Ages, drop_first, older, push
from indexes.maps.metrics import distance
from indexes.maps.places import BLOCK, BLOCKS, LEAVES, TOMBSTONES
from indexes.maps.scores import bound_nodes, score_objects
from indexes.maps.top_room import FOUND, NODES


@float_part
def place_of(v, i):  # type: ignore[no-untyped-def]
    """Where object i is."""
    n = v.slot.size
    if i < n:
        x, y = v.x[i], v.y[i]
    else:
        x, y = v.delta_x[i - n], v.delta_y[i - n]
    return x, y


@float_part
def slot_of(v, i):  # type: ignore[no-untyped-def]
    """The slot of object i."""
    n = v.slot.size
    return np.int64(v.slot[i] if i < n else v.delta_slot[i - n])


@float_pasted
def is_leaf(v, e):  # type: ignore[no-untyped-def]
    """Whether a node has objects: a leaf of the base, or a block of the delta."""
    return e >= v.size[LEAVES]


@float_pasted
def score_leaf(v, s, qx, qy, e, w, run):  # type: ignore[no-untyped-def]
    """Write the scores of a leaf behind those of all runs before, as run number `run`; what is dead has NaN. Returns
    where they begin and end, both at blocks."""
    nodes, at = v.first.size, w.run_at[run]
    if e < nodes:
        first, end = np.int64(v.first[e]), np.int64(v.end[e])
        score_objects(s, qx, qy, v.x, v.y, v.statics, first, end, w.score, at)
        if v.size[TOMBSTONES] > 0:
            for i in range(first, end):
                if v.dead[i]:
                    w.score[at + i - first] = np.nan
        w.run_first[run] = first
    else:
        first = (e - nodes) * BLOCK
        end = np.int64(v.block_end[e - nodes])
        score_objects(s, qx, qy, v.delta_x, v.delta_y, v.delta_statics, first, end, w.score, at)
        w.run_first[run] = v.slot.size + first
    stop = at + end - first
    upto = at + (end - first + LANES - 1) // LANES * LANES
    for t in range(stop, upto):
        w.score[t] = np.nan
    w.run_at[run + 1] = upto
    w.counted[NODES] += 1
    return at, upto


@float_pasted
def bound_children(v, s, qx, qy, e, w):  # type: ignore[no-untyped-def]
    """Write the keys of a node's children to `bound`; returns the first of them, and where they end."""
    first, end = np.int64(v.first[e]), np.int64(v.end[e])
    bound_nodes(s, qx, qy, v.x0, v.y0, v.x1, v.y1, v.lower, v.upper, first, end, w.bound)
    w.counted[NODES] += 1
    return first, end


@float_part
def enter(ages, scores, best, found, most, score, i):  # type: ignore[no-untyped-def]
    """Put object i into the list of the best `most`, of which there are `found`; returns how many there are then."""
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


@float_part
def search(v, s, qx, qy, most, w):  # type: ignore[no-untyped-def]
    """Fill the list with the best `most` objects; returns how many runs, nodes that wait and nodes put off there are.
    FOUND is the length of the list."""
    key, node, score = w.key, w.node, w.score
    best_score, best = w.best_score, w.best
    ages = Ages(v.slot, v.delta_slot, v.created)
    found = runs = late = 0
    w.run_at[0] = 0
    key[0] = -np.inf
    node[0] = 0
    n = 1
    # The base first: most blocks of the delta are behind what is found in it, and need not wait in the queue.
    first, end = np.int64(0), np.int64(0)
    blocks = v.size[BLOCKS]
    going = True
    while going:
        if n > 0 and not (found == most and key[0] > best_score[most - 1]):
            e = node[0]
            drop_first(key, node, n)
            n -= 1
            if is_leaf(v, e):
                at, upto = score_leaf(v, s, qx, qy, e, w, runs)
                start = w.run_first[runs]
                runs += 1
                for block in range(at, upto, LANES):
                    mask = lanes_upto(score, block, best_score[most - 1] if found == most else np.inf)
                    while mask != 0:
                        t = block + low_bit(mask)
                        mask &= mask - 1
                        found = enter(ages, best_score, best, found, most, score[t], start + t - at)
            else:
                first, end = bound_children(v, s, qx, qy, e, w)
        elif blocks > 0:
            bx, by = v.block_x0, v.block_y0
            bound_nodes(s, qx, qy, bx, by, v.block_x1, v.block_y1, v.block_lower, v.block_upper, 0, blocks, w.bound)
            first = np.int64(v.first.size)
            end = first + blocks
            blocks = 0
        else:
            going = False
        for c in range(first, end):
            k = w.bound[c - first]
            if found == most and k > best_score[most - 1]:
                w.late_key[late] = k
                w.late_node[late] = c
                late += 1
            else:
                push(key, node, n, k, c)
                n += 1
        end = first
    w.counted[FOUND] = found
    return runs, n, late


@float_kernel
def tops(v, s, points, k, w, slots, scores, far, number):  # type: ignore[no-untyped-def]
    """For each of the points (q, 2): the slots of the k best, their scores (infinite where there is none) and
    distances, as rows of (q, k), and how many there are."""
    for q in range(len(points)):
        qx, qy = points[q, 0], points[q, 1]
        search(v, s, qx, qy, k, w)
        number[q] = w.counted[FOUND]
        for i in range(w.counted[FOUND]):
            x, y = place_of(v, w.best[i])
            slots[q, i] = slot_of(v, w.best[i])
            scores[q, i] = w.best_score[i]
            far[q, i] = distance(s.metric, qx, qy, x, y)
