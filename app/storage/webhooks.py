"""Webhooks in the database: their definitions, how far each of their subscriptions is, and the events that wait.

``webhooks`` has a row for each, ``webhook_positions`` one for each of its subscriptions, and ``webhook_outbox`` the
events that were made and not yet taken by the receiver, in order of `n`. The position is written in the transaction
that adds to the outbox: whatever a subscription had up to it has been taken, or waits in the outbox.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

import sqlalchemy as sa

from app.storage.answers import put_answer
from app.storage.database import metadata
from app.storage.ownership import Ownership
from app.storage.rows import StoredAnswer

State = Literal["active", "failing", "disabled"]

Stage = Literal["new", "live", "lost", "gone"]
"""How far a subscription is: nothing was made for it yet, every event up to its position was, some may have been
missed, or its last event was made."""

webhooks_table = sa.Table(
    "webhooks",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("made", sa.Text, nullable=False),
    sa.Column("url", sa.Text, nullable=False),
    sa.Column("resource", sa.Text, nullable=False),
    sa.Column("batch", sa.Integer, nullable=False),
    sa.Column("secret", sa.Text, nullable=False),
    sa.Column("created_at", sa.Double, nullable=False),
    sa.Column("state", sa.Text, nullable=False),
    sa.Column("failures", sa.BigInteger, nullable=False),
    sa.Column("failing_since", sa.Double),
    sa.Column("last_status", sa.Integer),
    sa.Column("last_error", sa.Text),
    sa.Column("delivered", sa.BigInteger, nullable=False),
    sa.Column("sending", sa.Integer, nullable=False),
    sa.Column("history", sa.Text, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
)

positions_table = sa.Table(
    "webhook_positions",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("id", sa.Text, primary_key=True),
    sa.Column("stage", sa.Text, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
)

outbox_table = sa.Table(
    "webhook_outbox",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("n", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("id", sa.Text, nullable=False),
    sa.Column("seq", sa.BigInteger, nullable=False),
    sa.Column("event", sa.Text, nullable=False),
    sa.Column("block", sa.LargeBinary, nullable=False),
)

_TABLES = (webhooks_table, positions_table, outbox_table)


class WebhookRow(NamedTuple):
    """A webhook as it is stored.

    `made` is a random name of its making, which ids of messages are made of; `secret` may be sealed; `failing_since` is
    the time of the first of the present failures. `sending` is the number of events in the request that is under way,
    or is repeated. Its subscriptions have every event up to `seq` of this `history`, or up to their own position if
    that is further.
    """

    name: str
    made: str
    url: str
    resource: str
    batch: int
    secret: str
    created_at: float
    state: str = "active"
    failures: int = 0
    failing_since: float | None = None
    last_status: int | None = None
    last_error: str | None = None
    delivered: int = 0
    sending: int = 0
    history: str = ""
    seq: int = -1


class PositionRow(NamedTuple):
    """How far a subscription is: its stage, and the seq up to which it has every event."""

    name: str
    id: str
    stage: str
    seq: int


StoredWebhook = tuple[WebhookRow, list[PositionRow]]
"""A webhook with its subscriptions."""


class OutboxRow(NamedTuple):
    """An event that waits: the message of a stream (`app.streaming.buffer.Message`), by its number."""

    name: str
    n: int
    id: str
    seq: int
    event: str
    block: bytes


class Progress(NamedTuple):
    """What has changed of one webhook since it was stored.

    Events up to the number `taken`, and those in `void`, leave the outbox; `added` enter it.
    """

    row: WebhookRow
    positions: Sequence[PositionRow]
    left: Sequence[str]
    taken: int
    void: Sequence[int]
    added: Sequence[OutboxRow]


class WebhookStore:
    """The tables of webhooks; every call is one transaction on a connection of its own and raises `LogUnavailable`."""

    def __init__(self, ownership: Ownership) -> None:
        self._ownership = ownership

    def all(self) -> list[StoredWebhook]:
        """Every webhook with its subscriptions, in order of name and id."""
        with self._ownership.database.reading("the webhooks cannot be read") as connection:
            rows = [WebhookRow._make(row) for row in connection.execute(sa.select(webhooks_table))]
            positions: dict[str, list[PositionRow]] = {row.name: [] for row in rows}
            for found in connection.execute(sa.select(positions_table)):
                if found.name in positions:
                    positions[found.name].append(PositionRow._make(found))
        return [
            (row, sorted(positions[row.name], key=lambda one: one.id)) for row in sorted(rows, key=lambda row: row.name)
        ]

    def waiting(self, name: str) -> list[OutboxRow]:
        """The events of a webhook that wait, in order."""
        columns = outbox_table.c
        query = sa.select(outbox_table).where(columns.name == name).order_by(columns.n)
        with self._ownership.database.reading("the outbox cannot be read") as connection:
            return [OutboxRow._make(row) for row in connection.execute(query)]

    def put(
        self, row: WebhookRow, positions: Iterable[PositionRow], left: Sequence[str], answer: StoredAnswer | None = None
    ) -> None:
        """Store a webhook, or what a request has changed of it: new subscriptions, and those that have `left` with
        their events; together with the response to the request.
        """
        columns = outbox_table.c
        with self._ownership.changing("the webhook cannot be stored") as connection:
            _replace(connection, row, positions, left)
            for id in left:
                connection.execute(sa.delete(outbox_table).where(columns.name == row.name, columns.id == id))
            if answer is not None:
                put_answer(connection, answer)

    def add_many(self, webhooks: Iterable[StoredWebhook]) -> None:
        """Store webhooks that came from elsewhere, all or none, with nothing that waits."""
        with self._ownership.changing("the webhooks cannot be stored") as connection:
            for row, positions in webhooks:
                for table in _TABLES:
                    connection.execute(sa.delete(table).where(table.c.name == row.name))
                _replace(connection, row, positions, ())

    def replace(self, webhooks: Iterable[StoredWebhook]) -> None:
        """Store these webhooks in place of all that are there, with nothing that waits."""
        with self._ownership.changing("the webhooks cannot be stored") as connection:
            for table in _TABLES:
                connection.execute(sa.delete(table))
            for row, positions in webhooks:
                _replace(connection, row, positions, ())

    def delete(self, name: str, answer: StoredAnswer | None = None) -> None:
        """Delete a webhook with all that belongs to it, if it is there."""
        with self._ownership.changing("the webhook cannot be deleted") as connection:
            for table in _TABLES:
                connection.execute(sa.delete(table).where(table.c.name == name))
            if answer is not None:
                put_answer(connection, answer)

    def clear(self) -> None:
        """Delete every webhook."""
        with self._ownership.changing("the webhooks cannot be deleted") as connection:
            for table in _TABLES:
                connection.execute(sa.delete(table))

    def store(self, progress: Iterable[Progress]) -> None:
        """Store how far webhooks are, all or none. Those that were deleted meanwhile are passed over."""
        columns = outbox_table.c
        with self._ownership.changing("the outbox cannot be written") as connection:
            for one in progress:
                name = one.row.name
                same = webhooks_table.c.name == name, webhooks_table.c.made == one.row.made
                values = {key: value for key, value in one.row._asdict().items() if key in _PROGRESS}
                if not connection.execute(sa.update(webhooks_table).where(*same).values(values)).rowcount:
                    continue
                connection.execute(sa.delete(outbox_table).where(columns.name == name, columns.n <= one.taken))
                if one.void:
                    void = sa.delete(outbox_table).where(columns.name == name, columns.n == sa.bindparam("n_"))
                    connection.execute(void, [{"n_": n} for n in one.void])
                if one.added:
                    # Of a transaction of which it is not known whether the database took it.
                    connection.execute(sa.delete(outbox_table).where(columns.name == name, columns.n >= one.added[0].n))
                    connection.execute(sa.insert(outbox_table), [row._asdict() for row in one.added])
                _place(connection, name, one.positions, one.left)


_PROGRESS = frozenset(
    {
        "state",
        "failures",
        "failing_since",
        "last_status",
        "last_error",
        "delivered",
        "sending",
        "history",
        "seq",
    }
)
"""What deliveries change of a webhook."""


def _replace(connection: sa.Connection, row: WebhookRow, positions: Iterable[PositionRow], left: Sequence[str]) -> None:
    connection.execute(sa.delete(webhooks_table).where(webhooks_table.c.name == row.name))
    connection.execute(sa.insert(webhooks_table), row._asdict())
    _place(connection, row.name, list(positions), left)


def _place(connection: sa.Connection, name: str, positions: Sequence[PositionRow], left: Sequence[str]) -> None:
    """Set the positions of subscriptions, and forget those that have left."""
    ids = [*(one.id for one in positions), *left]
    if ids:
        own = sa.delete(positions_table).where(
            positions_table.c.name == name, positions_table.c.id == sa.bindparam("id_")
        )
        connection.execute(own, [{"id_": id} for id in ids])
    if positions:
        connection.execute(sa.insert(positions_table), [one._asdict() for one in positions])
