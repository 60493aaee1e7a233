import asyncio
import ipaddress
import socket
from typing import Any

import httpx
import pytest

from app.networks import Allowed, is_public
from app.runtime.egress import Egress, NotAllowed


@pytest.mark.parametrize("text", ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "::ffff:8.8.8.8", "2002:0808:0808::1"])
def test_these_addresses_are_public(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "0.0.0.0",
        "255.255.255.255",
        "100.64.0.1",
        "224.0.0.1",
        "192.0.2.1",
        "198.18.0.1",
        "240.0.0.1",
        "::1",
        "::",
        "fe80::1",
        "fd00::1",
        "ff02::1",
        "::ffff:127.0.0.1",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b::a00:1",
        "2002:7f00:1::1",
        "2002:a00:1::1",
        "2001:db8::1",
        "2001:0:7f00:1::1",
    ],
)
def test_these_are_not(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))
    assert not Egress().permits(ipaddress.ip_address(text), 80)


def test_a_network_is_allowed_at_its_port() -> None:
    egress = Egress(["127.0.0.0/8:8001", "10.0.0.0/8", "[fd00::/8]:443", "::1"])
    for text, port, allowed in (
        ("127.0.0.1", 8001, True),
        ("127.9.9.9", 8001, True),
        ("127.0.0.1", 8002, False),
        ("10.255.0.1", 1, True),
        ("11.0.0.1", 1, True),
        ("192.168.0.1", 8001, False),
        ("fd12::1", 443, True),
        ("fd12::1", 80, False),
        ("::1", 9, True),
        ("::ffff:127.0.0.1", 8001, True),
        ("::ffff:127.0.0.1", 8002, False),
    ):
        assert egress.permits(ipaddress.ip_address(text), port) == allowed, (text, port)


@pytest.mark.parametrize(
    "text", ["", "example.org", "10.0.0.0/33", "10.0.0.1/8", "10.0.0.1:0", "10.0.0.1:x", "[::1]80"]
)
def test_what_is_no_network_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"10\.0\.0\.0/8|port"):
        Allowed.parse(text)


@pytest.mark.parametrize(
    "host", ["localhost", "127.0.0.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.1", "[::1]", "[::ffff:127.0.0.1]"]
)
def test_other_ways_to_write_this_machine_are_refused(host: str) -> None:
    async def ask() -> None:
        async with Egress().client() as client:
            await client.get(f"http://{host}:9/")

    with pytest.raises((NotAllowed, httpx.InvalidURL)):
        asyncio.run(ask())


def answering(names: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A name service that gives these addresses, each list in turn; returns the names that were asked for."""
    asked: list[str] = []

    async def getaddrinfo(_: Any, host: str, port: int, **__: Any) -> list[Any]:
        asked.append(host)
        found = names[host].pop(0) if len(names[host]) > 1 else names[host][0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (one, port)) for one in found.split()]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)
    return asked


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer with the request's Host."""
    head = await reader.readuntil(b"\r\n\r\n")
    host = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"host:"))
    writer.write(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: %d\r\n\r\n%s" % (len(host), host))
    await writer.drain()
    writer.close()


def test_the_connection_goes_to_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second answer of the name service, which comes too late, is never used."""
    asked = answering({"north.example": ["127.0.0.1", "169.254.169.254"]}, monkeypatch)

    async def ask() -> str:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, Egress([f"127.0.0.1:{port}"]).client() as client:
            text = (await client.get(f"http://north.example:{port}/")).text
            with pytest.raises(NotAllowed):
                await client.get(f"http://north.example:{port}/")
            return text.replace(str(port), "PORT")

    assert asyncio.run(ask()).lower() == "host: north.example:port"
    assert asked == ["north.example"] * 2


def test_one_address_that_is_not_allowed_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    answering({"both.example": ["8.8.8.8 10.0.0.1"], "none.example": [""]}, monkeypatch)
    for host in ("both.example", "none.example"):
        with pytest.raises(NotAllowed):
            asyncio.run(Egress().resolve(host, 80))


def test_another_address_is_tried_where_one_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    answering({"two.example": ["127.0.0.2 127.0.0.1"]}, monkeypatch)

    async def ask() -> int:
        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, Egress(["127.0.0.0/8"]).client() as client:
            return (await client.get(f"http://two.example:{port}/")).status_code

    assert asyncio.run(ask()) == 200


def test_redirects_are_not_followed(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 302 Found\r\nlocation: http://169.254.169.254/\r\ncontent-length: 0\r\n\r\n")
        await writer.drain()
        writer.close()

    async def ask() -> int:
        server = await asyncio.start_server(lead, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        async with server, Egress(["127.0.0.0/8"]).client() as client:
            return (await client.get(f"http://127.0.0.1:{port}/")).status_code

    assert asyncio.run(ask()) == 302
