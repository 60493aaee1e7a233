"""Where links may lead, at every connection."""

from __future__ import annotations

import asyncio

import pytest

from app.links.peer import Peers, Unanswered
from app.runtime.egress import Egress
from indexes.relays.config import Link


async def count_connections(peers: Peers, private: bool, host: str = "127.0.0.1") -> tuple[int, str]:
    """The connections that a probe opens to a server of this machine, and what comes of it."""
    opened = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        opened += 1
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server:
        link = Link(f"http://{host}:{port}", "market", "here", "secret-key", private)
        with pytest.raises(Unanswered) as why:
            await peers.probe(link, "here:market", [])
        await peers.close()
    return opened, str(why.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "2130706433", "[::ffff:127.0.0.1]"])
def test_a_link_that_no_administrator_made_stays_off_this_machine(host: str) -> None:
    opened, why = asyncio.run(count_connections(Peers(), private=False, host=host))
    assert opened == 0 and "may not lead there" in why


def test_an_administrator_or_an_allowed_network_lets_it_lead_there() -> None:
    assert asyncio.run(count_connections(Peers(), private=True))[0] > 0
    assert asyncio.run(count_connections(Peers(egress=Egress(["127.0.0.0/8"])), private=False))[0] > 0
    assert asyncio.run(count_connections(Peers(hosts=["127.0.0.1"]), private=False))[0] > 0


def test_hosts_count_for_links_that_are_there_already_and_with_their_port() -> None:
    for hosts in (["north.example"], ["127.0.0.1:1"]):
        opened, why = asyncio.run(count_connections(Peers(hosts=hosts), private=True))
        assert opened == 0 and "not among those allowed" in why


def test_a_key_that_cannot_be_opened_is_not_sent() -> None:
    async def probe() -> str:
        with pytest.raises(Unanswered) as why:
            await Peers().probe(Link("http://127.0.0.1:9", "market", "here", "sealed:gAAAA"), "here:market", [])
        return str(why.value)

    assert "sealed" in asyncio.run(probe())
