"""Connections to PostgreSQL that end when the server is gone, however it went. Needs the extra `postgres`."""

from __future__ import annotations

import logging
import time
from collections.abc import Generator
from typing import Any, TypeVar

import psycopg

T = TypeVar("T")

# It warns of what it also raises, when a connection is lost.
logging.getLogger("psycopg").setLevel(logging.ERROR)

SILENCE = 10.0
"""Seconds without a byte from the server, or taken by it, after which it counts as gone."""

DEFAULTS: dict[str, Any] = {
    "application_name": "rankcast",
    "client_encoding": "UTF8",
    "connect_timeout": 5,
    "keepalives": 1,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""Parameters of libpq for what the URL leaves out. Times in seconds, the last in milliseconds."""

SESSION = (
    "-c statement_timeout=30s -c lock_timeout=10s "
    "-c tcp_keepalives_idle=10 -c tcp_keepalives_interval=5 -c tcp_keepalives_count=3"
)
"""What the server shall do: give statements up, and notice within half a minute that a client's machine is gone."""

DURABLE = "select set_config('synchronous_commit', 'on', false) where current_setting('synchronous_commit') = 'off'"


class Connection(psycopg.Connection[Any]):
    """A connection whose calls fail when the server says nothing for `SILENCE` seconds.

    Keepalives tell that a machine is gone, not that its server has stopped: a frozen process, or a disk that hangs.
    """

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **more: Any) -> T:
        """Run one of the driver's generators, which hear at least ten times a second whether the socket is ready."""
        return super().wait(self._bounded(gen), *args, **more)

    def _bounded(self, gen: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        last = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                now = time.monotonic()
                if ready:
                    last = now
                elif now - last > SILENCE:
                    self.close()
                    raise psycopg.OperationalError(f"the server has not answered for {SILENCE:g} seconds")
                wanted = gen.send(ready)
        except StopIteration as stop:
            found: T = stop.value
            return found


def connect(_dialect: object, _record: object, args: list[Any], given: dict[str, Any]) -> Connection:
    """A new connection; SQLAlchemy's hook for making one. What the URL gives goes before the defaults here."""
    options = f"{SESSION} {given.get('options', '')}".strip()
    connection = Connection.connect(*args, **{**DEFAULTS, **given, "options": options})
    try:
        connection.execute(DURABLE)
        connection.commit()
    except BaseException:
        connection.close()
        raise
    return connection
