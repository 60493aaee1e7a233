"""Tickets: what opens streams for those who cannot send a header, such as pages in a browser."""

from __future__ import annotations

import hashlib
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass

from app.errors import TooMany, Unauthorized
from app.security.callers import Caller

LONGEST_SECONDS = 3_600
MOST_IDS = 1_000
MOST_TICKETS = 100_000


@dataclass(frozen=True, slots=True)
class Ticket:
    """What a ticket opens: the streams of these ids, None of all, of one resource, for who asked for it.

    It is looked at when a stream is opened; `expires` is in seconds since 1970.
    """

    resource: str
    ids: frozenset[str] | None
    caller: Caller
    expires: float

    def opens(self, resource: str, id: str) -> bool:
        """Whether a stream may be opened with it."""
        return resource == self.resource and (self.ids is None or id in self.ids) and id.startswith(self.caller.prefix)


class Tickets:
    """The tickets that are out. They are kept in memory: after a restart new ones are needed."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._tickets: dict[bytes, Ticket] = {}

    def issue(self, resource: str, ids: frozenset[str] | None, caller: Caller, seconds: float) -> tuple[str, Ticket]:
        """A new ticket and what it opens. Raises `TooMany` where too many are out."""
        now = self._clock()
        if len(self._tickets) >= MOST_TICKETS:
            self._tickets = {digest: one for digest, one in self._tickets.items() if one.expires > now}
            if len(self._tickets) >= MOST_TICKETS:
                raise TooMany(f"there are {MOST_TICKETS} tickets already")
        expires = now + seconds if caller.expires is None else min(now + seconds, caller.expires)
        secret = "rt_" + secrets.token_urlsafe(32)
        ticket = Ticket(resource, ids, caller, expires)
        self._tickets[_digest(secret)] = ticket
        return secret, ticket

    def find(self, secret: str) -> Ticket:
        """What a ticket opens. Raises `Unauthorized` where it is not known or has expired."""
        ticket = self._tickets.get(_digest(secret))
        if ticket is None or ticket.expires <= self._clock():
            raise Unauthorized("the ticket is not known, or has expired")
        return ticket


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode(errors="surrogatepass")).digest()
