"""A PostgreSQL server of one's own, to be stopped, killed and frozen at will."""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from tests.support.patience import PATIENCE, wait_until
from tests.support.ports import free_port

_USERS = ("postgres", "nobody")
"""Who the server runs as when the tests are run by root, which it refuses to be run by."""


class PostgresServer:
    """A server on a port of the loopback address, with its data in `folder`."""

    def __init__(self, bin_folder: Path, folder: Path, user: str | None, of: PostgresServer | None = None) -> None:
        self.port = free_port()
        self._bin = bin_folder
        self._user = user
        self._data = folder / "data"
        self._log = folder / "log"
        if of is None:
            self._run("initdb", "--auth=trust", "--username=test", "--encoding=UTF8", "--locale=C", "--no-sync")
        else:
            server = ("--host=127.0.0.1", f"--port={of.port}", "--username=test")
            self._run("pg_basebackup", *server, "--write-recovery-conf", "--checkpoint=fast", "--no-sync")
        options = f"listen_addresses='127.0.0.1'\nport={self.port}\nunix_socket_directories=''\n"
        with (self._data / "postgresql.conf").open("a") as config:
            config.write(options)

    def start(self) -> None:
        """Start it; returns once it takes connections."""
        self._run("pg_ctl", "start", "--wait", f"--log={self._log}")

    def stop(self, mode: str = "fast") -> None:
        """Stop it: `immediate` is as if it had crashed."""
        self._run("pg_ctl", "stop", "--wait", f"--mode={mode}")

    @contextmanager
    def standby(self) -> Iterator[PostgresServer]:
        """A standby that runs, without which nothing is committed here from now on; gone afterwards."""
        folder = Path(tempfile.mkdtemp(prefix="rankcast-postgres-"))
        if self._user is not None:
            shutil.chown(folder, self._user)
        try:
            made = PostgresServer(self._bin, folder, self._user, self)
            made.start()
            self.ask("alter system set synchronous_standby_names = '*'")
            self.ask("select pg_reload_conf()")
            wait_until(lambda: self.ask("select 1 from pg_stat_replication where sync_state = 'sync'"))
            yield made
        finally:
            if (folder / "data" / "postmaster.pid").exists():
                made.stop("immediate")
            shutil.rmtree(folder, ignore_errors=True)

    def promote(self) -> None:
        """Let a standby take writes."""
        self._run("pg_ctl", "promote", "--wait")

    def freeze(self) -> None:
        """Stop its processes where they are: connections stay open, and nothing answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def new_database(self) -> str:
        """Make an empty database; returns its URL."""
        name = f"d{secrets.token_hex(6)}"
        self.ask(f"create database {name}")
        return f"postgresql://test@127.0.0.1:{self.port}/{name}"

    def ask(self, query: str, url: str | None = None) -> list[tuple[object, ...]]:
        """Run one statement, outside of a transaction, and return its rows if it has any."""
        url = url or f"postgresql://test@127.0.0.1:{self.port}/postgres"
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(query)
            return cursor.fetchall() if cursor.description else []

    def _signal(self, how: signal.Signals) -> None:
        first = int((self._data / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        for pid in [first, *map(int, children)]:
            os.kill(pid, how)

    def _run(self, program: str, *arguments: str) -> None:
        command: list[str | Path] = [self._bin / program, "--pgdata", self._data, *arguments]
        done = subprocess.run(
            command,
            user=self._user,
            cwd=self._data.parent,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            timeout=PATIENCE,
            check=False,
        )
        assert done.returncode == 0, f"{program}: {done.stderr.decode()} {self._tail()}"

    def _tail(self) -> str:
        return self._log.read_text()[-2000:] if self._log.exists() else ""


@contextmanager
def own_postgres() -> Iterator[PostgresServer]:
    """A server that runs, gone afterwards. Without PostgreSQL the test is skipped; with CI=true it fails."""
    found = _bin_folder()
    if found is None:
        told = "PostgreSQL's initdb and pg_ctl are not installed"
        if os.environ.get("CI") == "true":
            pytest.fail(told)
        pytest.skip(told)
    folder = Path(tempfile.mkdtemp(prefix="rankcast-postgres-"))
    user = None
    if os.geteuid() == 0:
        user = next(name for name in _USERS if _known(name))
        shutil.chown(folder, user)
    try:
        server = PostgresServer(found, folder, user)
        server.start()
        yield server
    finally:
        if (folder / "data" / "postmaster.pid").exists():
            server.thaw()
            server.stop("immediate")
        shutil.rmtree(folder, ignore_errors=True)


def _bin_folder() -> Path | None:
    """The folder with the server's programs, which are often not on PATH; the newest version's."""
    candidates = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: float(path.parent.name))
    config = shutil.which("pg_config")
    if config is not None:
        asked = subprocess.run([config, "--bindir"], capture_output=True, text=True, check=False)
        candidates.append(Path(asked.stdout.strip()))
    on_path = shutil.which("initdb")
    if on_path is not None:
        candidates.append(Path(on_path).resolve().parent)
    return next(
        (path for path in reversed(candidates) if (path / "initdb").exists() and (path / "pg_ctl").exists()), None
    )


def _known(user: str) -> bool:
    try:
        pwd.getpwnam(user)
    except KeyError:
        return False
    return True
