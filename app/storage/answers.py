"""Responses stored for an Idempotency-Key without a command."""

from __future__ import annotations

import sqlalchemy as sa

from app.storage.ownership import Ownership
from app.storage.rows import StoredAnswer, idempotency_table


def keep_answer(ownership: Ownership, answer: StoredAnswer) -> None:
    """Store an answer in a transaction of its own, in place of an older one under its key. Raises `LogUnavailable`."""
    with ownership.changing("the answer cannot be stored") as connection:
        put_answer(connection, answer)


def put_answer(connection: sa.Connection, answer: StoredAnswer) -> None:
    """Store an answer in the transaction at hand, in place of an older one under its key."""
    under_key = idempotency_table.c.scope == answer.scope, idempotency_table.c.key == answer.key
    connection.execute(sa.delete(idempotency_table).where(*under_key))
    connection.execute(sa.insert(idempotency_table), answer._asdict())
