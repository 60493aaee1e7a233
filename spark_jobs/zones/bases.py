"""The state of parts at rest: folders as a snapshot of the service has them, read zone by zone.

A base is one or more folders, of which the first has the objects and all together the subscriptions. The service's
snapshot is a base of one folder; a checkpoint has one folder for each part. A part takes from them what lies in its
area, batch by batch, so that it never holds more than its own subscriptions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from formats.boards import RESOURCE, config_of, object_schema, write_state
from formats.columns import read_table
from formats.folder import Damaged, Folder
from indexes.boards.config import BoardConfig
from indexes.boards.engine import BoardEngine
from indexes.boards.regions import ranges
from indexes.boards.state import BoardState, ObjectColumns, SubscriptionColumns, board_of, state_of
from indexes.boards.zones import EVERYWHERE, Cut, Zone
from indexes.core.arrays import Bools, Floats, Rows
from indexes.core.ids import pack
from spark_jobs.zones.layout import overlap

BATCH = 65_536
"""Subscriptions that are looked at together."""

KIND = "zones"

_COLUMNS = ["id", "l", "r", "k", "offset"]

_NOTHING = np.empty(0)


class Base(NamedTuple):
    """The folders of a base, in plain values for tasks: of each its path and its area."""

    system: fs.FileSystem
    name: str
    folders: tuple[tuple[str, tuple[float, float, float, float]], ...]


def inside(area: Zone, l: Floats, r: Floats) -> Bools:
    """Which points lie in an area."""
    found: Bools = (l >= area.l_lo) & (r >= area.r_lo)
    if area.l_hi < EVERYWHERE.l_hi:
        found &= l < area.l_hi
    if area.r_hi < EVERYWHERE.r_hi:
        found &= r < area.r_hi
    return found


def part_config(config: BoardConfig) -> BoardConfig:
    """The configuration of a part's engine, which says all its tiles."""
    return replace(config, zones=1, cut=Cut(1, 0, (EVERYWHERE,)))


def load(base: Base, area: Zone) -> BoardEngine:
    """The engine of a part: all objects, and the subscriptions in its area. Raises `Damaged`."""
    folders = [(Folder(base.system, path), Zone(*zone)) for path, zone in base.folders]
    resource = RESOURCE + base.name
    about = folders[0][0].manifest()["resources"][resource]
    found = [
        _subscriptions(folder, f"{resource}/subscriptions.parquet", area)
        for folder, has in folders
        if overlap(area, has)
    ]
    ids = pa.concat_arrays([one.ids for one in found]) if found else pa.array([], pa.string())
    l, r, k, offset = (
        np.concatenate([getattr(one, name) for one in found]) if found else _NOTHING
        for name in ("l", "r", "k", "offset")
    )
    packed = pack(ids, np.arange(len(ids), dtype=np.int32))
    order = packed.row
    state = BoardState(
        part_config(config_of(about["config"])),
        about["seq"],
        about["next_created"],
        about["object_rows"],
        len(ids),
        _free_objects(folders[0][0], resource),
        np.empty(0, np.int32),
        _objects(folders[0][0], resource),
        SubscriptionColumns(
            packed._replace(row=packed.row.copy()),
            ranges(l[order], r[order]),
            k[order].astype(np.int32),
            np.full(len(ids), np.nan),
            offset[order].astype(np.int32),
        ),
    )
    return board_of(state)


def save(folder: Folder, name: str, board: BoardEngine, config: BoardConfig, seq: int, objects: bool) -> None:
    """Write a part, with or without the objects, which all parts have alike. What was there before is replaced."""
    plan = board.capture()
    while not plan.done:
        plan.execute(1.0)
        plan.publish()
    assert plan.captured is not None
    state = state_of(plan.captured)._replace(config=config, seq=seq)
    if not objects:
        empty = ObjectColumns(np.empty(0, np.int32), [], _NOTHING, _NOTHING, np.empty(0, np.int64), [])
        state = state._replace(objects=empty)
    write(folder, name, state)


def write(folder: Folder, name: str, state: BoardState) -> None:
    """Write a state as a folder of a base. What was there before is replaced."""
    folder.delete()
    with folder.draft() as draft:
        about = write_state(draft, name, state)
        draft.publish({"kind": KIND, "lsn": 0, "resources": {RESOURCE + name: about}})


class _Found(NamedTuple):
    ids: pa.StringArray
    l: Floats
    r: Floats
    k: Rows
    offset: Rows


def _subscriptions(folder: Folder, name: str, area: Zone) -> _Found:
    """The subscriptions of a file in an area. Holds them and one batch."""
    pieces: list[_Found] = []
    try:
        with folder.open(name) as file:
            parquet = pq.ParquetFile(file)
            columns = [column for column in _COLUMNS if column in parquet.schema_arrow.names]
            for batch in parquet.iter_batches(BATCH, columns=columns):
                l, r = batch["l"].to_numpy(), batch["r"].to_numpy()
                mine = inside(area, l, r)
                kept = pa.array(np.flatnonzero(mine))
                old = "offset" not in columns
                offset = np.zeros(len(kept), np.int32) if old else batch["offset"].to_numpy()[mine]
                ids = batch["id"].cast(pa.string()).take(kept)
                pieces.append(_Found(ids, l[mine], r[mine], batch["k"].to_numpy()[mine], offset))
    except (pa.ArrowException, KeyError, OSError) as error:
        raise Damaged(f"{folder}/{name} cannot be read: {str(error).splitlines()[0]}") from error
    if not pieces:
        return _Found(pa.array([], pa.string()), _NOTHING, _NOTHING, np.empty(0, np.int32), np.empty(0, np.int32))
    return _Found(
        pa.concat_arrays([one.ids for one in pieces]),
        *(np.concatenate([getattr(one, column) for one in pieces]) for column in _Found._fields[1:]),
    )


def _objects(folder: Folder, resource: str) -> ObjectColumns:
    o = read_table(folder, f"{resource}/objects.parquet", object_schema(1))
    return ObjectColumns(
        o["row"].to_numpy(), o["id"].to_pylist(), o["x"].to_numpy(), o["y"].to_numpy(), o["created"].to_numpy(),
        o["payload"].to_pylist(),
    )  # fmt: skip


def _free_objects(folder: Folder, resource: str) -> Rows:
    free = read_table(folder, f"{resource}/free.parquet", pa.schema([("kind", pa.string()), ("row", pa.int32())]))
    kinds: list[str] = free["kind"].to_pylist()
    rows: list[int] = free["row"].to_pylist()
    return np.array([row for kind, row in zip(kinds, rows, strict=True) if kind == "object"], np.int32)


def plain(areas: Sequence[Zone], paths: Sequence[str]) -> tuple[tuple[str, Any], ...]:
    """The folders of a base."""
    return tuple((path, tuple(area)) for path, area in zip(paths, areas, strict=True))
