"""The log's codec: a board's commands as bytes, and back.

A command is one msgpack map; one with more than `PART` elements is cut into Arrow IPC streams of that many rows each,
all but the last with a "+" behind the name. Columns of numbers are little-endian bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, NamedTuple

import msgpack
import numpy as np
import pyarrow as pa

from formats.boards import config_fields, config_of
from indexes.boards.commands import (
    Command,
    Configure,
    Create,
    Drop,
    Events,
    SetSubscription,
    Subscribe,
    Unsubscribe,
)

PART = 50_000
MORE = "+"


class Part(NamedTuple):
    """One row of the log: the name of the command, how many elements it holds, and its payload."""

    name: str
    size: int
    payload: bytes


class Damaged(Exception):
    """A row of the log that cannot be read as a command."""


def encode(command: Command | Create | Drop, count: int) -> Iterator[Part]:
    """A command as rows of the log; `count` is the number of seqs it takes."""
    if isinstance(command, Events) and len(command) > PART:
        yield from _cut("events.arrow", _event_table(command))
    elif isinstance(command, Subscribe) and len(command) > PART:
        yield from _cut("subscribe.arrow", _subscription_table(command))
    else:
        name, fields = _small(command)
        yield Part(name, count, msgpack.packb(fields))


def decode(parts: list[tuple[str, bytes]]) -> Command | Create | Drop:
    """The command whose rows these are, in order. Raises `Damaged`."""
    name = parts[0][0].removesuffix(MORE)
    try:
        if name.endswith(".arrow"):
            tables = [pa.ipc.open_stream(payload).read_all() for _, payload in parts]
            table = pa.concat_tables(tables).combine_chunks()
            return _events_of(table) if name == "events.arrow" else _subscribe_of(table)
        return _command_of(name, msgpack.unpackb(parts[0][1], strict_map_key=False))
    except (ValueError, KeyError, TypeError, pa.ArrowException, msgpack.UnpackException) as error:
        raise Damaged(f"a {name} command in the log cannot be read: {error}") from error


def _small(command: Command | Create | Drop) -> tuple[str, dict[str, Any]]:
    match command:
        case Events():
            columns = {"op": command.op.tobytes(), "x": _bytes(command.x), "y": _bytes(command.y)}
            return "events", {**columns, "ids": command.ids, "payload": command.payload}
        case Subscribe():
            columns = {"l": _bytes(command.l), "r": _bytes(command.r), "k": command.k.astype("<i4").tobytes()}
            return "subscribe", {**columns, "ids": command.ids.to_pylist(), "ttl": command.ttl}
        case SetSubscription():
            return "set-subscription", {key: value for key, value in asdict(command).items() if key != "must_exist"}
        case Unsubscribe():
            return "unsubscribe", {"ids": command.ids}
        case Configure():
            return "configure", asdict(command)
        case Create():
            return "create", config_fields(command.config)
        case Drop():
            return "drop", {}


def _command_of(name: str, fields: dict[str, Any]) -> Command | Create | Drop:
    match name:
        case "events":
            op = np.frombuffer(fields["op"], np.uint8)
            return Events(op, fields["ids"], _floats(fields["x"]), _floats(fields["y"]), fields["payload"])
        case "subscribe":
            k = np.frombuffer(fields["k"], "<i4").astype(np.int32)
            ids = pa.array(fields["ids"], pa.string())
            return Subscribe(ids, _floats(fields["l"]), _floats(fields["r"]), k, fields["ttl"])
        case "set-subscription":
            return SetSubscription(**fields)
        case "unsubscribe":
            return Unsubscribe(fields["ids"])
        case "configure":
            ks = fields["ks"]
            return Configure(None if ks is None else tuple(ks), fields["algorithm"])
        case "create":
            return Create(config_of(fields))
        case "drop":
            return Drop()
    raise Damaged(f"the log holds a command {name!r} that this version does not know")


def _bytes(column: np.ndarray[Any, Any]) -> bytes:
    return column.astype("<f8", copy=False).tobytes()


def _floats(column: bytes) -> np.ndarray[Any, np.dtype[np.float64]]:
    return np.frombuffer(column, "<f8").astype(np.float64)


def _sparse(values: dict[int, Any], n: int, kind: pa.DataType) -> pa.Array:
    return pa.array([values.get(i) for i in range(n)], kind) if values else pa.nulls(n, kind)


def _event_table(command: Events) -> pa.Table:
    n = len(command)
    given = np.zeros(n, bool)
    given[list(command.payload)] = True
    payload = _sparse(command.payload, n, pa.binary())
    columns = [command.op, pa.array(command.ids, pa.string()), command.x, command.y, given, payload]
    return pa.table([pa.array(c) for c in columns], ["op", "id", "x", "y", "given", "payload"])


def _events_of(table: pa.Table) -> Events:
    given = np.flatnonzero(table["given"].to_numpy())
    texts = table["payload"].take(pa.array(given)).to_pylist()
    return Events(
        table["op"].to_numpy().astype(np.uint8),
        table["id"].to_pylist(),
        table["x"].to_numpy().astype(np.float64),
        table["y"].to_numpy().astype(np.float64),
        dict(zip(given.tolist(), texts, strict=True)),
    )


def _subscription_table(command: Subscribe) -> pa.Table:
    ttl = _sparse(command.ttl, len(command), pa.float64())
    columns = [command.ids, command.l, command.r, command.k, ttl]
    return pa.table([pa.array(c) if not isinstance(c, pa.Array) else c for c in columns], ["id", "l", "r", "k", "ttl"])


def _subscribe_of(table: pa.Table) -> Subscribe:
    given = np.flatnonzero(table["ttl"].is_valid().to_numpy())
    seconds = table["ttl"].take(pa.array(given)).to_pylist()
    return Subscribe(
        table["id"].combine_chunks() if table["id"].num_chunks != 1 else table["id"].chunk(0),
        table["l"].to_numpy().astype(np.float64),
        table["r"].to_numpy().astype(np.float64),
        table["k"].to_numpy().astype(np.int32),
        dict(zip(given.tolist(), seconds, strict=True)),
    )


def _cut(name: str, table: pa.Table) -> Iterator[Part]:
    for start in range(0, len(table), PART):
        piece = table.slice(start, PART)
        last = start + PART >= len(table)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, piece.schema) as writer:
            writer.write_table(piece)
        yield Part(name if last else name + MORE, len(piece), sink.getvalue().to_pybytes())
