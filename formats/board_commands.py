"""A board's commands as rows of the log, and back."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized
from dataclasses import asdict, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from formats import commands as rows
from formats.boards import config_fields, config_of
from formats.commands import ARROW, Part, bytes_of, floats_of, integers_of
from formats.regions import columns_of, joined_places, place_columns, place_names, regions_of
from indexes.boards.commands import AddSubscriptions, Command, Configure, DeleteSubscriptions, Events, SetSubscription
from indexes.boards.config import BoardConfig
from indexes.boards.regions import Region, between
from indexes.boards.zones import fields_of_zones, zones_of_fields
from indexes.core.arrays import Floats
from indexes.core.commands import Create, Drop
from indexes.core.spaced_ids import SpacedIds

Logged: TypeAlias = Command | Create[BoardConfig] | Drop
"""The commands of a board that the log holds."""

EVENTS, SUBSCRIBE = "events" + ARROW, "subscribe" + ARROW

BATCH = {b"mode": b"batch"}
"""Metadata of events that are a batch."""

WHERE = "where"
"""Prefix of the columns of filters, one for each indexed field."""


def encode(command: Logged, count: int) -> Iterator[Part]:
    """A command as rows of the log; `count` is the number of seqs it takes."""
    table = _table_of(command) if count > rows.PART else None
    return rows.encoded(command, count, table, _small, config_fields)


def decode(parts: list[tuple[str, bytes]]) -> Logged:
    """The command whose rows these are, in order. Raises `Damaged`."""
    return rows.decoded(parts, _of_table, _command_of, config_of)


def _table_of(command: Logged) -> tuple[str, pa.Table] | None:
    match command:
        case Events():
            return EVENTS, _event_table(command)
        case AddSubscriptions():
            return SUBSCRIBE, _subscription_table(command)
    return None


def _small(command: Command) -> tuple[str, dict[str, Any]]:
    match command:
        case Events():
            return "events", _event_fields(command)
        case AddSubscriptions():
            columns = {name: bytes_of(column) for name, column in columns_of(command.regions).items()}
            columns["k"] = command.k.astype("<i4").tobytes()
            if command.offset is not None:
                columns["offset"] = command.offset.astype("<i4").tobytes()
            where = {"where": [column.to_pylist() for column in command.where]} if command.where else {}
            return "subscribe", {**columns, "ids": command.ids.to_pylist(), "ttl": command.ttl, **where}
        case SetSubscription():
            rest = {name: getattr(command, name) for name in ("id", "k", "ttl", "offset")}
            where = {} if command.where is None else {"where": list(command.where)}
            return "set-subscription", {**rest, **_region(command), **where}
        case DeleteSubscriptions():
            return "unsubscribe", {"ids": command.ids}
        case Configure():
            cut = None if command.cut is None else fields_of_zones(command.cut)
            return "configure", {**asdict(replace(command, cut=None)), "cut": cut}


def _command_of(name: str, fields: dict[str, Any]) -> Command:
    match name:
        case "events":
            return _events_of_fields(fields)
        case "subscribe":
            sides = {name: floats_of(column) for name, column in fields.items() if name[:4] in ("l", "r", "side")}
            if "shape" in fields:
                sides["shape"] = np.frombuffer(fields["shape"], np.uint8)
            ids, k = pa.array(fields["ids"], pa.string()), integers_of(fields["k"])
            offset = integers_of(fields["offset"]) if "offset" in fields else None
            columns = tuple(pa.array(column, pa.string()) for column in fields.get("where", ()))
            _check_lengths(len(ids), k, *sides.values(), *columns, *(() if offset is None else (offset,)))
            return AddSubscriptions(ids, regions_of(sides), k, fields["ttl"], offset=offset, where=columns)
        case "set-subscription":
            rest = fields["k"], fields["ttl"]
            where = tuple(fields["where"]) if "where" in fields else None
            return SetSubscription(fields["id"], _region_of(fields), *rest, offset=fields.get("offset"), where=where)
        case "unsubscribe":
            return DeleteSubscriptions(fields["ids"])
        case "configure":
            ks = fields["ks"]
            cut = fields.get("cut")
            return Configure(
                None if ks is None else tuple(ks),
                fields["algorithm"],
                fields.get("runs"),
                fields.get("sketch"),
                fields.get("zones"),
                None if cut is None else zones_of_fields(cut),
            )
    raise rows.unknown(name)


def _event_fields(command: Events) -> dict[str, Any]:
    """The fields of some events. `op` has one byte where all have the same, else one for each. A column of numbers that
    none of them gives is left out, except for the places on a board with several range attributes. Ids that were cut
    out of a body are written as they were, with a SPACE behind each."""
    op, ids, x, y = command.op.tobytes(), command.ids, command.x, command.y
    fields: dict[str, Any] = {"op": op[:1] if op.count(op[:1]) == len(op) else op}
    if x.ndim > 1 or not _is_absent(x):
        fields["x"] = bytes_of(x)
    if not _is_absent(y):
        fields["y"] = bytes_of(y)
    fields |= {"ids": ids.texts.tobytes() if type(ids) is SpacedIds else ids, "payload": command.payload}
    return fields | {"batch": True} if command.batch else fields


def _events_of_fields(fields: dict[str, Any]) -> Events:
    """The inverse of `_event_fields`. Earlier versions wrote all columns whole, and ids as a list. Raises one of
    `UNREADABLE`."""
    ids, op = fields["ids"], np.frombuffer(fields["op"], np.uint8)
    if isinstance(ids, bytes):
        *ids, behind = ids.decode("ascii").split(" ")
        if behind or "" in ids:
            raise ValueError("an id is missing")
    n = len(ids)
    op = op.repeat(n) if len(op) == 1 else op
    x, y = (floats_of(fields[name]) if name in fields else np.full(n, np.nan) for name in ("x", "y"))
    _check_lengths(n, op, y)
    places = x if len(x) == n else x.reshape(n, -1)
    return Events(op, ids, places, y, fields["payload"], batch=fields.get("batch", False))


def _is_absent(column: Floats) -> bool:
    """Whether a column of several events is left out, because none of them gives it."""
    return len(column) > 1 and math.isnan(column.item(0)) and bool(np.isnan(column).all())


def _check_lengths(n: int, *columns: Sized) -> None:
    """Raise ValueError where columns have another length than `n`, as kernels read them together."""
    if any(len(column) != n for column in columns):
        raise ValueError("columns differ in length")


def _region(command: SetSubscription) -> dict[str, Any]:
    """The fields of a region; a range of one attribute has two numbers."""
    assert command.region is not None, "a command in the log says everything"
    shape, sides = command.region
    return {"l": sides[0], "r": sides[1]} if len(sides) == 2 else {"shape": shape, "sides": sides}


def _region_of(fields: dict[str, Any]) -> Region:
    return Region(fields["shape"], tuple(fields["sides"])) if "shape" in fields else between(fields["l"], fields["r"])


def _event_table(command: Events) -> pa.Table:
    n = len(command)
    given = np.zeros(n, bool)
    given[list(command.payload)] = True
    payload = rows.sparse(command.payload, n, pa.binary())
    places = place_columns(command.x)
    columns = [command.op, pa.array(list(command.ids), pa.string()), *places, command.y, given, payload]
    names = ["op", "id", *place_names(len(places)), "y", "given", "payload"]
    table = pa.table([pa.array(c) for c in columns], names)
    return table.replace_schema_metadata(BATCH) if command.batch else table


def _of_table(name: str, table: pa.Table) -> Logged:
    match name:
        case "events.arrow":
            return _events_of(table)
        case "subscribe.arrow":
            return _subscribe_of(table)
    raise rows.unknown(name)


def _events_of(table: pa.Table) -> Events:
    given = np.flatnonzero(table["given"].to_numpy())
    texts = table["payload"].take(pa.array(given)).to_pylist()
    return Events(
        table["op"].to_numpy().astype(np.uint8),
        table["id"].to_pylist(),
        joined_places([table[name].to_numpy().astype(np.float64) for name in table.column_names if name[0] == "x"]),
        table["y"].to_numpy().astype(np.float64),
        dict(zip(given.tolist(), texts, strict=True)),
        batch=table.schema.metadata == BATCH,
    )


def _subscription_table(command: AddSubscriptions) -> pa.Table:
    ttl = rows.sparse(command.ttl, len(command), pa.float64())
    columns = {"id": command.ids, **columns_of(command.regions), "k": command.k, "ttl": ttl}
    if command.offset is not None:
        columns["offset"] = command.offset
    columns |= {f"{WHERE}{i}": column for i, column in enumerate(command.where)}
    return pa.table({name: pa.array(c) if not isinstance(c, pa.Array) else c for name, c in columns.items()})


def _subscribe_of(table: pa.Table) -> AddSubscriptions:
    given = np.flatnonzero(table["ttl"].is_valid().to_numpy())
    seconds = table["ttl"].take(pa.array(given)).to_pylist()
    others = ("id", "k", "ttl", "offset")
    where = [name for name in table.column_names if name.startswith(WHERE)]
    return AddSubscriptions(
        rows.ids(table),
        regions_of({name: table[name].to_numpy() for name in table.column_names if name not in (*others, *where)}),
        table["k"].to_numpy().astype(np.int32),
        dict(zip(given.tolist(), seconds, strict=True)),
        offset=table["offset"].to_numpy().astype(np.int32) if "offset" in table.schema.names else None,
        where=tuple(rows.texts(table, name) for name in where),
    )
