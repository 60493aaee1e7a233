"""Requests to the neighbour at the other end of a link, which is not trusted.

No redirect is followed, no proxy or password of the environment is used, a response is limited in bytes and in time,
and only its numbers and names are used.
"""

from __future__ import annotations

import asyncio
import json
import re
import ssl
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, NamedTuple

from pydantic_core import SchemaValidator, ValidationError, to_json
from pydantic_core import core_schema as cs

from app.links.address import bad_url
from app.rendering.boards import end, number
from app.runtime import tracing
from app.runtime.egress import Egress, NotAllowed
from formats.links import SEALED
from indexes.relays.config import Link, Message

if TYPE_CHECKING:
    # Loaded by `app.runtime.preload`, or with the first request to another service: 20 ms less for a start.
    import httpx

LARGEST_ANSWER = 4 << 20
"""Largest response, in bytes."""

LARGEST_PROBLEM = 64 << 10
"""Largest refusal that is parsed, in bytes."""

MOST_NUMBER = 1 << 62
"""Numbers of messages are smaller."""

MOST_BEHIND = 10_000
"""Relays that may be behind a link."""

SECONDS = 30.0
"""Timeout for reading messages, and for each piece of a response, in seconds."""

PROBE_SECONDS = 3.0
"""The same for a probe."""

CONNECT_SECONDS = 5.0
"""Timeout for opening a connection, or for a free one of the pool."""

_IDENTITY = cs.str_schema(strict=True, pattern=r"^[A-Za-z0-9._:-]{1,257}$")

_FIELDS: dict[str, cs.CoreSchema] = {
    "next": cs.int_schema(strict=True, ge=0, lt=MOST_NUMBER),
    "identity": cs.nullable_schema(_IDENTITY),
    "behind": cs.list_schema(_IDENTITY, max_length=MOST_BEHIND, strict=True),
}

_ANSWER = SchemaValidator(
    cs.typed_dict_schema({name: cs.typed_dict_field(schema, required=False) for name, schema in _FIELDS.items()})
)
"""The members of a response that are used."""


class Unanswered(Exception):
    """No response, or one that makes no sense. The message names no key and no content."""


class Refusal(Unanswered):
    """The neighbour refuses, with this status.

    `field` is the one at fault, if it is named; if it is one of a message, that is the one `at` this place of those
    sent.
    """

    def __init__(self, status: int, field: str | None = None, at: int | None = None) -> None:
        why = _WHY.get(status, f"the other side answers {status}")
        super().__init__(why if field is None or status not in MESSAGE_REFUSED else f"{why}: {field}")
        self.status = status
        self.field = field
        self.at = at


MESSAGE_REFUSED = frozenset({400, 413, 422})
"""Statuses for a body that cannot be accepted as it is, whoever sends it."""

_WHY = {
    400: "the other side cannot read what it is sent",
    401: "the other side does not know the key",
    403: "the other side does not allow this with that key",
    404: "the other side has no such relay or link",
    409: "the other side refuses a link that would close a cycle",
    413: "the other side takes no message of this size",
    422: "the other side refuses what it is sent",
}

_FIELD = re.compile(
    r"(?:messages\[(\d{1,6})\](?:\.|$))?"
    r"((?:(?:n|op|id|box|follow|values|payload|mark|epoch|identity|behind|messages|body)"
    r"(?:\.[A-Za-z_][A-Za-z0-9_]{0,63})?(?:\[\d{1,6}\])?)?)"
)
"""A field that a refusal names: its path, in the message at a place if it is in one."""


class Answer(NamedTuple):
    """A response: the identity of the neighbour, those behind it, and for messages the number that is expected next."""

    identity: str | None
    behind: frozenset[str]
    next: int


class Peers:
    """Requests to neighbours, over a pool of connections.

    Links lead to `hosts` alone, where there are any. One that leads to none of these, and that no administrator made,
    reaches what `egress` permits.
    """

    def __init__(
        self,
        transport: httpx.AsyncBaseTransport | None = None,
        hosts: Collection[str] = (),
        egress: Egress | None = None,
    ) -> None:
        self._transport = transport
        self._hosts = hosts
        self._egress = egress or Egress()
        self._clients: dict[bool, httpx.AsyncClient] = {}

    async def send(self, link: Link, epoch: str, messages: bytes, identity: str, behind: Sequence[str]) -> Answer:
        """Send messages, as JSON, under an epoch. Raises `Unanswered` and `Refusal`."""
        rest = {"epoch": epoch, "identity": identity, "behind": behind}
        body = b"".join((json.dumps(rest).encode()[:-1], b',"messages":[', messages, b"]}"))
        return _read(await self._ask(link, "messages", body, SECONDS), needs_next=True)

    async def probe(self, link: Link, identity: str, behind: Sequence[str]) -> Answer:
        """Get the identities behind a link. Raises `Unanswered` and `Refusal`."""
        body = json.dumps({"identity": identity, "behind": behind}).encode()
        return _read(await self._ask(link, "probe", body, PROBE_SECONDS), needs_next=False)

    async def close(self) -> None:
        """Close all connections."""
        for client in self._clients.values():
            await client.aclose()

    async def _ask(self, link: Link, what: str, body: bytes, seconds: float) -> bytes:
        import httpx

        http = self._client(link)
        url = f"{link.url.rstrip('/')}/v1/relays/{link.relay}/links/{link.link}/{what}"
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if link.key is not None:
            headers["Authorization"] = f"Bearer {link.key}"
        if tracing.tracer is not None:
            tracing.tracer.inject(headers)
        # Timeouts of httpx are for each read, of which there may be any number.
        connect = min(seconds, CONNECT_SECONDS)
        timeout = httpx.Timeout(seconds, connect=connect, pool=connect)
        whole = asyncio.timeout(2 * seconds + connect)
        try:
            async with (
                whole,
                http.stream("POST", url, content=body, headers=headers, timeout=timeout) as response,
            ):
                if response.status_code in MESSAGE_REFUSED:
                    raise await _refusal(response)
                if response.status_code != 200:
                    raise Refusal(response.status_code)
                if response.headers.get("content-encoding", "identity") != "identity":
                    raise Unanswered("the other side answers compressed, which it was not asked for")
                found = bytearray()
                async for chunk in response.aiter_bytes():
                    found += chunk
                    if len(found) > LARGEST_ANSWER:
                        raise Unanswered("the other side answers more than it should")
            return bytes(found)
        except NotAllowed as error:
            raise Unanswered(f"the link may not lead there: {error}") from None
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError, TimeoutError) as error:
            raise Unanswered(f"the other side does not answer ({type(error).__name__})") from None
        except ValueError:
            raise Unanswered("what answers there is no relay") from None

    def _client(self, link: Link) -> httpx.AsyncClient:
        """The client for a link. Raises `Unanswered` for one that leads to a host that is not allowed (any more)."""
        import httpx

        if (reason := bad_url(link.url, self._hosts)) is not None:
            raise Unanswered(f"the link {reason}")
        if link.key is not None and link.key.startswith(SEALED):
            raise Unanswered("the link's key is sealed by another RANKCAST_SEAL_KEY")
        checked = not link.private and not self._hosts
        if checked not in self._clients:
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
            self._clients[checked] = (
                self._egress.client(limits)
                if checked
                else httpx.AsyncClient(
                    verify=ssl.create_default_context(),
                    limits=limits,
                    trust_env=False,
                    follow_redirects=False,
                    transport=self._transport,
                )
            )
        return self._clients[checked]


async def _refusal(response: httpx.Response) -> Refusal:
    """The parts of a refusal that are used.

    They are its status, and of the fields that it names that of the first message, or the first.
    """
    status, found = response.status_code, bytearray()
    if response.headers.get("content-encoding", "identity") != "identity":
        return Refusal(status)
    async for chunk in response.aiter_bytes():
        found += chunk
        if len(found) > LARGEST_PROBLEM:
            return Refusal(status)
    try:
        problem = json.loads(found)
    except (ValueError, RecursionError):
        return Refusal(status)
    errors = problem.get("errors") if isinstance(problem, dict) else None
    named = [error.get("field") for error in errors if isinstance(error, dict)] if isinstance(errors, list) else []
    matches = [match for field in named if isinstance(field, str) and (match := _FIELD.fullmatch(field))]
    places = [(int(match[1]), match[2]) for match in matches if match[1] is not None]
    if places:
        at, field = min(places, key=lambda place: place[0])
        return Refusal(status, field or None, at)
    return Refusal(status, next((match[2] for match in matches if match[2]), None))


def _read(raw: bytes, needs_next: bool) -> Answer:
    """Parse a response. Unknown members are ignored, which saves time of the event loop."""
    try:
        answer = _ANSWER.validate_json(raw)
    except ValidationError:
        raise Unanswered("what answers there is no relay") from None
    if needs_next and "next" not in answer:
        raise Unanswered("what answers there is no relay")
    identity = answer.get("identity")
    names = [identity] if identity is not None else []
    return Answer(identity, frozenset([*names, *answer.get("behind", [])]), answer.get("next", 0))


def encoded(messages: Sequence[Message], attributes: Sequence[str], identity: str) -> bytes:
    """Messages as JSON, separated by commas; ids that clients made get the name of this relay.

    >>> encoded([Message(7, "subscribe", "s1", box=((0.0, float("inf")),), own=True)], ["x"], "north:edge")
    b'{"n":7,"op":"subscribe","id":"north:edge:s1","box":{"x":[0,null]}}'
    """
    return b",".join([_encoded(message, attributes, identity) for message in messages])


def _encoded(message: Message, attributes: Sequence[str], identity: str) -> bytes:
    head = f'{{"n":{message.n},"op":"{message.op}"'
    if message.op == "reset":
        return f'{head},"follow":{message.follow}}}'.encode()
    if message.op == "notify":
        values = ",".join([f'"{name}":{number(value)}' for name, value in zip(attributes, message.values, strict=True)])
        payload = b"" if message.payload is None else b',"payload":' + message.payload
        mark = b"" if message.mark is None else b',"mark":' + to_json(list(message.mark))
        return b"".join((f'{head},"values":{{{values}}}'.encode(), payload, mark, b"}"))
    id = f"{identity}:{message.id}" if message.own else message.id
    if message.op == "unsubscribe":
        return f'{head},"id":"{id}"}}'.encode()
    box = ",".join([f'"{name}":[{end(lo)},{end(hi)}]' for name, (lo, hi) in zip(attributes, message.box, strict=True)])
    return f'{head},"id":"{id}","box":{{{box}}}}}'.encode()
