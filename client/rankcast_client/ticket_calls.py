"""Tickets, which open streams for those who cannot send a header. No I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rankcast_client.calls import Call, dumps


@dataclass(frozen=True, slots=True)
class Ticket:
    """A ticket, for the query parameter `ticket` of streams, and the ISO time when it can no longer be used."""

    ticket: str
    expires: str

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Ticket:
        return cls(data["ticket"], data["expires"])


def make_ticket(resource: str, ids: Sequence[str] | None, seconds: float) -> Call[Ticket]:
    """Make a ticket for streams of these subscriptions, None for all of the resource."""
    body = {"resource": resource, "ids": None if ids is None else list(ids), "seconds": seconds}
    return Call("POST", "/v1/tickets", Ticket.from_json, {}, dumps(body), "application/json", asks=True)
