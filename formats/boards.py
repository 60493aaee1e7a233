"""A board on disk: its part of a snapshot, as Parquet files, and its image, as Arrow files.

A snapshot holds what the board is (`BoardState`); `docs/operations.md` names the columns. An image holds its indexes
packed afresh (`PackedBoard`), column by column as kernels take them, so that it is mapped into memory as it is. A page
of it that changes becomes the process's own: the file is the base, the pages that differ are the delta.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from formats.folder import Damaged, Draft, Folder
from indexes.boards.commands import BoardConfig
from indexes.boards.packing import Nodes, PackedBoard, PackedForest, PackedObjects, Slots
from indexes.boards.state import BoardState, ObjectColumns, SubscriptionColumns
from indexes.boards.verify import Lists
from indexes.ids import Packed

RESOURCE = "boards/"

OBJECTS = pa.schema(
    [
        pa.field("row", pa.int32(), nullable=False),
        pa.field("id", pa.string(), nullable=False),
        pa.field("x", pa.float64(), nullable=False),
        pa.field("y", pa.float64(), nullable=False),
        pa.field("created", pa.int64(), nullable=False),
        pa.field("payload", pa.binary()),
    ]
)
SUBSCRIPTIONS = pa.schema(
    [
        pa.field("sid", pa.int32(), nullable=False),
        pa.field("id", pa.large_string(), nullable=False),
        pa.field("l", pa.float64(), nullable=False),
        pa.field("r", pa.float64(), nullable=False),
        pa.field("k", pa.int32(), nullable=False),
        pa.field("ttl", pa.float64()),
    ]
)
FREE = pa.schema([pa.field("kind", pa.string(), nullable=False), pa.field("row", pa.int32(), nullable=False)])

LISTS = pa.schema([pa.field("sid", pa.int32()), pa.field("rows", pa.list_(pa.int32()))])

PIECE = 20_000
"""Python's strings that are taken up at once."""

ROWS = 1 << 17
"""Rows in a row group."""


def config_fields(config: BoardConfig) -> dict[str, Any]:
    """A configuration as a manifest holds it."""
    return asdict(config)


def config_of(fields: dict[str, Any]) -> BoardConfig:
    """The configuration in a manifest or in the log."""
    lists = {key: tuple(fields[key]) for key in ("range_attributes", "ks")}
    return BoardConfig(**{**fields, **lists})


def write_state(draft: Draft, name: str, state: BoardState) -> dict[str, Any]:
    """Write a board's part of a snapshot; returns what the manifest says of it."""
    o, s = state.objects, state.subscriptions
    objects = [o.row, _texts(o.id, pa.string()), o.x, o.y, o.created, _texts(o.payload, pa.binary())]
    ttl = pa.array(s.ttl, pa.float64(), mask=np.isnan(s.ttl))
    subscriptions = [s.ids.row, _strings(s.ids), s.l, s.r, s.k, ttl]
    kinds = ["object"] * len(state.free_objects) + ["subscription"] * len(state.free_subscriptions)
    free = [pa.array(kinds, pa.string()), np.concatenate([state.free_objects, state.free_subscriptions])]
    place = RESOURCE + name
    _write_table(draft, f"{place}/objects.parquet", OBJECTS, objects)
    _write_table(draft, f"{place}/subscriptions.parquet", SUBSCRIPTIONS, subscriptions)
    _write_table(draft, f"{place}/free.parquet", FREE, free)
    return {
        "seq": state.seq,
        "config": config_fields(state.config),
        "objects": len(o.id),
        "subscriptions": len(s.l),
        "next_created": state.next_created,
        "object_rows": state.object_rows,
        "subscription_rows": state.subscription_rows,
    }


def read_state(folder: Folder, name: str, about: dict[str, Any]) -> BoardState:
    """A board's part of a snapshot, whose manifest says `about` it. Raises `Damaged`."""
    place = RESOURCE + name
    o = _read_table(folder, f"{place}/objects.parquet", OBJECTS)
    s = _read_table(folder, f"{place}/subscriptions.parquet", SUBSCRIPTIONS)
    free = _read_table(folder, f"{place}/free.parquet", FREE)
    kinds, rows = np.array(free["kind"].to_pylist(), object), free["row"].to_numpy()
    if (len(o), len(s)) != (about["objects"], about["subscriptions"]):
        raise Damaged(f"{folder}/{place} holds other numbers of rows than its manifest says")
    ids = _joined(s["id"])
    text, offset = ids.buffers()[2], np.frombuffer(ids.buffers()[1], np.int64, len(ids) + 1)
    return BoardState(
        config_of(about["config"]),
        about["seq"],
        about["next_created"],
        about["object_rows"],
        about["subscription_rows"],
        rows[kinds == "object"],
        rows[kinds == "subscription"],
        ObjectColumns(
            o["row"].to_numpy(),
            o["id"].to_pylist(),
            o["x"].to_numpy(),
            o["y"].to_numpy(),
            o["created"].to_numpy(),
            o["payload"].to_pylist(),
        ),
        SubscriptionColumns(
            # The rows of ids change in place when ids go.
            Packed(np.frombuffer(text, np.uint8), offset, s["sid"].to_numpy().copy()),
            s["l"].to_numpy(),
            s["r"].to_numpy(),
            s["k"].to_numpy(),
            s["ttl"].to_numpy(),
        ),
    )


def write_image(folder: Folder, resource: str, lsn: int, packed: PackedBoard) -> int:
    """Write a board's image; returns its size in bytes. The same indexes make the same bytes."""
    head = packed.forest.head.tolist()
    with folder.draft() as draft:
        _write_columns(draft, "slots.arrow", packed.forest.slots._asdict())
        _write_columns(draft, "nodes.arrow", packed.forest.nodes._asdict())
        _write_columns(draft, "objects.arrow", packed.objects._asdict())
        draft.publish({"kind": "image", "lsn": lsn, "resource": resource, "ks": list(packed.forest.ks), "head": head})
    return draft.bytes


def read_image(folder: Folder) -> PackedBoard:
    """A board's image, mapped where it is a local file. Its columns may be written to; the files never change.

    Raises `Damaged` when a file is not what the manifest says, or the folder is no image.
    """
    about = folder.verify()
    try:
        slots, nodes, objects = (_read_columns(folder, f"{name}.arrow") for name in ("slots", "nodes", "objects"))
        head = np.array(about["head"], np.int64).reshape(-1, 4)
        forest = PackedForest(tuple(about["ks"]), head, Slots(**slots), Nodes(**nodes))
        return PackedBoard(forest, PackedObjects(**objects))
    except (KeyError, ValueError, TypeError, OSError, pa.ArrowException) as error:
        raise Damaged(f"{folder} is no image of a board") from error


def write_lists(draft: Draft, name: str, lists: Iterable[tuple[np.ndarray[Any, Any], Lists]]) -> None:
    """Write what a board's index answers to subscriptions, for an audit: by sid, the rows of objects, best first."""
    place = f"{RESOURCE}{name}/lists.parquet"
    with draft.file(place) as out, pq.ParquetWriter(out, LISTS, compression="zstd") as writer:
        for sids, found in lists:
            inside = np.arange(found.rows.shape[1]) < found.length[:, None]
            offsets = np.concatenate([[0], np.cumsum(found.length)]).astype(np.int32)
            column = pa.ListArray.from_arrays(offsets, pa.array(found.rows[inside]))
            writer.write_batch(pa.RecordBatch.from_arrays([pa.array(sids), column], schema=LISTS))


def _texts(values: Sequence[str | bytes | None], kind: pa.DataType) -> pa.ChunkedArray:
    """Python's strings as a column, in pieces between which other threads have their turn."""
    return pa.chunked_array([pa.array(values[i : i + PIECE], kind) for i in range(0, len(values), PIECE)], kind)


def _strings(ids: Packed) -> pa.LargeStringArray:
    text, offset = pa.py_buffer(np.ascontiguousarray(ids.text)), pa.py_buffer(np.ascontiguousarray(ids.offset))
    return pa.LargeStringArray.from_buffers(len(ids.row), offset, text)


def _joined(column: pa.ChunkedArray) -> pa.LargeStringArray:
    joined = column.combine_chunks()
    if isinstance(joined, pa.ChunkedArray):
        joined = pa.concat_arrays(joined.chunks) if joined.num_chunks else pa.array([], pa.large_string())
    return joined if joined.offset == 0 and joined.buffers()[2] is not None else pa.concat_arrays([joined])


def _write_table(draft: Draft, name: str, schema: pa.Schema, columns: list[Any]) -> None:
    arrays = [
        column if isinstance(column, pa.ChunkedArray) else pa.array(column, field.type)
        for column, field in zip(columns, schema, strict=True)
    ]
    table = pa.Table.from_arrays(arrays, schema=schema)
    with draft.file(name, rows=len(table)) as out:
        pq.write_table(table, out, compression="zstd", row_group_size=ROWS, use_dictionary=["k", "kind"])


def _read_table(folder: Folder, name: str, schema: pa.Schema) -> pa.Table:
    try:
        with folder.open(name) as file:
            # Given a schema the reader would make up columns that are not there.
            return pq.read_table(file).cast(schema)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Damaged(f"{folder}/{name} cannot be read: {error}") from error


def _write_columns(draft: Draft, name: str, columns: dict[str, np.ndarray[Any, Any]]) -> None:
    batch = pa.record_batch({key: pa.array(column) for key, column in columns.items()})
    with draft.file(name, rows=len(batch)) as out, pa.ipc.new_file(out, batch.schema) as writer:
        writer.write_batch(batch)


def _read_columns(folder: Folder, name: str) -> dict[str, np.ndarray[Any, Any]]:
    """The columns of the one batch of an Arrow file, over memory that may be written to."""
    memory: Any
    if folder.local is not None:
        with (folder.local / name).open("rb") as file:
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    else:
        with folder.open(name) as file:
            memory = bytearray(file.read_buffer())
    whole = np.frombuffer(memory, np.uint8)
    batch = pa.ipc.open_file(pa.py_buffer(memory)).get_batch(0)
    return {key: _view(whole, batch.column(key)) for key in batch.schema.names}


def _view(whole: np.ndarray[Any, Any], column: pa.Array) -> np.ndarray[Any, Any]:
    kind = np.dtype(column.type.to_pandas_dtype())
    values = column.buffers()[1]
    if len(column) == 0:
        return np.empty(0, kind)
    start = values.address - whole.ctypes.data + column.offset * kind.itemsize
    return whole[start : start + len(column) * kind.itemsize].view(kind)
