"""Addresses of streams, topics and queues: ``nats://host/<stream>``."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import parse_qsl, unquote, urlsplit

from app.connectors.errors import ConnectorError

BROKERS = {
    "nats": "nats",
    "redis": "redis",
    "rediss": "redis",
    "kafka": "kafka",
    "mqtt": "mqtt",
    "mqtts": "mqtt",
    "amqp": "amqp",
    "amqps": "amqp",
}
"""The broker by the scheme of an address."""

PORTS = {"nats": 4222, "redis": 6379, "kafka": 9092, "mqtt": 1883, "amqp": 5672}
QUERY = {"redis": ("db",), "amqp": ("vhost",)}
"""What may stand behind the ``?`` of an address, by broker."""

_LONGEST = 255


@dataclass(frozen=True, slots=True)
class Address:
    """Where messages are. `server` has the credentials, and is never shown."""

    scheme: str
    server: str
    path: str
    query: tuple[tuple[str, str], ...] = ()

    @property
    def broker(self) -> str:
        """Which broker it is: nats, redis, kafka, mqtt or amqp."""
        return BROKERS[self.scheme]

    @property
    def hosts(self) -> list[str]:
        """``host:port`` of each server, without credentials."""
        port = PORTS[self.broker]
        named = self.server.rpartition("@")[2].split(",")
        return [one if _has_port(one) else f"{one}:{port}" for one in named]

    @property
    def url(self) -> str:
        """The server as its clients take it."""
        credentials, at, _ = self.server.rpartition("@")
        return f"{self.scheme}://{credentials}{at}{self.hosts[0]}"

    def __str__(self) -> str:
        return f"{self.scheme}://{self.server.rpartition('@')[2]}/{self.path}"


def _has_port(host: str) -> bool:
    return host.rpartition("]")[2].rpartition(":")[2].isdigit()


def parse_address(text: str) -> Address:
    """The parts of an address. Raises ConnectorError, without the credentials in it.

    >>> str(parse_address("nats://me:secret@localhost/EVENTS")), parse_address("mqtt://h/a/%23").path
    ('nats://localhost/EVENTS', 'a/#')
    """
    forms = "nats://host/STREAM, redis://host/STREAM, kafka://host/TOPIC, mqtt://host/TOPIC or amqp://host/QUEUE"
    try:
        parts = urlsplit(text)
    except ValueError:
        raise ConnectorError(f"the address is none of {forms}") from None
    if parts.scheme not in BROKERS:
        raise ConnectorError(f"the address is none of {forms}")
    # A plus is a wildcard of MQTT, and no space: `unquote` leaves it.
    path = unquote(parts.path.removeprefix("/"))
    if not parts.netloc.rpartition("@")[2] or not path:
        raise ConnectorError(f"an address of {parts.scheme} names a host and what is read there: {forms}")
    if parts.fragment or "#" in text:
        raise ConnectorError("write # in an address as %23")
    if len(path) > _LONGEST or not path.isprintable() or " " in path:
        raise ConnectorError(f"a name in an address has at most {_LONGEST} printable characters and no space")
    query = tuple(parse_qsl(parts.query, keep_blank_values=True))
    allowed = QUERY.get(BROKERS[parts.scheme], ())
    for name, _ in query:
        if name not in allowed:
            raise ConnectorError(f"an address of {parts.scheme} knows no {name!r} behind its question mark")
    return Address(parts.scheme, parts.netloc, path, query)
