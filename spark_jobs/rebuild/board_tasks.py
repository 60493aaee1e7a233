"""Tasks of `spark_jobs.rebuild.boards`: read, halve, pack and join pieces of an image.

A piece is an Arrow file of a random name in the folder of the run. A task reports the name at its end, and only
reported pieces are used: a task that runs twice leaves an unused piece, which is deleted with the folder.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
from pyarrow import fs

from formats.folder import Folder
from indexes.boards.kernels.range_tree import leaves_for
from indexes.boards.packing import (
    Nodes,
    PackedForest,
    PackedObjects,
    Slots,
    ends,
    join_cells,
    join_classes,
    lay_objects,
    object_slots,
    pack_cell,
    place,
)
from indexes.core.arrays import Ints
from spark_jobs.common.inputs import groups
from spark_jobs.rebuild.board_cells import Cells, Halves, halve
from spark_jobs.rebuild.ordering import Batches, position, together

Columns = TypeVar("Columns", Slots, Nodes, PackedObjects)

SUBSCRIPTIONS = ("sid", "l", "r", "k")
OBJECTS = ("x", "created", "y", "row")
"""The columns that an image is packed from."""

SPARK_POINTS = "q int, l double, r double, sid int"
SPARK_HALVES = "cell long, l double, r double, sid int, cut double"
SPARK_OBJECTS = "key double, created long, x double, y double, row int"
SPARK_PIECES = "at long, names array<string>"


class Piece(NamedTuple):
    """What a task packed: where it begins (the number of a cell, or of a slot of objects), and its files."""

    at: int
    names: tuple[str, ...]


# Reading.


def read_points(batches: Batches, system: fs.FileSystem, path: str, name: str, ks: Sequence[int]) -> Batches:
    """The subscriptions in the row groups with the numbers in `batches`, as points by class."""
    offered = np.array(ks, np.int64)
    for group in groups(batches, Folder(system, path), name, SUBSCRIPTIONS):
        sid, l, r, k = (group[column].to_numpy() for column in SUBSCRIPTIONS)
        q = np.searchsorted(offered, k)
        known = np.append(offered, 0)[q] == k
        if not known.all():
            raise ValueError(f"{path}/{name} has a subscription of k = {k[~known][0]}, which the board does not offer")
        columns = {"q": q.astype(np.int32), "l": ends(l), "r": ends(r), "sid": sid}
        yield pa.record_batch(columns)


def read_objects(batches: Batches, system: fs.FileSystem, path: str, name: str, sign: float) -> Batches:
    """The objects in the row groups with the numbers in `batches`; y as ranked, and x without negative zero as key."""
    for group in groups(batches, Folder(system, path), name, OBJECTS):
        x, created, y, row = (group[column].to_numpy() for column in OBJECTS)
        yield pa.record_batch({"key": x + 0.0, "created": created, "x": x, "y": y * sign, "row": row})


# Cutting and packing. `at` and `before` are those of `ordering`.


def halve_points(batches: Batches, before: Ints, number: Ints, start: Ints) -> Batches:
    """Assign sorted points to the cells after a level; `cut` is null except for the first of a right half."""
    for batch in batches:
        key = batch["key"].to_numpy()
        cell, value, cuts = halve(position(batch, before), key, Halves(number, start))
        cut = pa.array(value, mask=~cuts)
        yield pa.record_batch({"cell": cell, "l": batch["l"], "r": batch["r"], "sid": batch["sid"], "cut": cut})


def lay_cells(batches: Batches, system: fs.FileSystem, path: str, counts: Sequence[int], most: int) -> Batches:
    """Pack a cell, whose points are the partition."""
    whole = together(batches)
    if whole is None:
        return
    number = int(whole["cell"][0])
    if (whole["cell"] != number).any():
        raise ValueError(f"the partition of cell {number} holds points of others")
    slots, nodes = pack_cell(whole["sid"], whole["l"], whole["r"], *Cells(counts, most).place(number))
    folder = Folder(system, path)
    yield _reported(number, _write(folder, slots), _write(folder, nodes))


def lay_slots(batches: Batches, system: fs.FileSystem, path: str, before: Ints, n: int) -> Batches:
    """Pack the slots from that of a partition's first object to that of the next partition's first."""
    whole = together(batches, lambda batch: {"position": position(batch, before)})
    if whole is None:
        return
    lo, hi = int(whole["position"][0]), int(whole["position"][-1]) + 1
    bounds = [int(place(n, leaves_for(n), at, at + 1)[0]) if 0 < at < n else 0 for at in (lo, hi)]
    first, last = bounds[0], bounds[1] or object_slots(n)
    laid = lay_objects(whole["x"], whole["y"], whole["created"], whole["row"], n, lo, first, last)
    yield _reported(first, _write(Folder(system, path), laid))


def _reported(at: int, *names: str) -> pa.RecordBatch:
    return pa.record_batch({"at": np.array([at], np.int64), "names": pa.array([names], pa.list_(pa.string()))})


# Pieces.


def _write(folder: Folder, columns: Slots | Nodes | PackedObjects) -> str:
    """Write a piece; returns its name."""
    name = f"{uuid.uuid4().hex}.arrow"
    batch = pa.record_batch(columns._asdict())
    try:
        with (
            folder.system.open_output_stream(f"{folder.path}/{name}") as out,
            pa.ipc.new_file(out, batch.schema) as writer,
        ):
            writer.write_batch(batch)
    except OSError as error:
        raise OSError(f"{folder} cannot be written: {error.strerror or error}") from error
    return name


def _read(folder: Folder, name: str, kind: type[Columns]) -> Columns:
    with folder.open(name) as file:
        batch = pa.ipc.open_file(file.read_buffer()).get_batch(0)
    return kind(**{key: batch[key].to_numpy() for key in batch.schema.names})


def join_forest(
    folder: Folder,
    pieces: Sequence[Piece],
    ks: Sequence[int],
    cells: Cells,
    cuts: Sequence[Sequence[tuple[int, float]]],
) -> PackedForest:
    """Join the pieces of the cells of all classes; `cuts` are those of each class, as for `join_cells`."""
    of_cell = {piece.at: piece.names for piece in pieces}
    slots, nodes = [], []
    for q, n in enumerate(cells.counts):
        if n:
            mine = [of_cell[number] for number in cells.of_class(q)]
            slots += [_read(folder, name, Slots) for name, _ in mine]
            nodes.append(join_cells(n, cells.above[q], (_read(folder, name, Nodes) for _, name in mine), cuts[q]))
        else:
            empty = pack_cell(np.empty(0, np.int32), np.empty(0), np.empty(0), 0)
            slots.append(empty[0])
            nodes.append(empty[1])
    return join_classes(ks, cells.counts, slots, nodes)


def join_objects(folder: Folder, pieces: Sequence[Piece], n: int) -> PackedObjects:
    """Join the pieces of the slots of n objects."""
    if n == 0:
        none = np.empty(0)
        return lay_objects(none, none, none.astype(np.int64), none.astype(np.int32), 0, 0, 0, object_slots(0))
    parts = [_read(folder, piece.names[0], PackedObjects) for piece in sorted(pieces)]
    return PackedObjects(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
