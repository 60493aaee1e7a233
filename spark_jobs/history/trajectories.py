"""Follow clients along their paths through a map of a snapshot: when did the answer of each change?

Reads   snapshots/LSN/maps/NAME/objects.parquet, images/LSN/maps/NAME/ if it is valid, and
        --points: a Parquet file, or a folder of such, with a row for each place of a client, in any order: client, a
        string or an integer; t, a number or a timestamp; x and y. Other columns are ignored.
        --question: the question of each client, in JSON as that of a standing query without its location:
        {"kind": "skyline"}, or {"kind": "top", "k": 10, "score": {...}}, optionally with "m" and "ordered".
Writes  --output: a new folder with part-00000.parquet, ..., a row for each change, in order of client and t: client, t,
        x, y, change, which is "first", "members", or "order" of an ordered top-k, and answer, the answer there, best
        first, a list of {id, distance} and of a top-k score. Last, _SUCCESS.
Ends    with {"clients": n, "points": n, "changes": n, "searches": n, "seq": of the map, "seconds": s}.

Between two changes of a client its answer remains correct, at each of its rows. A skyline has only one correct answer;
in a top-k objects of equal scores may replace each other, as within a zone, without a row, until the answer becomes
wrong or the client leaves its zone: then the older object is preferred. Rows of a client with equal t are taken in the
order of the files and of their rows. The result does not depend on the number of workers.

One task follows a client, and searches only when it leaves the zone of the last answer; other rows cost well below a
microsecond. A larger m, 10 by default, means fewer searches. Workers load the map from its image, which those of a
machine share; without a valid image the driver packs the map first. Every worker needs access to the storage, the
points and the output, by pyarrow and without Hadoop's connector.

A run that was killed leaves no _SUCCESS. Two runs must not write to the same place at the same time.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pyarrow.parquet as pq

from formats.folder import Folder
from formats.map_fields import config_of, question_fields
from formats.maps import objects_at, read_places
from indexes.maps.config import Question, Skyline
from indexes.maps.kernels.rtree import pack
from indexes.maps.packing import pack_index
from spark_jobs.common.command import Failed, Order, Place, Text, main, user_errors
from spark_jobs.common.inputs import check
from spark_jobs.common.parts import Packed
from spark_jobs.common.progress import Progress
from spark_jobs.common.session import Running, session
from spark_jobs.history import slices
from spark_jobs.history.outputs import OUTPUT, image_of, make_room, publish, writing
from spark_jobs.history.points import PointError, Types, types_of
from spark_jobs.history.questions import read_question
from spark_jobs.history.slices import Slice
from spark_jobs.history.trajectory_tasks import SPARK_WALKED, result_schema

POINTS = Place("points", "the places: a Parquet file or a folder of such, a local path or a URL")
QUESTION = Text("question", "what clients ask, as a standing query without its location")

COUNTS = ("clients", "points", "changes", "searches")

_PER_TASK = 500_000
"""Rows that a task reads, or follows, approximately."""


def walk(order: Order, progress: Progress) -> tuple[dict[str, Any], int]:
    """Run the job; returns its last line and exit code."""
    began = time.monotonic()
    points, output = order.places[POINTS.name], order.places[OUTPUT.name]
    progress.step(0.0, "checking the files")
    source = order.folder("snapshots")
    about = check(source, "snapshot", order.lsn, [objects_at(order.name)])["resources"][order.resource]
    question = read_question(order.texts[QUESTION.name], config_of(about["config"]))
    kinds, pieces = cut(points)
    with writing(output):
        parts = make_room(output)
    try:
        image = image_of(order, parts, progress, lambda: _pack(order, about))
        progress.step(0.1, "starting Spark")
        with user_errors(PointError), session(f"Rankcast walk of {order.resource}", order.options) as running:
            on_sphere = config_of(about["config"]).metric == "great-circle"
            read = running.task("spark_jobs.history.points:read_points", points.system, pieces, on_sphere)
            places = ((folder.system, folder.path) for folder in (source, image, parts))
            snapshot, image_place, target = places
            follow = running.task(
                "spark_jobs.history.trajectory_tasks:follow",
                *(snapshot, order.name, about, image_place, question_fields(question), tuple(kinds), target),
            )
            with progress.follow(running.context, 0.2, 0.95, "following the clients", jobs=2):
                done = _follow(running, read, follow, kinds, pieces)
        fields = {what: sum(row[what] for row in done) for what in COUNTS} | {"seq": about["seq"]}
        with writing(output):
            names = [row["name"] for row in done] or [_nothing(parts, kinds, question)]
            asked = question_fields(question)
            publish(output, parts, names, {"resource": order.resource, "lsn": order.lsn, "question": asked, **fields})
    finally:
        with suppress(OSError):
            parts.delete()
    return {**fields, "seconds": round(time.monotonic() - began, 1)}, 0


def cut(points: Folder) -> tuple[Types, list[Slice]]:
    """The types of the columns of a file, or of a folder's files, and the rows in slices for tasks. Reads no row.

    Raises `Failed` if there are none, or a file cannot be read, lacks a column, or differs from the first in columns.
    """
    try:
        found = slices.heads(points, "points", types_of)
        return types_of(found[0].path, found[0].schema), slices.cut(found, _PER_TASK)
    except PointError as error:
        raise Failed(str(error)) from error


def _follow(running: Running, read: Any, follow: Any, kinds: Types, pieces: list[Slice]) -> list[Any]:
    """Run tasks that follow all clients; returns their reports, in order of clients."""
    from pyspark.sql import functions as fn

    tasks = max(2 * running.context.defaultParallelism, -(-sum(piece[3] for piece in pieces) // _PER_TASK))
    rows = running.spark.range(0, len(pieces), 1, len(pieces)).mapInArrow(read, kinds.spark)
    ordered = rows.repartitionByRange(tasks, "client").sortWithinPartitions("client", "t", "row")
    walked = ordered.withColumn("part", fn.spark_partition_id()).mapInArrow(follow, SPARK_WALKED).collect()
    return sorted(walked, key=lambda row: int(row["number"]))


def _pack(order: Order, about: dict[str, Any]) -> Packed:
    return pack_index(pack(*read_places(order.folder("snapshots"), order.name, about)))


def _nothing(parts: Folder, kinds: Types, question: Question) -> str:
    """Write a part without rows; returns its name."""
    schema = result_schema(tuple(kinds), not isinstance(question, Skyline))
    with parts.system.open_output_stream(f"{parts.path}/none.parquet") as out:
        pq.write_table(schema.empty_table(), out)
    return "none.parquet"


if __name__ == "__main__":
    main("history.trajectories", __doc__ or "", walk, places=[POINTS, OUTPUT], kind="maps", texts=[QUESTION])
