"""How long nodes that share a log on PostgreSQL are without a leader, when it is lost and when another is promoted."""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

from bench.peers.question import POSTGRES
from bench.process import HOST, Failed, Server, service
from bench.report import Report

FAILOVER_SECONDS = 3.0
PATH = "/v1/boards/b"
BOARD = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [10]}
WAIT = 60.0
NOBODY = f"http://{HOST}:9"
"""The other node, when there is none yet."""


class Change(NamedTuple):
    """Seconds from the loss of a leader, or from the request, until another node leads and has answered a write; and of
    these, by its log, until the lease was taken, and until it had all rows.
    """

    seconds: float
    taking_over: float
    catching_up: float


def show(report: Report, rounds: int) -> None:
    """Measure and write the section; where no PostgreSQL can be reached, it says so."""
    report.heading("A log that nodes share")
    try:
        with _database() as url, tempfile.TemporaryDirectory() as folder:
            report.progress("nodes that share a log")
            lost, asked = _changes(Path(folder), url, rounds)
    except _Missing as missing:
        report.text(f"Left out: {missing}.")
        return
    report.text(
        f"Two nodes with a log on PostgreSQL and `--failover-seconds {FAILOVER_SECONDS:g}`; medians of {rounds}",
        "rounds. From a `kill -9` of the leader, or from the request that promotes the replica, until that one has",
        "answered a write; how long it took the lease and read all rows is from its log, once it had begun with that.",
    )
    rows = []
    for name, changes in (("the leader is killed", lost), ("promoted by hand", asked)):
        columns = [median(getattr(one, field) for one in changes) for field in Change._fields]
        rows.append((name, *(f"{value:.3f}" for value in columns)))
    report.table(("what happens", "s until a write is answered", "taking the lease", "catching up"), rows)


class _Missing(Exception):
    """What is needed is not there."""


@contextmanager
def _database() -> Iterator[str]:
    """The URL of an empty database at the server of the peers, for as long as it is needed."""
    try:
        import psycopg
    except ImportError:
        raise _Missing("it needs the package psycopg, of the extra `postgres`") from None
    name = f"rankcast_bench_{uuid4().hex[:12]}"
    try:
        connection = psycopg.connect(POSTGRES, autocommit=True, connect_timeout=5)
    except psycopg.Error as error:
        raise _Missing(f"no PostgreSQL answers at {_plain(POSTGRES)} ({type(error).__name__})") from None
    with connection:
        connection.execute(f'create database "{name}"')  # a name of ours
        try:
            yield urlsplit(POSTGRES)._replace(path=f"/{name}").geturl()
        finally:
            connection.execute(f'drop database "{name}" with (force)')


def _plain(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.hostname}:{parts.port or 5432}"


def _changes(folder: Path, url: str, rounds: int) -> tuple[list[Change], list[Change]]:
    options = ("--database", url, "--failover-seconds", f"{FAILOVER_SECONDS:g}")
    lost, asked = list[Change](), list[Change]()
    with ExitStack() as stack:
        number = 0

        def node(follows: str) -> Server:
            nonlocal number
            number += 1
            own = folder / f"node{number}"
            own.mkdir()
            return stack.enter_context(_killed(own, *options, "--follow" if number > 1 else "--peers", follows))

        leader = node(NOBODY)
        leader.ask("PUT", PATH, json.dumps(BOARD).encode())
        for _ in range(rounds):
            replica = node(f"http://{HOST}:{leader.port}")
            _in_step(leader, replica)
            began, before = time.perf_counter(), len(_led(replica))
            replica.ask("POST", "/v1/admin/promote", b"{}")
            asked.append(_until_it_writes(replica, began, before))
            _in_step(replica, leader)
            # The leader of before follows now.
            began, before = time.perf_counter(), len(_led(leader))
            os.kill(replica.pid, signal.SIGKILL)
            lost.append(_until_it_writes(leader, began, before))
    return lost, asked


@contextmanager
def _killed(folder: Path, *options: str) -> Iterator[Server]:
    """A node that may be killed."""
    inner = service(folder, *options)
    server = inner.__enter__()
    try:
        yield server
    finally:
        try:
            inner.__exit__(None, None, None)
        except Failed:
            if server.process.returncode != -signal.SIGKILL:
                raise


def _in_step(leader: Server, replica: Server) -> None:
    """Wait until a node follows, and shows all that its leader does."""
    end = time.monotonic() + WAIT
    while True:
        there, here = leader.ask("GET", "/readyz"), _about(replica)
        if here.get("role") == "replica" and here.get("ready") and here["lsn"] >= there["lsn"]:
            return
        if time.monotonic() > end:
            raise Failed(f"the replica stays behind: {here}")
        time.sleep(0.02)


def _until_it_writes(server: Server, began: float, before: int) -> Change:
    """Wait until a node leads and has answered a write; its log has said so so many times `before`."""
    end = time.monotonic() + WAIT
    body = json.dumps({"values": {"x": 1, "y": time.time()}}).encode()
    while _about(server).get("role") != "leader" or not _answers(server, body):
        _check(server, end)
        time.sleep(0.005)
    seconds = time.perf_counter() - began
    while len(said := _led(server)) == before:
        _check(server, end)
        time.sleep(0.005)
    return Change(seconds, said[-1]["taking_over"], said[-1]["catching_up"])


def _led(server: Server) -> list[dict[str, Any]]:
    """What a node has logged each time that it began to lead."""
    return [json.loads(line) for line in server.log.read_text().splitlines() if '"this node leads"' in line]


def _check(server: Server, end: float) -> None:
    if time.monotonic() > end:
        raise Failed(f"no node leads:\n{server.tail()}")


def _answers(server: Server, body: bytes) -> bool:
    try:
        server.ask("PUT", f"{PATH}/objects/o", body)
    except (Failed, OSError):
        return False
    return True


def _about(server: Server) -> dict[str, Any]:
    """What a node says of itself; nothing where it does not answer, or is not ready."""
    try:
        found: dict[str, Any] = server.ask("GET", "/readyz")
    except (Failed, OSError):
        return {}
    return found
