"""Rebuilds in parts: tasks pack the parts of an image, and the driver joins them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from formats.folder import Folder
from formats.parts import write_image
from spark_jobs.common.command import Order
from spark_jobs.common.inputs import check
from spark_jobs.common.parts import SPARK_PARTS, Packed
from spark_jobs.common.progress import Progress
from spark_jobs.common.session import Running, session
from spark_jobs.rebuild.images import make_room, pieces_of, storing


class Run(NamedTuple):
    """A rebuild with its session: progress, the snapshot, the name of the resource and its entry in the manifest, and
    the folder for the parts."""

    session: Running
    progress: Progress
    source: Folder
    name: str
    about: dict[str, Any]
    pieces: Folder


class Layout(NamedTuple):
    """How resources of a type are rebuilt; `about` is the entry of a resource in the manifest of a snapshot.

    `source` is the path of its rows in the snapshot, by its name, and `rows` their number. `pack` runs tasks that write
    parts, and returns their names in order; `join` makes the image. `conf` are settings of Spark.
    """

    source: Callable[[str], str]
    rows: Callable[[dict[str, Any]], int]
    pack: Callable[[Run], list[str]]
    join: Callable[[dict[str, Any], Sequence[Folder]], Packed]
    conf: Mapping[str, str] = {}


def in_tasks(task: str, count: Callable[[dict[str, Any]], int]) -> Callable[[Run], list[str]]:
    """A `pack` of `count` parts, each by a task of its own.

    `task`, "module:function", is called with batches of numbers of parts, the filesystem, the path of the snapshot, the
    name of the resource, `about` and the path of the folder for parts, and returns the reports of `parts.write_parts`.
    """

    def pack(run: Run) -> list[str]:
        parts, source = count(run.about), run.source
        with run.progress.follow(run.session.context, 0.2, 0.8, "laying out the indexes"):
            # Arguments of tasks must not be of the project's classes: they are unpickled before these can be imported.
            places = source.system, source.path, run.name, run.about, run.pieces.path
            numbers = run.session.spark.range(0, parts, 1, parts)
            reports = numbers.mapInArrow(run.session.task(task, *places), SPARK_PARTS).collect()
        names = {row["number"]: row["name"] for row in reports}
        return [names[number] for number in range(parts)]

    return pack


def build_in_parts(order: Order, progress: Progress, layout: Layout) -> tuple[dict[str, Any], int]:
    """Run the rebuild of a resource; returns the last line of the job and its exit code."""
    began = time.monotonic()
    images, source = order.folder("images"), order.folder("snapshots")
    image, pieces = images / order.resource, pieces_of(images, order.resource)
    progress.step(0.0, "checking the files")
    manifest = check(source, "snapshot", order.lsn, [layout.source(order.name)])
    about = manifest["resources"][order.resource]
    progress.step(0.05, "starting Spark")
    try:
        with session(f"Rankcast image of {order.resource}", order.options, dict(layout.conf)) as running:
            with storing(image):
                make_room(images, order.resource, pieces)
            names = layout.pack(Run(running, progress, source, order.name, about, pieces))
        with storing(image):
            progress.step(0.8, "joining the parts")
            packed = layout.join(about, [pieces / name for name in names])
            progress.step(0.9, "writing the image")
            write_image(image, order.resource, order.lsn, packed)
    finally:
        with suppress(OSError):  # a cancelled task may still write; the next run deletes what is left
            pieces.delete()
    return {"rows": layout.rows(about), "seconds": round(time.monotonic() - began, 1)}, 0
