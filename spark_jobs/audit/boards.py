"""Recompute every subscription's list of a board from a snapshot, and compare it with the service's own.

Reads   snapshots/LSN/boards/NAME/objects.parquet and subscriptions.parquet,
        audits/LSN/boards/NAME/lists.parquet: sid, rows (of the objects, best first), for each subscription.
Writes  audits/LSN/boards/NAME/differences.parquet: sid, id, problem, expected, found (ids of objects).
Ends    with {"compared": n, "difference_count": d, "differences": [the first 100], "seconds": s}; exit code 2 if d > 0.

The problems: "missing" (no list), "extra" (a list of no subscription, or a second one), "order" (the right
objects in another order) and "members".

Subscriptions and lists are joined by sid and distributed over the workers. The objects are broadcast: 28 bytes an
object and its id, about 400 MB for ten million of them in each Python worker.
"""

from __future__ import annotations

import heapq
import os
import time
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from formats.folder import Folder
from spark_jobs.audit.board_tasks import DIFFERENCE, SPARK_COMPARED, Objects
from spark_jobs.common.boards import of_one_attribute
from spark_jobs.common.command import Failed, Order, main
from spark_jobs.common.inputs import check, table
from spark_jobs.common.progress import Progress
from spark_jobs.common.session import LITERALLY, Running, session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SHOWN = 100
RESULT = "differences.parquet"
_DRAFT = "differences.draft-"
"""Folders that tasks write to; with random names, since tasks may outlive a driver."""

_PER_TASK = 250_000
"""Subscriptions that a task compares, approximately."""

_PER_BATCH = 1_000_000
"""Entries of lists that it holds at a time, approximately."""


def audit(order: Order, progress: Progress) -> tuple[dict[str, Any], int]:
    """Run the job; returns its last line and exit code."""
    began = time.monotonic()
    snapshot, lists = order.folder("snapshots"), order.folder("audits")
    of = {name: f"{order.resource}/{name}.parquet" for name in ("objects", "subscriptions", "lists")}
    progress.step(0.0, "checking the files")
    about = check(snapshot, "snapshot", order.lsn, [of["objects"], of["subscriptions"]])
    about = of_one_attribute(order.resource, about["resources"][order.resource])
    check(lists, "audit", order.lsn, [of["lists"]])
    objects = Objects(
        table(snapshot, of["objects"], ["row", "id", "x", "y", "created"]), about["config"]["order"] == "desc"
    )
    target, draft = lists / order.resource, _DRAFT + uuid.uuid4().hex[:12]
    _clear(target)
    progress.step(0.05, "starting Spark")
    name = f"Rankcast audit of {order.resource}"
    with session(name, order.options) as running, progress.follow(running.context, 0.2, 0.95, "comparing the lists"):
        _tune(running, about["subscriptions"], max(about["config"]["ks"]))
        pairs = _join(
            running.spark,
            order.spark_path(snapshot, of["subscriptions"]),
            order.spark_path(lists, of["lists"]),
        )
        task = running.task("spark_jobs.audit.board_tasks:differences", running.context.broadcast(objects))
        pairs.mapInArrow(task, SPARK_COMPARED).write.parquet(order.spark_path(target, draft))
    count, first = _publish(target, draft, about["subscriptions"])
    fields = {"compared": about["subscriptions"], "difference_count": count, "differences": first}
    return {**fields, "seconds": round(time.monotonic() - began, 1)}, 2 if count else 0


def _tune(running: Running, size: int, k: int) -> None:
    """Configure Spark for `size` subscriptions with lists of at most k."""
    tasks = max(2 * running.context.defaultParallelism, -(-size // _PER_TASK))
    for key, value in {
        "spark.sql.adaptive.enabled": "false",  # it would hide how many tasks there are
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.shuffle.partitions": str(tasks),
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(min(50_000, max(1000, _PER_BATCH // k))),
    }.items():
        running.spark.conf.set(key, value)


def _join(spark: SparkSession, subscriptions: str, lists: str) -> DataFrame:
    """The full outer join of subscriptions and lists, in order of sid within a partition."""
    reader = spark.read.options(**LITERALLY)
    left = reader.schema("sid int, id string, l double, r double, k int").parquet(subscriptions)
    right = reader.schema("sid int, rows array<int>").parquet(lists)
    return left.join(right, "sid", "full_outer").sortWithinPartitions("sid")


def _clear(target: Folder) -> None:
    """Delete the result of an earlier run, and the files of one that was killed."""
    for name in target.names():
        if name.startswith(_DRAFT):
            target.system.delete_dir(f"{target.path}/{name}")
        elif name.startswith(RESULT):
            target.system.delete_file(f"{target.path}/{name}")


def _publish(target: Folder, draft: str, size: int) -> tuple[int, list[dict[str, Any]]]:
    """Join the tasks' files to one, and move it into place when it is complete.

    Returns the number of differences, and the first of them by sid. Raises `Failed` if the tasks have not compared
    `size` subscriptions in all.
    """
    parts, path = target / draft, f"{target.path}/{RESULT}"
    compared = count = 0
    first: list[dict[str, Any]] = []
    with target.system.open_output_stream(path + ".partial") as out, pq.ParquetWriter(out, DIFFERENCE) as writer:
        for name in parts.names():
            if not name.endswith(".parquet"):
                continue
            with parts.open(name) as file:
                for batch in pq.ParquetFile(file).iter_batches():
                    compared += pc.sum(batch["compared"]).as_py() or 0
                    found = batch.filter(batch["problem"].is_valid()).select(DIFFERENCE.names).cast(DIFFERENCE)
                    writer.write_batch(found)
                    count += len(found)
                    least = found.sort_by("sid").slice(0, SHOWN).to_pylist()
                    first = heapq.nsmallest(SHOWN, [*first, *least], key=lambda one: one["sid"])
    if compared != size:
        raise Failed(f"{compared} of {size} subscriptions in {target} were compared")
    if target.local is not None:
        with open(path + ".partial", "rb") as whole:
            os.fsync(whole.fileno())
    target.system.move(path + ".partial", path)
    target.system.delete_dir(parts.path)
    return count, first


if __name__ == "__main__":
    main("audit.boards", __doc__ or "", audit)
