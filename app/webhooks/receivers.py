"""Requests to the receivers of webhooks, which are not trusted.

No redirect is followed, no proxy or password of the environment is used, an answer is awaited for a limited time, and
only its status is used. Public addresses are reached by https, and those of the allowed networks by http too; every
connection is checked after its name was resolved.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple

from app.runtime.egress import Egress, NotAllowed
from app.runtime.urls import bad_url
from app.version import version

if TYPE_CHECKING:
    # Loaded by the first webhook: 20 ms less for a start.
    import httpx

SECONDS = 10.0
"""Seconds until a request counts as unanswered."""

LONGEST_URL = 2_000

DRAIN_SECONDS, DRAIN_BYTES = 1.0, 64 << 10
"""How long, and how many bytes of an answer are read so that its connection can be used again."""

KEPT = 2
"""Idle connections that are kept for a webhook."""


class Outcome(NamedTuple):
    """What became of a request: the status of the answer, None for none; why it was not taken, None where it was."""

    status: int | None
    error: str | None


class Receivers:
    """What may be reached, and with what. `networks` are those that are allowed beside the public internet."""

    def __init__(self, networks: Iterable[str] = ()) -> None:
        networks = list(networks)
        self._public = Egress(networks)
        self._allowed = Egress(networks, public=False)
        self._context: ssl.SSLContext | None = None

    async def fault(self, url: str) -> str | None:
        """Why a URL cannot be that of a receiver now; None where it can."""
        if len(url) > LONGEST_URL:
            return f"must be at most {LONGEST_URL} characters"
        found = bad_url(url, query=True)
        if found is not None:
            return found
        import httpx

        parsed = httpx.URL(url)
        port = parsed.port or (443 if parsed.scheme == "https" else 80)
        try:
            await self._egress(parsed.scheme).resolve(parsed.host, port)
        except NotAllowed as refusal:
            if parsed.scheme == "http":
                return "must begin with https://, unless it leads to a network of RANKCAST_WEBHOOK_NETWORKS"
            return f"is not allowed: {refusal}"
        return None

    def _egress(self, scheme: str) -> Egress:
        """Where URLs of a scheme may lead."""
        return self._public if scheme == "https" else self._allowed

    async def client(self, url: str) -> httpx.AsyncClient:
        """A client for one receiver."""
        import httpx

        if self._context is None:
            self._context = await asyncio.to_thread(ssl.create_default_context)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=KEPT)
        return self._egress(httpx.URL(url).scheme).client(limits, self._context)


class Receiver:
    """One receiver, by its URL."""

    def __init__(self, receivers: Receivers, url: str) -> None:
        self.url = url
        self._receivers = receivers
        self._client: httpx.AsyncClient | None = None

    async def send(self, body: bytes, headers: dict[str, str]) -> Outcome:
        """Send one request."""
        import httpx

        if self._client is None:
            self._client = await self._receivers.client(self.url)
        headers = {"content-type": "application/json", "user-agent": f"rankcast/{version()}", **headers}
        status: int | None = None
        try:
            async with (
                asyncio.timeout(SECONDS),
                self._client.stream("POST", self.url, content=body, headers=headers, timeout=SECONDS) as response,
            ):
                status = response.status_code
                await _drain(response)
        except (TimeoutError, httpx.TimeoutException):
            if status is None:
                return Outcome(None, f"no answer within {SECONDS:g} s")
        except NotAllowed as refusal:
            return Outcome(None, str(refusal))
        except Exception as error:
            # Whatever it is: the receiver is not trusted.
            if status is None:
                return Outcome(None, _WHY.get(type(error).__name__, type(error).__name__))
        assert status is not None, "otherwise there was an error"
        return Outcome(status, None if 200 <= status < 300 else f"answered {status}")

    async def close(self) -> None:
        """Close its connections."""
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()


_WHY = {
    "ConnectError": "no connection, or none that is secure",
    "ReadError": "the connection broke",
    "WriteError": "the connection broke",
    "RemoteProtocolError": "the connection was closed, or the answer is not HTTP",
}
"""What an error of the client means. Its own words may quote what the receiver has sent."""


async def _drain(response: httpx.Response) -> None:
    """Read what is left of a short answer; a connection with more of it is closed."""
    import httpx

    size = 0
    with suppress(TimeoutError, httpx.HTTPError):
        async with asyncio.timeout(DRAIN_SECONDS):
            async for chunk in response.aiter_raw():
                size += len(chunk)
                if size > DRAIN_BYTES:
                    return
