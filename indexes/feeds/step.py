"""One step of a feed: what a post, a tick or a withdrawal does to the lists (design 5, "slide order").

A post is put into the window, found a way to whom it may matter, and entered into their buffers; what is older than the
window goes; whoever holds fewer than k then is evaluated; and whose list changed is told. Where room is short a kernel
returns what for, and goes on where it was when it is called again.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from indexes.feeds.buffers import evaluate, insert, remove
from indexes.feeds.owners import own_late, release
from indexes.feeds.subscribers import ENTRY, POSTS, ROW, THETA
from indexes.feeds.window import FIRST, NEXT, NONE, enter, leave, strike
from indexes.feeds.work import AT, CHANGED, EXPIRED, NEXT_SHORT, PHASE, ROWS, SHORT, TOLD, TURN
from indexes.lanes import prefetch_block
from indexes.lean import inner_kernel, lean_kernel

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

DONE, RING, CELLS, LINES = range(4)
"""How a kernel returns: done, or without room in the ring of owners, for cells of owners, or for what is told."""

ENTER, FIND, EVALUATE, TELL = range(4)
"""Phases of a post."""

FREE_CELLS = 3
"""The place in `Owners.size`."""

AHEAD = 8
"""Subscriptions whose buffers are asked for ahead."""


class Batch(NamedTuple):
    """Posts in order, and how many lists each is in right after it."""

    x: Float64
    y: Float64
    time: Int64
    end: Int64  # of its terms
    word: Int32
    weight: Float64
    reached: Int32


@inner_kernel
def begin_post(v, z, batch):  # type: ignore[no-untyped-def]
    """The next post of the batch comes into the window."""
    i = z.size[AT]
    begin_step(z)
    enter(
        v, batch.x[i], batch.y[i], batch.time[i], batch.word, batch.weight, batch.end[i - 1] if i else 0, batch.end[i]
    )
    z.size[PHASE] = FIND


@inner_kernel
def begin_step(z):  # type: ignore[no-untyped-def]
    """Nothing has been looked at, nobody is short, and no list has changed."""
    z.size[TURN] += 1
    z.turn[0] = z.size[TURN]
    z.size[SHORT] = z.size[NEXT_SHORT] = z.size[CHANGED] = 0


@inner_kernel
def room_for_hits(owners, z, hits):  # type: ignore[no-untyped-def]
    """Whether so many owners can be noted; if not, whom a post reaches will be found again."""
    begin_again = owners.size[1] - owners.size[0] + hits > owners.ring.size
    if begin_again:
        z.size[TURN] += 1
        z.turn[0] = z.size[TURN]
    return RING if begin_again else DONE


@inner_kernel
def take_in(v, s, limits, owners, z, hits):  # type: ignore[no-untyped-def]
    """The newest post comes into the buffers of those that it reaches. Writes to z.hit_score what theta each had."""
    post, at, mask = v.size[NEXT] - 1, owners.size[1], owners.ring.size - 1
    place = post & (v.x.size - 1)
    owners.begin[place] = at
    owners.late[place] = NONE
    for i in range(hits):
        if i + AHEAD < hits:
            ahead = s.note[np.int64(z.hit[i + AHEAD]) * ROW + ENTRY]
            for line in range(3):
                prefetch_block(s.score, ahead + 8 * line)
                prefetch_block(s.tag, ahead + 8 * line)
        slot, score = np.int64(z.hit[i]), z.hit_score[i]
        z.hit_score[i] = s.row[slot * ROW + THETA]
        rank = insert(s, limits, slot, score, post)
        if rank != NONE:
            owners.ring[at & mask] = slot
            at += 1
            if rank < s.k[slot]:
                note_changed(s, z, slot)
    owners.number[place] = at - owners.begin[place]
    owners.size[1] = at


@inner_kernel
def note_changed(s, z, slot):  # type: ignore[no-untyped-def]
    """The list of a subscription is another one than before the step."""
    if s.changed[slot] != z.turn[0]:
        s.changed[slot] = z.turn[0]
        z.changed[z.size[CHANGED]] = slot
        z.size[CHANGED] += 1


@inner_kernel
def slide(v, s, owners, z, window):  # type: ignore[no-untyped-def]
    """What is older than the newest `window` posts goes."""
    while v.size[NEXT] - v.size[FIRST] > window:
        expire_oldest(v, s, owners, z)
    z.size[PHASE] = EVALUATE


@inner_kernel
def expire_oldest(v, s, owners, z):  # type: ignore[no-untyped-def]
    """The oldest post goes, from the buffers too; whoever is short of posts then is noted."""
    post, mask = v.size[FIRST], owners.ring.size - 1
    place = post & (v.x.size - 1)
    begin = owners.begin[place]
    end = begin + owners.number[place]
    for at in range(begin, end):
        if at + 2 * AHEAD < end:
            prefetch_block(s.row, int(owners.ring[(at + 2 * AHEAD) & mask]) * ROW)
        if at + AHEAD < end:
            ahead = s.note[np.int64(owners.ring[(at + AHEAD) & mask]) * ROW + ENTRY]
            for line in range(3):
                prefetch_block(s.tag, ahead + 8 * line)
        expire_from(s, z, np.int64(owners.ring[at & mask]), post)
    cell = np.int64(owners.late[place])
    while cell != NONE:
        expire_from(s, z, np.int64(owners.cell[cell]), post)
        cell = np.int64(owners.after[cell])
    release(owners, place)
    leave(v)


@inner_kernel
def expire_from(s, z, slot, post):  # type: ignore[no-untyped-def]
    """The oldest post goes from a buffer, if it is there."""
    rank = remove(s, slot, post)
    if rank != NONE:
        z.counted[EXPIRED] += 1
        if rank < s.k[slot]:
            note_changed(s, z, slot)
        if s.held[slot] < s.k[slot] and s.complete[slot] == 0:
            note_short(s, z, slot)


@inner_kernel
def note_short(s, z, slot):  # type: ignore[no-untyped-def]
    """A subscription is to be evaluated in this step."""
    if s.short[slot] != z.turn[0]:
        s.short[slot] = z.turn[0]
        z.short[z.size[SHORT]] = slot
        z.size[SHORT] += 1


@inner_kernel
def evaluate_short(v, s, limits, owners, f, z, diagonal, most):  # type: ignore[no-untyped-def]
    """Evaluate those that were noted. Writes to z.hit_score what theta each had."""
    mask, i = v.x.size - 1, z.size[NEXT_SHORT]
    while i < z.size[SHORT] and owners.size[FREE_CELLS] >= most:
        slot = np.int64(z.short[i])
        z.hit_score[i] = s.row[slot * ROW + THETA]
        evaluate(v, s, limits, f, slot, diagonal)
        own_late(s, owners, mask, slot)
        i += 1
    z.size[NEXT_SHORT] = i
    done = i == z.size[SHORT]
    if done:
        z.size[PHASE] = TELL
    return DONE if done else CELLS


@inner_kernel
def end_post(v, s, z, batch):  # type: ignore[no-untyped-def]
    """Tell whose lists changed, and how many the newest post is in."""
    status = tell(s, z, z.size[AT])
    if status == DONE:
        post, reached = v.size[NEXT] - 1, 0
        for i in range(z.size[CHANGED]):
            slot = np.int64(z.changed[i])
            base = s.note[slot * ROW + ENTRY]
            for j in range(base, base + min(s.held[slot], s.k[slot])):
                reached += 1 if s.tag[j] // POSTS == post else 0
        batch.reached[z.size[AT]] = reached
        z.size[AT] += 1
        z.size[PHASE] = ENTER
    return status


@inner_kernel
def tell(s, z, step):  # type: ignore[no-untyped-def]
    """Write a line for each list that changed and is followed, and its rows. O(1) for each other that changed."""
    lines = rows = 0
    for i in range(z.size[CHANGED]):
        slot = np.int64(z.changed[i])
        if s.followed[slot]:
            lines += 1
            rows += min(s.held[slot], s.k[slot])
    room = z.size[TOLD] + lines <= z.told_slot.size and z.size[ROWS] + rows <= z.row_post.size
    if room:
        at, line = z.size[ROWS], z.size[TOLD]
        for i in range(z.size[CHANGED]):
            slot = np.int64(z.changed[i])
            if s.followed[slot]:
                base = s.note[slot * ROW + ENTRY]
                for j in range(base, base + min(s.held[slot], s.k[slot])):
                    z.row_post[at], z.row_score[at] = s.tag[j] // POSTS, s.score[j]
                    at += 1
                z.told_step[line], z.told_slot[line], z.told_end[line] = step, slot, at
                line += 1
        z.size[TOLD], z.size[ROWS] = line, at
    return DONE if room else LINES


@lean_kernel
def begin(z):  # type: ignore[no-untyped-def]
    """As `begin_step`, for who called the step."""
    begin_step(z)


@lean_kernel
def expire_until(v, s, owners, z, first):  # type: ignore[no-untyped-def]
    """A step in which all posts before this one go; whoever is short then is noted. O(entries)."""
    begin_step(z)
    while v.size[FIRST] < first:
        expire_oldest(v, s, owners, z)
    z.size[PHASE] = EVALUATE


@lean_kernel
def withdraw(v, s, owners, z, posts):  # type: ignore[no-untyped-def]
    """A step in which these posts, which are in the window, go; whoever holds one is noted. O(owners)."""
    begin_step(z)
    mask = owners.ring.size - 1
    for i in range(posts.size):
        post = posts[i]
        place = post & (v.x.size - 1)
        begin = owners.begin[place]
        for at in range(begin, begin + owners.number[place]):
            _withdraw_from(s, z, np.int64(owners.ring[at & mask]), post)
        cell = np.int64(owners.late[place])
        while cell != NONE:
            _withdraw_from(s, z, np.int64(owners.cell[cell]), post)
            cell = np.int64(owners.after[cell])
        strike(v, post)
    z.size[PHASE] = EVALUATE


@inner_kernel
def _withdraw_from(s, z, slot, post):  # type: ignore[no-untyped-def]
    """A post that may dominate others goes from a buffer, if it is there."""
    rank = remove(s, slot, post)
    if rank != NONE:
        note_short(s, z, slot)
        if rank < s.k[slot]:
            note_changed(s, z, slot)


@lean_kernel
def evaluate_noted(v, s, limits, owners, f, z, diagonal, most):  # type: ignore[no-untyped-def]
    """As `evaluate_short`, for who called the step."""
    return evaluate_short(v, s, limits, owners, f, z, diagonal, most)


@lean_kernel
def tell_noted(s, z, step):  # type: ignore[no-untyped-def]
    """As `tell`, for who called the step."""
    return tell(s, z, step)


@lean_kernel
def note_others(s, z, slots, end, posts, scores):  # type: ignore[no-untyped-def]
    """Note which of these subscriptions have another list than these, which end there. O(entries)."""
    for i in range(slots.size):
        slot, begin = slots[i], end[i - 1] if i else 0
        base, n = s.note[slot * ROW + ENTRY], end[i] - begin
        same = n == min(s.held[slot], s.k[slot])
        for j in range(n):
            if same:
                same = posts[begin + j] == s.tag[base + j] // POSTS and scores[begin + j] == s.score[base + j]
        if not same:
            note_changed(s, z, slot)


@lean_kernel
def evaluate_piece(v, s, limits, f, z, slots, first, end, diagonal):  # type: ignore[no-untyped-def]
    """Evaluate some subscriptions, whatever they hold, and note whose lists are others than before. Nobody owns what
    they hold then."""
    for i in range(first, end):
        slot = slots[i]
        base, n, size = s.note[slot * ROW + ENTRY], np.int64(min(s.held[slot], s.k[slot])), z.size
        for j in range(n):
            z.row_post[size[ROWS] + j], z.row_score[size[ROWS] + j] = s.tag[base + j] // POSTS, s.score[base + j]
        evaluate(v, s, limits, f, slot, diagonal)
        same = n == min(s.held[slot], s.k[slot])
        for j in range(n):
            if same:
                same = (
                    z.row_post[size[ROWS] + j] == s.tag[base + j] // POSTS
                    and z.row_score[size[ROWS] + j] == s.score[base + j]
                )
        if not same:
            note_changed(s, z, slot)
