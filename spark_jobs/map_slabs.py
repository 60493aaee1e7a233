"""What the tasks of `spark_jobs.maps` do: read objects, lay out slabs of the R-tree; and how slabs are joined."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyarrow import fs

from formats.folder import Folder
from indexes.maps.rtree import Slab, Tree, fanout_of, first_key, join, lay_slab
from indexes.parts import packed, unpacked
from spark_jobs.inputs import groups
from spark_jobs.ordering import Batches, together
from spark_jobs.parts import read_part, write_part

SLAB = "slab"


def spark_objects(d: int) -> str:
    """The columns of objects of d attributes on their way: what they are sorted by, and their coordinates."""
    return ", ".join(["key double", "slot int", *(f"{name} double" for name in coordinates(d))])


def coordinates(d: int) -> list[str]:
    """How the columns of coordinates are called: both of the place, then the static values."""
    return [f"c{j}" for j in range(2 + d)]


def read_objects(
    batches: Batches, system: fs.FileSystem, path: str, name: str, columns: Sequence[str], signs: Sequence[float]
) -> Batches:
    """The objects in the row groups whose numbers come in, with these columns as coordinates, times `signs`."""
    for group in groups(batches, Folder(system, path), name, ["row", *columns]):
        values = [group[column].to_numpy() * sign + 0.0 for column, sign in zip(columns, signs, strict=True)]
        named = dict(zip(coordinates(len(values) - 2), values, strict=True))
        yield pa.record_batch({"key": first_key(values[0]), "slot": group["row"].to_numpy(), **named})


def lay_slabs(batches: Batches, system: fs.FileSystem, path: str, n: int, d: int) -> Batches:
    """Lay out a slab of n objects of d attributes, all objects of which are the partition, in any order."""
    whole = together(batches)
    if whole is None:
        return
    number = int(whole[SLAB][0])
    if (whole[SLAB] != number).any():
        raise ValueError(f"the partition of slab {number} holds objects of others")
    order = np.lexsort((whole["slot"], whole["key"]))
    rows = np.column_stack([whole[name] for name in coordinates(d)])[order]
    slab = lay_slab(rows, whole["slot"][order].astype(np.int32), n, fanout_of(d), 2 + d)
    yield write_part(Folder(system, path), number, {SLAB: packed(slab, {})})


def join_slabs(d: int, parts: Sequence[Folder]) -> Tree:
    """The tree of all slabs, in order. Raises `Damaged`."""
    slabs = [unpacked(Slab, read_part(part)[SLAB]) for part in parts]
    none = lay_slab(np.empty((0, 2 + d)), np.empty(0, np.int32), 0, fanout_of(d), 2 + d)
    return join(slabs or [none], fanout_of(d), 2 + d)
