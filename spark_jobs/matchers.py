"""Lay out a matcher's indexes from a snapshot and write them as an image: the same bytes as the service's own rebuild.

Reads   snapshots/LSN/matchers/NAME/subscriptions.parquet.
Writes  images/LSN/matchers/NAME/: an Arrow file for each index and, last, manifest.json, which makes it count.
Ends    with {"rows": subscriptions, "seconds": s}.

Each dimension is laid out by one task, which reads its columns alone, and what is about all dimensions together by one
more, which holds the whole table. The tasks leave their parts in images/LSN/matchers/NAME~pieces-RANDOM/, so every
worker has to reach the storage; all use it through pyarrow, and need no connector of Hadoop's. The driver joins the
parts: it holds all indexes, twice for a moment, beside the heap of Spark.

A run that was killed leaves nothing that counts, and the next one takes away what it left. An image that is there
already is deleted and written anew. Two runs for the same matcher at the same time get into each other's way.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from formats.matchers import config_of, subscriptions_at
from formats.parts import write_image
from indexes.matchers.layout import parts_of
from indexes.matchers.packing import pack_indexes
from spark_jobs.command import Order, main
from spark_jobs.images import make_room, pieces_of, storing
from spark_jobs.inputs import check
from spark_jobs.matcher_parts import SPARK_PARTS, join
from spark_jobs.progress import Progress
from spark_jobs.session import session


def build(order: Order, progress: Progress) -> tuple[dict[str, Any], int]:
    """The job."""
    began = time.monotonic()
    images, source = order.folder("images"), order.folder("snapshots")
    image, pieces = images / order.resource, pieces_of(images, order.resource)
    progress.step(0.0, "checking the files")
    manifest = check(source, "snapshot", order.lsn, [subscriptions_at(order.name)])
    about = manifest["resources"][order.resource]
    config = config_of(about["config"])
    parts = parts_of(config)
    progress.step(0.05, "starting Spark")
    try:
        with session(f"Rankcast image of {order.resource}", order.options) as running:
            with storing(image):
                make_room(images, order.resource, pieces)
            with progress.follow(running.context, 0.2, 0.8, "laying out the indexes"):
                # What a task is given must not be of our classes: it is unpickled before they can be imported.
                arguments = source.path, order.name, about, pieces.path
                task = running.task("spark_jobs.matcher_parts:lay_out", source.system, *arguments)
                numbers = running.spark.range(0, len(parts), 1, len(parts))
                names = {row["number"]: row["name"] for row in numbers.mapInArrow(task, SPARK_PARTS).collect()}
        with storing(image):
            progress.step(0.8, "joining the parts")
            packed = pack_indexes(join(config, [pieces / names[number] for number in range(len(parts))]))
            progress.step(0.9, "writing the image")
            write_image(image, order.resource, order.lsn, packed)
    finally:
        with suppress(OSError):  # a task that was told to stop may still write; the next run deletes what is left
            pieces.delete()
    return {"rows": about["subscriptions"], "seconds": round(time.monotonic() - began, 1)}, 0


if __name__ == "__main__":
    main("matchers", __doc__ or "", build, kind="matchers")
