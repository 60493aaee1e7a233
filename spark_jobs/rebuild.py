"""Rebuilding a resource in parts, as `matchers` and `relays` do: one task lays out each, and the driver joins them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from formats.folder import Folder
from formats.parts import write_image
from spark_jobs.command import Order
from spark_jobs.images import make_room, pieces_of, storing
from spark_jobs.inputs import check
from spark_jobs.parts import SPARK_PARTS, Packed
from spark_jobs.progress import Progress
from spark_jobs.session import session


class Layout(NamedTuple):
    """How resources of a kind are laid out; `about` is what the manifest of a snapshot says of one.

    `source` is where in a snapshot the subscriptions of a resource are, by its name, and `count` how many parts it has.
    `task`, "module:function", is called with batches of numbers of parts, the filesystem, the path of the snapshot, the
    name of the resource, `about` and the path of the folder for pieces, and returns what `parts.write_parts` does.
    `join` makes the image of all parts in order.
    """

    source: Callable[[str], str]
    count: Callable[[dict[str, Any]], int]
    task: str
    join: Callable[[dict[str, Any], Sequence[Folder]], Packed]


def build_in_parts(order: Order, progress: Progress, layout: Layout) -> tuple[dict[str, Any], int]:
    """The job of rebuilding a resource."""
    began = time.monotonic()
    images, source = order.folder("images"), order.folder("snapshots")
    image, pieces = images / order.resource, pieces_of(images, order.resource)
    progress.step(0.0, "checking the files")
    manifest = check(source, "snapshot", order.lsn, [layout.source(order.name)])
    about = manifest["resources"][order.resource]
    count = layout.count(about)
    progress.step(0.05, "starting Spark")
    try:
        with session(f"Rankcast image of {order.resource}", order.options) as running:
            with storing(image):
                make_room(images, order.resource, pieces)
            with progress.follow(running.context, 0.2, 0.8, "laying out the indexes"):
                # What a task is given must not be of our classes: it is unpickled before they can be imported.
                task = running.task(layout.task, source.system, source.path, order.name, about, pieces.path)
                numbers = running.spark.range(0, count, 1, count)
                names = {row["number"]: row["name"] for row in numbers.mapInArrow(task, SPARK_PARTS).collect()}
        with storing(image):
            progress.step(0.8, "joining the parts")
            packed = layout.join(about, [pieces / names[number] for number in range(count)])
            progress.step(0.9, "writing the image")
            write_image(image, order.resource, order.lsn, packed)
    finally:
        with suppress(OSError):  # a task that was told to stop may still write; the next run deletes what is left
            pieces.delete()
    return {"rows": about["subscriptions"], "seconds": round(time.monotonic() - began, 1)}, 0
