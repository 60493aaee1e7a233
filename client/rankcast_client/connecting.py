"""How a WebSocket to a service is opened, and opened again. Needs the extra `rankcast-client[ws]`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from rankcast_client._base import AsyncConnection
from rankcast_client.errors import ProblemError, Unreachable
from rankcast_client.transport import Retry, auth_headers, describe

try:
    from websockets.asyncio.client import ClientConnection, connect
    from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
except ImportError as missing:
    raise ImportError("the WebSocket needs an extra: pip install 'rankcast-client[ws]'") from missing

__all__ = ["ClientConnection", "ConnectionClosed", "connect_again"]

Lost = (OSError, ConnectionClosed, InvalidHandshake, TimeoutError)


async def connect_again(
    client: AsyncConnection,
    retry: Retry,
    ever: bool,
    closed: Callable[[], bool],
    tried: set[str],
    leads: bool = False,
) -> tuple[ClientConnection, str]:
    """An open connection and its node, after as many attempts as it takes, or as the client's `retry` says where there
    was none `ever` before.

    Nodes that were `tried` come after the others; it is empty then. With `leads` the one that leads is preferred.
    Raises ProblemError when it is refused, and Unreachable.
    """
    failures = 0
    while not closed():
        retry_after = None
        at = await client._choose(tried, leads)
        try:
            connection = await _open(client, at)
        except InvalidStatus as refusal:
            problem = _problem_of(refusal)
            if 400 <= problem.status < 500 and problem.status != 429:
                raise problem from None
            why, retry_after = str(problem), problem.retry_after
        except Lost as error:
            why = describe(error)
            client.nodes.failed(at)
        else:
            client.nodes.worked(at)
            tried.clear()
            return connection, at
        tried.add(at)
        if client.nodes.left(tried):
            continue
        failures += 1
        if not ever and failures >= client.retry.attempts:
            raise Unreachable(f"{client.nodes} does not answer: {why}")
        await asyncio.sleep((retry if ever else client.retry).pause(failures, retry_after))
    raise Unreachable("this socket has been closed")


async def _open(client: AsyncConnection, node: str) -> ClientConnection:
    url = "ws" + node.removeprefix("http") + "/v1/stream"
    headers = auth_headers(client.key)
    return await connect(url, additional_headers=headers, max_size=None, compression=None, ping_interval=None)


def _problem_of(refusal: InvalidStatus) -> ProblemError:
    response = refusal.response
    return ProblemError.from_response(
        response.status_code, response.reason_phrase, bytes(response.body or b""), response.headers.get("Retry-After")
    )
