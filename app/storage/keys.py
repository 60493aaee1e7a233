"""The API keys in the database: their names, scopes and hashes. A key itself is never stored."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import sqlalchemy as sa

from app.storage.answers import put_answer
from app.storage.database import metadata
from app.storage.ownership import Ownership
from app.storage.rows import StoredAnswer

keys_table = sa.Table(
    "keys",
    metadata,
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, nullable=False),
    sa.Column("scopes", sa.Text, nullable=False),
    sa.Column("hash", sa.LargeBinary, nullable=False, unique=True),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("expires_at", sa.Double),
    sa.Column("version", sa.Integer, nullable=False, server_default="1"),
)

CURRENT = 2
"""The version of what scopes mean; keys made under an earlier one mean what they meant (see `app.security.scopes`)."""


class KeyRow(NamedTuple):
    """A key as it is stored. `hash` is the SHA-256 of the key, `created_at` and `expires_at` are seconds since 1970."""

    id: str
    name: str
    scopes: tuple[str, ...]
    hash: bytes
    created_at: float
    expires_at: float | None = None
    version: int = 1


class KeyStore:
    """The table of keys; every call is one transaction on a connection of its own and raises `LogUnavailable`."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership

    def all(self) -> list[KeyRow]:
        """Every key, in order of id."""
        with self._ownership.database.reading("the keys cannot be read") as connection:
            rows = connection.execute(sa.select(keys_table)).all()
        keys = [KeyRow(*row)._replace(scopes=tuple(json.loads(row.scopes))) for row in rows]
        return sorted(keys, key=lambda key: key.id)

    def add(self, key: KeyRow, answer: StoredAnswer | None = None) -> None:
        """Store a new key, together with the response to the request that made it."""
        with self._ownership.changing("the key cannot be stored") as connection:
            connection.execute(sa.insert(keys_table), _values(key))
            if answer is not None:
                put_answer(connection, answer)

    def add_many(self, keys: Iterable[KeyRow]) -> None:
        """Store keys that came from elsewhere, all or none; one with the id of a stored key replaces it."""
        with self._ownership.changing("the keys cannot be stored") as connection:
            for key in keys:
                connection.execute(sa.delete(keys_table).where(keys_table.c.id == key.id))
                connection.execute(sa.insert(keys_table), _values(key))

    def replace(self, keys: Iterable[KeyRow]) -> None:
        """Store these keys in place of all that are there."""
        with self._ownership.changing("the keys cannot be stored") as connection:
            connection.execute(sa.delete(keys_table))
            for key in keys:
                connection.execute(sa.insert(keys_table), _values(key))

    def clear(self) -> None:
        """Delete every key."""
        with self._ownership.changing("the keys cannot be deleted") as connection:
            connection.execute(sa.delete(keys_table))

    def delete(self, key_id: str, answer: StoredAnswer | None = None) -> None:
        """Delete a key, if it is there."""
        with self._ownership.changing("the key cannot be deleted") as connection:
            connection.execute(sa.delete(keys_table).where(keys_table.c.id == key_id))
            if answer is not None:
                put_answer(connection, answer)


def _values(key: KeyRow) -> dict[str, Any]:
    return {**key._asdict(), "scopes": json.dumps(key.scopes)}
