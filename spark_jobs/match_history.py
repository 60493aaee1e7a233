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

import json
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from formats.folder import Damaged, Folder
from formats.matchers import config_of, read_state, subscriptions_at
from formats.parts import read_image, write_image
from indexes.matchers.packing import pack_indexes
from indexes.matchers.state import indexes_of
from spark_jobs.command import Failed, Number, Order, Place, main
from spark_jobs.events import EventError, columns_of
from spark_jobs.inputs import check
from spark_jobs.matching import SPARK_MATCHED, WINNERS, Slice
from spark_jobs.progress import Progress
from spark_jobs.session import SparkFailed, session

K = Number("k", 20, "winners of an event, at most")
EVENTS = Place("events", "the events: a Parquet file or a folder of such, a local path or a URL")
OUTPUT = Place("output", "the folder for the result, which must not hold anything yet: a local path or a URL")

DONE = "_SUCCESS"
_PARTS = "_parts-"
"""What the tasks write to, below the output; with a random name, since those of a driver that was killed live on."""

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
    slices = cut(events, config_of(about["config"]).dimensions, k)
    with _writing(output):
        parts = _make_room(output)
    try:
        image = _image(order, about, parts, progress)
        progress.step(0.1, "starting Spark")
        with _told_of_events(), session(f"Rankcast match of {order.resource}", order.options) as running:
            places = ((folder.system, folder.path) for folder in (source, image, parts))
            snapshot, image_place, target = places
            task = running.task(
                "spark_jobs.matching:match_slices",
                *(snapshot, order.name, about, image_place, events.system, slices, target, k),
            )
            with progress.follow(running.context, 0.2, 0.95, "matching the events"):
                numbers = running.spark.range(0, len(slices), 1, len(slices))
                done = {row["number"]: row for row in numbers.mapInArrow(task, SPARK_MATCHED).collect()}
        counts = {what: sum(row[what] for row in done.values()) for what in ("events", "winners")}
        fields = {**counts, "k": order.numbers[K.name], "seq": about["seq"]}
        with _writing(output):
            names = [done[number]["name"] for number in range(len(slices))]
            _publish(output, parts, names, {"resource": order.resource, "lsn": order.lsn, **fields})
    finally:
        with suppress(OSError):
            parts.delete()
    return {**fields, "seconds": round(time.monotonic() - began, 1)}, 0


def cut(events: Folder, dimensions: Sequence[str], k: int) -> list[Slice]:
    """The events of a file, or of a folder's files in order of name, in slices for tasks. Looks at no event.

    Raises `Failed` where there are none, or a file cannot be read, lacks a column, or has others than the first.
    """
    heads = [(path, *_head(events.system, path)) for path in _files(events)]
    path, schema, _ = heads[0]
    try:
        columns_of(path, schema, dimensions)
    except EventError as error:
        raise Failed(str(error)) from error
    if WINNERS in schema.names:
        raise Failed(f"{path} has a column {WINNERS}, which is what the result is called")
    for other, found, _ in heads[1:]:
        if not found.equals(schema):
            raise Failed(f"{other} has other columns than {path}")
    total = sum(sum(groups) for *_, groups in heads)
    each = max(_LEAST_PER_TASK, -(-total // _TASKS))
    each = max(1, min(each, _PER_TASK, _WINNERS_PER_TASK // k))
    slices: list[Slice] = []
    for path, _, groups in heads:
        first = 0
        for group, rows in enumerate(groups):
            slices += [(path, group, at, min(each, rows - at), first + at) for at in range(0, rows, each)]
            first += rows
    return slices or [(path, -1, 0, 0, 0)]


def _files(events: Folder) -> list[str]:
    kind = events.system.get_file_info(events.path).type
    if kind == fs.FileType.NotFound:
        raise Failed(f"there are no events in {events}")
    if kind == fs.FileType.File:
        return [events.path]
    # As Spark and others, pass over what is marked as being none of the data.
    names = [name for name in events.names() if name.endswith(".parquet") and name[0] not in "._"]
    if not names:
        raise Failed(f"{events} holds no .parquet files")
    return [f"{events.path}/{name}" for name in names]


def _head(system: fs.FileSystem, path: str) -> tuple[pa.Schema, list[int]]:
    """The schema of a Parquet file, and the rows in its groups."""
    try:
        with system.open_input_file(path) as file:
            parquet = pq.ParquetFile(file)
            meta = parquet.metadata
            return parquet.schema_arrow, [meta.row_group(i).num_rows for i in range(meta.num_row_groups)]
    except (pa.ArrowException, OSError) as error:
        raise Failed(f"{path} cannot be read: {str(error).splitlines()[0]}") from error


def _make_room(output: Folder) -> Folder:
    """Take away what runs that were killed have left, and make a folder for parts. Raises `Failed` where there is
    anything else."""
    if output.system.get_file_info(output.path).type == fs.FileType.File:
        raise Failed(f"--output is {output}, which is a file")
    names = output.names()
    others = [name for name in names if not name.startswith(_PARTS)]
    if others:
        raise Failed(f"--output is {output}, which holds {others[0]} already")
    for name in names:
        (output / name).delete()
    parts = output / f"{_PARTS}{uuid.uuid4().hex[:12]}"
    parts.system.create_dir(parts.path, recursive=True)
    return parts


def _image(order: Order, about: dict[str, Any], parts: Folder, progress: Progress) -> Folder:
    """An image of the matcher: the one that is there, or one among the parts."""
    image = order.folder("images") / order.resource
    if image.whole:
        with suppress(Damaged):
            if read_image(image) is not None and image.manifest()["lsn"] == order.lsn:
                return image
    progress.step(0.05, "laying out the indexes")
    state, own = read_state(order.folder("snapshots"), order.name, about), parts / "image"
    with _writing(own):
        write_image(own, order.resource, order.lsn, pack_indexes(indexes_of(state)))
    return own


def _publish(output: Folder, parts: Folder, names: Sequence[str], fields: dict[str, Any]) -> None:
    for number, name in enumerate(names):
        output.system.move(f"{parts.path}/{name}", f"{output.path}/part-{number:05}.parquet")
    with output.system.open_output_stream(f"{output.path}/{DONE}") as out:
        out.write(json.dumps(fields).encode() + b"\n")


@contextmanager
def _writing(folder: Folder) -> Iterator[None]:
    """What goes wrong with writing there, in one sentence."""
    try:
        yield
    except OSError as error:
        raise Failed(f"{folder} cannot be written: {error.strerror or error}") from error


@contextmanager
def _told_of_events() -> Iterator[None]:
    """An event that cannot be is the user's to mend: say what a worker said of it, and nothing of Spark."""
    try:
        yield
    except SparkFailed as failed:
        _, found, reason = str(failed).partition(f"{EventError.__name__}: ")
        if found:
            raise Failed(reason) from failed
        raise


if __name__ == "__main__":
    main("match_history", __doc__ or "", match, numbers=[K], places=[EVENTS, OUTPUT], kind="matchers")
