"""Answers that are kept for an Idempotency-Key beside no other write."""

from __future__ import annotations

import sqlalchemy as sa

from app.storage.log import LogUnavailable, StoredAnswer, idempotency_table


def keep_answer(engine: sa.Engine, answer: StoredAnswer) -> None:
    """Store an answer in a transaction of its own, in place of an older one under its key. Raises `LogUnavailable`."""
    under_key = idempotency_table.c.scope == answer.scope, idempotency_table.c.key == answer.key
    try:
        with engine.begin() as connection:
            connection.execute(sa.delete(idempotency_table).where(*under_key))
            connection.execute(sa.insert(idempotency_table), answer._asdict())
    except sa.exc.SQLAlchemyError as error:
        raise LogUnavailable("the answer cannot be stored") from error
