"""`rankcast bench peers`: the same updates to each peer, one after the other, and the same lists in the end."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.peers.question import POSTGRES
from bench.peers.service import RankcastPeer
from bench.peers.world import Lists, PaintPeer, Peer, Peers, UnicastPeer, lists_at, make_peers
from bench.process import Failed
from bench.report import RESULTS, Report, count, page, ratio

PAGE = RESULTS / "peers-boards.md"

REDIS = os.environ.get("RANKCAST_PEER_REDIS", "redis://127.0.0.1:6379/0")

BATCH = 1_000

WINDOW = 128
"""Updates under way on the socket."""

RANKCAST, BY_SOCKET, POSTGRESQL, REDIS_SETS = 0, 1, 3, 4
"""Rows of the table."""


class Size(NamedTuple):
    """How much is run: each peer takes updates for so many `seconds`, at most `updates`."""

    n: int = 10_000
    ms: tuple[int, ...] = (100, 10_000, 1_000_000)
    k: int = 10
    updates: int = 3_000
    batches: int = 20
    piped: int = 20_000
    seconds: float = 20.0
    compared: int = 500


QUICK = Size(n=2_000, ms=(100, 2_000), updates=200, batches=2, piped=400, seconds=3.0, compared=50)


class Measured(NamedTuple):
    """What one peer did."""

    name: str
    rate: float
    p50: float
    p99: float
    bytes_each: float
    memory: int
    updates: int


def run(quick: bool = False, out: Path | None = None, say: Callable[[str], None] = print) -> Report:
    """Measure all peers at each number of subscriptions; with `out` the page is written there.

    Raises:
        Failed: a peer cannot be reached, or its lists are not the right ones.
    """
    size = QUICK if quick else Size()
    with page("Boards and what one would use instead", "peers", quick, out, say) as report:
        report.text(
            f"n = {size.n:,} objects, k = {size.k}, m uniform subscriptions, updates of one y by a fair coin (the "
            "paper's workload), one after the other over one connection. An update ends when all recipients are "
            "notified: Rankcast answers with the tiles, PostgreSQL commits its notifications, Redis has published. "
            "Rankcast and PostgreSQL make each update durable, Redis keeps nothing. Unicast and Paint-Sparse are "
            "kernels alone, in this process, 24 bytes a message as the paper counts. After the last update the lists "
            f"of {size.compared} subscriptions are compared with a scan: all are equal, or this page is not written. "
            f"Each peer is given {size.seconds:.0f} s, or {size.updates:,} updates. Over the socket one client sends "
            f"{size.piped:,} updates, one a request, without waiting for answers: up to {WINDOW} are under way, each "
            "is answered on its own with its tiles, and its time is that from its frame to its answer."
        )
        for m in size.ms:
            _show(report, size, m)
    return report


def _show(report: Report, size: Size, m: int) -> None:
    peers = make_peers(size.n, m, size.k, size.updates + size.piped + size.batches * BATCH)
    lists = lists_at(peers, 0, np.arange(m))
    measured = [found for make in _makers(peers, lists) for found in _measure(make, peers, size)]
    report.heading(f"m = {m:,}")
    best = measured[RANKCAST].rate
    report.table(
        ("", "updates/s", "ms, p50", "p99", "bytes an update", "memory, MB", "updates", "Rankcast is faster by"),
        [
            (
                one.name,
                f"{one.rate:,.0f}" if one.rate >= 10 else f"{one.rate:.2f}",
                count(one.p50),
                count(one.p99),
                f"{one.bytes_each:,.0f}",
                f"{one.memory / 1e6:,.1f}",
                f"{one.updates:,}",
                ratio(best / one.rate),
            )
            for one in measured
        ],
    )  # fmt: skip
    socket, others = measured[BY_SOCKET], (measured[POSTGRESQL], measured[REDIS_SETS])
    report.verdict(
        f"m = {m:,}: over one socket more updates/s than PostgreSQL and than Redis",
        f"{count(socket.rate)}, " + " and ".join(f"{ratio(socket.rate / one.rate)} times" for one in others),
        all(socket.rate > one.rate for one in others),
    )
    ahead = [one.name for one in others if one.rate > best]
    if ahead:
        report.text(f"One request at a time over HTTP Rankcast is slower here than {' and '.join(ahead)}.")


def _makers(peers: Peers, lists: Lists) -> Iterator[Callable[[], Peer]]:
    from bench.peers.postgres import PostgresPeer
    from bench.peers.redis_sets import RedisPeer

    yield lambda: RankcastPeer(peers)
    yield lambda: PostgresPeer(POSTGRES, peers, lists)
    yield lambda: RedisPeer(REDIS, peers, lists)
    yield lambda: UnicastPeer(peers)
    yield lambda: PaintPeer(peers)


def _measure(make: Callable[[], Peer], peers: Peers, size: Size) -> Iterator[Measured]:
    try:
        made = make()
    except Exception as error:
        raise Failed(f"a peer cannot be set up: {error}") from error
    with closing(made) as peer:
        items, values = peers.object.tolist(), peers.new_y.tolist()
        took: list[float] = []
        sent = done = 0
        until = time.perf_counter() + size.seconds
        began = time.perf_counter()
        while done < size.updates and (time.perf_counter() < until or done == 0):
            start = time.perf_counter()
            sent += peer.update(items[done], values[done])
            took.append(time.perf_counter() - start)
            done += 1
        elapsed = time.perf_counter() - began
        _compare(peer, peers, done, size)
        p50, p99 = np.percentile(np.array(took) * 1e3, [50, 99]).tolist()
        yield Measured(peer.name, done / elapsed, p50, p99, sent / done, peer.memory(), done)
        if isinstance(peer, RankcastPeer):
            yield _by_socket(peer, peers, done, size)
            done += size.piped
            yield _in_batches(peer, peers, done, size)


def _by_socket(peer: RankcastPeer, peers: Peers, done: int, size: Size) -> Measured:
    some = slice(done, done + size.piped)
    found = peer.update_by_socket(peers.object[some].tolist(), peers.new_y[some].tolist(), WINDOW)
    _compare(peer, peers, done + size.piped, size)
    ms, updates = found["ms"], found["requests"]
    return Measured(
        f"the same over one socket, {WINDOW} under way",
        updates / found["elapsed"],
        ms["p50"],
        ms["p99"],
        found["answer_bytes"] / updates,
        peer.memory(),
        updates,
    )


def _in_batches(peer: RankcastPeer, peers: Peers, done: int, size: Size) -> Measured:
    took, sent, start = [], 0, done
    began = time.perf_counter()
    for _ in range(size.batches):
        hi = min(done + BATCH, len(peers.object))
        if hi == done:
            break
        at = time.perf_counter()
        sent += peer.update_many(peers.object[done:hi].tolist(), peers.new_y[done:hi].tolist())
        took.append(time.perf_counter() - at)
        done = hi
    elapsed = time.perf_counter() - began
    _compare(peer, peers, done, size)
    p50, p99 = np.percentile(np.array(took) * 1e3, [50, 99]).tolist()
    updates = done - start
    return Measured(
        f"the same in batches of {BATCH:,}", updates / elapsed, p50, p99, sent / updates, peer.memory(), updates
    )


def _compare(peer: Peer, peers: Peers, done: int, size: Size) -> None:
    """Raise `Failed` unless the lists of some subscriptions are right."""
    m = len(peers.l)
    some = np.random.default_rng(5).choice(m, min(m, size.compared), replace=False)
    found = peer.lists(some.tolist())
    right = lists_at(peers, done, some)
    for i, (sid, mine) in enumerate(zip(some.tolist(), found, strict=False)):
        if mine != right.rows[i, : right.length[i]].tolist():
            raise Failed(
                f"{peer.name}: the list of subscription {sid} is {mine} after {done} updates, not the right one"
            )
