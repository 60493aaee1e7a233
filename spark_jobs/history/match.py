"""Match a history of events against the subscriptions of a snapshot: the offline twin of a match.

Reads   snapshots/LSN/matchers/NAME/subscriptions.parquet, images/LSN/matchers/NAME/ if it is valid, and
        --events: a Parquet file, or a folder of such. For each dimension a column of its name with a number, or the
        ends of a range in NAME_min and NAME_max; null where the event lacks it, and for an unbounded end.
Writes  --output: a new folder with part-00000.parquet, ..., the events in their order with all their columns and
        winners: the --k best subscriptions of each, best first, a list of {id, score}. Last, _SUCCESS.
Ends    with {"events": n, "winners": w, "k": k, "seq": of the matcher, "seconds": s}.

The winners are exactly those that the service would return at that seq: the workers run its own engine. Each loads the
matcher once, from files, and holds its subscriptions and ids; the indexes are mapped, and shared by the workers of a
machine. Without a valid image of that row the driver packs the indexes first. Every worker needs access to the storage,
the events and the output, by pyarrow and without Hadoop's connector.

A run that was killed leaves no _SUCCESS. Two runs must not write to the same place at the same time.
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
from spark_jobs.common.command import Failed, Number, Order, Place, main, user_errors
from spark_jobs.common.inputs import check
from spark_jobs.common.parts import Packed
from spark_jobs.common.progress import Progress
from spark_jobs.common.session import session
from spark_jobs.history import slices
from spark_jobs.history.events import EventError, columns_of
from spark_jobs.history.match_tasks import SPARK_MATCHED, WINNERS
from spark_jobs.history.outputs import OUTPUT, image_of, make_room, publish, writing
from spark_jobs.history.slices import Slice

K = Number("k", 20, "winners of an event, at most")
EVENTS = Place("events", "the events: a Parquet file or a folder of such, a local path or a URL")

_PER_TASK = 50_000
"""Events of a task, at most."""

_LEAST_PER_TASK, _TASKS = 1_000, 64
"""Tasks have fewer events, but at least so many, as long as there are fewer than `_TASKS` tasks."""

_WINNERS_PER_TASK = 5_000_000


def match(order: Order, progress: Progress) -> tuple[dict[str, Any], int]:
    """Run the job; returns its last line and exit code."""
    began = time.monotonic()
    events, output = order.places[EVENTS.name], order.places[OUTPUT.name]
    progress.step(0.0, "checking the files")
    source = order.folder("snapshots")
    manifest = check(source, "snapshot", order.lsn, [subscriptions_at(order.name)])
    about = manifest["resources"][order.resource]
    # An event has no more winners than there are subscriptions.
    k = min(order.numbers[K.name], max(1, about["subscriptions"]))
    pieces = cut(events, config_of(about["config"]).dimensions, k)
    with writing(output):
        parts = make_room(output)
    try:
        image = image_of(order, parts, progress, lambda: _pack(order, about))
        progress.step(0.1, "starting Spark")
        with user_errors(EventError), session(f"Rankcast match of {order.resource}", order.options) as running:
            places = ((folder.system, folder.path) for folder in (source, image, parts))
            snapshot, image_place, target = places
            task = running.task(
                "spark_jobs.history.match_tasks:match_slices",
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


def _pack(order: Order, about: dict[str, Any]) -> Packed:
    return pack_indexes(indexes_of(read_state(order.folder("snapshots"), order.name, about)))


def cut(events: Folder, dimensions: Sequence[str], k: int) -> list[Slice]:
    """The events of a file, or of a folder's files in order of name, in slices for tasks. Reads no event.

    Raises `Failed` if there are none, or a file cannot be read, lacks a column, or differs from the first in columns.
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
    main("history.match", __doc__ or "", match, numbers=[K], places=[EVENTS, OUTPUT], kind="matchers")
