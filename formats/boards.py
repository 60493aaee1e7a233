"""A board on disk: its part of a snapshot, as Parquet files, and its image, as Arrow files.

A snapshot holds what the board is (`BoardState`); `docs/operations.md` names the columns. An image holds its indexes
packed afresh (`PackedBoard`), column by column as kernels take them, so that it is mapped into memory as it is. A page
of it that changes becomes the process's own: the file is the base, the pages that differ are the delta.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from formats.columns import (
    parquet_file,
    read_columns,
    read_long_table,
    read_table,
    strings,
    texts,
    write_columns,
    write_table,
)
from formats.folder import Damaged, Draft, Folder
from formats.regions import columns_of, joined_places, place_columns, place_names, region_fields, regions_of
from indexes.boards.config import BoardConfig
from indexes.boards.kernels.scan import Lists
from indexes.boards.packing import Nodes, PackedBoard, PackedForest, PackedObjects, Slots
from indexes.boards.state import BoardState, ObjectColumns, SubscriptionColumns
from indexes.boards.zones import Cut, fields_of_zones, zones_of_fields
from indexes.core.ids import Packed

RESOURCE = "boards/"

VALUES = pa.schema([pa.field("code", pa.float64(), nullable=False), pa.field("text", pa.string(), nullable=False)])
"""Values of indexed fields, on boards that have some."""

FREE = pa.schema([pa.field("kind", pa.string(), nullable=False), pa.field("row", pa.int32(), nullable=False)])

LISTS = pa.schema([pa.field("sid", pa.int32()), pa.field("rows", pa.list_(pa.int32()))])


def object_schema(d: int) -> pa.Schema:
    """The columns of objects of a board with `d` range attributes: `x`, or `x1` and on."""
    return pa.schema(
        [
            pa.field("row", pa.int32(), nullable=False),
            pa.field("id", pa.string(), nullable=False),
            *(pa.field(name, pa.float64(), nullable=False) for name in place_names(d)),
            pa.field("y", pa.float64(), nullable=False),
            pa.field("created", pa.int64(), nullable=False),
            pa.field("payload", pa.binary()),
        ]
    )


def subscription_schema(d: int) -> pa.Schema:
    """The columns of subscriptions of a board with `d` range attributes.

    `k` is the class, offset and all. Without a column `offset`, as it was written before there was one, that is 0.
    """
    return pa.schema(
        [
            pa.field("sid", pa.int32(), nullable=False),
            pa.field("id", pa.large_string(), nullable=False),
            *region_fields(d),
            pa.field("k", pa.int32(), nullable=False),
            pa.field("ttl", pa.float64()),
            pa.field("offset", pa.int32(), nullable=False),
        ]
    )


def config_fields(config: BoardConfig) -> dict[str, Any]:
    """A configuration as a manifest stores it."""
    cut = config.cut
    fields = {**asdict(replace(config, cut=None)), "zones": config.zones}
    if cut is not None:
        fields["cut"] = {"version": cut.version, "seq": cut.seq, "zones": fields_of_zones(cut.zones)}
    return fields


def config_of(fields: dict[str, Any]) -> BoardConfig:
    """The configuration in a manifest or in the log."""
    lists = {key: tuple(fields.get(key, ())) for key in ("range_attributes", "ks", "indexed")}
    cut = fields.get("cut")
    if cut is not None:
        cut = Cut(int(cut["version"]), int(cut["seq"]), zones_of_fields(cut["zones"]))
    return BoardConfig(**{**fields, **lists, "cut": cut})


def write_state(draft: Draft, name: str, state: BoardState) -> dict[str, Any]:
    """Write a board's part of a snapshot; returns its entry in the manifest."""
    o, s = state.objects, state.subscriptions
    objects = [o.row, texts(o.id, pa.string()), *place_columns(o.x), o.y, o.created, texts(o.payload, pa.binary())]
    ttl = pa.array(s.ttl, pa.float64(), mask=np.isnan(s.ttl))
    subscriptions = [s.ids.row, strings(s.ids), *columns_of(s.regions).values(), s.k, ttl, s.offset]
    kinds = ["object"] * len(state.free_objects) + ["subscription"] * len(state.free_subscriptions)
    free = [pa.array(kinds, pa.string()), np.concatenate([state.free_objects, state.free_subscriptions])]
    place = RESOURCE + name
    write_table(draft, f"{place}/objects.parquet", object_schema(s.regions.d), objects)
    write_table(draft, f"{place}/subscriptions.parquet", subscription_schema(s.regions.d), subscriptions)
    write_table(draft, f"{place}/free.parquet", FREE, free)
    if state.config.indexed:
        values = [list(state.texts), texts(list(state.texts.values()), pa.string())]
        write_table(draft, f"{place}/values.parquet", VALUES, values)
    return {
        "seq": state.seq,
        "config": config_fields(state.config),
        "objects": len(o.id),
        "subscriptions": len(s.k),
        "next_created": state.next_created,
        "object_rows": state.object_rows,
        "subscription_rows": state.subscription_rows,
    }


def read_state(folder: Folder, name: str, about: dict[str, Any]) -> BoardState:
    """Read a board's part of a snapshot; `about` is its entry in the manifest. Raises `Damaged`."""
    place, config = RESOURCE + name, config_of(about["config"])
    asked = subscription_schema(config.dimensions)
    o = read_table(folder, f"{place}/objects.parquet", object_schema(config.dimensions))
    s = read_long_table(folder, f"{place}/subscriptions.parquet", asked, {"offset": 0})
    free = read_table(folder, f"{place}/free.parquet", FREE)
    kinds, rows = np.array(free["kind"].to_pylist(), object), free["row"].to_numpy()
    if (len(o), len(s["k"])) != (about["objects"], about["subscriptions"]):
        raise Damaged(f"{folder}/{place} holds other numbers of rows than its manifest says")
    text, offset = s["id"]
    values = read_table(folder, f"{place}/values.parquet", VALUES) if config.indexed else VALUES.empty_table()
    return BoardState(
        config,
        about["seq"],
        about["next_created"],
        about["object_rows"],
        about["subscription_rows"],
        rows[kinds == "object"],
        rows[kinds == "subscription"],
        ObjectColumns(
            o["row"].to_numpy(),
            o["id"].to_pylist(),
            joined_places([o[name].to_numpy() for name in place_names(config.dimensions)]),
            o["y"].to_numpy(),
            o["created"].to_numpy(),
            o["payload"].to_pylist(),
        ),
        SubscriptionColumns(
            Packed(text, offset, s["sid"]),
            regions_of({name: s[name] for name in asked.names[2:-3]}),
            s["k"],
            s["ttl"],
            s["offset"],
        ),
        dict(zip(values["code"].to_pylist(), values["text"].to_pylist(), strict=True)),
    )


def write_image(folder: Folder, resource: str, lsn: int, packed: PackedBoard) -> int:
    """Write a board's image; returns its size in bytes. The same indexes make the same bytes."""
    head = packed.forest.head.tolist()
    with folder.draft() as draft:
        write_columns(draft, "slots.arrow", packed.forest.slots._asdict())
        write_columns(draft, "nodes.arrow", packed.forest.nodes._asdict())
        write_columns(draft, "objects.arrow", packed.objects._asdict())
        draft.publish({"kind": "image", "lsn": lsn, "resource": resource, "ks": list(packed.forest.ks), "head": head})
    return draft.bytes


def read_image(folder: Folder) -> PackedBoard:
    """A board's image, mapped where it is a local file. Its columns may be written to; the files never change.

    Raises `Damaged` when a file is not what the manifest says, or the folder is no image.
    """
    about = folder.verify()
    try:
        slots, nodes, objects = (read_columns(folder, f"{name}.arrow") for name in ("slots", "nodes", "objects"))
        head = np.array(about["head"], np.int64).reshape(-1, 4)
        forest = PackedForest(tuple(about["ks"]), head, Slots(**slots), Nodes(**nodes))
        return PackedBoard(forest, PackedObjects(**objects))
    except (LookupError, ValueError, TypeError, AttributeError, OSError, pa.ArrowException) as error:
        raise Damaged(f"{folder} is no image of a board") from error


def write_lists(draft: Draft, name: str, lists: Iterable[tuple[np.ndarray[Any, Any], Lists]]) -> None:
    """Write the lists of all subscriptions, as a board's index has them, for an audit: rows of objects by sid, best
    first."""
    place = f"{RESOURCE}{name}/lists.parquet"
    with parquet_file(draft, place) as out, pq.ParquetWriter(out, LISTS, compression="zstd") as writer:
        for sids, found in lists:
            inside = np.arange(found.rows.shape[1]) < found.length[:, None]
            offsets = np.concatenate([[0], np.cumsum(found.length)]).astype(np.int32)
            column = pa.ListArray.from_arrays(offsets, pa.array(found.rows[inside]))
            writer.write_batch(pa.RecordBatch.from_arrays([pa.array(sids), column], schema=LISTS))
