"""What ends a connector, and what only interrupts it."""

from __future__ import annotations

import importlib
from typing import Any

NEEDS = "needs an extra: pip install 'rankcast[connect]'"


class ConnectorError(Exception):
    """The connector cannot go on as it was started; the message says why."""


class BrokerLost(Exception):
    """The broker does not answer, or the connection to it was lost: open it again and go on from what is kept."""


class Unreadable(Exception):
    """The service takes no request of this size, or finds no JSON in it: one of its messages is the reason."""


class TakenBefore(Exception):
    """The service has taken another body under this key: the same messages, read in another way."""


def extra(name: str, what: str) -> Any:
    """A module of the extra `connect`. Raises ConnectorError where it is missing; `what` is what it is for."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ConnectorError(f"{what} {NEEDS} ({error})") from None
