"""The costs of evaluating subscriptions and of entering posts on this machine, measured on a feed's own window.

    cost of an evaluation = evaluation + posting * postings read

by least squares over groups of subscriptions that read about as many postings. The cost of an entry is the time of
publishing posts, less that of finding their recipients and of evaluations, over the number of entries.
"""

from __future__ import annotations

import time

import numpy as np

from indexes.feeds.base import MANY
from indexes.feeds.config import FeedConfig
from indexes.feeds.feed import FeedIndex
from indexes.feeds.kernels.buffers import EVALUATED, READ
from indexes.feeds.kernels.scratch import HITS
from indexes.feeds.kernels.step import evaluate_some
from indexes.feeds.kernels.window import NEXT
from indexes.feeds.state import FeedState

GROUP = 64
"""Subscriptions that are evaluated together."""

ROUNDS = 5
"""Repetitions; the fastest counts."""

POSTS = 2_000
"""Posts that are published again, at most."""


def costs_of(state: FeedState, sample: int) -> dict[str, float | None]:
    """`evaluation`, `posting` and `entry` in microseconds; None for a feed that is too small to measure."""
    found: dict[str, float | None] = {"evaluation": None, "posting": None, "entry": None}
    n = len(state.subscriptions)
    # From `MANY` on posts would be served in two threads, and times would be of both.
    rows = np.sort(np.random.default_rng(0).permutation(n)[: min(sample, MANY - 1)]).tolist()
    if len(rows) < 2 * GROUP or len(state.posts) < 2 * GROUP:
        return found
    config = state.config
    feed = FeedIndex(FeedConfig(config.bounds, posts=len(state.posts), tfidf=config.tfidf, buffer=config.buffer))
    posts = feed.documents_of(state.posts.keywords)
    feed.post(posts, state.posts.points)
    some = state.subscriptions.take(rows)
    asked = feed.documents_of(some.keywords)
    slots = feed.subscribe(asked, some.points, some.k, some.alpha)
    read, seconds = _evaluated(feed, slots)
    # Relative errors, so that short evaluations weigh as much as long ones.
    design = np.column_stack([np.ones(len(read)), read]) / seconds[:, None]
    (evaluation, posting), *_ = np.linalg.lstsq(design, np.ones(len(read)), rcond=None)
    found["evaluation"], found["posting"] = round(1e6 * evaluation, 3), round(1e6 * posting, 5)
    again = min(POSTS, len(posts))
    feed.scratch.counted[:] = 0
    before = feed.evaluation.size.copy()
    began = time.thread_time()
    feed.post(posts.part(0, again), state.posts.points[:again])
    whole = time.thread_time() - began
    evaluated, postings = (feed.evaluation.size - before)[[EVALUATED, READ]].tolist()
    hits, end = int(feed.scratch.counted[HITS]), int(feed.window.size[NEXT])
    began = time.thread_time()
    feed.subscription_index.find(feed.state, end - again, end)
    whole -= time.thread_time() - began + evaluated * evaluation + postings * posting
    if hits:
        found["entry"] = round(max(0.0, 1e6 * whole / hits), 3)
    return found


def _evaluated(feed: FeedIndex, slots: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Postings read, and seconds, of an evaluation: means of groups of subscriptions that read about as many."""
    counted = []
    for slot in slots.tolist():
        before = int(feed.evaluation.size[READ])
        evaluate_some(feed.state, np.array([slot]), 0, 1)
        counted.append(int(feed.evaluation.size[READ]) - before)
    order = np.argsort(counted, kind="stable")
    groups = [slots[order[at : at + GROUP]] for at in range(0, len(order) - GROUP + 1, GROUP)]
    sizes = [np.mean(np.array(counted)[order[at : at + GROUP]]) for at in range(0, len(order) - GROUP + 1, GROUP)]
    best = np.full(len(groups), np.inf)
    for _ in range(ROUNDS):
        for i, group in enumerate(groups):
            began = time.thread_time()
            evaluate_some(feed.state, group, 0, len(group))
            best[i] = min(best[i], (time.thread_time() - began) / len(group))
    return np.array(sizes), np.maximum(best, 1e-9)
