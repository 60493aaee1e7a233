"""Match a history of events against the subscriptions of a snapshot: the offline twin of a match.

Reads   snapshots/LSN/matchers/NAME/subscriptions.parquet, images/LSN/matchers/NAME/ where it is of use, and
        --events: a Parquet file, or a folder of such. For each dimension a column of its name with a number, or the
        ends of a range in NAME_min and NAME_max; null where the event lacks it, and for an unbounded end.
Writes  --output: a new folder with part-00000.parquet, ..., the events in their order with all their columns and one
        more, winners: the --k best subscriptions of each, best first, a list of {id, score}. Last, _SUCCESS.
Ends    with {"events": n, "winners": w, "k": k, "seq": of the matcher, "seconds": s}.

The winners are exactly those that the service would answer at that seq: the workers run its own engine. Each takes the
matcher up once, from files, and holds the subscriptions and ids of it; the indexes are mapped, and shared by the
workers of a machine. Where there is no image of that very version they are laid out first, in the driver. Every worker
has to reach the storage, the events and the output; all use them through pyarrow, and need no connector of Hadoop's.

A run that was killed leaves no _SUCCESS. Two runs at the same time must not write to the same place.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from formats.folder import Folder
from formats.matchers import config_of, read_state, subscriptions_at
from indexes.matchers.packing import pack_indexes
from indexes.matchers.state import indexes_of
from spark_jobs import slices
from spark_jobs.command import Failed, Number, Order, Place, main
from spark_jobs.events import EventError, columns_of
from spark_jobs.inputs import check
from spark_jobs.matching import SPARK_MATCHED, WINNERS
from spark_jobs.outputs import OUTPUT, image_of, make_room, publish, telling, writing
from spark_jobs.parts import Packed
from spark_jobs.progress import Progress
from spark_jobs.session import session
from spark_jobs.slices import Slice

K = Number("k", 20, "winners of an event, at most")
EVENTS = Place("events", "the events: a Parquet file or a folder of such, a local path or a URL")

_PER_TASK = 50_000
"""Events that a task matches, at most."""

_LEAST_PER_TASK, _TASKS = 1_000, 64
"""Fewer where there would be fewer tasks than these, for all workers to have some, but not less than so many."""

_WINNERS_PER_TASK = 5_000_000


def match(order: Order, progress: Progress) -> tuple[dict[str, Any], int]:
    """The job."""
    began = time.monotonic()
    events, output = order.places[EVENTS.name], order.places[OUTPUT.name]
    progress.step(0.0, "checking the files")
    source = order.folder("snapshots")
    manifest = check(source, "snapshot", order.lsn, [subscriptions_at(order.name)])
    about = manifest["resources"][order.resource]
    # Nobody has more winners than there are subscriptions.
    k = min(order.numbers[K.name], max(1, about["subscriptions"]))
    pieces = cut(events, config_of(about["config"]).dimensions, k)
    with writing(output):
        parts = make_room(output)
    try:
        image = image_of(order, parts, progress, lambda: _lay_out(order, about))
        progress.step(0.1, "starting Spark")
        with telling(EventError), session(f"Rankcast match of {order.resource}", order.options) as running:
            places = ((folder.system, folder.path) for folder in (source, image, parts))
            snapshot, image_place, target = places
            task = running.task(
                "spark_jobs.matching:match_slices",
                *(snapshot, order.name, about, image_place, events.system, pieces, target, k),
            )
            with progress.follow(running.context, 0.2, 0.95, "matching the events"):
                numbers = running.spark.range(0, len(pieces), 1, len(pieces))
                done = {row["number"]: row for row in numbers.mapInArrow(task, SPARK_MATCHED).collect()}
        counts = {what: sum(row[what] for row in done.values()) for what in ("events", "winners")}
        fields = {**counts, "k": order.numbers[K.name], "seq": about["seq"]}
        with writing(output):
            names = [done[number]["name"] for number in range(len(pieces))]
            publish(output, parts, names, {"resource": order.resource, "lsn": order.lsn, **fields})
    finally:
        with suppress(OSError):
            parts.delete()
    return {**fields, "seconds": round(time.monotonic() - began, 1)}, 0


def _lay_out(order: Order, about: dict[str, Any]) -> Packed:
    return pack_indexes(indexes_of(read_state(order.folder("snapshots"), order.name, about)))


def cut(events: Folder, dimensions: Sequence[str], k: int) -> list[Slice]:
    """The events of a file, or of a folder's files in order of name, in slices for tasks. Looks at no event.

    Raises `Failed` where there are none, or a file cannot be read, lacks a column, or has others than the first.
    """

    def check_columns(path: str, schema: pa.Schema) -> None:
        try:
            columns_of(path, schema, dimensions)
        except EventError as error:
            raise Failed(str(error)) from error
        if WINNERS in schema.names:
            raise Failed(f"{path} has a column {WINNERS}, which is what the result is called")

    found = slices.heads(events, "events", check_columns)
    each = max(_LEAST_PER_TASK, -(-sum(head.rows for head in found) // _TASKS))
    return slices.cut(found, max(1, min(each, _PER_TASK, _WINNERS_PER_TASK // k)))


if __name__ == "__main__":
    main("match_history", __doc__ or "", match, numbers=[K], places=[EVENTS, OUTPUT], kind="matchers")
