"""Feeds in the summary: posts to the engine's index, epochs, and posts over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench.baselines.compared_feeds import GROUPS, ComparedIndex
from bench.commits import figures
from bench.feeds import service, speed, trends
from bench.feeds.workload import make_world
from bench.process import Checkout
from bench.report import Report, count, ratio
from bench.summary.before import Target, alternated, beside
from bench.summary.rows import NO_PROTOTYPE, Row, against, micros
from indexes.feeds.subscription_index import OrderedIndex


class Size(NamedTuple):
    """Subscriptions, and of the large feed; posts of the window, of a round, rounds; words; requests over HTTP and
    their rounds; the checkout of the commit before."""

    subscriptions: int = 100_000
    large: int = 1_000_000
    window: int = 20_000
    posts: int = 2_000
    rounds: int = 5
    vocabulary: int = 50_000
    requests: int = 20
    http_rounds: int = 5
    before: Path | None = None


QUICK = Size(posts=1_000, rounds=3, requests=10, http_rounds=2)

FEW_ROUNDS = 2
"""Of what takes long, beside the commit before."""

EPOCH_SECONDS = 0.5
LARGE = Target(3_000.0, 625.0, "3,000 posts/s", rate=True)
OVER_HTTP = Target(12_000.0, 3_067.0, "12,000 posts/s", rate=True)

WHOLE_LIMIT = "{} buffers a post that it must enter; a line of memory a candidate, and one for its words"
EPOCH_LIMIT = "one pass of the window over all subscriptions, whose scores all change, in two threads"
HTTP_LIMIT = "the processor time of the kernel and of bodies, on two cores that serve the load generator too"
GROUPED = "groups, leaf 1000"

TWO = ", in two threads, by the time of the longer"

STREAMS = 200
"""Lists that are followed over HTTP."""


def whole(size: Size) -> Iterator[Row]:
    """A post with its evaluations, beside the prototype's and groups, the index of the paper."""
    sized = speed.Size(size.subscriptions, size.window, size.posts, size.rounds, vocabulary=size.vocabulary)
    bench = speed.Bench(Report(lambda _: None), sized, None)
    world = make_world(size.subscriptions, size.window + (size.rounds + 1) * size.posts, size.vocabulary)
    ways = {
        speed.OURS: lambda: bench.ours(world, OrderedIndex()),
        GROUPED: lambda: bench.ours(world, ComparedIndex(GROUPS)),
    }
    if bench.theirs is not None:
        ways[speed.THEIRS] = bench.prototype
    found = bench.race(ways)
    mine = found[speed.OURS].whole
    its = {"a post": found[speed.THEIRS].whole} if speed.THEIRS in found else {}
    factor = its["a post"] / mine if its else 0.0
    yield Row(
        "feeds, the whole system",
        _shown(size.subscriptions, size) + TWO,
        "3 times the prototype",
        f"{ratio(factor)} times, {micros(mine)} a post" if its else f"{micros(mine)} a post",
        factor >= 3.0 if its else None,
        paper=against(mine, {"groups": found[GROUPED].whole}),
        prototype=against(mine, its) or NO_PROTOTYPE,
        limit=WHOLE_LIMIT.format(count(found[speed.OURS].hits)),
    )


def epoch(size: Size) -> Iterator[Row]:
    """A change of all weights: the post that brings it about, by the wall."""
    n, window = size.subscriptions, size.window
    seconds = figures.epochs(n, window, size.vocabulary)["seconds"]()
    sizes = {"window": window, "vocabulary": size.vocabulary}
    before = beside(size.before, "epochs", FEW_ROUNDS, subscriptions=n, **sizes).get("seconds")
    yield Row(
        "an epoch of weights",
        f"{n:,} subscriptions, a window of {window:,} posts",
        f"{EPOCH_SECONDS:g} s",
        f"{seconds:.2f} s",
        seconds <= EPOCH_SECONDS,
        limit=EPOCH_LIMIT,
        before=before.seconds() if before else "",
    )


def large(size: Size) -> Iterator[Row]:
    """A post to a feed of many subscriptions."""
    setting = trends.BASE._replace(subscriptions=size.large, window=size.window)
    sized = trends.Size(rounds=size.rounds, posts=size.posts, vocabulary=size.vocabulary)
    world, feed = trends.feed_without_index(setting, sized, size.rounds + 1)
    found = trends.measured(feed, world, OrderedIndex(), setting.window, sized)
    rate = 1e6 / found.whole
    sizes = {"window": size.window, "posts": size.posts, "vocabulary": size.vocabulary, "rounds": FEW_ROUNDS}
    before = beside(size.before, "large-feeds", FEW_ROUNDS, large=size.large, **sizes).get("post")
    yield Row(
        "feeds, many subscriptions",
        _shown(size.large, size) + TWO,
        LARGE.said(),
        f"{rate:,.0f} posts/s, {micros(found.whole)} a post, {micros(found.find)} to find",
        LARGE.met(rate, before),
        limit=WHOLE_LIMIT.format(count(found.hits)),
        before=before._replace(before=before.before / 1e6).rate(" posts/s") if before else "",
    )


def http(size: Size) -> Iterator[Row]:
    """Durable posts over HTTP, in batches; lists and streams are compared with a scan."""
    sized = service.Size(
        size.subscriptions,
        size.window,
        requests=size.requests,
        rounds=size.http_rounds,
        streams=min(STREAMS, size.subscriptions),
        vocabulary=size.vocabulary,
    )
    rate = service.show(Report(lambda _: None), sized)
    before = None
    if size.before is not None:
        theirs = Checkout.at(size.before)
        before = alternated(
            lambda: 1 / service.show(Report(lambda _: None), sized, theirs),
            lambda: 1 / service.show(Report(lambda _: None), sized),
            FEW_ROUNDS,
        )
    yield Row(
        "posts over HTTP",
        f"{size.subscriptions:,} subscriptions, {sized.batch} posts a request",
        OVER_HTTP.said(),
        f"{rate:,.0f} posts/s",
        OVER_HTTP.met(rate, before),
        limit=HTTP_LIMIT,
        before=before.rate(" posts/s") if before else "",
    )


def _shown(subscriptions: int, size: Size) -> str:
    return f"{subscriptions:,} subscriptions, a window of {size.window:,}, k = 10, {size.posts:,} posts a round"
