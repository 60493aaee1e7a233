"""The start of a service with many subscriptions, in the summary."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.boards.service import board_service, register
from bench.durability import service as durability
from bench.process import service
from bench.report import Report, count
from bench.summary.rows import Row


class Size(NamedTuple):
    """Objects, subscriptions, events in the log behind the image, and starts."""

    n: int = 10_000
    m: int = 2_000_000
    tail: int = 100_000
    starts: int = 5


QUICK = Size(tail=10_000, starts=3)

WANTED = 1.5
LIMIT = "what every start takes, {:.2f} s without boards; then the image and the log"


def start(size: Size) -> Iterator[Row]:
    """From the start of the process to the first 200 of `/readyz`, from an image and the log behind it."""
    sized = durability.Size(size.n, size.m, size.tail)
    bench = durability.Bench(Report(lambda _: None), sized)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with board_service(sized, folder, *durability.OPTIONS) as (server, _):
            register(server, size.m)
            durability.run_to_end(server, "rebuilds", {"engine": "local"})
            bench.send_tail(server)
        empty = folder / "empty"
        empty.mkdir()
        with service(empty, *durability.OPTIONS) as server:
            alone, nothing = server.ready_seconds, durability.memory_of(server)
        found = [bench.start(folder, "") for _ in range(size.starts)]
    seconds = median(one[0] for one in found)
    memory = median(sum(one[2]) for one in found)
    yield Row(
        "start of a service",
        f"{size.m:,} subscriptions, an image and {size.tail:,} events behind it",
        f"{WANTED:g} s",
        f"{seconds:.2f} s ({', '.join(f'{one[0]:.2f}' for one in found)}), {count((memory - sum(nothing)) / size.m)} "
        "resident bytes a subscription",
        seconds <= WANTED,
        limit=LIMIT.format(alone),
    )
