"""Fresh databases for tests: a SQLite file, or a schema of its own on a real PostgreSQL server.

``RANKCAST_TEST_POSTGRES`` is the server's URL. Without a server the tests on it are skipped, and with ``CI=true`` fail.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from tests.support.ports import free_port

KINDS = ["sqlite", "postgresql"]
SERVER = os.environ.get("RANKCAST_TEST_POSTGRES", "postgresql+psycopg://root@127.0.0.1:5432/test")

_BREAK = {
    "sqlite": ["create trigger broken before insert on log begin select raise(abort, 'disk full'); end"],
    "postgresql": [
        "create function broken() returns trigger language plpgsql as $$ begin raise exception 'disk full'; end $$",
        "create trigger broken before insert on log for each row execute function broken()",
    ],
}
_MEND = {
    "sqlite": ["drop trigger broken"],
    "postgresql": ["drop trigger broken on log", "drop function broken"],
}


class FreshDatabase:
    """A database of one test, looked at and tampered with past the service. `url` is what a service is given."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._engine = sa.create_engine(url, poolclass=sa.NullPool)
        self.kind = self._engine.dialect.name

    def run(self, *statements: str) -> None:
        """Run statements in one transaction."""
        with self._engine.begin() as connection:
            for statement in statements:
                connection.execute(sa.text(statement))

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """What a query answers."""
        with self._engine.connect() as connection:
            return [tuple(row) for row in connection.execute(sa.text(query))]

    def meta(self) -> dict[str, str]:
        """The table ``meta``."""
        return {str(key): str(value) for key, value in self.rows("select key, value from meta")}

    def take_over(self) -> None:
        """Leave the mark of another service."""
        self.run("update meta set value = 'another' where key = 'owner'")

    def break_writes(self) -> None:
        """Let no row into the log."""
        self.run(*_BREAK[self.kind])

    def mend_writes(self) -> None:
        self.run(*_MEND[self.kind])

    def holders(self) -> list[int]:
        """The server's processes that hold the lock of this schema: those of this test's own services."""
        return [
            pid
            for (pid,) in self.rows(
                "select pid from pg_locks where locktype = 'advisory' and granted and objid = 'meta'::regclass::oid "
                "and database = (select oid from pg_database where datname = current_database())"
            )
        ]

    def end_session(self) -> None:
        """End the session that holds the lock of this schema, and wait until the server is done with it."""
        (pid,) = self.holders()
        self.run(f"select pg_terminate_backend({pid}, 120000)")

    def through(self, port: int) -> str:
        """The URL by way of another port of this machine."""
        return sa.make_url(self.url).set(host="127.0.0.1", port=port).render_as_string(hide_password=False)


@contextmanager
def fresh(kind: str, folder: Path) -> Iterator[FreshDatabase]:
    """An empty database, gone afterwards."""
    if kind == "sqlite":
        yield FreshDatabase(f"sqlite:///{folder / 'log.db'}")
        return
    server = sa.create_engine(SERVER, poolclass=sa.NullPool, connect_args={"connect_timeout": 60})
    schema = f"rankcast_{secrets.token_hex(8)}"
    try:
        with server.begin() as connection:
            connection.execute(sa.text(f"create schema {schema}"))
    except (sa.exc.SQLAlchemyError, ImportError) as error:
        told = f"no PostgreSQL at RANKCAST_TEST_POSTGRES: {str(error).splitlines()[0]}"
        if os.environ.get("CI") == "true":
            pytest.fail(told)
        pytest.skip(told)
    url = server.url.update_query_dict({"options": f"-csearch_path={schema}"})
    try:
        yield FreshDatabase(url.render_as_string(hide_password=False))
    finally:
        with server.begin() as connection:
            connection.execute(sa.text("set lock_timeout = '120s'"))
            connection.execute(sa.text(f"drop schema {schema} cascade"))


class Proxy:
    """A way to the server that can fall silent: `port` of this machine leads there."""

    def __init__(self, host: str, port: int, at: int = 0) -> None:
        self._to = (host, port)
        self._listener = socket.create_server(("127.0.0.1", at or free_port()))
        self.port: int = self._listener.getsockname()[1]
        self._answers = threading.Event()
        self._answers.set()
        self._open: list[socket.socket] = []
        self._unaware = False
        self._word: bytes | None = None
        self._then: Callable[[], object] = bool
        self._held: bytes | None = None
        self._let_go = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def silence(self) -> None:
        """What is sent still arrives, and no answer comes back, not even to new connections."""
        self._answers.clear()

    def silence_at(self, word: bytes, then: Callable[[], object]) -> None:
        """Fall silent just before these bytes are sent on, and call `then`."""
        self._word, self._then = word, then

    def hold_at(self, word: bytes, then: Callable[[], object]) -> None:
        """Send on what comes before these bytes, call `then`, and hold the rest back until `let_go`."""
        self._held, self._then = word, then
        self._let_go.clear()

    def let_go(self) -> None:
        """Send on what is held back."""
        self._let_go.set()

    def speak(self) -> None:
        """Answer again. Connections from before the silence are cut."""
        for one in self._open:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        self._answers.set()

    def lose_clients(self) -> None:
        """Cut the connections so that the server does not notice."""
        self._unaware = True
        for client in self._open[::2]:
            client.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.speak()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._to)
            except OSError:
                client.close()
                continue
            self._open += [client, server]
            threading.Thread(target=self._pass_on, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self._pass_on, args=(server, client, True), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if answers:
                    self._answers.wait()
                elif self._word is not None and self._word in data:
                    self._word = None
                    self.silence()
                    self._then()
                elif self._held is not None and self._held in data:
                    at, self._held = data.index(self._held), None
                    target.sendall(data[:at])
                    self._then()
                    self._let_go.wait()
                    data = data[at:]
                target.sendall(data)
        if self._unaware and not answers:
            return
        for one in (source, target):
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
