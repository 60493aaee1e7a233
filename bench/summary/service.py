"""The start of a service with many subscriptions, in the summary."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.boards.service import board_service, register
from bench.durability import service as durability
from bench.process import OURS, Checkout, service
from bench.report import Report, count
from bench.summary.before import Beside, Target
from bench.summary.rows import Row


class Size(NamedTuple):
    """Objects, subscriptions, events in the log behind the image, and starts; the checkout of the commit before."""

    n: int = 10_000
    m: int = 2_000_000
    tail: int = 100_000
    starts: int = 5
    before: Path | None = None


QUICK = Size(tail=10_000, starts=3)

TARGET = Target(1.5, 3.03, "1.5 s")
LIMIT = "what every start takes, {:.2f} s without boards; then the image and the log"


class Started(NamedTuple):
    """Seconds of a start, the median and each, of one without boards, and resident bytes a subscription."""

    seconds: float
    each: list[float]
    alone: float
    bytes: float


def start(size: Size) -> Iterator[Row]:
    """From the start of the process to the first 200 of `/readyz`, from an image and the log behind it."""
    found = started(size, OURS)
    before = started(size, Checkout.at(size.before)) if size.before else None
    beside = Beside(before.seconds, before.seconds / found.seconds) if before else None
    yield Row(
        "start of a service",
        f"{size.m:,} subscriptions, an image and {size.tail:,} events behind it",
        TARGET.said(),
        f"{found.seconds:.2f} s ({', '.join(f'{one:.2f}' for one in found.each)}), {count(found.bytes)} "
        "resident bytes a subscription",
        TARGET.met(found.seconds, beside),
        limit=LIMIT.format(found.alone),
        before=f"{beside.seconds()}, {before.alone:.2f} s without boards" if before and beside else "",
    )


def started(size: Size, checkout: Checkout) -> Started:
    """The starts of a checkout's service."""
    sized = durability.Size(size.n, size.m, size.tail)
    bench = durability.Bench(Report(lambda _: None), sized, checkout)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with board_service(sized, folder, *durability.OPTIONS, checkout=checkout) as (server, _):
            register(server, size.m)
            durability.run_to_end(server, "rebuilds", {"engine": "local"})
            bench.send_tail(server)
        empty = folder / "empty"
        empty.mkdir()
        with service(empty, *durability.OPTIONS, checkout=checkout) as server:
            alone, nothing = server.ready_seconds, durability.memory_of(server)
        found = [bench.start(folder, "") for _ in range(size.starts)]
    memory = median(sum(one[2]) for one in found)
    each = [one[0] for one in found]
    return Started(median(each), each, alone, (memory - sum(nothing)) / size.m)
