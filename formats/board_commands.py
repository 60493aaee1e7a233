"""A board's commands as rows of the log, and back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from formats import commands as rows
from formats.boards import config_fields, config_of
from formats.commands import ARROW, Damaged, Part, bytes_of, floats_of, integers_of
from formats.regions import columns_of, joined_places, place_columns, place_names, regions_of
from indexes.boards.commands import BoardConfig, Command, Configure, Events, SetSubscription, Subscribe, Unsubscribe
from indexes.boards.regions import Region, between
from indexes.commands import Create, Drop

Logged: TypeAlias = Command | Create[BoardConfig] | Drop
"""All that the log holds of a board."""

EVENTS, SUBSCRIBE = "events" + ARROW, "subscribe" + ARROW

BATCH = {b"mode": b"batch"}
"""Metadata of events that are told as one."""

WHERE = "where"
"""How columns of filters begin, one for each indexed field."""


def encode(command: Logged, count: int) -> Iterator[Part]:
    """A command as rows of the log; `count` is the number of seqs it takes."""
    if isinstance(command, Events) and len(command) > rows.PART:
        yield from rows.cut(EVENTS, _event_table(command))
    elif isinstance(command, Subscribe) and len(command) > rows.PART:
        yield from rows.cut(SUBSCRIBE, _subscription_table(command))
    else:
        name, fields = _small(command)
        yield rows.small(name, count, fields)


def decode(parts: list[tuple[str, bytes]]) -> Logged:
    """The command whose rows these are, in order. Raises `Damaged`."""
    return rows.decoded(parts, _of_table, _command_of)


def _small(command: Logged) -> tuple[str, dict[str, Any]]:
    match command:
        case Events():
            columns = {"op": command.op.tobytes(), "x": bytes_of(command.x), "y": bytes_of(command.y)}
            batch = {"batch": True} if command.batch else {}
            return "events", {**columns, "ids": command.ids, "payload": command.payload, **batch}
        case Subscribe():
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
        case Unsubscribe():
            return "unsubscribe", {"ids": command.ids}
        case Configure():
            return "configure", asdict(command)
        case Create():
            return "create", config_fields(command.config)
        case Drop():
            return "drop", {}


def _command_of(name: str, fields: dict[str, Any]) -> Logged:
    match name:
        case "events":
            op, batch = np.frombuffer(fields["op"], np.uint8), fields.get("batch", False)
            x, y = floats_of(fields["x"]), floats_of(fields["y"])
            places = x if len(x) == len(y) else x.reshape(len(y), -1)
            return Events(op, fields["ids"], places, y, fields["payload"], batch=batch)
        case "subscribe":
            sides = {name: floats_of(column) for name, column in fields.items() if name[:4] in ("l", "r", "side")}
            if "shape" in fields:
                sides["shape"] = np.frombuffer(fields["shape"], np.uint8)
            ids, k = pa.array(fields["ids"], pa.string()), integers_of(fields["k"])
            offset = integers_of(fields["offset"]) if "offset" in fields else None
            columns = tuple(pa.array(column, pa.string()) for column in fields.get("where", ()))
            return Subscribe(ids, regions_of(sides), k, fields["ttl"], offset=offset, where=columns)
        case "set-subscription":
            rest = fields["k"], fields["ttl"]
            where = tuple(fields["where"]) if "where" in fields else None
            return SetSubscription(fields["id"], _region_of(fields), *rest, offset=fields.get("offset"), where=where)
        case "unsubscribe":
            return Unsubscribe(fields["ids"])
        case "configure":
            ks = fields["ks"]
            return Configure(
                None if ks is None else tuple(ks), fields["algorithm"], fields.get("runs"), fields.get("sketch")
            )
        case "create":
            return Create(config_of(fields))
        case "drop":
            return Drop()
    raise Damaged(f"the log holds a command {name!r} that this version does not know")


def _region(command: SetSubscription) -> dict[str, Any]:
    """The fields of a region; a range of one attribute has two numbers."""
    assert command.region is not None, "a command in the log says everything"
    shape, sides = command.region
    return {"l": sides[0], "r": sides[1]} if len(sides) == 2 else {"shape": shape, "sides": sides}


def _region_of(fields: dict[str, Any]) -> Region:
    return Region(fields["shape"], tuple(fields["sides"])) if "shape" in fields else between(fields["l"], fields["r"])


def _sparse(values: dict[int, Any], n: int, kind: pa.DataType) -> pa.Array:
    return pa.array([values.get(i) for i in range(n)], kind) if values else pa.nulls(n, kind)


def _event_table(command: Events) -> pa.Table:
    n = len(command)
    given = np.zeros(n, bool)
    given[list(command.payload)] = True
    payload = _sparse(command.payload, n, pa.binary())
    places = place_columns(command.x)
    columns = [command.op, pa.array(command.ids, pa.string()), *places, command.y, given, payload]
    names = ["op", "id", *place_names(len(places)), "y", "given", "payload"]
    table = pa.table([pa.array(c) for c in columns], names)
    return table.replace_schema_metadata(BATCH) if command.batch else table


def _of_table(name: str, table: pa.Table) -> Logged:
    match name:
        case "events.arrow":
            return _events_of(table)
        case "subscribe.arrow":
            return _subscribe_of(table)
    raise Damaged(f"the log holds a command {name!r} that this version does not know")


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


def _subscription_table(command: Subscribe) -> pa.Table:
    ttl = _sparse(command.ttl, len(command), pa.float64())
    columns = {"id": command.ids, **columns_of(command.regions), "k": command.k, "ttl": ttl}
    if command.offset is not None:
        columns["offset"] = command.offset
    columns |= {f"{WHERE}{i}": column for i, column in enumerate(command.where)}
    return pa.table({name: pa.array(c) if not isinstance(c, pa.Array) else c for name, c in columns.items()})


def _subscribe_of(table: pa.Table) -> Subscribe:
    given = np.flatnonzero(table["ttl"].is_valid().to_numpy())
    seconds = table["ttl"].take(pa.array(given)).to_pylist()
    others = ("id", "k", "ttl", "offset")
    where = [name for name in table.column_names if name.startswith(WHERE)]
    return Subscribe(
        _one_array(table["id"]),
        regions_of({name: table[name].to_numpy() for name in table.column_names if name not in (*others, *where)}),
        table["k"].to_numpy().astype(np.int32),
        dict(zip(given.tolist(), seconds, strict=True)),
        offset=table["offset"].to_numpy().astype(np.int32) if "offset" in table.schema.names else None,
        where=tuple(_one_array(table[name]) for name in where),
    )


def _one_array(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
