"""A relay's commands as rows of the log, and back. Numbers are kept bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from formats import commands as rows
from formats.commands import ARROW, Part, bytes_of, floats_of
from formats.links import link_fields, link_of
from formats.relays import config_fields, config_of
from indexes.core.arrays import Floats
from indexes.core.commands import Create, Drop
from indexes.relays.commands import (
    Acked,
    AddSubscriptions,
    ChangeLinks,
    Command,
    DeleteSubscriptions,
    EditSubscriptions,
    Notify,
    Receive,
    Rederive,
    Restart,
    SetSubscription,
)
from indexes.relays.config import Message, RelayConfig
from indexes.relays.outbox import OPS, Row, chunk_of
from indexes.relays.outbox import Chunk as Messages

Logged: TypeAlias = Command | Create[RelayConfig] | Drop
"""The commands of a relay that the log holds."""

ADD, EDIT, DELETE, NOTIFY, RECEIVE = (name + ARROW for name in ("add", "edit", "delete", "notify", "receive"))


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
            return ADD, _columns(command)
        case EditSubscriptions():
            link = None if command.link is None else pa.array(command.link, pa.string())
            whole = AddSubscriptions(pa.array(command.ids, pa.string()), command.lo, command.hi, link, command.ttl)
            return EDIT, _columns(whole).append_column("op", pa.array(command.op))
        case DeleteSubscriptions():
            return DELETE, rows.strings(command.ids)
        case Notify():
            return NOTIFY, _notify_table(command)
        case Receive():
            return RECEIVE, _receive_table(command)
    return None


def _small(command: Command) -> tuple[str, dict[str, Any]]:
    match command:
        case AddSubscriptions():
            link = None if command.link is None else command.link.to_pylist()
            return "add", {"ids": command.ids.to_pylist(), **_fields(command, link)}
        case EditSubscriptions():
            op, ids = command.op.tobytes(), command.ids
            return "edit", {"op": op, "ids": ids, **_fields(command, command.link)}
        case SetSubscription():
            ends = {"lo": bytes_of(command.lo), "hi": bytes_of(command.hi)}
            return "set", {"id": command.id, **ends, "link": command.link, "ttl": command.ttl}
        case DeleteSubscriptions():
            return "delete", {"ids": command.ids}
        case Notify():
            rest = {"payload": command.payload, "links": command.links}
            return "notify", {"n": len(command), "values": bytes_of(command.values), **rest}
        case ChangeLinks():
            links = {name: None if link is None else link_fields(link) for name, link in command.links.items()}
            return "links", {"links": links}
        case Receive():
            messages = [list(message[:-1]) for message in command.messages]
            return "receive", {"link": command.link, "epoch": command.epoch, "messages": messages}
        case Acked():
            return "acked", asdict(command)
        case Restart():
            return "restart", asdict(command)
        case Rederive():
            return "rederive", {}
    raise TypeError(f"{type(command).__name__} is not logged")


def _command_of(name: str, fields: dict[str, Any]) -> Command:
    match name:
        case "add":
            ids, link = pa.array(fields["ids"], pa.string()), fields["link"]
            return AddSubscriptions(
                ids, *_ends(fields), None if link is None else pa.array(link, pa.string()), fields["ttl"]
            )
        case "edit":
            op = np.frombuffer(fields["op"], np.uint8).copy()
            # Arrow refuses what is no text.
            ids, link = pa.array(fields["ids"], pa.string()), pa.array(fields["link"] or (), pa.string())
            if ids.null_count or len(link) not in (0, len(ids)):
                raise ValueError("an id is missing, or a link")
            return EditSubscriptions(op, fields["ids"], *_ends(fields), fields["link"], fields["ttl"])
        case "set":
            return SetSubscription(**{**fields, "lo": floats_of(fields["lo"]), "hi": floats_of(fields["hi"])})
        case "delete":
            return DeleteSubscriptions(fields["ids"])
        case "notify":
            values = floats_of(fields["values"]).reshape(fields["n"], -1)
            return Notify(values, fields["payload"], fields["links"])
        case "links":
            links = fields["links"].items()
            return ChangeLinks({name: None if link is None else link_of(link) for name, link in links})
        case "receive":
            messages = [_message(*columns) for columns in fields["messages"]]
            return Receive(fields["link"], fields["epoch"], messages, logged=True)
        case "acked":
            return Acked(**fields)
        case "restart":
            return Restart(**fields)
        case "rederive":
            return Rederive()
    raise rows.unknown(name)


def _fields(command: AddSubscriptions | EditSubscriptions, link: list[str | None] | None) -> dict[str, Any]:
    return {"lo": bytes_of(command.lo), "hi": bytes_of(command.hi), "link": link, "ttl": command.ttl}


def _ends(fields: dict[str, Any]) -> tuple[Floats, Floats]:
    n = len(fields["ids"])
    return floats_of(fields["lo"]).reshape(n, -1), floats_of(fields["hi"]).reshape(n, -1)


def _message(
    n: int, op: str, key: str, box: Any, follow: int, values: Any, payload: bytes | None, mark: Any
) -> Message:
    sides = tuple((lo, hi) for lo, hi in box)
    if op not in OPS:
        raise ValueError(f"no message does {op!r}")
    return Message(n, op, key, sides, follow, tuple(values), payload, None if mark is None else tuple(mark))


def _columns(command: AddSubscriptions) -> pa.Table:
    n = len(command)
    return pa.table(
        {
            "id": command.ids,
            "lo": rows.matrix(command.lo),
            "hi": rows.matrix(command.hi),
            "link": pa.nulls(n, pa.string()) if command.link is None else command.link,
            "ttl": rows.sparse(command.ttl, n, pa.float64()),
        }
    )


def _notify_table(command: Notify) -> pa.Table:
    n = len(command)
    return pa.table(
        {
            "values": rows.matrix(command.values),
            "payload": rows.sparse(command.payload, n, pa.binary()),
            "link": rows.sparse(command.links, n, pa.string()),
        }
    )


def _receive_table(command: Receive) -> pa.Table:
    """Messages as columns; boxes are their ends, attribute by attribute."""
    width = max((2 * len(message.box or message.values) for message in command.messages), default=0)
    chunk = chunk_of([_row(message) for message in command.messages], width)
    columns = {name: column for name, column in chunk._asdict().items() if name != "values"}
    n = pa.array([message.n for message in command.messages], pa.int64())
    table = pa.table({"n": n, **columns, "values": rows.matrix(chunk.values) if width else pa.nulls(len(command))})
    return table.replace_schema_metadata({"link": command.link, "epoch": command.epoch})


def _row(message: Message) -> Row:
    ends = tuple(end for side in message.box for end in side)
    return Row(OPS.index(message.op), message.id, ends or message.values, message.payload, message.mark, message.follow)


def _of_table(name: str, table: pa.Table) -> Command:
    if name == DELETE:
        return DeleteSubscriptions(table["id"].to_pylist())
    if name == NOTIFY:
        return Notify(rows.matrix_of(table, "values"), rows.given(table["payload"]), rows.given(table["link"]))
    if name == RECEIVE:
        return _receive_of(table)
    ids, link = rows.ids(table), rows.texts(table, "link")
    link = None if link.null_count == len(link) else link
    rest = rows.matrix_of(table, "lo"), rows.matrix_of(table, "hi")
    ttl = rows.given(table["ttl"])
    if name == ADD:
        return AddSubscriptions(ids, *rest, link, ttl)
    if name == EDIT:
        links = None if link is None else link.to_pylist()
        return EditSubscriptions(table["op"].to_numpy().copy(), ids.to_pylist(), *rest, links, ttl)
    raise rows.unknown(name)


def _receive_of(table: pa.Table) -> Receive:
    no_values = pa.types.is_null(table["values"].type)
    parts: dict[str, Any] = {
        "op": table["op"].to_numpy(),
        "values": np.zeros((len(table), 0)) if no_values else rows.matrix_of(table, "values"),
        "mark": table["mark"].to_numpy(),
        "follow": table["follow"].to_numpy(),
        **{name: rows.one_array(table[name]) for name in ("key", "payload", "mark_epoch")},
    }
    messages = []
    for n, row in zip(table["n"].to_pylist(), Messages(**parts).rows(), strict=True):
        op = OPS[row.op]
        box = tuple(zip(row.values[0::2], row.values[1::2], strict=True)) if op == "subscribe" else ()
        values = row.values if op == "notify" else ()
        messages.append(Message(n, op, row.key, box, row.follow, values, row.payload, row.mark))
    about = table.schema.metadata
    return Receive(about[b"link"].decode(), about[b"epoch"].decode(), messages, logged=True)
