"""Feeds on Spark and in one process: posts a second, what is sent, and the balance of partitions, by mechanism.

A batch is routed, matched, inserted into buffers, and its state written, as by `spark_jobs.feeds.stream`, except for
reading posts. Subscriptions and a full window are present before.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from statistics import median
from typing import NamedTuple

import numpy as np

from bench.feeds.workload import World, make_world
from bench.report import Report, count
from formats.folder import Folder
from indexes.feeds.config import FeedConfig
from indexes.feeds.feed import FeedIndex
from indexes.feeds.words import Documents
from spark_jobs.common.session import NoSpark, Options, Running, session
from spark_jobs.feeds.front import Counts, Posts, Subscribe
from spark_jobs.feeds.routers import MECHANISMS
from spark_jobs.feeds.steps import FeedSteps

SETTINGS = {"spark.sql.adaptive.enabled": "false"}


class SparkSize(NamedTuple):
    """Subscriptions, posts of the window, of a batch, batches that are timed, k, words, and partitions."""

    subscriptions: int = 100_000
    window: int = 20_000
    posts: int = 4_000
    batches: int = 3
    k: int = 10
    vocabulary: int = 50_000
    partitions: int = 4


QUICK = SparkSize(1_000, 400, 200, 2, 5, 1_000, 2)


class Ran(NamedTuple):
    """Seconds of a batch, and counters over all timed batches."""

    seconds: float
    routed: float  # copies of a post that are looked at
    bytes_sent: float  # a post: of the window, what is routed, copies, and hits
    hits: float  # pairs that go to another partition, a post
    read: float  # postings, a post
    balance: float  # postings read by the busiest partition over the mean


def show(report: Report, size: SparkSize, masters: tuple[str, ...] = ("local[1]", "local[2]")) -> None:
    """Measure and write a section."""
    world = make_world(size.subscriptions, size.window + (size.batches + 1) * size.posts, size.vocabulary)
    report.heading("On Spark")
    report.text(
        f"{size.subscriptions:,} subscriptions, a window of {size.window:,} posts, k = {size.k}, {size.partitions} "
        f"partitions, batches of {size.posts:,} posts; the median of {size.batches} batches, each with its state "
        "written. The last three columns are a post's, and of postings the busiest partition's over the mean."
    )
    report.progress("one process")
    alone = one_process(world, size)
    rows = [("one process", "", f"{size.posts / alone:,.0f}", "", "", "", "", "")]
    fastest = 0.0
    for master in masters:
        try:
            with session("Rankcast bench of feeds", Options(master, driver_memory="2g"), SETTINGS) as running:
                for mechanism in MECHANISMS:
                    report.progress(f"{mechanism} on {master}")
                    ran = on_spark(running, world, size, mechanism)
                    fastest = max(fastest, size.posts / ran.seconds)
                    rows.append(
                        (
                            mechanism,
                            master,
                            f"{size.posts / ran.seconds:,.0f}",
                            f"{ran.routed:.2f}",
                            count(ran.bytes_sent),
                            count(ran.hits),
                            count(ran.read),
                            f"{ran.balance:.2f}",
                        )
                    )
        except NoSpark as missing:
            report.text(f"Spark is not there: {missing}.")
            return
    report.table(("mechanism", "master", "posts/s", "copies", "bytes", "hits sent", "postings", "balance"), rows)
    ratio = size.posts / alone / fastest
    report.text(
        f"One process takes {ratio:.1f} times as many posts a second as the fastest of these."
        if ratio > 1
        else f"The fastest of these takes {1 / ratio:.1f} times as many posts a second as one process."
    )


def one_process(world: World, size: SparkSize) -> float:
    """Seconds of a batch of the engine alone."""
    feed = FeedIndex(FeedConfig((0, 0, 1, 1), size.window, tfidf=False))
    feed.documents([{word_of(word): 1.0 for word in range(world.vocabulary)}])
    feed.post(world.posts.part(0, size.window), world.places[: size.window])
    n = size.subscriptions
    feed.subscribe(world.subscriptions, world.homes, np.full(n, size.k), world.alpha)
    seconds = []
    for number in range(size.batches + 1):
        at = size.window + number * size.posts
        begin = time.perf_counter()
        feed.post(world.posts.part(at, at + size.posts), world.places[at : at + size.posts])
        seconds.append(time.perf_counter() - begin)
    return median(seconds[1:])


def on_spark(running: Running, world: World, size: SparkSize, mechanism: str) -> Ran:
    """Run all batches; the first is not timed."""
    with tempfile.TemporaryDirectory(prefix="rankcast-bench-") as folder:
        config = FeedConfig((0, 0, 1, 1), size.window, tfidf=False)
        steps = FeedSteps.open(Folder.at(Path(folder)), config, mechanism, size.partitions)
        n = size.subscriptions
        ids = [f"s{i}" for i in range(n)]
        asks = bags(world.subscriptions)
        everyone = Subscribe(ids, asks, world.homes, np.full(n, size.k, np.int64), world.alpha)
        steps.take(running, -1, [_posts(world, 0, size.window), everyone], 0, 0, None)
        seconds, before = [], Counts(**vars(steps.front.counts))
        for number in range(size.batches + 1):
            at = size.window + number * size.posts
            posts = _posts(world, at, at + size.posts)
            begin = time.perf_counter()
            steps.take(running, number, [posts], number, 0, None)
            seconds.append(time.perf_counter() - begin)
            if number == 0:
                counts = steps.front.counts
                before = Counts(**{**vars(counts), "read": list(counts.read)})
        after, posted = steps.front.counts, size.batches * size.posts
        sent = sum(
            getattr(after, name) - getattr(before, name)
            for name in ("bytes_routed", "bytes_window", "bytes_copies", "bytes_hits")
        )
        read = np.array(after.read) - np.array(before.read)
        return Ran(
            median(seconds[1:]),
            (after.routed - before.routed) / posted,
            sent / posted,
            (after.hits - before.hits) / posted,
            float(read.sum()) / posted,
            float(read.max() / max(1.0, read.mean())),
        )


def bags(documents: Documents) -> list[dict[str, float]]:
    """Documents as bags, whose words are in the order of their numbers."""
    word, weight = [word_of(w) for w in documents.word.tolist()], documents.weight.tolist()
    end = documents.end.tolist()
    return [
        dict(zip(word[begin:upto], weight[begin:upto], strict=True))
        for begin, upto in zip([0, *end][:-1], end, strict=True)
    ]


def word_of(number: int) -> str:
    """The words of the world, in order of number."""
    return f"{number:09}"


def _posts(world: World, first: int, end: int) -> Posts:
    some = bags(world.posts.part(first, end))
    ids = [f"p{number}" for number in range(first, end)]
    return Posts(ids, some, world.places[first:end], np.zeros(end - first, np.int64))
