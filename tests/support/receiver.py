"""A receiver of webhooks in a thread: keeps what it is sent, and answers as a test says."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.support.patience import wait_until
from tests.support.ports import free_port

Json = dict[str, Any]


class Arrived(NamedTuple):
    """A request as it came, and what was answered; status 0 is a connection that was closed."""

    id: str
    headers: dict[str, str]
    body: bytes
    status: int

    @property
    def events(self) -> list[Json]:
        """The events of the request."""
        found = json.loads(self.body)
        return found if isinstance(found, list) else [found]


Decide = Callable[[int, Json], int]
"""The status for a request, by its number from 0 and its first event: 0 closes the connection, -1 never answers."""


def statuses(*found: int) -> Decide:
    """These in turn, over and over."""
    return lambda number, event: found[number % len(found)]


ALWAYS = statuses(204)


class Receiver:
    """Answers each request by `decide`, which a test may change at any time. `release` lets go of those that hang."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.url = f"http://127.0.0.1:{port}/in"
        self.decide = ALWAYS
        self.arrived: list[Arrived] = []
        self.begun = 0
        self.release = threading.Event()
        self._lock = threading.Lock()

    @property
    def taken(self) -> list[Json]:
        """The events that were taken, each once: an event that comes again has the id of a request that did."""
        seen: set[str] = set()
        found: list[Json] = []
        for one in list(self.arrived):
            if 200 <= one.status < 300 and one.id not in seen:
                seen.add(one.id)
                found += one.events
        return found

    def of(self, id: str) -> list[Json]:
        """The events of one subscription that were taken."""
        return [event for event in self.taken if event.get("id") == id]

    def wait(self, true: Callable[[], Any]) -> None:
        """Return once it is true."""
        wait_until(true, why=lambda: [(one.status, one.body[:300]) for one in self.arrived[-20:]])

    def take(self, headers: dict[str, str], body: bytes) -> int:
        """Keep a request; return the status to answer."""
        event = json.loads(body)
        with self._lock:
            number, self.begun = self.begun, self.begun + 1
        status = self.decide(number, event[0] if isinstance(event, list) else event)
        if status == -1:
            self.release.wait(60)
            status = 0
        with self._lock:
            self.arrived.append(Arrived(headers["webhook-id"], headers, body, status))
        return status


@contextmanager
def receiving(port: int | None = None, decide: Decide = ALWAYS) -> Iterator[Receiver]:
    """A receiver on a port of this machine, until the end."""
    receiver = Receiver(port or free_port())
    receiver.decide = decide

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = receiver.take({name.lower(): value for name, value in self.headers.items()}, body)
            if not status:
                self.close_connection = True
                with suppress(OSError):
                    self.connection.shutdown(socket.SHUT_RDWR)
                return
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("location", receiver.url + "/elsewhere")
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", receiver.port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        receiver.release.set()
        server.shutdown()
        server.server_close()


def applied(events: list[Json]) -> list[Json] | None:
    """The list of a subscription of a board or a feed after these events, by the rule of docs/streams.md."""
    shown: list[Json] | None = None
    for event in events:
        if event["event"] in ("snapshot", "reset"):
            shown = [{name: value for name, value in entry.items() if name != "rank"} for entry in event["list"]]
        elif event["event"] == "change":
            assert shown is not None, "a change before the list"
            ids = {change["id"] for change in event["changes"]}
            shown = [entry for entry in shown if entry["id"] not in ids]
            entered = [change for change in event["changes"] if change["new_rank"] is not None]
            for change in sorted(entered, key=lambda change: change["new_rank"]):
                entry = {name: value for name, value in change.items() if name not in ("old_rank", "new_rank")}
                shown.insert(change["new_rank"] - 1, entry)
        elif event["event"] == "gone":
            shown = None
    return shown
