"""The indexes of a shard, which publishes posts in rounds: lists are exact at the end of each.

All posts enter the window, but recipients are only looked for among the posts that were routed here, or were found by
other shards. Theta never falls within a round: subscriptions that lack posts are evaluated at its end. So routing the
posts of a round by the thetas at its begin omits no post that matters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from indexes.compiled.jit import kernel
from indexes.core.arrays import Bytes, Floats, Ints
from indexes.feeds.kernels.cells import Cells
from indexes.feeds.kernels.postings import Postings
from indexes.feeds.kernels.recipients import find_ordered, move_hits
from indexes.feeds.kernels.scratch import AT, PHASE
from indexes.feeds.kernels.step import (
    DONE,
    ENTER,
    FIND,
    REPORT,
    StepState,
    begin_post,
    end_post,
    room_for_hits,
    slide,
    take_in,
)
from indexes.feeds.kernels.subscriptions import ROW, THETA, Table
from indexes.feeds.kernels.window import NEXT, Batch
from indexes.feeds.subscription_index import OrderedIndex, SubscriptionIndex


class Hits(NamedTuple):
    """The recipients of posts by the thetas of some time, in order of posts."""

    end: Ints  # by post: where its hits end
    slot: Ints
    score: Floats


class RoutedIndex(OrderedIndex):
    """Threshold-ordered postings that are read for the posts that were routed here."""

    routed: Bytes = np.empty(0, np.uint8)
    """By post of the next batch."""

    def build(self, table: Table, order: Ints, tree: Cells | None = None) -> None:
        """As `OrderedIndex.build`. Each shard has its processor, and is served in one part."""
        super().build(table, order, tree)
        self.middle = None

    def post(self, state: StepState, batch: Batch, window_posts: int, most_entries: int) -> int:
        """As `SubscriptionIndex.post`; nobody is evaluated."""
        return post_routed(self.arrays, self.cells, self.routed, state, batch, window_posts)


class GivenIndex(SubscriptionIndex):
    """Finds nothing: the recipients of posts are given."""

    hits = Hits(np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0))
    """Of the next batch."""

    def post(self, state: StepState, batch: Batch, window_posts: int, most_entries: int) -> int:
        """As `SubscriptionIndex.post`; nobody is evaluated."""
        return post_given(self.hits, state, batch, window_posts)


@kernel
def post_routed(
    postings: Postings, cells: Cells, routed: Bytes, state: StepState, batch: Batch, window_posts: int
) -> int:
    """As `recipients.post_ordered`, for the posts that were routed here; the others only enter the window. Nobody is
    evaluated."""
    window, table, owners, scratch = state.window, state.table, state.owners, state.scratch
    status = DONE
    while status == DONE and scratch.size[AT] < batch.end.size:
        if scratch.size[PHASE] == ENTER:
            begin_post(window, table, scratch, batch)
        if scratch.size[PHASE] == FIND:
            hits = 0
            if routed[scratch.size[AT]]:
                hits = find_ordered(postings, cells, window, table, scratch, window.size[NEXT] - 1, state.diagonal)
            status = room_for_hits(owners, scratch, hits)
            if status == DONE:
                raised = take_in(window, table, state.limits, owners, scratch, hits)
                move_hits(postings, table, scratch, raised)
                slide(window, table, owners, scratch, window_posts)
                scratch.size[PHASE] = REPORT
        if scratch.size[PHASE] == REPORT:
            status = end_post(table, scratch, batch)
    return status


@kernel
def post_given(given: Hits, state: StepState, batch: Batch, window_posts: int) -> int:
    """As `post_routed`, for posts whose recipients are given, by thetas that have only risen since."""
    window, table, owners, scratch = state.window, state.table, state.owners, state.scratch
    status = DONE
    while status == DONE and scratch.size[AT] < batch.end.size:
        if scratch.size[PHASE] == ENTER:
            begin_post(window, table, scratch, batch)
        if scratch.size[PHASE] == FIND:
            at, hits = scratch.size[AT], 0
            for i in range(given.end[at - 1] if at else 0, given.end[at]):
                if given.score[i] >= table.row[given.slot[i] * ROW + THETA]:
                    scratch.hit[hits], scratch.hit_score[hits] = given.slot[i], given.score[i]
                    hits += 1
            status = room_for_hits(owners, scratch, hits)
            if status == DONE:
                take_in(window, table, state.limits, owners, scratch, hits)
                slide(window, table, owners, scratch, window_posts)
                scratch.size[PHASE] = REPORT
        if scratch.size[PHASE] == REPORT:
            status = end_post(table, scratch, batch)
    return status
