"""The tables of the summary: ``python -m bench.summary.tables`` measures one of them, a process of its own.

It reads which on its input, and writes each row as a line of JSON once it is known.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.process import end_with_parent
from bench.summary import boards, bytes, feeds, maps, matchers, relays, service
from bench.summary.rows import Row

MODULE = "bench.summary.tables"


class Table(NamedTuple):
    """A few rows that are measured together: how they are, and by which size, in full and quick."""

    title: str
    rows: Callable[[Any], Iterator[Row]]
    full: Any
    quick: Any


TABLES = {
    "painting": Table("Painting", boards.painting, boards.Size(), boards.QUICK),
    "batches": Table("Batches of events", boards.batches, boards.Size(), boards.QUICK),
    "intervals": Table("Intervals with scores", matchers.one_dimension, matchers.Size(), matchers.QUICK),
    "relaxed": Table("Relaxed matching", matchers.relaxed, matchers.Size(), matchers.QUICK),
    "covering": Table("Covering", relays.covering, relays.Size(), relays.QUICK),
    "notifications": Table("Notifications", relays.notifications, relays.Size(), relays.QUICK),
    "top": Table("Moving top-k", maps.top_zones, maps.Size(), maps.QUICK),
    "skylines": Table("Moving skylines", maps.skyline_zones, maps.Size(), maps.QUICK),
    "maps-http": Table("Maps over HTTP", maps.http, maps.Size(), maps.QUICK),
    "feeds": Table("Posts", feeds.whole, feeds.Size(), feeds.QUICK),
    "epochs": Table("Epochs of feeds", feeds.epoch, feeds.Size(), feeds.QUICK),
    "feeds-http": Table("Posts over HTTP", feeds.http, feeds.Size(), feeds.QUICK),
    "large-feeds": Table("Large feeds", feeds.large, feeds.Size(), feeds.QUICK),
    "bytes": Table("Memory", bytes.resident, bytes.Size(), bytes.QUICK),
    "start": Table("Starts", service.start, service.Size(), service.QUICK),
}
"""By the name that `--only` takes, in the order of the page."""


def main() -> None:
    end_with_parent()
    job = json.load(sys.stdin)
    table = TABLES[job["table"]]
    size = table.quick if job["quick"] else table.full
    if job["before"] and "before" in size._fields:
        size = size._replace(before=Path(job["before"]))
    for row in table.rows(size):
        print(json.dumps(row.plain()), flush=True)


if __name__ == "__main__":
    main()
