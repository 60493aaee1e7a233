"""The cost of a post by number of subscriptions, k, window, alpha and words; and the effect of each pruning rule of
groups ([Spatial-keyword] 5.2).

Within a row both indexes serve the same feed, one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import NamedTuple

import numpy as np

from bench.baselines.compared_feeds import GROUPS, RULES, ComparedIndex
from bench.feeds.rounds import Round, feed_of, find_by, measure
from bench.feeds.workload import World, make_world
from bench.report import Report, count, ratio
from indexes.feeds.base import DIVIDED
from indexes.feeds.feed import FeedIndex
from indexes.feeds.subscription_index import OrderedIndex, SubscriptionIndex


class Setting(NamedTuple):
    """Subscriptions, k, posts of the window, alpha (below 0: uniform), and how many words a subscription has."""

    subscriptions: int = 100_000
    k: int = 10
    window: int = 20_000
    alpha: float = -1.0
    words: tuple[int, int] = (1, 5)


BASE = Setting()

TRENDS = {
    "subscriptions": [BASE._replace(subscriptions=n) for n in (10_000, 100_000, 300_000, 1_000_000)],
    "k": [BASE._replace(k=k) for k in (1, 5, 20, 50)],
    "posts of the window": [BASE._replace(window=window) for window in (5_000, 80_000)],
    "alpha": [BASE._replace(alpha=alpha) for alpha in (0.1, 0.5, 0.9)],
    "words of a subscription": [BASE._replace(words=(n, n)) for n in (1, 3, 5)],
}
"""By the parameter that varies. The base is the row of 100,000 subscriptions."""

FIELDS = dict(zip(TRENDS, Setting._fields, strict=True))
"""The field of a setting, by parameter."""


class Size(NamedTuple):
    """What is run: the settings, rounds of an index, posts of a round, and words."""

    trends: dict[str, list[Setting]] = TRENDS
    base: Setting = BASE
    rounds: int = 3
    posts: int = 1_000
    vocabulary: int = 50_000


_SMALL = Setting(300, 3, 60, -1.0, (1, 3))

QUICK = Size({"subscriptions": [_SMALL], "alpha": [_SMALL._replace(alpha=0.5)]}, _SMALL, 1, 30, 500)


def show(report: Report, size: Size) -> None:
    """Run every setting, and the base without each of the rules."""
    report.heading("By size", 3)
    report.text(
        f"Threshold-ordered postings, and groups with leaves of 1000, on {size.base.subscriptions:,} subscriptions of "
        f"{size.base.words[0]} to {size.base.words[1]} words, k = {size.base.k}, a window of {size.base.window:,} "
        f"posts and uniform alpha but for what a row says; microseconds of thread time a post, from {DIVIDED:,} "
        f"subscriptions on that of the longer of two threads with the former, the median "
        f"of {size.rounds} rounds of {size.posts:,} posts."
    )
    rows = []
    for what, settings in size.trends.items():
        for setting in settings:
            value = _shown(getattr(setting, FIELDS[what]))
            report.progress(f"{what}: {value}")
            ours, theirs = _by_both(setting, size)
            rows.append(
                (what, value, *_row(ours), *_row(theirs), ratio(theirs.find / ours.find), count(ours.evaluated))
            )
    head = (
        "what", "value", "us to find", "us in all", "posts/s", "groups, us to find", "us in all", "posts/s",
        "found faster by", "evaluated a post",
    )  # fmt: skip
    report.table(head, rows, text=("what", "value"))
    _show_rules(report, size)


def _shown(value: float | tuple[int, int]) -> str:
    if isinstance(value, tuple):
        return str(value[0])
    return f"{value:,}" if value >= 1 else str(value)


def _row(one: Round) -> tuple[str, str, str]:
    return f"{one.find:.1f}", f"{one.whole:.1f}", f"{1e6 / one.whole:,.0f}"


def _show_rules(report: Report, size: Size) -> None:
    report.heading("Without a rule", 3)
    report.text(
        "Groups with leaves of 1000, with all pruning rules, without one of them, and with none: Lemma 6 for "
        "whole cells, Theorem 5.3 for groups, 5.4 for the rest of a group, and bounds of single postings."
    )
    world, feed = feed_without_index(size.base, size, (len(RULES) + 2) * (size.rounds + 1))
    at, rows = size.base.window, []
    sets = {"all": RULES, **{f"no {rule}": tuple(r for r in RULES if r != rule) for rule in RULES}, "none": ()}
    for name, rules in sets.items():
        report.progress(name)
        one = measured(feed, world, ComparedIndex(GROUPS, rules), at, size)
        at += (size.rounds + 1) * size.posts
        rows.append((name, f"{one.find:.1f}", count(one.visited), count(one.scored), count(one.hits)))
    report.table(("rules", "us to find", "postings", "scores", "hits"), rows, text=("rules",))


def _by_both(setting: Setting, size: Size) -> tuple[Round, Round]:
    world, feed = feed_without_index(setting, size, 2 * (size.rounds + 1))
    ours = measured(feed, world, OrderedIndex(), setting.window, size)
    at = setting.window + (size.rounds + 1) * size.posts
    return ours, measured(feed, world, ComparedIndex(GROUPS), at, size)


def feed_without_index(setting: Setting, size: Size, rounds: int) -> tuple[World, FeedIndex]:
    """A feed whose subscriptions are not indexed yet, and posts for so many rounds."""
    n = setting.subscriptions
    world = make_world(n, setting.window + rounds * size.posts, size.vocabulary, setting.words)
    feed = feed_of(world, setting.window)
    alpha = world.alpha if setting.alpha < 0 else np.full(n, setting.alpha)
    for _ in feed.subscribe_steps(world.subscriptions, world.homes, np.full(n, setting.k), alpha, lay_out=False):
        pass
    return world, feed


def measured(feed: FeedIndex, world: World, index: SubscriptionIndex, at: int, size: Size) -> Round:
    """Measure rounds of the posts from number `at` on; the first is not counted."""
    find_by(feed, index)
    rounds: list[Round] = []
    for first in range(at, at + (size.rounds + 1) * size.posts, size.posts):
        end = first + size.posts
        rounds.append(measure(feed, world.posts.part(first, end), world.places[first:end]))
    return _median(rounds[1:])


def _median(rounds: Iterable[Round]) -> Round:
    return Round(*(median(column) for column in zip(*rounds, strict=True)))
