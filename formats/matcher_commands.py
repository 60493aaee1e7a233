"""A matcher's commands as rows of the log, and back. Numbers are kept bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import pyarrow as pa

from formats import commands as rows
from formats.commands import ARROW, Part, bytes_of, floats_of
from formats.matchers import config_fields, config_of
from indexes.core.commands import Create, Drop
from indexes.matchers.commands import AddSubscriptions, Command, DeleteSubscriptions, Match, SetSubscriptions
from indexes.matchers.config import MatcherConfig, Subscriptions

Logged: TypeAlias = Command | Create[MatcherConfig] | Drop
"""The commands of a matcher that the log holds."""

ADD, SET, DELETE, MATCH = (name + ARROW for name in ("add", "set-many", "delete", "match"))

COLUMNS = ("lo", "hi", "scores")


def encode(command: Logged, count: int) -> Iterator[Part]:
    """A command as rows of the log; `count` is the number of seqs it takes."""
    table = _table_of(command) if count > rows.PART else None
    return rows.encoded(command, count, table, _small, config_fields)


def decode(parts: list[tuple[str, bytes]]) -> Logged:
    """The command whose rows these are, in order. Raises `Damaged`."""
    return rows.decoded(parts, _of_table, _command_of, config_of)


def _table_of(command: Logged) -> tuple[str, pa.Table] | None:
    match command:
        case AddSubscriptions():
            return ADD, _table(command)
        case SetSubscriptions():
            return SET, _table(command)
        case DeleteSubscriptions():
            return DELETE, rows.strings(command.ids)
        case Match():
            return MATCH, _match_table(command)
    return None


def _small(command: Command) -> tuple[str, dict[str, Any]]:
    match command:
        case AddSubscriptions():
            return "add", _fields(command)
        case SetSubscriptions():
            return "set-many", _fields(command)
        case DeleteSubscriptions():
            return "delete", {"ids": command.ids}
        case Match():
            rest = {"k": command.k, "explain": command.explain, "payload": command.payload}
            return "match", {"n": len(command), "events": bytes_of(command.events), **rest}
    raise TypeError(f"{type(command).__name__} is not logged")


def _command_of(name: str, fields: dict[str, Any]) -> Command:
    match name:
        case "add":
            return AddSubscriptions(*_listed(fields))
        case "set-many":
            return _set(*_listed(fields))
        case "set":
            # As it was before it could have several.
            ttl = {} if fields["ttl"] is None else {0: fields["ttl"]}
            return _set(*_listed(fields | {"ids": [fields["id"]], "ttl": ttl}))
        case "delete":
            return DeleteSubscriptions(fields["ids"])
        case "match":
            events = floats_of(fields["events"]).reshape(fields["n"], -1)
            return Match(events, fields["k"], fields["explain"], fields["payload"])
    raise rows.unknown(name)


def _fields(command: AddSubscriptions | SetSubscriptions) -> dict[str, Any]:
    columns = {name: bytes_of(column) for name, column in zip(COLUMNS, command.subscriptions, strict=True)}
    ids = command.ids if isinstance(command.ids, list) else command.ids.to_pylist()
    return {"ids": ids, "ttl": command.ttl, **columns}


def _listed(fields: dict[str, Any]) -> tuple[pa.StringArray, Subscriptions, dict[int, float]]:
    ids = pa.array(fields["ids"], pa.string())
    columns = (floats_of(fields[name]).reshape(len(ids), -1) for name in COLUMNS)
    return ids, Subscriptions(*columns), fields["ttl"]


def _set(ids: pa.StringArray, subscriptions: Subscriptions, ttl: dict[int, float]) -> SetSubscriptions:
    return SetSubscriptions(ids.to_pylist(), subscriptions, ttl)


def _table(command: AddSubscriptions | SetSubscriptions) -> pa.Table:
    ttl = rows.sparse(command.ttl, len(command), pa.float64())
    columns = {name: rows.matrix(column) for name, column in zip(COLUMNS, command.subscriptions, strict=True)}
    return pa.table({"id": pa.array(command.ids, pa.string()), "ttl": ttl, **columns})


def _match_table(command: Match) -> pa.Table:
    payload = rows.sparse(command.payload, len(command), pa.binary())
    table = pa.table({"event": rows.matrix(command.events), "payload": payload})
    return table.replace_schema_metadata({"k": str(command.k), "explain": str(int(command.explain))})


def _of_table(name: str, table: pa.Table) -> Command:
    match name:
        case "add.arrow" | "set-many.arrow":
            subscriptions = Subscriptions(*(rows.matrix_of(table, column) for column in COLUMNS))
            made = AddSubscriptions if name == ADD else _set
            return made(rows.ids(table), subscriptions, rows.given(table["ttl"]))
        case "delete.arrow":
            return DeleteSubscriptions(table["id"].to_pylist())
        case "match.arrow":
            options = table.schema.metadata
            k, explain = int(options[b"k"]), options[b"explain"] == b"1"
            return Match(rows.matrix_of(table, "event"), k, explain, rows.given(table["payload"]))
    raise rows.unknown(name)
