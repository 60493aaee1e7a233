"""The sockets that a service listens on, opened before anything else.

A taken port is found out at once, and a free one stays reserved while the service starts.

A socket that is bound but does not listen would not do: another one that asks for the same port with SO_REUSEADDR gets
it, too. So these listen at once, and early connections wait in the backlog.
"""

from __future__ import annotations

import errno
import socket
from contextlib import suppress

BACKLOG = 4096
"""Connections that may wait to be accepted."""

_NEAR = 200
"""Ports after one that is taken among which a free one is looked for."""

_ATTEMPTS = 20
"""Attempts to find a port that is free on every address of a host."""


UNSENT = 1 << 17
"""Bytes that the system takes from the service for one connection beyond what the network carries."""


class CannotListen(Exception):
    """The host and port cannot be listened on; the message gives the reason."""


class PortTaken(CannotListen):
    """Another program listens there. `free` is the next port that is free, None where there is none nearby."""

    def __init__(self, host: str, port: int, free: int | None) -> None:
        super().__init__(f"{address(host, port)} is taken: another program listens there")
        self.free = free


def listen(host: str, port: int) -> list[socket.socket]:
    """Sockets that listen on each address of a host; with port 0 on one that is free, the same on all of them.

    Raises:
        PortTaken: another program listens there.
        CannotListen: the host has no address, none of this machine's, or the port needs more rights.
    """
    try:
        if port:
            return _listen(host, port)
        for _ in range(_ATTEMPTS - 1):
            with suppress(PortTaken):
                return _listen(host, 0)
        return _listen(host, 0)
    except PortTaken:
        raise PortTaken(host, port, _free_after(host, port)) from None


def bound_unread(listening: socket.socket, seconds: float) -> None:
    """Bound what the system keeps for clients of a socket that do not read: `UNSENT` bytes in place of megabytes, and
    `seconds` until it gives a connection up that takes nothing. Connections inherit both; other systems have neither.
    """
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, min(round(seconds * 1e3), (1 << 31) - 1))


def free_port(host: str = "127.0.0.1") -> int:
    """A port that nobody listens on now. Another program may take it before its user does."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        return int(probe.getsockname()[1])


def address(host: str, port: int) -> str:
    """Host and port as one text.

    >>> address("127.0.0.1", 8000), address("::1", 8000), address("", 8000)
    ('127.0.0.1:8000', '[::1]:8000', '*:8000')
    """
    host = host.strip("[]")
    return f"[{host}]:{port}" if ":" in host else f"{host or '*'}:{port}"


def _free_after(host: str, port: int) -> int | None:
    """The next port that could be listened on a moment ago."""
    for free in range(port + 1, min(port + _NEAR, 65535) + 1):
        try:
            found = _listen(host, free)
        except CannotListen:
            continue
        for one in found:
            one.close()
        return free
    return None


def _listen(host: str, port: int) -> list[socket.socket]:
    """As `listen`, on the first addresses that the system gives.

    As asyncio does it, addresses of a family that is switched off are passed over, and an IPv6 address is not an IPv4
    one, too.
    """
    name = host.strip("[]") or None
    try:
        found = socket.getaddrinfo(name, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise CannotListen(f"cannot listen on {address(host, port)}: {reason}") from None
    opened: list[socket.socket] = []
    why: OSError | None = None
    try:
        for family, kind, protocol, _, place in dict.fromkeys(found):
            if opened and not port:
                place = (place[0], opened[0].getsockname()[1], *place[2:])
            try:
                opened.append(_open(family, kind, protocol, place))
            except OSError as error:
                if error.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                    raise
                why = error
        if not opened and why is not None:
            raise why
    except OSError as error:
        for one in opened:
            one.close()
        if error.errno == errno.EADDRINUSE:
            raise PortTaken(host, port, None) from None
        raise CannotListen(f"cannot listen on {address(host, port)}: {error.strerror}") from None
    return opened


def _open(family: int, kind: int, protocol: int, place: tuple[object, ...]) -> socket.socket:
    opened = socket.socket(family, kind, protocol)
    try:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            opened.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        opened.bind(place)
        opened.listen(BACKLOG)
        opened.setblocking(False)
    except OSError:
        opened.close()
        raise
    return opened
