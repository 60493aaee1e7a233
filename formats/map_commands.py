"""A map's commands as rows of the log, and back. Numbers are kept bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgpack
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from formats import commands as rows
from formats.commands import ARROW, Part, bytes_of, floats_of
from formats.map_fields import config_fields, config_of, question_fields, question_of
from indexes.core.commands import Create, Drop
from indexes.maps.commands import (
    AddQueries,
    Command,
    DeleteObjects,
    DeleteQueries,
    MoveQueries,
    PutObjects,
    SetQuery,
)
from indexes.maps.config import MapConfig

Float64 = npt.NDArray[np.float64]

Logged: TypeAlias = Command | Create[MapConfig] | Drop
"""The commands of a map that the log holds."""

PUT, DELETE, ADD, MOVE, FORGET = (
    name + ARROW for name in ("put", "delete-objects", "add-queries", "move", "delete-queries")
)


def encode(command: Logged, count: int) -> Iterator[Part]:
    """A command as rows of the log; `count` is the number of seqs it takes."""
    table = _table_of(command) if count > rows.PART else None
    return rows.encoded(command, count, table, _small, config_fields)


def decode(parts: list[tuple[str, bytes]]) -> Logged:
    """The command whose rows these are, in order. Raises `Damaged`."""
    return rows.decoded(parts, _of_table, _command_of, config_of)


def _table_of(command: Logged) -> tuple[str, pa.Table] | None:
    match command:
        case PutObjects():
            return PUT, _put_table(command)
        case DeleteObjects():
            return DELETE, rows.strings(command.ids)
        case AddQueries():
            return ADD, _add_table(command)
        case MoveQueries():
            ids = pa.array(command.ids, pa.string())
            return MOVE, pa.table({"id": ids, "location": rows.matrix(command.locations)})
        case DeleteQueries():
            return FORGET, rows.strings(command.ids)
    return None


def _small(command: Command) -> tuple[str, dict[str, Any]]:
    match command:
        case PutObjects():
            columns = {"points": bytes_of(command.points), "values": bytes_of(command.values)}
            return "put", {"ids": command.keys, **columns, "payload": command.payload}
        case DeleteObjects():
            return "delete-objects", {"ids": command.ids}
        case AddQueries():
            questions = [question_fields(question) for question in command.questions]
            rest = {"questions": questions, "locations": bytes_of(command.locations), "ttl": command.ttl}
            return "add-queries", {"ids": command.ids.to_pylist(), **rest}
        case SetQuery():
            question = question_fields(command.question)
            return "set-query", {
                "id": command.id,
                "question": question,
                "location": list(command.location),
                "ttl": command.ttl,
            }
        case MoveQueries():
            return "move", {"ids": command.ids, "locations": bytes_of(command.locations)}
        case DeleteQueries():
            return "delete-queries", {"ids": command.ids}
    raise TypeError(f"{type(command).__name__} is not logged")


def _command_of(name: str, fields: dict[str, Any]) -> Command:
    match name:
        case "put":
            ids = pa.array(fields["ids"], pa.string())
            points, values = floats_of(fields["points"]), floats_of(fields["values"])
            attributes = len(values) // max(1, len(ids))
            payload = fields["payload"]
            return PutObjects(ids, points.reshape(len(ids), 2), values.reshape(len(ids), attributes), payload)
        case "delete-objects":
            return DeleteObjects(fields["ids"])
        case "add-queries":
            ids = pa.array(fields["ids"], pa.string())
            questions = [question_of(one) for one in fields["questions"]]
            return AddQueries(ids, questions, floats_of(fields["locations"]).reshape(len(ids), 2), fields["ttl"])
        case "set-query":
            x, y = fields["location"]
            return SetQuery(fields["id"], question_of(fields["question"]), (x, y), fields["ttl"])
        case "move":
            return MoveQueries(fields["ids"], floats_of(fields["locations"]).reshape(len(fields["ids"]), 2))
        case "delete-queries":
            return DeleteQueries(fields["ids"])
    raise rows.unknown(name)


def _put_table(command: PutObjects) -> pa.Table:
    n = len(command)
    given = np.zeros(n, bool)
    given[list(command.payload)] = True
    columns = {f"value{j}": command.values[:, j] for j in range(command.values.shape[1])}
    payload = rows.sparse(command.payload, n, pa.binary())
    table = {"id": command.array, "location": rows.matrix(command.points), "told": given, "payload": payload, **columns}
    return pa.table(
        {name: column if isinstance(column, pa.Array) else pa.array(column) for name, column in table.items()}
    )


def _add_table(command: AddQueries) -> pa.Table:
    questions = pa.array([msgpack.packb(question_fields(one)) for one in command.questions], pa.binary())
    ttl = rows.sparse(command.ttl, len(command), pa.float64())
    return pa.table({"id": command.ids, "question": questions, "location": rows.matrix(command.locations), "ttl": ttl})


def _of_table(name: str, table: pa.Table) -> Command:
    if name == DELETE:
        return DeleteObjects(table["id"].to_pylist())
    if name == FORGET:
        return DeleteQueries(table["id"].to_pylist())
    if name == MOVE:
        return MoveQueries(table["id"].to_pylist(), rows.matrix_of(table, "location"))
    if name == PUT:
        given = np.flatnonzero(table["told"].to_numpy())
        texts = table["payload"].take(pa.array(given)).to_pylist()
        attributes = [column for column in table.column_names if column.startswith("value")]
        values = np.empty((len(table), len(attributes)))
        for j, column in enumerate(attributes):
            values[:, j] = table[column].to_numpy()
        payload = dict(zip(given.tolist(), texts, strict=True))
        return PutObjects(rows.ids(table), rows.matrix_of(table, "location"), values, payload)
    if name == ADD:
        questions = [question_of(msgpack.unpackb(one)) for one in table["question"].to_pylist()]
        locations, ttl = rows.matrix_of(table, "location"), rows.given(table["ttl"])
        return AddQueries(rows.ids(table), questions, locations, ttl)
    raise rows.unknown(name)
