"""PostgreSQL as a user would set it up: ranges under a GiST index, affected rows queried again, and NOTIFY.

Each subscription keeps its list and the value of its k-th object, so that an update looks again only at those that the
range index finds and whose list it can concern. One transaction an update, with the server's own durability.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable

import numpy as np
import psycopg

from bench.peers.world import Lists, Peers

SCHEMA = "rankcast_peers"

TABLES = """
create type span as range (subtype = float8);
create table objects (id int primary key, x float8 not null, y float8 not null);
create table subscriptions (
    id int primary key, l float8 not null, r float8 not null, k int not null, span span,
    members int[] not null, kth float8 not null);
"""

INDEXES = """
update subscriptions set span = span(l, r, '[]');
create index on objects (y, id) include (x);
create index on objects (x) include (y, id);
create index on subscriptions using gist (span);
"""

MOVE = """
create function move(o int, new_y float8) returns bigint language plpgsql as $$
declare old_y float8; here float8; sent bigint;
begin
    select y, x into old_y, here from objects where id = o for update;
    update objects set y = new_y where id = o;
    with affected as (
        select id, l, r, k from subscriptions where span @> here and least(old_y, new_y) <= kth
    ), fresh as (
        select a.id, best.members, best.kth from affected a cross join lateral (
            select array_agg(id order by y, id) as members,
                   case when count(*) = a.k then max(y) else 'infinity' end as kth
            from (select id, y from objects where x between a.l and a.r order by y, id limit a.k) one) best
    ), changed as (
        update subscriptions s set members = f.members, kth = f.kth from fresh f
        where s.id = f.id and (s.members <> f.members or o = any (f.members))
        returning s.id, s.members
    )
    select count(pg_notify('rankcast_peers', id || ' ' || o || ' ' || new_y || ' ' || array_to_string(members, ',')))
        into sent from changed;
    return sent;
end $$;
"""


class PostgresPeer:
    """A schema of its own in a database, which it drops in the end."""

    name = "PostgreSQL (GiST on ranges, re-query, NOTIFY)"

    def __init__(self, url: str, peers: Peers, lists: Lists) -> None:
        self._session = psycopg.connect(url, autocommit=True)
        self._session.execute(f"drop schema if exists {SCHEMA} cascade; create schema {SCHEMA}")
        self._session.execute(f"set search_path to {SCHEMA}, public")
        self._session.execute(TABLES)
        n, m = len(peers.x), len(peers.l)
        x, y, l, r = (column.tolist() for column in (peers.x, peers.y, peers.l, peers.r))
        self._copy("objects (id, x, y)", (f"{i}\t{x[i]}\t{y[i]}" for i in range(n)))
        names = ["{" + ",".join(map(str, row[:size])) + "}" for row, size in zip(lists.rows, lists.length, strict=True)]
        kth = ["infinity" if np.isinf(one) else repr(float(one)) for one in lists.kth]
        self._copy(
            "subscriptions (id, l, r, k, members, kth)",
            (f"{i}\t{l[i]}\t{r[i]}\t{peers.k}\t{names[i]}\t{kth[i]}" for i in range(m)),
        )
        self._session.execute(INDEXES)
        self._session.execute(MOVE)
        self._session.execute("analyze objects")
        self._session.execute("analyze subscriptions")
        self._listener = psycopg.connect(url, autocommit=True)
        self._listener.execute("listen rankcast_peers")
        self._ended = threading.Event()
        self.received = 0
        self._reader = threading.Thread(target=self._listen, daemon=True)
        self._reader.start()

    def _copy(self, table: str, lines: Iterable[str]) -> None:
        with self._session.cursor() as cursor, cursor.copy(f"copy {table} from stdin") as copy:
            copy.write("".join(f"{line}\n" for line in lines))

    def _listen(self) -> None:
        while not self._ended.is_set():
            for notice in self._listener.notifies(timeout=0.2):
                self.received += len(notice.payload)

    def update(self, item: int, y: float) -> int:
        before = self.received
        self._session.execute("select move(%s, %s)", (item, y))
        return self.received - before

    def lists(self, some: list[int]) -> list[list[int]]:
        rows = self._session.execute("select id, members from subscriptions where id = any (%s)", (some,)).fetchall()
        found: dict[int, list[int]] = dict(rows)
        return [found[one] for one in some]

    def memory(self) -> int:
        query = "select pg_total_relation_size('objects') + pg_total_relation_size('subscriptions')"
        row = self._session.execute(query).fetchone()
        assert row is not None
        return int(row[0])

    def close(self) -> None:
        self._ended.set()
        self._reader.join()
        self._listener.close()
        self._session.execute(f"drop schema if exists {SCHEMA} cascade")
        self._session.close()
