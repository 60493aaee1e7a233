"""A connection to a live service as bytes."""

from __future__ import annotations

import socket
from typing import Any, NamedTuple

from tests.support.live import LiveService
from tests.support.patience import PATIENCE
from tests.system.http.talk import strict


class Got(NamedTuple):
    """An answer; `together` is whether it was answered in a group."""

    status: int
    body: Any
    headers: dict[str, str]

    @property
    def together(self) -> bool:
        return "-s" in self.headers["x-request-id"]


class Wire:
    """A connection on which requests are written as bytes, several at a time."""

    def __init__(self, service: LiveService) -> None:
        self._socket = socket.create_connection(("127.0.0.1", int(service.url.rsplit(":", 1)[1])), PATIENCE)
        self._file = self._socket.makefile("rb")

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> Got:
        """The next answer."""
        line = self._file.readline()
        assert line.startswith(b"HTTP/1.1 "), line
        headers = {}
        while (header := self._file.readline()) not in (b"\r\n", b""):
            name, _, value = header.decode().partition(":")
            headers[name.strip().lower()] = value.strip()
        body = self._file.read(int(headers["content-length"]))
        return Got(int(line.split()[1]), strict(body), headers)

    def ended(self) -> bool:
        """Whether the service has closed the connection, and said nothing more."""
        return self._file.read() == b""

    def close(self) -> None:
        self._file.close()
        self._socket.close()
