"""What the errors of brokers' clients mean: the broker refuses, or is away."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from app.connectors.addresses import Address
from app.connectors.errors import BrokerLost, ConnectorError, extra

_NOT_NOW = ("LOADING", "READONLY", "CLUSTERDOWN", "MASTERDOWN", "TRYAGAIN")
"""How answers of a Redis begin that will take the command later."""


@contextmanager
def reaching_redis(address: Address) -> Iterator[None]:
    """Raises `ConnectorError` where a Redis refuses, `BrokerLost` where it is away."""
    errors = extra("redis.exceptions", "Redis")
    try:
        yield
    except (errors.AuthenticationError, errors.NoPermissionError) as error:
        raise ConnectorError(f"{address} refuses: {error}") from None
    except (errors.ConnectionError, errors.TimeoutError, OSError, TimeoutError) as error:
        raise BrokerLost(str(error) or type(error).__name__) from None
    except errors.ResponseError as error:
        if str(error).startswith(_NOT_NOW):
            raise BrokerLost(str(error)) from None
        raise ConnectorError(f"{address} refuses: {error}") from None


@contextmanager
def reaching_nats(address: Address) -> Iterator[None]:
    """Raises `ConnectorError` where NATS refuses, `BrokerLost` where it is away."""
    errors = extra("nats.errors", "NATS")
    try:
        yield
    except errors.AuthorizationError as error:
        raise ConnectorError(f"{address} refuses: {error}") from None
    except (errors.Error, OSError, TimeoutError) as error:
        raise BrokerLost(str(error) or type(error).__name__) from None
