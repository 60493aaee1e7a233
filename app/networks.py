"""Networks that an operator allows, and which addresses are public."""

from __future__ import annotations

import ipaddress
from typing import NamedTuple

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


class Allowed(NamedTuple):
    """A network that may be reached although it is not public, at one port or at every port."""

    network: Network
    port: int | None

    @classmethod
    def parse(cls, text: str) -> Allowed:
        """Read ``network[:port]``, where an IPv6 network with a port is in brackets. Raises ValueError.

        >>> Allowed.parse("10.0.0.0/8").port, Allowed.parse("[fd00::/8]:443").port, Allowed.parse("127.0.0.1:8080").port
        (None, 443, 8080)
        """
        network, port = text.strip(), None
        if network.startswith("["):
            network, _, rest = network[1:].partition("]")
            if rest and not rest.startswith(":"):
                raise ValueError(f"{text!r} is not like 10.0.0.0/8 or [fd00::/8]:443")
            port = rest[1:] or None
        elif network.count(":") == 1:
            network, _, port = network.partition(":")
        if port is not None and not (port.isdecimal() and port.isascii() and 0 < int(port) < 1 << 16):
            raise ValueError(f"{text!r} does not name a port from 1 to 65535")
        try:
            found = ipaddress.ip_network(network)
        except ValueError as error:
            raise ValueError(f"{text!r} is not like 10.0.0.0/8 or 127.0.0.1:8080: {error}") from None
        return cls(found, None if port is None else int(port))


def is_public(address: Address) -> bool:
    """Whether an address is one of the public internet, and so is the IPv4 address that it stands for, if any."""
    if isinstance(address, ipaddress.IPv6Address):
        within = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
        if address in _NAT64:
            within.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        if not all(is_public(inner) for inner in within if inner is not None):
            return False
    return address.is_global and not address.is_multicast
