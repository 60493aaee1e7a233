"""Tasks of `spark_jobs.rebuild.maps`: read objects, pack and join slabs of the R-tree."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyarrow import fs

from formats.folder import Folder
from indexes.core.packing import packed, unpacked
from indexes.maps.kernels.rtree import Slab, Tree, fanout_of, first_key, join, lay_slab
from spark_jobs.common.inputs import groups
from spark_jobs.common.parts import read_part, write_part
from spark_jobs.rebuild.ordering import Batches, together

SLAB = "slab"


def spark_objects(d: int) -> str:
    """Spark's columns of objects of d attributes: the sort key, the slot, and coordinates."""
    return ", ".join(["key double", "slot int", *(f"{name} double" for name in coordinates(d))])


def coordinates(d: int) -> list[str]:
    """The names of the columns of coordinates: both of the place, then the static values."""
    return [f"c{j}" for j in range(2 + d)]


def read_objects(
    batches: Batches, system: fs.FileSystem, path: str, name: str, columns: Sequence[str], signs: Sequence[float]
) -> Batches:
    """The objects in the row groups with the numbers in `batches`; coordinates are these columns times `signs`."""
    for group in groups(batches, Folder(system, path), name, ["row", *columns]):
        values = [group[column].to_numpy() * sign + 0.0 for column, sign in zip(columns, signs, strict=True)]
        named = dict(zip(coordinates(len(values) - 2), values, strict=True))
        yield pa.record_batch({"key": first_key(values[0]), "slot": group["row"].to_numpy(), **named})


def lay_slabs(batches: Batches, system: fs.FileSystem, path: str, n: int, d: int) -> Batches:
    """Pack a slab of n objects of d attributes, whose objects are the partition, in any order."""
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
    """Join all slabs, in order, to a tree. Raises `Damaged`."""
    slabs = [unpacked(Slab, read_part(part)[SLAB]) for part in parts]
    none = lay_slab(np.empty((0, 2 + d)), np.empty(0, np.int32), 0, fanout_of(d), 2 + d)
    return join(slabs or [none], fanout_of(d), 2 + d)
