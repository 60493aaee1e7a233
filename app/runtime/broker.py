"""NATS: what subjects of zones are called, and connections that end where they break.

Its client is loaded when it is first used: a service without zones does without it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from app.errors import BrokerAway

if TYPE_CHECKING:
    from nats.aio.client import Client

STREAM, SUBJECTS = "RANKCAST", "rankcast.>"
"""The JetStream stream of all zones."""

MESSAGE_ID = "Nats-Msg-Id"

CONNECT_SECONDS = 2
PING_SECONDS = 5
"""Seconds between pings; a connection that leaves two of them unanswered is lost."""


def subject_of(epoch: str, board: str, version: int, zone: int | str) -> str:
    """The subject of a zone. A name with dots that NATS does not take has them written as %2E.

    >>> subject_of("x3T9", "delays", 4, 0), subject_of("x3T9", "..a", 4, 0)
    ('rankcast.x3T9.boards.delays.4.0', 'rankcast.x3T9.boards.%2E%2Ea.4.0')
    """
    name = board if all(board.split(".")) else board.replace(".", "%2E")
    return f"rankcast.{epoch}.boards.{name}.{version}.{zone}"


def epoch_of(subject: str) -> str:
    """The epoch in a subject.

    >>> epoch_of("rankcast.x3T9.boards.delays.4.")
    'x3T9'
    """
    return subject.split(".", 2)[1]


def keys_subject(epoch: str) -> str:
    """The subject on which the ids of deleted keys are said."""
    return f"rankcast.{epoch}.keys"


async def connect(url: str, name: str, on_lost: Callable[[], None]) -> Client:
    """A connection to NATS. It does not come back by itself: `on_lost` is called once, when it has ended.

    Raises `BrokerAway` when there is none.
    """
    from nats.aio.client import Client
    from nats.errors import Error

    client = Client()

    async def lost() -> None:
        on_lost()

    try:
        await client.connect(
            url,
            name=name,
            allow_reconnect=False,
            connect_timeout=CONNECT_SECONDS,
            ping_interval=PING_SECONDS,
            max_outstanding_pings=2,
            error_cb=_ignored,
            closed_cb=lost,
        )
    except (Error, OSError, TimeoutError) as error:
        raise BrokerAway(f"NATS cannot be reached: {str(error) or type(error).__name__}") from None
    return client


async def _ignored(error: Exception) -> None:
    """What breaks a connection ends it, which is noticed there."""


async def closed(client: Client) -> None:
    """Close a connection, whatever state it is in."""
    with suppress(Exception):
        await client.close()
