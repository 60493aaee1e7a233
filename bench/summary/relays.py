"""Relays in the summary: covering, and notifications."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import NamedTuple

from bench.relays import kernels, speed
from bench.report import Report, ratio
from bench.summary.before import beside
from bench.summary.rows import NO_PROTOTYPE, Row, micros

DIMENSIONS, ATTRIBUTES = 16, 4


class Size(NamedTuple):
    """Commands, and rounds of them; rounds of the scans; boxes and notifications, and rounds of them; the checkout of
    the commit before."""

    commands: int = 100_000
    rounds: int = 3
    scans: int = 1
    boxes: int = 1_000_000
    notifications: int = 50
    before: Path | None = None


QUICK = Size()

COVER_LIMIT = "the leaves that a search of so many dimensions opens"
SLAB_LIMIT = (
    "{} recipients that must be named; bytes moved: eight columns of steps, of the blocks that may hold the point"
)


def covering(size: Size) -> Iterator[Row]:
    """Commands under G_1 by the relay's index, over the scan, ours or the prototype's, whichever is faster."""
    races = speed.Speed(Report(lambda _: None), size.rounds, size.scans, None)
    seconds = {name: median(mine) for name, mine in races.race(size.commands, DIMENSIONS).items()}
    mine = min(seconds[speed.KD], seconds[speed.KD_ROOTS])
    each = {name: value / size.commands * 1e6 for name, value in seconds.items()}
    scan = min(seconds[name] for name in (speed.SCAN, speed.SCAN_ITS) if name in seconds)
    its = [seconds[name] for name in (speed.KD_ITS, speed.KD_ROOTS_ITS) if name in seconds]
    found = beside(size.before, "covering", commands=size.commands, dimensions=DIMENSIONS, share=speed.P)
    before = min(found.values(), default=None)
    yield Row(
        f"covering, {DIMENSIONS} dimensions",
        f"{size.commands:,} commands, {speed.P:.0%} unsubscribe",
        "100 times the scan",
        f"{ratio(scan / mine)} times, {micros(mine / size.commands * 1e6)} a command",
        scan >= 100 * mine,
        paper=f"says 10 times; its Z-order index {micros(each[speed.Z])}",
        prototype=f"{micros(min(its) / size.commands * 1e6)} ({ratio(min(its) / mine)} times ours)"
        if its
        else NO_PROTOTYPE,
        peer=f"scan {micros(scan / size.commands * 1e6)}",
        limit=COVER_LIMIT,
        before=before.micros() if before else "",
    )


def notifications(size: Size) -> Iterator[Row]:
    """Which boxes hold a point: the slabs, over numpy."""
    sized = kernels.Size(boxes=size.boxes, notifications=size.notifications, rounds=size.rounds)
    found = kernels.notified(ATTRIBUTES, sized)
    mine, numpy = median(found.micros[kernels.SLABS]), median(found.micros[kernels.NUMPY])
    sizes = {"boxes": size.boxes, "notifications": size.notifications, "attributes": ATTRIBUTES}
    before = beside(size.before, "notifications", **sizes).get("notification")
    yield Row(
        f"notifications among boxes of {ATTRIBUTES} attributes",
        f"{size.boxes:,} boxes, {size.notifications} notifications",
        "60 times numpy",
        f"{ratio(numpy / mine)} times, {micros(mine)}",
        numpy >= 60 * mine,
        peer=f"numpy over columns {micros(numpy)}",
        limit=SLAB_LIMIT.format(f"{found.met:,.0f}"),
        before=before.micros() if before else "",
    )
