"""Rows of the log and the responses stored for idempotency keys: their tables, and how replicas read them."""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import sqlalchemy as sa

from app.storage.database import metadata

NOTE = "note"
"""The command of a row that changes no resource."""

UNDONE = "undone"
"""The command of a row that takes rows of its resource out of the history: see `app.write_path.replay`."""

LSN = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
"""The type of the rows' numbers. SQLite keeps rows in the order of an INTEGER primary key; for a BIGINT, which tables
of an older version have, it keeps an index beside them, another page to be written by each commit."""

log_table = sa.Table(
    "log",
    metadata,
    sa.Column("lsn", LSN, primary_key=True, autoincrement=False),
    sa.Column("resource", sa.Text, nullable=False),
    sa.Column("first_seq", sa.BigInteger, nullable=False),
    sa.Column("last_seq", sa.BigInteger, nullable=False),
    sa.Column("command", sa.Text, nullable=False),
    sa.Column("payload", sa.LargeBinary, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("checksum", sa.LargeBinary),
)
"""Rows of an older version have no checksum."""

ROW = tuple(log_table.c)[:-1]
"""The columns of a `LogRow`."""

idempotency_table = sa.Table(
    "idempotency",
    metadata,
    sa.Column("scope", sa.Text, primary_key=True),
    sa.Column("key", sa.Text, primary_key=True),
    sa.Column("request_hash", sa.LargeBinary, nullable=False),
    sa.Column("lsn", sa.BigInteger, nullable=False),
    sa.Column("status", sa.Integer, nullable=False),
    sa.Column("answer", sa.LargeBinary, nullable=False),
    sa.Column("complete", sa.Boolean, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Index("idempotency_created_at", "created_at"),
)


class LogEntry(NamedTuple):
    """A command to be logged."""

    resource: str
    first_seq: int
    last_seq: int
    command: str
    payload: bytes


class LogRow(NamedTuple):
    """A command in the log. `created_at` is in seconds since 1970."""

    lsn: int
    resource: str
    first_seq: int
    last_seq: int
    command: str
    payload: bytes
    created_at: float


class CopiedRow(NamedTuple):
    """A row of another service's log with its checksum there, None where an older version wrote it."""

    row: LogRow
    checksum: bytes | None


StoredRow: TypeAlias = tuple[int, str, int, int, str, bytes, float, bytes | None]
"""All columns of a row of ``log``: those of a `LogRow` and its checksum."""


def copied(stored: StoredRow) -> CopiedRow:
    """A stored row as replicas read it."""
    return CopiedRow(LogRow(*stored[:-1]), stored[-1])


class StoredAnswer(NamedTuple):
    """The answer to the request with an idempotency key.

    `scope` separates the keys of different callers, `request_hash` the requests under one key, `lsn` is the row that
    the request wrote (the last one before it, if it wrote none). `complete` is false while `answer` lacks fields that
    only applying gives.
    """

    scope: str
    key: str
    request_hash: bytes
    lsn: int
    status: int
    answer: bytes
    complete: bool
    created_at: float


class CompletedAnswer(NamedTuple):
    """What a stored answer became once its command was applied."""

    scope: str
    key: str
    answer: bytes
