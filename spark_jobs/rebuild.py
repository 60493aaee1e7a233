"""Rebuilding a resource whose image is of parts: tasks lay out parts of it, and the driver joins them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from formats.folder import Folder
from formats.parts import write_image
from spark_jobs.command import Order
from spark_jobs.images import make_room, pieces_of, storing
from spark_jobs.inputs import check
from spark_jobs.parts import SPARK_PARTS, Packed
from spark_jobs.progress import Progress
from spark_jobs.session import Running, session


class Run(NamedTuple):
    """A rebuild that has Spark: the snapshot, the resource's name and what the manifest says of it, the folder for the
    parts, and whom to tell how far it is."""

    session: Running
    progress: Progress
    source: Folder
    name: str
    about: dict[str, Any]
    pieces: Folder


class Layout(NamedTuple):
    """How resources of a kind are laid out; `about` is what the manifest of a snapshot says of one.

    `source` is where in a snapshot the rows of a resource are, by its name, and `rows` how many they are. `lay_out` has
    parts laid out, and returns their names in order; `join` makes the image of all. `conf` are settings of Spark.
    """

    source: Callable[[str], str]
    rows: Callable[[dict[str, Any]], int]
    lay_out: Callable[[Run], list[str]]
    join: Callable[[dict[str, Any], Sequence[Folder]], Packed]
    conf: Mapping[str, str] = {}


def in_tasks(task: str, count: Callable[[dict[str, Any]], int]) -> Callable[[Run], list[str]]:
    """A `lay_out` of so many parts, each by a task of its own.

    `task`, "module:function", is called with batches of numbers of parts, the filesystem, the path of the snapshot, the
    name of the resource, `about` and the path of the folder for parts, and returns what `parts.write_parts` does.
    """

    def lay_out(run: Run) -> list[str]:
        parts, source = count(run.about), run.source
        with run.progress.follow(run.session.context, 0.2, 0.8, "laying out the indexes"):
            # What a task is given must not be of our classes: it is unpickled before they can be imported.
            places = source.system, source.path, run.name, run.about, run.pieces.path
            numbers = run.session.spark.range(0, parts, 1, parts)
            told = numbers.mapInArrow(run.session.task(task, *places), SPARK_PARTS).collect()
        names = {row["number"]: row["name"] for row in told}
        return [names[number] for number in range(parts)]

    return lay_out


def build_in_parts(order: Order, progress: Progress, layout: Layout) -> tuple[dict[str, Any], int]:
    """The job of rebuilding a resource."""
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
            names = layout.lay_out(Run(running, progress, source, order.name, about, pieces))
        with storing(image):
            progress.step(0.8, "joining the parts")
            packed = layout.join(about, [pieces / name for name in names])
            progress.step(0.9, "writing the image")
            write_image(image, order.resource, order.lsn, packed)
    finally:
        with suppress(OSError):  # a task that was told to stop may still write; the next run deletes what is left
            pieces.delete()
    return {"rows": layout.rows(about), "seconds": round(time.monotonic() - began, 1)}, 0
