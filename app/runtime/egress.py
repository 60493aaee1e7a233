"""Requests that leave the service for a URL that a client gave: which addresses they may reach.

A name is resolved here, every address that it has is checked, and the connection goes to a checked address, so that a
second answer of the name service cannot lead elsewhere. Addresses that are not public, such as those of this machine,
of its network and of a cloud's metadata service, are refused unless the operator allows their network.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING

from app.networks import Address, Allowed, is_public

if TYPE_CHECKING:
    import ssl

    import httpx

RESOLVE_SECONDS = 5.0
MOST_ADDRESSES = 8
"""Addresses of a name that are looked at; one with more is refused."""


class NotAllowed(Exception):
    """A URL leads to an address that requests may not reach, or its name cannot be resolved."""


class Egress:
    """Decides which addresses may be reached: public ones, unless `public` is false, and those of the networks that
    are allowed.
    """

    def __init__(self, networks: Iterable[str] = (), public: bool = True) -> None:
        self._allowed = [Allowed.parse(network) for network in networks]
        self._public = public

    def permits(self, address: Address, port: int) -> bool:
        """Whether an address may be reached at a port."""
        mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
        plain = mapped or address
        return (self._public and is_public(address)) or self.within(plain, port)

    def within(self, address: Address, port: int) -> bool:
        """Whether an address is in an allowed network, whether it is public or not."""
        return any(
            address.version == one.network.version and address in one.network and one.port in (None, port)
            for one in self._allowed
        )

    async def resolve(self, host: str, port: int) -> list[str]:
        """The addresses of a host, all of which may be reached at the port. Raises `NotAllowed`."""
        try:
            async with asyncio.timeout(RESOLVE_SECONDS):
                found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, TimeoutError, UnicodeError):
            raise NotAllowed("its host has no address") from None
        addresses = list(dict.fromkeys(str(one[4][0]).partition("%")[0] for one in found))
        if not addresses or len(addresses) > MOST_ADDRESSES:
            raise NotAllowed("its host has no address, or too many")
        if not all(self.permits(ipaddress.ip_address(address), port) for address in addresses):
            raise NotAllowed("its host has an address that is not public, and that no allowed network has")
        return addresses

    def client(self, limits: httpx.Limits | None = None, context: ssl.SSLContext | None = None) -> httpx.AsyncClient:
        """A client whose every connection is checked. It follows no redirects, and uses no proxy or password of the
        environment; `context` is for https.
        """
        # httpx is loaded by the first who asks another service: 20 ms less for a start.
        import httpx

        from app.runtime.checked_transport import CheckedTransport

        transport = CheckedTransport(self, limits or httpx.Limits(max_connections=None), context)
        return httpx.AsyncClient(transport=transport, trust_env=False, follow_redirects=False)
