"""How far the zones of boards are published: a row for each board, written now and then.

A row says up to which seq NATS has everything, and the last seq of each zone then. What came after is made again from
the log, and what NATS has of it already is not published again.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import sqlalchemy as sa

from app.storage.database import metadata
from app.storage.ownership import Ownership

positions_table = sa.Table(
    "zone_positions",
    metadata,
    sa.Column("resource", sa.Text, primary_key=True),
    sa.Column("history", sa.Text, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("last", sa.Text, nullable=False),
)


class ZonePosition(NamedTuple):
    """NATS has everything of a board up to `seq` of this `history`; `last` has the last seq of each zone then."""

    resource: str
    history: str
    version: int
    seq: int
    last: Mapping[int, int]


class ZoneStore:
    """The table of positions; every call is one transaction on a connection of its own and raises `LogUnavailable`."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership

    def all(self) -> dict[str, ZonePosition]:
        """Every position, by the board's full name."""
        with self._ownership.database.reading("the positions of zones cannot be read") as connection:
            rows = connection.execute(sa.select(positions_table)).all()
        return {
            row.resource: ZonePosition(
                row.resource,
                row.history,
                row.version,
                row.seq,
                {int(zone): seq for zone, seq in json.loads(row.last).items()},
            )
            for row in rows
        }

    def store(self, positions: Iterable[ZonePosition], gone: Iterable[str] = ()) -> None:
        """Replace these positions, and forget those of boards that are `gone`."""
        rows = list(positions)
        with self._ownership.changing("the positions of zones cannot be stored") as connection:
            for resource in [*(row.resource for row in rows), *gone]:
                connection.execute(sa.delete(positions_table).where(positions_table.c.resource == resource))
            for row in rows:
                connection.execute(sa.insert(positions_table), {**row._asdict(), "last": json.dumps(dict(row.last))})
