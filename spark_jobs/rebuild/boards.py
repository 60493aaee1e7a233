"""Pack a board's indexes from a snapshot and write them as an image: the same bytes as the service's own rebuild.

Reads   snapshots/LSN/boards/NAME/objects.parquet and subscriptions.parquet.
Writes  images/LSN/boards/NAME/: slots.arrow, nodes.arrow, objects.arrow and, last, manifest.json, which makes it valid.
Ends    with {"rows": objects and subscriptions, "seconds": s}.

Subscriptions are halved at medians, with one sort of all of them for each level, until no cell has more than --cell.
Each cell is packed by one task, which holds all its points: about 100 bytes a point. Tasks write their pieces to
images/LSN/boards/NAME~pieces-RANDOM/, so every worker needs access to the storage, by pyarrow and without Hadoop's
connector. The driver joins the pieces: it holds about 35 bytes a subscription or object, twice that at its peak,
besides the heap of Spark.

A run that was killed leaves no valid image, and the next one deletes its files. An existing image is replaced. Two
runs for the same board must not overlap.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.boards import config_of, write_image
from formats.folder import Folder
from indexes.boards.config import BoardConfig
from indexes.boards.packing import AXIS_R, Box, PackedBoard, widest
from spark_jobs.common.boards import of_one_attribute
from spark_jobs.common.command import Failed, Number, Order, main
from spark_jobs.common.inputs import check, row_groups
from spark_jobs.common.progress import Progress
from spark_jobs.common.session import Running, session
from spark_jobs.common.worker import Task
from spark_jobs.rebuild.board_cells import Cells
from spark_jobs.rebuild.board_tasks import (
    OBJECTS,
    SPARK_HALVES,
    SPARK_OBJECTS,
    SPARK_PIECES,
    SPARK_POINTS,
    SUBSCRIPTIONS,
    Piece,
    join_forest,
    join_objects,
)
from spark_jobs.rebuild.images import make_room, pieces_of, storing
from spark_jobs.rebuild.ordering import in_order, numbered

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

CELL = Number("cell", 250_000, "points that one task lays out, at most")


class Source(NamedTuple):
    """A Parquet file of the snapshot."""

    folder: Folder
    name: str
    rows: int
    groups: int


class Cut(NamedTuple):
    """The cells of the subscriptions, with their pieces, and the cuts of their classes."""

    cells: Cells
    cuts: list[list[tuple[int, float]]]
    pieces: list[Piece]


@dataclass(frozen=True)
class Run:
    """A session, its progress, and the folder for its pieces."""

    session: Running
    progress: Progress
    folder: Folder

    @property
    def place(self) -> tuple[Any, str]:
        """The folder as an argument of tasks, which are unpickled before the project's classes can be imported."""
        return self.folder.system, self.folder.path


def build(order: Order, progress: Progress) -> tuple[dict[str, Any], int]:
    """Run the job; returns its last line and exit code."""
    began = time.monotonic()
    images, most = order.folder("images"), order.numbers[CELL.name]
    image, folder = images / order.resource, pieces_of(images, order.resource)
    progress.step(0.0, "checking the files")
    config, objects, subscriptions = _sources(order)
    progress.step(0.05, "starting Spark")
    # Adaptive execution would make fewer partitions than are asked for.
    conf = {"spark.sql.adaptive.enabled": "false"}
    try:
        with session(f"Rankcast image of {order.resource}", order.options, conf) as running:
            with storing(image):
                make_room(images, order.resource, folder)
            run = Run(running, progress, folder)
            laid = _lay_objects(run, objects, -1.0 if config.order == "desc" else 1.0)
            cut = _lay_subscriptions(run, subscriptions, config.ks, most)
        with storing(image):
            progress.step(0.85, "joining the pieces")
            forest = join_forest(folder, cut.pieces, config.ks, cut.cells, cut.cuts)
            packed = PackedBoard(forest, join_objects(folder, laid, objects.rows))
            progress.step(0.9, "writing the image")
            write_image(image, order.resource, order.lsn, packed)
    finally:
        with suppress(OSError):  # a cancelled task may still write; the next run deletes what is left
            folder.delete()
    return {"rows": objects.rows + subscriptions.rows, "seconds": round(time.monotonic() - began, 1)}, 0


def _sources(order: Order) -> tuple[BoardConfig, Source, Source]:
    """The board's configuration, objects and subscriptions. Raises `Damaged` and `Failed`."""
    snapshot = order.folder("snapshots")
    objects, subscriptions = (f"{order.resource}/{name}.parquet" for name in ("objects", "subscriptions"))
    about = check(snapshot, "snapshot", order.lsn, [objects, subscriptions])["resources"][order.resource]
    of_one_attribute(order.resource, about)

    def source(name: str, columns: Sequence[str], rows: int) -> Source:
        return Source(snapshot, name, rows, row_groups(snapshot, name, columns, rows))

    return (
        config_of(about["config"]),
        source(objects, OBJECTS, about["objects"]),
        source(subscriptions, SUBSCRIPTIONS, about["subscriptions"]),
    )


def _lay_objects(run: Run, source: Source, sign: float) -> list[Piece]:
    """Sort the objects by position, and pack each part of them."""
    with run.progress.follow(run.session.context, 0.15, 0.25, "laying out the objects", jobs=3):
        if source.rows == 0:
            return []
        rows = _read(run, source, SPARK_OBJECTS, "read_objects", sign)
        ordered, before = in_order(run.session, rows, source.rows, "key", "created")
        task = _task(run, "lay_slots", *run.place, before, source.rows)
        pieces = _pieces(numbered(ordered).mapInArrow(task, SPARK_PIECES))
        ordered.unpersist()
        return pieces


def _lay_subscriptions(run: Run, source: Source, ks: Sequence[int], most: int) -> Cut:
    """Cut the subscriptions of each class into cells, and pack each of these."""
    from pyspark.sql import functions as fn

    with run.progress.follow(run.session.context, 0.25, 0.35, "reading the subscriptions"):
        points = _read(run, source, SPARK_POINTS, "read_points", tuple(ks)).persist()
        found = _boxes(points, "q")
    cells = Cells([found[q]["size"] if q in found else 0 for q in range(len(ks))], most)
    if cells.total == 0:
        return Cut(cells, [[] for _ in ks], [])
    cuts, cut = _cut(run, points, cells, {cells.first[q]: _box(row) for q, row in found.items()})
    with run.progress.follow(run.session.context, 0.7, 0.85, "laying out the subscriptions"):
        task = _task(run, "lay_cells", *run.place, cells.counts, most)
        by_cell = cut.repartitionById(cells.total, fn.col("cell").cast("int"))
        pieces = _pieces(by_cell.mapInArrow(task, SPARK_PIECES))
    if [piece.at for piece in sorted(pieces)] != list(range(cells.total)):
        raise Failed(f"{len(pieces)} cells of {cells.total} were laid out")
    return Cut(cells, cuts, pieces)


def _cut(
    run: Run, points: DataFrame, cells: Cells, boxes: dict[int, Box]
) -> tuple[list[list[tuple[int, float]]], DataFrame]:
    """Halve the cells, level by level, from persisted points with their classes, and the bounding boxes of the classes.

    Returns the cuts of each class, and the points with their cells in the end.
    """
    from pyspark.sql import DataFrame
    from pyspark.sql import functions as fn

    cuts: list[list[tuple[int, float]]] = [[] for _ in cells.counts]
    first = fn.array(*map(fn.lit, cells.first))[fn.col("q")].cast("long")
    done, kept, points = [], points, points.select(first.alias("cell"), "l", "r", "sid")
    for level in range(cells.levels):
        low = 0.35 + 0.35 * level / cells.levels
        step = f"halving the subscriptions, level {level + 1} of {cells.levels}"
        with run.progress.follow(run.session.context, low, low + 0.35 / cells.levels, step, jobs=3):
            open_ = cells.open(level)
            axis = {number: widest(boxes[number]) for q in open_ for number in cells.of_class(q, level)}
            if len(axis) < len(boxes):
                going_on = fn.col("cell").isin(list(axis))
                done.append(points.where(~going_on))
                points = points.where(going_on)
            along_r = fn.col("cell").isin([number for number, side in axis.items() if side == AXIS_R])
            keyed = points.withColumn("key", fn.when(along_r, fn.col("r")).otherwise(fn.col("l")))
            size = sum(cells.counts[q] for q in open_)
            ordered, before = in_order(run.session, keyed, size, "cell", "key", "sid")
            task = _task(run, "halve_points", before, *cells.halves(level))
            halved = numbered(ordered.drop("cell")).mapInArrow(task, SPARK_HALVES).persist()
            found = _boxes(halved, "cell", fn.max("cut").alias("cut"))
            ordered.unpersist()
            if len(axis) == len(boxes):
                kept.unpersist()
            kept, points = halved, halved.drop("cut")
            boxes = {number: _box(row) for number, row in found.items()}
            for q in open_:
                rights = cells.of_class(q, level + 1)[1::2]
                cuts[q] += [
                    (axis[number], found[right]["cut"])
                    for number, right in zip(cells.of_class(q, level), rights, strict=True)
                ]
    return cuts, reduce(DataFrame.unionByName, [*done, points])


def _boxes(points: DataFrame, by: str, *more: Column) -> dict[int, Row]:
    """The bounding box and the size of each group of points, and more."""
    from pyspark.sql import functions as fn

    west, east = fn.min("l").alias("west"), fn.max("l").alias("east")
    south, north = fn.min("r").alias("south"), fn.max("r").alias("north")
    groups = points.groupBy(by).agg(west, east, south, north, fn.count("*").alias("size"), *more)
    return {row[by]: row for row in groups.collect()}


def _box(row: Row) -> Box:
    return Box(row["west"], row["east"], row["south"], row["north"])


def _read(run: Run, source: Source, schema: str, target: str, *arguments: Any) -> DataFrame:
    """The result of a function of `board_tasks` for a file, with a task for each row group."""
    task = _task(run, target, source.folder.system, source.folder.path, source.name, *arguments)
    groups = max(source.groups, 1)
    return run.session.spark.range(0, source.groups, 1, groups).mapInArrow(task, schema)


def _task(run: Run, target: str, *arguments: Any) -> Task:
    return run.session.task(f"spark_jobs.rebuild.board_tasks:{target}", *arguments)


def _pieces(reported: DataFrame) -> list[Piece]:
    """Run tasks that write pieces; returns those of successful tasks."""
    return [Piece(row["at"], tuple(row["names"])) for row in reported.collect()]


if __name__ == "__main__":
    main("rebuild.boards", __doc__ or "", build, numbers=[CELL])
