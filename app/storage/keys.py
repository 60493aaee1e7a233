"""The API keys in the database: their names, scopes and hashes. A key itself is never stored."""

from __future__ import annotations

import json
from typing import NamedTuple

import sqlalchemy as sa

from app.storage.log import LogUnavailable, StoredAnswer, idempotency_table, metadata

keys_table = sa.Table(
    "keys",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("created_at", sa.Double, nullable=False),
)


class KeyRow(NamedTuple):
    """A key as it is stored. `hash` is the SHA-256 of the key, `created_at` seconds since 1970."""

    id: str
    name: str
    scopes: tuple[str, ...]
    hash: bytes
    created_at: float


class KeyStore:
    """The table of keys; every call is one transaction on a connection of its own and raises `LogUnavailable`."""

    def __init__(self, engine: sa.Engine) -> None:
        self._engine = engine

    def all(self) -> list[KeyRow]:
        """Every key, in order of id."""
        try:
            with self._engine.connect() as connection:
                rows = connection.execute(sa.select(keys_table).order_by(keys_table.c.id)).all()
        except sa.exc.SQLAlchemyError as error:
            raise LogUnavailable("the keys cannot be read") from error
        return [KeyRow(row.id, row.name, tuple(json.loads(row.scopes)), row.hash, row.created_at) for row in rows]

    def add(self, key: KeyRow, answer: StoredAnswer | None = None) -> None:
        """Store a new key, and with it the answer to the request that asked for it."""
        values = {**key._asdict(), "scopes": json.dumps(key.scopes)}
        try:
            with self._engine.begin() as connection:
                connection.execute(sa.insert(keys_table), values)
                _keep(connection, answer)
        except sa.exc.SQLAlchemyError as error:
            raise LogUnavailable("the key cannot be stored") from error

    def delete(self, key_id: str, answer: StoredAnswer | None = None) -> None:
        """Delete a key, if it is there."""
        try:
            with self._engine.begin() as connection:
                connection.execute(sa.delete(keys_table).where(keys_table.c.id == key_id))
                _keep(connection, answer)
        except sa.exc.SQLAlchemyError as error:
            raise LogUnavailable("the key cannot be deleted") from error


def _keep(connection: sa.Connection, answer: StoredAnswer | None) -> None:
    if answer is not None:
        under_key = idempotency_table.c.scope == answer.scope, idempotency_table.c.key == answer.key
        connection.execute(sa.delete(idempotency_table).where(*under_key))
        connection.execute(sa.insert(idempotency_table), answer._asdict())
