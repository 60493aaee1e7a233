"""The service over HTTP: posts in batches, among subscriptions that are all kept and some that are followed.

Measured against `rankcast serve` in a process of its own with its durable log, by a load generator in another.
Lists and scores are compared with a scan, and streams with lists, before speeds are reported.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bench.closed_loop import RATE_COLUMNS, Result, rate_columns, rates
from bench.feeds.workload import World, make_world
from bench.process import OURS, Checkout, Failed, Server, run_job, service
from bench.report import Report
from indexes.feeds.words import Documents

PATH = "/v1/feeds/bench"
CONNECTIONS, CHECKED, TOLERANCE = 2, 50, 1e-9

WANTED = 5_000.0
"""The target: durable posts a second, in batches."""


class Size(NamedTuple):
    """Subscriptions, posts of the window, of a request, requests of a round, rounds, streams, k.

    The window of the end begins with a round (or before all of them), within which requests may overtake each other.
    """

    subscriptions: int = 100_000
    window: int = 20_000
    batch: int = 500
    requests: int = 20
    rounds: int = 5
    streams: int = 200
    k: int = 10
    vocabulary: int = 50_000


QUICK = Size(2_000, 400, 50, 4, 2, 20, 5, 2_000)


def show(report: Report, size: Size, checkout: Checkout = OURS) -> float:
    """Fill the window of a checkout's service, subscribe, send the rounds, of which the first only warms up, and
    compare; returns the posts a second. Raises `Failed`."""
    sent = size.batch * size.requests
    world = make_world(size.subscriptions, size.window + (size.rounds + 1) * sent, size.vocabulary)
    with tempfile.TemporaryDirectory() as folder, service(Path(folder), checkout=checkout) as server:
        seconds = fill(server, world, size)
        step = max(1, size.subscriptions // size.streams)
        job = {
            "path": PATH,
            "rounds": [bodies(world, size, size.window + at * sent) for at in range(size.rounds + 1)],
            "streams": [f"s{i}" for i in range(0, step * size.streams, step)][: size.streams],
            "connections": CONNECTIONS,
            "port": server.port,
            "pid": server.pid,
        }
        found = run_job("bench.feeds.load", job)
        for result in found["rounds"]:
            if set(result["statuses"]) != {"201"}:
                raise Failed(f"posts were answered {result['statuses']}: {result['last']}")
        _compare(server, world, size)
        resident = server.resident()
    _report(report, size, found["rounds"][1:], found["changes"], seconds, resident)
    return median(rates(found["rounds"][1:], size.batch))


def fill(server: Server, world: World, size: Size) -> float:
    """Make the feed, fill its window, and add all subscriptions in one request; the seconds that took."""
    body = {"window": size.window, "bounds": [0, 0, 1, 1], "weighting": "given"}
    server.ask("PUT", PATH, json.dumps(body).encode())
    first = _table(world.posts.part(0, size.window), world.places[: size.window], "p")
    server.send_table(f"{PATH}/posts", first)
    asked = _table(world.subscriptions, world.homes, "s")
    asked = asked.append_column("k", pa.array(np.full(size.subscriptions, size.k)))
    asked = asked.append_column("alpha", pa.array(world.alpha))
    seconds = server.send_table(f"{PATH}/subscriptions?lists=false", asked)
    server.expect(PATH, "posts", size.window)
    server.expect(PATH, "subscriptions", size.subscriptions)
    return seconds


def bodies(world: World, size: Size, start: int) -> list[str]:
    """The requests of a round. The service generates ids."""
    found = []
    for at in range(start, start + size.batch * size.requests, size.batch):
        posts = []
        for i in range(at, at + size.batch):
            one = world.posts.part(i, i + 1)
            words = {_word(word): weight for word, weight in zip(one.word.tolist(), one.weight.tolist(), strict=True)}
            posts.append({"id": f"p{i}", "keywords": words, "location": world.places[i].tolist()})
        found.append(json.dumps({"posts": posts}, separators=(",", ":")))
    return found


def _word(number: int) -> str:
    """A word; in code-point order as their numbers."""
    return f"w{number:07}"


def _table(documents: Documents, places: Any, prefix: str) -> pa.Table:
    """Posts or subscriptions as columns."""
    ends = pa.array(np.concatenate([[0], documents.end]).astype(np.int32))
    words = pa.array([_word(word) for word in documents.word.tolist()])
    return pa.table(
        {
            "id": pa.array([f"{prefix}{i}" for i in range(len(documents))]),
            "x": np.ascontiguousarray(places[:, 0]),
            "y": np.ascontiguousarray(places[:, 1]),
            "keywords": pa.ListArray.from_arrays(ends, words),
            "weights": pa.ListArray.from_arrays(ends, pa.array(documents.weight)),
        }
    )


def _compare(server: Server, world: World, size: Size) -> None:
    """Compare some lists with a scan of the window. Scores may differ by rounding, and so may the order of scores that
    differ by no more."""
    end = len(world.places)
    first = end - size.window
    posts = world.posts.part(first, end)
    owner = np.repeat(np.arange(size.window), np.diff(posts.end, prepend=0))
    norms = np.sqrt(np.bincount(owner, posts.weight**2, size.window))
    for i in range(0, size.subscriptions, max(1, size.subscriptions // CHECKED)):
        asked = world.subscriptions.part(i, i + 1)
        weights = np.zeros(world.vocabulary)
        weights[asked.word] = asked.weight / np.sqrt((asked.weight**2).sum())
        shared = np.bincount(owner, weights[posts.word] * posts.weight, size.window) / norms
        away = np.hypot(*(world.places[first:] - world.homes[i]).T)
        near = np.maximum(0.0, 1 - away / np.sqrt(2.0))
        scores = np.where(shared > 0, world.alpha[i] * near + (1 - world.alpha[i]) * shared, -1.0)
        best = np.sort(scores[shared > 0])[::-1][: size.k]
        found = server.ask("GET", f"{PATH}/subscriptions/s{i}")["list"]
        numbers = np.array([int(one["id"][1:]) - first for one in found], dtype=np.int64)
        scored = np.array([one["score"] for one in found])
        right = len(scored) == len(best) and len(set(numbers.tolist())) == len(numbers)
        if not (
            right and np.allclose(scored, best, 0, TOLERANCE) and np.allclose(scores[numbers], scored, 0, TOLERANCE)
        ):
            raise Failed(f"the list of s{i} is not that of a scan")


def _report(report: Report, size: Size, results: list[Result], changes: int, seconds: float, resident: int) -> None:
    one = results[0]
    report.text(
        f"{size.subscriptions:,} subscriptions of 1 to 5 words, registered as one Arrow stream over a full window in "
        f"{seconds:.1f} s; a window of {size.window:,} posts, k = {size.k}, weights as given; {size.streams:,} lists "
        f"are followed by server-sent events ({changes:,} changes). {size.rounds} rounds of {size.requests} JSON "
        "bodies with "
        f"{size.batch:,} posts each ({one['request_bytes'] / 1024:.0f} KiB a request), {CONNECTIONS} connections that "
        "send the next when the last is answered; each answer is durable. About "
        f"{CHECKED} lists were compared with a scan, and all streams with the lists."
    )
    report.table(
        ("", "posts/s", *RATE_COLUMNS, "server CPU, us/post", "resident, MB"),
        [("service", *rate_columns(results, size.batch), f"{resident / 1e6:,.0f}")],
    )
    rate = median(rates(results, size.batch))
    report.verdict(f"{WANTED:,.0f} posts/s over HTTP in batches, durable", f"{rate:,.0f} posts/s", rate >= WANTED)
