"""Follow clients on their ways through a map of a snapshot: when did the answer of each become another one?

Reads   snapshots/LSN/maps/NAME/objects.parquet, images/LSN/maps/NAME/ where it is of use, and
        --points: a Parquet file, or a folder of such, with a row for each place where a client was, in any order:
        client, a text or a whole number; t, a number or a timestamp; x and y. Other columns are passed over.
        --question: what each client asks all the way, in JSON as that of a standing query without its location:
        {"kind": "skyline"}, or {"kind": "top", "k": 10, "score": {...}} with "m" and "ordered" where they are wanted.
Writes  --output: a new folder with part-00000.parquet, ..., a row for each change, in order of client and t: client, t,
        x, y, change, which is "first", "members", or "order" of an ordered top-k, and answer, the answer there, best
        first, a list of {id, distance} and of a top-k score. Last, _SUCCESS.
Ends    with {"clients": n, "points": n, "changes": n, "searches": n, "seq": of the map, "seconds": s}.

Between two changes of a client its answer stays a right one, at each of its rows. That of a skyline is the only right
one; of a top-k, one of equal scores may stand for another, as they may within a zone, and no row tells of it until the
answer held is none of the right ones, or is left with its zone: then it is taken by age. Rows of a client at one t are
in order of the files and in these. The same files give the same rows whatever the number of workers.

A client is followed by one task, which searches only where the zone of the last answer is left; elsewhere a row costs
well below a microsecond. A larger m means fewer searches; 10 unless it is said. Workers take the map up from its image,
which they share on a machine; where there is none of that very version it is packed first, in the driver. Every worker
has to reach the storage, the points and the output; all use them through pyarrow, and need no connector of Hadoop's.

A run that was killed leaves no _SUCCESS. Two runs at the same time must not write to the same place.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

import pyarrow.parquet as pq

from formats.folder import Folder
from formats.map_fields import config_of, question_fields
from formats.maps import objects_at, read_places
from indexes.maps.model import Question, Skyline
from indexes.maps.packing import pack_index
from indexes.maps.rtree import pack
from spark_jobs import slices
from spark_jobs.command import Failed, Order, Place, Text, main
from spark_jobs.inputs import check
from spark_jobs.outputs import OUTPUT, image_of, make_room, publish, telling, writing
from spark_jobs.parts import Packed
from spark_jobs.points import PointError, Types, types_of
from spark_jobs.progress import Progress
from spark_jobs.questions import read_question
from spark_jobs.session import Running, session
from spark_jobs.slices import Slice
from spark_jobs.walking import SPARK_WALKED, result_schema

POINTS = Place("points", "the places: a Parquet file or a folder of such, a local path or a URL")
QUESTION = Text("question", "what clients ask, as a standing query without its location")

COUNTS = ("clients", "points", "changes", "searches")

_PER_TASK = 500_000
"""Rows that a task reads, or walks, about."""


def walk(order: Order, progress: Progress) -> tuple[dict[str, Any], int]:
    """The job."""
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
        with telling(PointError), session(f"Rankcast walk of {order.resource}", order.options) as running:
            on_sphere = config_of(about["config"]).metric == "great-circle"
            read = running.task("spark_jobs.points:read_points", points.system, pieces, on_sphere)
            places = ((folder.system, folder.path) for folder in (source, image, parts))
            snapshot, image_place, target = places
            follow = running.task(
                "spark_jobs.walking:follow",
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
    """The types of a file's columns, or of a folder's files, and their rows in slices for tasks. Looks at no row.

    Raises `Failed` where there are none, or a file cannot be read, lacks a column, or has others than the first.
    """
    try:
        found = slices.heads(points, "points", types_of)
        return types_of(found[0].path, found[0].schema), slices.cut(found, _PER_TASK)
    except PointError as error:
        raise Failed(str(error)) from error


def _follow(running: Running, read: Any, follow: Any, kinds: Types, pieces: list[Slice]) -> list[Any]:
    """Have all clients followed; what the tasks report, in order of clients."""
    from pyspark.sql import functions as fn

    tasks = max(2 * running.context.defaultParallelism, -(-sum(piece[3] for piece in pieces) // _PER_TASK))
    rows = running.spark.range(0, len(pieces), 1, len(pieces)).mapInArrow(read, kinds.spark)
    ordered = rows.repartitionByRange(tasks, "client").sortWithinPartitions("client", "t", "row")
    told = ordered.withColumn("part", fn.spark_partition_id()).mapInArrow(follow, SPARK_WALKED).collect()
    return sorted(told, key=lambda row: int(row["number"]))


def _pack(order: Order, about: dict[str, Any]) -> Packed:
    return pack_index(pack(*read_places(order.folder("snapshots"), order.name, about)))


def _nothing(parts: Folder, kinds: Types, question: Question) -> str:
    """The name of a part without rows."""
    schema = result_schema(tuple(kinds), not isinstance(question, Skyline))
    with parts.system.open_output_stream(f"{parts.path}/none.parquet") as out:
        pq.write_table(schema.empty_table(), out)
    return "none.parquet"


if __name__ == "__main__":
    main("trajectories", __doc__ or "", walk, places=[POINTS, OUTPUT], kind="maps", texts=[QUESTION])
