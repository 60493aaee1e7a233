"""The partitions of subscriptions and the routing of posts, under four mechanisms (docs/spark.md).

hashing   a subscription is in one partition, by its number; a post is routed to all
location  a subscription is in one partition, by its place; a post is routed to those with a subscription that is near
          enough for it to matter, or that lacks posts and has one of its words
keyword   copies of a subscription are in the partitions of its words; a post is routed to those of its words that any
          subscription has
prefix    as keyword, but copies are only at words that may be the first common one with a post that matters, and a post
          is only routed for words that may be the first common one with a subscription to which it matters

Under the last two a pair is found in the partition of the first common word, and buffers are in a partition by number.
A router knows all subscriptions with their thetas at the begin of a round, within which theta does not fall.
"""

from __future__ import annotations

import heapq
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from indexes.core.arrays import Bools, Floats, Ints, Ints32
from indexes.feeds.kernels.copies import Copies, Weighed
from indexes.feeds.kernels.nearness import SLACK
from indexes.feeds.kernels.postings import LEVELS

MECHANISMS = ("hashing", "location", "keyword", "prefix")

GRID = np.linspace(1.0, 0.5, 11)
"""Lengths of a post's greatest weights for which the location router has bounds."""


def hashed(numbers: Ints, partitions: int) -> Ints:
    """The partition of each number."""
    mixed = np.asarray(numbers, np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    found: Ints = ((mixed >> np.uint64(32)) % np.uint64(partitions)).astype(np.int64)
    return found


class Router(Protocol):
    """A mechanism, for a number of partitions."""

    apart: bool
    """Whether other partitions than those with the buffers find the recipients of posts."""

    def lay_out(self, all_: Copies, order: Ints, df: Ints32) -> None:
        """Assign partitions, for these subscriptions, words in this order, and their document frequencies."""

    def owners(self, numbers: Ints, points: Floats) -> Ints:
        """The partition that holds the buffer of each of these new subscriptions."""

    def wanted(self, all_: Copies) -> tuple[Bools, NDArray[np.int16]]:
        """By subscription and partition, whether a copy is needed; and by term the partition of its postings. Only if
        `apart`."""

    def route(self, posts: Weighed, all_: Copies, owner: Ints, order: Ints) -> Bools:
        """By post and partition, whether it is routed there. `owner` is by subscription."""


def make_router(mechanism: str, partitions: int, diagonal: float, split: bool = True) -> Router:
    """The router of a mechanism, for a feed whose bounds have this diagonal; `split`: words with many postings are
    split into shards. Raises ValueError."""
    match mechanism:
        case "hashing":
            return Hashing(partitions)
        case "location":
            return Location(partitions, diagonal)
        case "keyword":
            return Keyword(partitions, split)
        case "prefix":
            return Prefix(partitions, split)
    raise ValueError(f"no mechanism is called {mechanism!r}; there are {', '.join(MECHANISMS)}")


class Hashing:
    """Every pair is found in the partition of the subscription."""

    apart = False

    def __init__(self, partitions: int) -> None:
        self.partitions = partitions

    def lay_out(self, all_: Copies, order: Ints, df: Ints32) -> None:
        """Nothing is assigned."""

    def owners(self, numbers: Ints, points: Floats) -> Ints:
        """By number."""
        return hashed(numbers, self.partitions)

    def wanted(self, all_: Copies) -> tuple[Bools, NDArray[np.int16]]:
        """There are no copies."""
        raise TypeError("subscriptions have no copies under this mechanism")

    def route(self, posts: Weighed, all_: Copies, owner: Ints, order: Ints) -> Bools:
        """To all partitions."""
        return np.ones((len(posts.end), self.partitions), bool)


class Location:
    """Regions of a k-d tree with equally many postings. They are cut for the first subscriptions, and stay."""

    apart = False

    def __init__(self, partitions: int, diagonal: float) -> None:
        self.partitions = partitions
        self.diagonal = diagonal
        self.cuts: list[tuple[int, float, int]] = []
        """For each inner node its axis, the coordinate of the cut, and the number of partitions left of it."""

    def cut(self, points: Floats, load: Floats) -> None:
        """Cut regions so that each has the same load of these places."""
        self.cuts = []

        def divide(which: Ints, partitions: int) -> None:
            if partitions == 1:
                return
            left = partitions // 2
            inside = points[which]
            spread = np.ptp(inside, axis=0) if len(which) else np.zeros(2)
            axis = int(spread[1] > spread[0])
            by = which[np.argsort(inside[:, axis], kind="stable")]
            total = np.cumsum(load[by])
            at = int(np.searchsorted(total, total[-1] * left / partitions)) if len(by) else 0
            middle = float(points[by[min(at, len(by) - 1)], axis]) if len(by) else 0.0
            self.cuts.append((axis, middle, left))
            below = inside[:, axis] < middle
            divide(which[below], left)
            divide(which[~below], partitions - left)

        divide(np.arange(len(points)), self.partitions)

    def lay_out(self, all_: Copies, order: Ints, df: Ints32) -> None:
        """Cut regions for the first subscriptions; buffers do not move later."""
        if not self.cuts and len(all_.number):
            load = np.add.reduceat(1.0 + df[all_.word], all_.begin[:-1])
            self.cut(np.column_stack([all_.x, all_.y]), load)

    def owners(self, numbers: Ints, points: Floats) -> Ints:
        """By place."""
        found = np.zeros(len(points), np.int64)
        if self.partitions == 1 or not self.cuts:
            return found
        cuts = iter(self.cuts)

        def place(which: Ints, first: int, partitions: int) -> None:
            if partitions == 1:
                found[which] = first
                return
            axis, middle, left = next(cuts)
            below = points[which, axis] < middle
            place(which[below], first, left)
            place(which[~below], first + left, partitions - left)

        place(np.arange(len(points)), 0, self.partitions)
        return found

    def wanted(self, all_: Copies) -> tuple[Bools, NDArray[np.int16]]:
        """There are no copies."""
        raise TypeError("subscriptions have no copies under this mechanism")

    def route(self, posts: Weighed, all_: Copies, owner: Ints, order: Ints) -> Bools:
        """To partitions with a subscription with a theta that is near enough for any words, by Lemma 6, or with one
        without a theta that has a word of the post."""
        n, partitions = len(posts.end), self.partitions
        if not len(all_.number):
            return np.zeros((n, partitions), bool)
        least = np.full((partitions, len(GRID)), np.inf)
        box = np.tile(np.array([np.inf, np.inf, -np.inf, -np.inf]), (partitions, 1))
        full = all_.theta > 0
        for p in range(partitions):
            here = (owner == p) & full
            if here.any():
                least[p] = _least_near(all_.theta[here], all_.alpha[here])
                x, y = all_.x[here], all_.y[here]
                box[p] = x.min(), y.min(), x.max(), y.max()
        with np.errstate(invalid="ignore"):
            dx = np.maximum(0.0, np.maximum(box[:, 0] - posts.x[:, None], posts.x[:, None] - box[:, 2]))
            dy = np.maximum(0.0, np.maximum(box[:, 1] - posts.y[:, None], posts.y[:, None] - box[:, 3]))
            near = np.maximum(0.0, 1.0 - np.hypot(dx, dy) / self.diagonal)
        longest = int(np.diff(all_.begin).max())
        length = _heaviest(posts, longest)
        level = np.searchsorted(-GRID, -(length + SLACK), side="right") - 1
        routed: Bools = near + SLACK >= least[:, np.maximum(level, 0)].T
        short = np.repeat(~full, np.diff(all_.begin))
        words = np.zeros((int(max(all_.word.max(), posts.word.max(initial=0))) + 1, partitions), bool)
        words[all_.word[short], np.repeat(owner, np.diff(all_.begin))[short]] = True
        return routed | _any(words[posts.word], posts.end)


def _least_near(theta: Floats, alpha: Floats) -> Floats:
    """By length of GRID: the least spatial similarity at which a post matters to one of these."""
    text = (1.0 - alpha)[:, None] * GRID
    wanted = theta[:, None] - SLACK - text
    with np.errstate(divide="ignore", invalid="ignore"):
        bound = np.where(alpha[:, None] > 0, wanted / alpha[:, None], np.where(wanted <= 0, -np.inf, np.inf))
    found: Floats = bound.min(axis=0)
    return found


def _heaviest(posts: Weighed, most: int) -> Floats:
    """By post, the length of its `most` greatest weights."""
    words = np.diff(posts.end, prepend=0)
    post = np.repeat(np.arange(len(words)), words)
    by = np.lexsort((-posts.weight, post))
    rank = np.arange(len(post)) - np.repeat(posts.end - words, words)
    squares = np.where(rank < most, posts.weight[by] ** 2, 0.0)
    found: Floats = np.sqrt(np.bincount(post, squares, len(words)))
    return found


def _any(rows: Bools, end: Ints) -> Bools:
    """Whether any row of each run is true, by column."""
    total = np.concatenate([np.zeros((1, rows.shape[1]), np.int64), np.cumsum(rows, axis=0)])
    found: Bools = total[end] > total[end - np.diff(end, prepend=0)]
    return found


class Keyword:
    """Words are assigned to partitions so that each reads equally many postings; words with more than half of a
    partition's share are split into shards, by number of subscription."""

    apart = True

    def __init__(self, partitions: int, split: bool = True) -> None:
        self.partitions = partitions
        self.split = split
        self.shards = np.zeros((0, partitions), np.int16)
        """By word, the partitions of its shards."""
        self.cut = np.zeros(0, np.int64)
        """By word, the number of its shards."""

    def lay_out(self, all_: Copies, order: Ints, df: Ints32) -> None:
        """Assign words in order of load, the number of subscriptions with a word times that of posts, each to the
        partitions with the least load."""
        words, partitions = len(order), self.partitions
        load = np.bincount(all_.word, minlength=words)[:words].astype(np.float64)
        load[: len(df)] *= np.maximum(1, df[:words])
        self._reserve(words)
        share = load.sum() / partitions
        heap = [(0.0, p) for p in range(partitions)]
        for word in np.argsort(-load, kind="stable")[: int((load > 0).sum())].tolist():
            pieces = min(partitions, max(1, int(np.ceil(2 * load[word] / share)))) if self.split else 1
            taken = [heapq.heappop(heap) for _ in range(pieces)]
            self.shards[word, :pieces] = [p for _, p in taken]
            self.cut[word] = pieces
            for so_far, p in taken:
                heapq.heappush(heap, (so_far + load[word] / pieces, p))

    def owners(self, numbers: Ints, points: Floats) -> Ints:
        """Buffers are by number."""
        return hashed(numbers, self.partitions)

    def wanted(self, all_: Copies) -> tuple[Bools, NDArray[np.int16]]:
        """Copies at all words."""
        at = self._at(all_)
        there = np.zeros((len(all_.number), self.partitions), bool)
        there[np.repeat(np.arange(len(all_.number)), np.diff(all_.begin)), at] = True
        return there, at

    def route(self, posts: Weighed, all_: Copies, owner: Ints, order: Ints) -> Bools:
        """To the shards of all words that subscriptions have."""
        return _any(self._words(all_, len(order))[posts.word], posts.end)

    def _at(self, all_: Copies) -> NDArray[np.int16]:
        self._reserve(int(all_.word.max(initial=-1)) + 1)
        number = hashed(np.repeat(all_.number, np.diff(all_.begin)) + 1, 1 << 20)
        found: NDArray[np.int16] = self.shards[all_.word, number % self.cut[all_.word]]
        return found

    def _words(self, all_: Copies, words: int) -> Bools:
        there = np.zeros((max(words, int(all_.word.max(initial=-1)) + 1), self.partitions), bool)
        there[all_.word, self._at(all_)] = True
        return there

    def _reserve(self, words: int) -> None:
        had = len(self.cut)
        if words > had:
            more = np.zeros((words - had, self.partitions), np.int16)
            more[:, 0] = hashed(np.arange(had, words), self.partitions)
            self.shards = np.concatenate([self.shards, more])
            self.cut = np.append(self.cut, np.ones(words - had, np.int64))


class Prefix(Keyword):
    """As `Keyword`, where a copy is only at words from which on a post could matter: alpha + (1 - alpha) l >= theta.
    Copies are only removed by the next `lay_out`."""

    def wanted(self, all_: Copies) -> tuple[Bools, NDArray[np.int16]]:
        """Copies at words that may be the first common one."""
        at = self._at(all_)
        copy = np.repeat(np.arange(len(all_.number)), np.diff(all_.begin))
        alpha = all_.alpha[copy]
        matters = alpha + (1.0 - alpha) * all_.length >= all_.theta[copy] - SLACK
        there = np.zeros((len(all_.number), self.partitions), bool)
        there[copy[matters], at[matters]] = True
        return there, at

    def route(self, posts: Weighed, all_: Copies, owner: Ints, order: Ints) -> Bools:
        """To the shards of words with which it could matter to a subscription at its own place."""
        words = self._words(all_, len(order))
        least = np.full((len(words), len(LEVELS)), np.inf)
        if len(all_.word):
            copy = np.repeat(np.arange(len(all_.number)), np.diff(all_.begin))
            by = np.argsort(all_.word, kind="stable")
            alpha, theta = all_.alpha[copy][by, None], all_.theta[copy][by, None]
            wanted = theta - SLACK - (1.0 - alpha) * np.array(LEVELS) * all_.length[by, None]
            # If alpha is 0 the place does not count, and the text part suffices or does not.
            bound = np.where(alpha > 0, wanted / np.where(alpha > 0, alpha, 1.0), np.where(wanted <= 0, 0.0, np.inf))
            first = np.flatnonzero(np.diff(all_.word[by], prepend=-1))
            least[all_.word[by][first]] = np.minimum.reduceat(bound, first, axis=0)
        count = np.diff(posts.end, prepend=0)
        post = np.repeat(np.arange(len(count)), count)
        length = _from_here_on(posts, post, order)
        level = np.searchsorted(LEVELS, length)
        matters = least[posts.word, np.minimum(level, len(LEVELS) - 1)] <= 1.0 + SLACK
        return _any(words[posts.word] & matters[:, None], posts.end)


def _from_here_on(posts: Weighed, post: Ints, order: Ints) -> Floats:
    """By term, the length of the weights of its post from it on in order of rarity."""
    by = np.lexsort((-order[posts.word], post))
    total = np.cumsum(posts.weight[by] ** 2)
    count = np.diff(posts.end, prepend=0)
    before = np.concatenate([[0.0], total])[posts.end - count]
    found = np.empty(len(by))
    found[by] = np.sqrt(np.maximum(0.0, total - np.repeat(before, count)))
    return found
