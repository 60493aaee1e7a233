"""Recompute every subscription's list of a board from a snapshot, and compare it with the service's own.

Reads   snapshots/LSN/boards/NAME/objects.parquet and subscriptions.parquet,
        audits/LSN/boards/NAME/lists.parquet: sid, rows (of the objects, best first), one line a subscription.
Writes  audits/LSN/boards/NAME/differences.parquet: sid, id, kind, expected, found (ids of objects), each difference.
Ends    with {"compared": n, "difference_count": d, "differences": [the first 100], "seconds": s}; exit code 2 if d > 0.

The kinds of difference: "missing" (no list), "extra" (a list of no subscription, or a second one), "order" (the right
objects in another order) and "members".

Subscriptions and lists are joined by sid and spread over the workers. The objects are sent to each of them once:
28 bytes an object and its id, about 400 MB for ten million of them in each Python worker.
"""

from __future__ import annotations

import heapq
import os
import time
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from formats.folder import Folder
from spark_jobs.command import Failed, Order, main
from spark_jobs.comparison import DIFFERENCE, SPARK_COMPARED, Objects
from spark_jobs.inputs import check, table
from spark_jobs.progress import Progress
from spark_jobs.session import Running, session

if TYPE_CHECKING:
    from pyspark.core.broadcast import Broadcast

SHOWN = 100
RESULT = "differences.parquet"
_DRAFT = "differences.draft"

_PER_TASK = 250_000
"""Subscriptions that a task compares, about."""


def audit(order: Order, progress: Progress) -> tuple[dict[str, Any], int]:
    """The job."""
    began = time.monotonic()
    snapshot, lists = order.folder("snapshots"), order.folder("audits")
    of = {name: f"{order.resource}/{name}.parquet" for name in ("objects", "subscriptions", "lists")}
    progress.step(0.0, "checking the files")
    about = check(snapshot, "snapshot", order.lsn, [of["objects"], of["subscriptions"]])
    check(lists, "audit", order.lsn, [of["lists"]])
    about = about["resources"][order.resource]
    objects = Objects(
        table(snapshot, of["objects"], ["row", "id", "x", "y", "created"]), about["config"]["order"] == "desc"
    )
    target = lists / order.resource
    _clear(target)
    progress.step(0.05, "starting Spark")
    paths = (
        order.spark_path(snapshot, of["subscriptions"]),
        order.spark_path(lists, of["lists"]),
        order.spark_path(target, _DRAFT),
    )
    name = f"Rankcast audit of {order.resource}"
    with session(name, order.options) as running, progress.follow(running.context, 0.2, 0.95, "comparing the lists"):
        _compare(running, *paths, running.context.broadcast(objects), about["subscriptions"])
    compared, count, first = _publish(target)
    if compared != about["subscriptions"]:
        raise Failed(f"{compared} of {about['subscriptions']} subscriptions of {order.resource} were compared")
    fields = {"compared": compared, "difference_count": count, "differences": first}
    return {**fields, "seconds": round(time.monotonic() - began, 1)}, 2 if count else 0


def _compare(
    running: Running, subscriptions: str, lists: str, draft: str, objects: Broadcast[Objects], size: int
) -> None:
    """Write what `differences` yields to the folder `draft`."""
    spark = running.spark
    tasks = max(2 * running.context.defaultParallelism, -(-size // _PER_TASK))
    # A join by sorting leaves each partition in order of sid, which is how a second list of one sid is noticed.
    for key, value in {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.shuffle.partitions": str(tasks),
        "spark.sql.execution.arrow.maxRecordsPerBatch": "50000",
    }.items():
        spark.conf.set(key, value)
    left = spark.read.parquet(subscriptions).select("sid", "id", "l", "r", "k")
    right = spark.read.parquet(lists).select("sid", "rows")
    joined = left.join(right, "sid", "full_outer").sortWithinPartitions("sid")
    task = running.task("spark_jobs.comparison:differences", objects)
    joined.mapInArrow(task, SPARK_COMPARED).write.mode("overwrite").parquet(draft)


def _clear(target: Folder) -> None:
    """Take away the result of an earlier run, and what one that was killed has left."""
    for name in target.names():
        if name.startswith(_DRAFT):
            target.system.delete_dir(f"{target.path}/{name}")
        elif name.startswith(RESULT):
            target.system.delete_file(f"{target.path}/{name}")


def _publish(target: Folder) -> tuple[int, int, list[dict[str, Any]]]:
    """Make one file of what the tasks wrote, and move it into place when it is whole.

    Returns the number of subscriptions compared, of differences, and the first of these by sid.
    """
    draft, path = target / _DRAFT, f"{target.path}/{RESULT}"
    compared = count = 0
    first: list[dict[str, Any]] = []
    with target.system.open_output_stream(path + ".partial") as out, pq.ParquetWriter(out, DIFFERENCE) as writer:
        for name in draft.names():
            if not name.endswith(".parquet"):
                continue
            with draft.open(name) as file:
                for batch in pq.ParquetFile(file).iter_batches():
                    compared += pc.sum(batch["compared"]).as_py() or 0
                    found = batch.filter(batch["kind"].is_valid()).select(DIFFERENCE.names).cast(DIFFERENCE)
                    writer.write_batch(found)
                    count += len(found)
                    first = heapq.nsmallest(SHOWN, [*first, *found.to_pylist()], key=lambda one: one["sid"])
    if target.local is not None:
        with open(path + ".partial", "rb") as whole:
            os.fsync(whole.fileno())
    target.system.move(path + ".partial", path)
    target.system.delete_dir(draft.path)
    return compared, count, first


if __name__ == "__main__":
    main("audit", __doc__ or "", audit)
