"""A feed's commands as rows of the log, and back. Numbers are kept bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from formats import commands as rows
from formats.commands import ARROW, Part, bytes_of, floats_of, texts_of
from formats.feed_fields import (
    config_fields,
    config_of,
    keyword_columns,
    keyword_fields,
    keywords_in,
    keywords_of,
    subscription_fields,
    subscriptions_in,
)
from indexes.core.commands import Create, Drop
from indexes.feeds.commands import AddSubscriptions, Command, DeleteSubscriptions, Post, SetSubscription, Tick, Withdraw
from indexes.feeds.config import FeedConfig, Subscriptions

Logged: TypeAlias = Command | Create[FeedConfig] | Drop
"""The commands of a feed that the log holds."""

POST, WITHDRAW, ADD, DELETE = (name + ARROW for name in ("post", "withdraw", "add", "delete"))


def encode(command: Logged, count: int) -> Iterator[Part]:
    """A command as rows of the log; `count` is the number of seqs it takes."""
    table = _table_of(command) if count > rows.PART else None
    return rows.encoded(command, count, table, _small, config_fields)


def decode(parts: list[tuple[str, bytes]]) -> Logged:
    """The command whose rows these are, in order. Raises `Damaged`."""
    return rows.decoded(parts, _of_table, _command_of, config_of)


def _table_of(command: Logged) -> tuple[str, pa.Table] | None:
    match command:
        case Post():
            return POST, _post_table(command)
        case Withdraw():
            return WITHDRAW, rows.strings(command.ids)
        case AddSubscriptions():
            return ADD, _add_table(command)
        case DeleteSubscriptions():
            return DELETE, rows.strings(command.ids)
    return None


def _small(command: Command) -> tuple[str, dict[str, Any]]:
    match command:
        case Post():
            rest = {"points": bytes_of(command.points), "at": command.at, "payload": command.payload}
            return "post", {"ids": command.ids, **keyword_fields(command.keywords), **rest}
        case Tick():
            return "tick", {"at": command.at}
        case Withdraw():
            return "withdraw", {"ids": command.ids}
        case AddSubscriptions():
            ids = command.ids.to_pylist()
            return "add", {"ids": ids, "ttl": command.ttl, **subscription_fields(command.subscriptions)}
        case SetSubscription():
            return "set", {
                "id": command.id,
                "keywords": command.keywords,
                "location": list(command.location),
                "k": command.k,
                "alpha": command.alpha,
                "ttl": command.ttl,
            }
        case DeleteSubscriptions():
            return "delete", {"ids": command.ids}
    raise TypeError(f"{type(command).__name__} is not logged")


def _command_of(name: str, fields: dict[str, Any]) -> Command:
    match name:
        case "post":
            ids = texts_of(fields["ids"])
            points = floats_of(fields["points"]).reshape(len(ids), 2)
            return Post(ids, keywords_in(fields), points, fields["at"], fields["payload"])
        case "tick":
            return Tick(fields["at"])
        case "withdraw":
            return Withdraw(fields["ids"])
        case "add":
            return AddSubscriptions(pa.array(fields["ids"], pa.string()), subscriptions_in(fields), fields["ttl"])
        case "set":
            x, y = fields["location"]
            return SetSubscription(
                fields["id"], fields["keywords"], (x, y), fields["k"], fields["alpha"], fields["ttl"]
            )  # fmt: skip
        case "delete":
            return DeleteSubscriptions(fields["ids"])
    raise rows.unknown(name)


def _post_table(command: Post) -> pa.Table:
    table = pa.table(
        {
            "id": pa.array(command.ids, pa.string()),
            "location": rows.matrix(command.points),
            "payload": rows.sparse(command.payload, len(command), pa.binary()),
            **keyword_columns(command.keywords),
        }
    )
    return table.replace_schema_metadata({"at": str(command.at)})


def _add_table(command: AddSubscriptions) -> pa.Table:
    some = command.subscriptions
    return pa.table(
        {
            "id": command.ids,
            "location": rows.matrix(some.points),
            "k": some.k,
            "alpha": some.alpha,
            "ttl": rows.sparse(command.ttl, len(command), pa.float64()),
            **keyword_columns(some.keywords),
        }
    )


def _of_table(name: str, table: pa.Table) -> Command:
    if name == WITHDRAW:
        return Withdraw(table["id"].to_pylist())
    if name == DELETE:
        return DeleteSubscriptions(table["id"].to_pylist())
    if name == POST:
        at, payload = int(table.schema.metadata[b"at"]), rows.given(table["payload"])
        return Post(
            rows.ids(table).to_pylist(), keywords_of(table), rows.matrix_of(table, "location"), at, payload
        )  # fmt: skip
    if name == ADD:
        k, alpha = table["k"].to_numpy().astype(np.int64), table["alpha"].to_numpy()
        some = Subscriptions(keywords_of(table), rows.matrix_of(table, "location"), k, alpha)
        return AddSubscriptions(rows.ids(table), some, rows.given(table["ttl"]))
    raise rows.unknown(name)
