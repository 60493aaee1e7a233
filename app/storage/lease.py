"""The lease of a log that several nodes share on PostgreSQL: who leads, in which term, and until when.

The table ``lease`` has one row. Its holder prolongs it; when `expires` has passed by the server's clock, another node
may take it under a higher term. Clocks of nodes are not asked. Nor does safety rest on the clock: every transaction
that writes the log locks the row by term and token, so that a holder that was replaced writes nothing, and one that is
in the middle of a transaction is ended before another takes the lease.

`term` and `token` are the key of the row: `fence` locks the key, which a prolongation does not change and so does not
wait for, and a taker does (https://www.postgresql.org/docs/current/explicit-locking.html#LOCKING-ROWS).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from app.errors import LogUnavailable

_MAKE = """
    create table if not exists lease (
        one boolean primary key default true check (one),
        term bigint not null,
        token text not null,
        node text not null,
        history text not null,
        confirmed bigint not null,
        renewed timestamptz not null,
        expires timestamptz not null,
        unique (term, token)
    )
"""
_FOUND = """
    term, token, node, history, confirmed,
    extract(epoch from expires - clock_timestamp())::float8,
    extract(epoch from clock_timestamp() - renewed)::float8
"""
_LOOK = f"select {_FOUND} from lease"  # noqa: S608 - of constants
_LOCK = f"{_LOOK} for update"
_THERE = "select to_regclass('lease') is not null"
_INSERT = """
    insert into lease (term, token, node, history, confirmed, renewed, expires)
    values (%s, %s, %s, %s, %s, clock_timestamp(), clock_timestamp() + make_interval(secs => %s))
"""
_TAKE = """
    update lease set term = %s, token = %s, node = %s, history = %s, confirmed = %s,
        renewed = clock_timestamp(), expires = clock_timestamp() + make_interval(secs => %s)
"""
_RENEW = """
    update lease set confirmed = greatest(confirmed, %s),
        renewed = clock_timestamp(), expires = clock_timestamp() + make_interval(secs => %s)
    where term = %s and token = %s
"""
_RELEASE = "update lease set token = '', expires = clock_timestamp() where term = %s and token = %s"
_FENCE = """
    select 1 / count(*) from (select 1 from lease where term = %s and token = %s for key share) as held
"""
_NOTIFY = "select pg_notify('rankcast_' || 'meta'::regclass::oid, %s)"
CHANNEL = "select 'rankcast_' || 'meta'::regclass::oid"
"""The channel on which the holder says which row is confirmed: one for each log of a database."""

TERM = "term"
"""What the first row of a term notes."""

NOT_HELD = "22012"
"""The SQLSTATE by which `fence` fails: a division by zero, so that the transaction fails by itself, without another way
there and back.
"""


class LeaseHeld(LogUnavailable):
    """Another node holds the lease."""


class LeaseState(NamedTuple):
    """The lease as it was read. `token` is that of the service that holds it, empty where it was given back; `history`
    the id of the history without its term; `confirmed` the last row that the holder knows to be durable; `left` and
    `age` are seconds until it expires and since it was prolonged, by the server's clock.
    """

    term: int
    token: str
    node: str
    history: str
    confirmed: int
    left: float
    age: float

    @property
    def free(self) -> bool:
        """Whether any node may take it."""
        return self.left <= 0 or not self.token


class Holder(NamedTuple):
    """Who takes the lease: `node` is the id of its data directory, `token` that of the process."""

    node: str
    token: str
    history: str
    seconds: float


class Lease:
    """The lease as one node has it. `term` is the one that it holds, None where it holds none.

    Every call works on a DBAPI cursor of psycopg, in whatever transaction that is in, and raises the driver's errors.
    """

    def __init__(self) -> None:
        self.term: int | None = None
        self.holder: Holder | None = None

    @staticmethod
    def make(cursor: Any) -> None:
        """Make the table where it is missing."""
        cursor.execute(_MAKE)

    @staticmethod
    def look(cursor: Any) -> LeaseState | None:
        """The lease; None where there never was one."""
        cursor.execute(_THERE)
        if not cursor.fetchone()[0]:
            return None
        cursor.execute(_LOOK)
        row = cursor.fetchone()
        return None if row is None else LeaseState._make(row)

    @staticmethod
    def end(cursor: Any) -> None:
        """Take the lease from whoever holds it, for a service that has the log for itself."""
        cursor.execute(_THERE)
        if cursor.fetchone()[0]:
            cursor.execute("delete from lease")

    def take(self, cursor: Any, holder: Holder, term: int, confirmed: int, force: bool = False) -> None:
        """Take the lease: the node that held it last goes on with its term, any other gets a higher one, at least
        `term`. `confirmed` is the last row of the log.

        It is not ours before the transaction is committed: `taken` says so. Raises `LeaseHeld` where another node holds
        it, unless with `force`.
        """
        cursor.execute(_LOCK)
        row = cursor.fetchone()
        if row is None:
            cursor.execute(_INSERT, (term, holder.token, holder.node, holder.history, confirmed, holder.seconds))
            self._taking = holder, term
            return
        found = LeaseState._make(row)
        same = found.node == holder.node
        if not (same or force or found.free):
            raise LeaseHeld(f"node {found.node} leads in term {found.term}: its lease lasts {found.left:.1f} s more")
        mine = max(found.term, term) if same else max(found.term + 1, term)
        cursor.execute(_TAKE, (mine, holder.token, holder.node, holder.history, confirmed, holder.seconds))
        self._taking = holder, mine

    def taken(self) -> int:
        """The transaction of `take` is committed; return the term."""
        self.holder, self.term = self._taking
        return self.term

    def fence(self, cursor: Any) -> None:
        """Let the transaction fail (`NOT_HELD`) unless the lease is held, and let nobody take it before its end."""
        assert self.holder is not None
        cursor.execute(_FENCE, (self.term, self.holder.token))

    def renew(self, cursor: Any, confirmed: int) -> bool:
        """Prolong the lease, and say which row is confirmed; return whether it is still held."""
        assert self.holder is not None
        cursor.execute(_RENEW, (confirmed, self.holder.seconds, self.term, self.holder.token))
        return bool(cursor.rowcount)

    def confirm(self, cursor: Any, confirmed: int) -> None:
        """Tell those who follow which row is confirmed."""
        cursor.execute(_NOTIFY, (f"{self.term} {confirmed}",))

    def release(self, cursor: Any) -> None:
        """Give the lease back, so that another node can take it at once."""
        assert self.holder is not None
        cursor.execute(_RELEASE, (self.term, self.holder.token))


def confirmed_in(payload: str) -> tuple[int, int] | None:
    """Term and row that a notification confirms; None where it is none."""
    term, _, lsn = payload.partition(" ")
    if not (term.isascii() and term.isdigit() and lsn.isascii() and lsn.isdigit() and len(payload) < 40):
        return None
    return int(term), int(lsn)
