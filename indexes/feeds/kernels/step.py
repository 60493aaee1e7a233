"""One step of a feed: what a post, a tick or a withdrawal does to the lists.

A post enters the window and the buffers of the subscriptions that it may matter to; posts older than the window expire;
subscriptions that hold fewer than k posts then are evaluated; and changed lists are reported. A kernel that runs out of
room returns what is short, and continues where it stopped when it is called again. The loop over the posts of a batch
is that of the index which finds recipients: `recipients.post_ordered`.
"""

from __future__ import annotations

from typing import NamedTuple

from indexes.compiled.jit import inlined, internal, kernel
from indexes.compiled.simd import prefetch_line
from indexes.core.arrays import Floats, Ints, int64
from indexes.feeds.kernels.buffers import (
    Evaluation,
    evaluate,
    in_list,
    insert,
    new_evaluation,
    prefetch_buffer,
    remove,
)
from indexes.feeds.kernels.owners import (
    FREE_CELLS,
    RING_FIRST,
    RING_NEXT,
    Owners,
    empty_owners,
    own_late,
    release,
)
from indexes.feeds.kernels.scratch import (
    APART,
    AT,
    CELL,
    CELLS_END,
    CHANGED,
    EXPIRED,
    LINES_USED,
    NEXT_SHORT,
    PHASE,
    REACHED,
    ROWS_USED,
    SHORT,
    TURN,
    Scratch,
    empty_scratch,
)
from indexes.feeds.kernels.subscriptions import ENTRY, OLDEST, POSTS, ROW, THETA, Subscribers, Table
from indexes.feeds.kernels.window import FIRST, NEXT, NONE, Batch, Window, empty_window, enter, leave
from indexes.feeds.theta import BUFFERS, Buffering, Limits

DONE, RING, CELLS, LINES = range(4)
"""Results of a kernel: done, or without room in the ring of owners, for cells of owners, or in the report."""

ENTER, FIND, EVALUATE, REPORT = range(4)
"""Phases of a post."""

AS_CHANGED, AS_SHORT = 1, 2
"""Bits of `Subscribers.noted`."""

AHEAD = 8
"""Subscriptions whose buffers are prefetched."""


class StepState(NamedTuple):
    """What a step works on. `diagonal` is the distance at which spatial similarity becomes 0."""

    window: Window
    table: Subscribers
    limits: Limits
    owners: Owners
    evaluation: Evaluation
    scratch: Scratch
    diagonal: float


def empty_state() -> StepState:
    """The state of a feed without posts and subscriptions."""
    buffering = Buffering(BUFFERS[0])
    table = Table(buffering).arrays
    return StepState(
        empty_window(), table, buffering.limits, empty_owners(), new_evaluation(1, 1), empty_scratch(), 0.0
    )


@internal
def begin_post(window: Window, table: Subscribers, scratch: Scratch, batch: Batch) -> None:
    """Enter the next post of the batch into the window, unless it is there and has only to be counted."""
    begin_step(table, scratch)
    if scratch.size[APART]:
        window.size[NEXT] += 1
    else:
        enter(window, batch, scratch.size[AT])
    scratch.size[PHASE] = FIND


@kernel
def begin_step(table: Subscribers, scratch: Scratch) -> None:
    """Begin a step: nothing is marked as read, short or changed. O(what was left of the last one)."""
    begin_search(scratch)
    for i in range(scratch.size[SHORT]):
        table.noted[scratch.short[i]] = 0
    for i in range(scratch.size[CHANGED]):
        table.noted[scratch.changed[i]] = 0
    scratch.size[SHORT] = scratch.size[NEXT_SHORT] = scratch.size[CHANGED] = scratch.size[REACHED] = 0


@internal
def begin_search(scratch: Scratch) -> None:
    """Invalidate all marks, so that subscriptions can be found again."""
    scratch.size[TURN] += 1
    scratch.turn[0] = scratch.size[TURN]


@internal
def room_for_hits(owners: Owners, scratch: Scratch, hits: int) -> int:
    """DONE if the ring has room for so many owners, otherwise RING: the recipients of the post are found again then."""
    full = owners.size[RING_NEXT] - owners.size[RING_FIRST] + hits > owners.ring.size
    if full:
        begin_search(scratch)
    return RING if full else DONE


@internal
def take_in(window: Window, table: Subscribers, limits: Limits, owners: Owners, scratch: Scratch, hits: int) -> int:
    """Insert the newest post into the buffers of its recipients. Returns how many thetas that raised; of these, the
    subscriptions and former thetas are the first in `hit` and `hit_score` then."""
    raised = 0
    post, at, mask = window.size[NEXT] - 1, owners.size[RING_NEXT], owners.ring.size - 1
    place = post & (window.x.size - 1)
    owners.begin[place] = at
    owners.late[place] = NONE
    for i in range(min(AHEAD, hits)):
        prefetch_buffer(table, int64(scratch.hit[i]))
    for i in range(hits):
        if i + AHEAD < hits:
            prefetch_buffer(table, int64(scratch.hit[i + AHEAD]))
        slot, score = int64(scratch.hit[i]), scratch.hit_score[i]
        theta = table.row[slot * ROW + THETA]
        rank = insert(table, limits, slot, score, post)
        scratch.hit[raised], scratch.hit_score[raised] = slot, theta
        raised += 1 if theta != table.row[slot * ROW + THETA] else 0
        if rank != NONE:
            owners.ring[at & mask] = slot
            at += 1
            if rank < table.k[slot]:
                scratch.size[REACHED] += 1
                note_changed(table, scratch, slot)
    owners.number[place] = at - owners.begin[place]
    owners.size[RING_NEXT] = at
    return raised


@internal
def note_changed(table: Subscribers, scratch: Scratch, slot: int) -> None:
    """Note that the list of a subscription differs from that before the step, if it is followed."""
    if table.followed[slot] and table.noted[slot] & AS_CHANGED == 0:
        table.noted[slot] |= AS_CHANGED
        scratch.changed[scratch.size[CHANGED]] = slot
        scratch.size[CHANGED] += 1


@internal
def slide(window: Window, table: Subscribers, owners: Owners, scratch: Scratch, window_posts: int) -> None:
    """Expire all but the newest `window_posts` posts."""
    while window.size[NEXT] - window.size[FIRST] > window_posts:
        expire_oldest(window, table, owners, scratch)
    scratch.size[PHASE] = EVALUATE


@internal
def expire_oldest(window: Window, table: Subscribers, owners: Owners, scratch: Scratch) -> None:
    """Remove the oldest post from all buffers that are served, and from the window unless it leaves apart; note the
    subscriptions that lack posts then."""
    post, newest, mask = window.size[FIRST], window.size[NEXT] - 1, owners.ring.size - 1
    place = post & (window.x.size - 1)
    at, cell, room = owners.begin[place], int64(owners.late[place]), scratch.hit.size - 1
    end = at + owners.number[place]
    while at < end or cell != NONE:
        # Those that may hold it are collected first, so that their buffers can be fetched ahead.
        holders = 0
        while at < end and holders < room:
            prefetch_line(table.row, int64(owners.ring[(at + 2 * AHEAD) & mask]) * ROW)
            slot = int64(owners.ring[at & mask])
            scratch.hit[holders] = slot
            holders += 1 if served(table, scratch, slot, post) else 0
            at += 1
        while cell != NONE and holders < room:
            slot = int64(owners.cell[cell])
            scratch.hit[holders] = slot
            holders += 1 if served(table, scratch, slot, post) else 0
            cell = int64(owners.after[cell])
        for i in range(-AHEAD, holders):
            if i + AHEAD < holders:
                prefetch_buffer(table, int64(scratch.hit[i + AHEAD]))
            if i >= 0:
                expire_from(table, scratch, int64(scratch.hit[i]), post, newest)
    release(owners, place)
    if scratch.size[APART]:
        window.size[FIRST] += 1
    else:
        leave(window)


@inlined
def served(table: Subscribers, scratch: Scratch, slot: int, post: int) -> bool:
    """Whether an owner of a post may hold it and is served here. One that was replaced by another subscription in
    another cell may be served in another thread, and an owner there."""
    # The only part has all cells, and need not read which it is.
    cell = table.cell[slot * scratch.size[APART]]
    here = (cell >= scratch.size[CELL]) & (cell < scratch.size[CELLS_END])
    return here & (table.note[slot * ROW + OLDEST] <= post)


@inlined
def expire_from(table: Subscribers, scratch: Scratch, slot: int, post: int, newest: int) -> None:
    """Remove the oldest post from a buffer, if it is there. What then becomes the last of the list may be the newest
    post."""
    rank = remove(table, slot, post)
    if rank != NONE:
        scratch.counted[EXPIRED] += 1
        held, k = int64(table.held[slot]), int64(table.k[slot])
        if rank < k:
            note_changed(table, scratch, slot)
            if held >= k and table.tag[table.note[slot * ROW + ENTRY] + k - 1] // POSTS == newest:
                scratch.size[REACHED] += 1
        if held < k and table.complete[slot] == 0:
            note_short(table, scratch, slot)


@internal
def note_short(table: Subscribers, scratch: Scratch, slot: int) -> None:
    """Note a subscription to be evaluated in this step."""
    if table.noted[slot] & AS_SHORT == 0:
        table.noted[slot] |= AS_SHORT
        scratch.short[scratch.size[SHORT]] = slot
        scratch.size[SHORT] += 1


@kernel
def evaluate_short(state: StepState, most_entries: int) -> int:
    """Evaluate the subscriptions noted as short, and write their former thetas to `hit_score`. `most_entries` is the
    room of the largest buffer."""
    table, owners, scratch = state.table, state.owners, state.scratch
    mask, i, newest = state.window.x.size - 1, scratch.size[NEXT_SHORT], state.window.size[NEXT] - 1
    while i < scratch.size[SHORT] and owners.size[FREE_CELLS] >= most_entries:
        slot = int64(scratch.short[i])
        scratch.hit_score[i] = table.row[slot * ROW + THETA]
        scratch.size[REACHED] -= in_list(table, slot, newest)
        evaluate(state.window, table, state.limits, state.evaluation, slot, state.diagonal)
        scratch.size[REACHED] += in_list(table, slot, newest)
        own_late(table, owners, mask, slot)
        i += 1
    scratch.size[NEXT_SHORT] = i
    done = i == scratch.size[SHORT]
    if done:
        for j in range(i):
            table.noted[scratch.short[j]] &= ~AS_SHORT
        scratch.size[PHASE], scratch.size[SHORT] = REPORT, 0
    return DONE if done else CELLS


@internal
def end_post(table: Subscribers, scratch: Scratch, batch: Batch) -> int:
    """Report the followed lists that changed, and how many lists hold the newest post."""
    status = report(table, scratch, scratch.size[AT])
    if status == DONE:
        batch.reached[scratch.size[AT]] = scratch.size[REACHED]
        scratch.size[AT] += 1
        scratch.size[PHASE] = ENTER
    return status


@kernel
def report(table: Subscribers, scratch: Scratch, step: int) -> int:
    """Write a line, with its rows, for each followed list that changed."""
    lines, rows = scratch.size[CHANGED], 0
    for i in range(lines):
        slot = int64(scratch.changed[i])
        rows += min(table.held[slot], table.k[slot])
    at, line = scratch.size[ROWS_USED], scratch.size[LINES_USED]
    room = line + lines <= scratch.line_slot.size and at + rows <= scratch.row_post.size
    if room:
        for i in range(lines):
            slot = int64(scratch.changed[i])
            base = table.note[slot * ROW + ENTRY]
            for j in range(base, base + min(table.held[slot], table.k[slot])):
                scratch.row_post[at], scratch.row_score[at] = table.tag[j] // POSTS, table.score[j]
                at += 1
            scratch.line_step[line], scratch.line_slot[line], scratch.line_end[line] = step, slot, at
            line += 1
            table.noted[slot] &= ~AS_CHANGED
        scratch.size[LINES_USED], scratch.size[ROWS_USED], scratch.size[CHANGED] = line, at, 0
    return DONE if room else LINES


@kernel
def expire_until(window: Window, table: Subscribers, owners: Owners, scratch: Scratch, first: int) -> None:
    """A step that expires all posts before this one, and notes subscriptions that lack posts then. O(entries)."""
    begin_step(table, scratch)
    while window.size[FIRST] < first:
        expire_oldest(window, table, owners, scratch)
    scratch.size[PHASE] = EVALUATE


@kernel
def withdraw(window: Window, table: Subscribers, owners: Owners, scratch: Scratch, posts: Ints) -> None:
    """A step that withdraws these posts, which the window strikes then, and notes subscriptions that hold one.
    O(owners)."""
    begin_step(table, scratch)
    mask = owners.ring.size - 1
    for i in range(posts.size):
        post = posts[i]
        place = post & (window.x.size - 1)
        begin = owners.begin[place]
        for at in range(begin, begin + owners.number[place]):
            _withdraw_from(table, scratch, int64(owners.ring[at & mask]), post)
        cell = int64(owners.late[place])
        while cell != NONE:
            _withdraw_from(table, scratch, int64(owners.cell[cell]), post)
            cell = int64(owners.after[cell])
    scratch.size[PHASE] = EVALUATE


@internal
def _withdraw_from(table: Subscribers, scratch: Scratch, slot: int, post: int) -> None:
    """Remove a post, which may dominate others, from a buffer, if it is there."""
    rank = remove(table, slot, post) if served(table, scratch, slot, post) else NONE
    if rank != NONE:
        note_short(table, scratch, slot)
        if rank < table.k[slot]:
            note_changed(table, scratch, slot)


@kernel
def note_differing(table: Subscribers, scratch: Scratch, slots: Ints, end: Ints, posts: Ints, scores: Floats) -> None:
    """Note the subscriptions whose lists differ from these, which end there. O(entries)."""
    for i in range(slots.size):
        slot, begin = slots[i], end[i - 1] if i else 0
        base, n = table.note[slot * ROW + ENTRY], end[i] - begin
        same = n == min(table.held[slot], table.k[slot])
        for j in range(n):
            if same:
                same = posts[begin + j] == table.tag[base + j] // POSTS and scores[begin + j] == table.score[base + j]
        if not same:
            note_changed(table, scratch, slot)


@kernel
def evaluate_some(state: StepState, slots: Ints, first: int, end: int) -> None:
    """Evaluate subscriptions `first` to `end` - 1 of these, whatever they hold, and note those whose lists change. The
    posts that they hold have no owners then."""
    table, scratch = state.table, state.scratch
    posts, scores, at = scratch.row_post, scratch.row_score, scratch.size[ROWS_USED]
    for i in range(first, end):
        slot = slots[i]
        base, n = table.note[slot * ROW + ENTRY], int64(min(table.held[slot], table.k[slot]))
        for j in range(n):
            posts[at + j], scores[at + j] = table.tag[base + j] // POSTS, table.score[base + j]
        evaluate(state.window, table, state.limits, state.evaluation, slot, state.diagonal)
        same = n == min(table.held[slot], table.k[slot])
        for j in range(n):
            if same:
                same = posts[at + j] == table.tag[base + j] // POSTS and scores[at + j] == table.score[base + j]
        if not same:
            note_changed(table, scratch, slot)
