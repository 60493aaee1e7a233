from __future__ import annotations

import errno
import re
import socket
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from app.runtime import listening
from app.runtime.listening import CannotListen, PortTaken, address, listen
from tests.support.ports import free_port


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


HOSTS = [
    "127.0.0.1",
    "0.0.0.0",
    "localhost",
    pytest.param("[::1]", marks=pytest.mark.skipif(not has_ipv6(), reason="no IPv6")),
]


@pytest.mark.parametrize("host", HOSTS)
def test_a_port_is_held_from_the_moment_it_is_listened_on(host: str, stack: ExitStack) -> None:
    port = free_port()
    for one in listen(host, port):
        stack.enter_context(one)
    with pytest.raises(PortTaken, match=re.escape(f"{address(host, port)} is taken")) as taken:
        listen(host, port)
    free = taken.value.free
    assert free is not None and free > port
    for one in listen(host, free):
        stack.enter_context(one)


def test_whoever_connects_before_connections_are_accepted_waits(stack: ExitStack) -> None:
    (sock,) = listen("127.0.0.1", 0)
    stack.enter_context(sock)
    stack.enter_context(socket.create_connection(sock.getsockname()))


def test_the_next_port_that_is_free_is_named(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    first = free_port()
    taken = {first, first + 1, first + 2}
    open_ = listening._open

    def open_unless_taken(family: int, kind: int, protocol: int, place: tuple[object, ...]) -> socket.socket:
        if place[1] in taken:
            raise OSError(errno.EADDRINUSE, "Address already in use")
        return open_(family, kind, protocol, (place[0], 0, *place[2:]))

    monkeypatch.setattr(listening, "_open", open_unless_taken)
    with pytest.raises(PortTaken) as refusal:
        listen("127.0.0.1", first)
    assert refusal.value.free == first + 3
    monkeypatch.setattr(listening, "_NEAR", 2)
    with pytest.raises(PortTaken) as refusal:
        listen("127.0.0.1", first)
    assert refusal.value.free is None


def test_a_free_port_is_the_same_on_all_addresses_of_a_host(stack: ExitStack, monkeypatch: pytest.MonkeyPatch) -> None:
    two = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, 0)) for host in ("127.0.0.1", "127.0.0.2")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [*two, two[0]])
    sockets = [stack.enter_context(one) for one in listen("everywhere", 0)]
    places = [one.getsockname() for one in sockets]
    assert [host for host, _ in places] == ["127.0.0.1", "127.0.0.2"]
    assert len({port for _, port in places}) == 1


def test_where_one_address_is_taken_none_is_listened_on(monkeypatch: pytest.MonkeyPatch, stack: ExitStack) -> None:
    port = free_port()
    for one in listen("127.0.0.2", port):
        stack.enter_context(one)
    two = [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port)) for host in ("127.0.0.1", "127.0.0.2")]
    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", lambda *_, **__: two)
        with pytest.raises(PortTaken):
            listen("everywhere", port)
    for one in listen("127.0.0.1", port):
        stack.enter_context(one)


@pytest.mark.parametrize("host", ["192.0.2.1", "no such host"])
def test_a_host_that_is_not_here_is_named(host: str) -> None:
    with pytest.raises(CannotListen, match=f"cannot listen on {host}:8000: .+") as refusal:
        listen(host, 8000)
    assert not isinstance(refusal.value, PortTaken)
