"""The other nodes of a group, by their URLs: what each says of itself at ``/readyz``, and requests to the leader."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from app.runtime import logs
from app.storage.role import LEADER, MOST_TERM

if TYPE_CHECKING:
    # Loaded with the first request to another node: 20 ms less for a start.
    import httpx

SECONDS = 2.0
"""Seconds that a node may take to say what it is."""

LARGEST = 1 << 20
"""Bytes of an answer about a node."""

log = logs.get("replication")


class Status(NamedTuple):
    """What a node says of itself: `lsn` is the last row that it has on disk."""

    url: str
    node: str
    epoch: str
    role: str
    term: int
    lsn: int

    @property
    def rank(self) -> tuple[int, str]:
        """Of two leaders the one with the greater leads."""
        return self.term, self.node


class Unreachable(Exception):
    """A node that does not answer, or not as one does."""


def headers_of(key: str | None) -> dict[str, str]:
    """The headers of a request to another node."""
    return {} if key is None else {"Authorization": f"Bearer {key}"}


class Nodes:
    """The nodes with these URLs, asked with an API key."""

    def __init__(self, urls: Iterable[str], key: str | None) -> None:
        self.urls = list(dict.fromkeys(url.rstrip("/") for url in urls))
        self._key = key
        self._client: httpx.AsyncClient | None = None

    @property
    def client(self) -> httpx.AsyncClient:
        """The connections to the other nodes."""
        if self._client is None:
            import httpx

            from app.runtime.plain_transport import PlainTransport

            limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
            timeout = httpx.Timeout(SECONDS, read=60.0)
            transport = PlainTransport(limits=limits, trust_env=False)
            self._client = httpx.AsyncClient(
                headers=headers_of(self._key), timeout=timeout, transport=transport, follow_redirects=False
            )
        return self._client

    async def statuses(self, seconds: float = SECONDS) -> list[Status]:
        """What those say that can be reached."""
        found = await asyncio.gather(*(self._status(url, seconds) for url in self.urls))
        return [status for status in found if status is not None]

    async def post(self, url: str, path: str, body: Mapping[str, Any], seconds: float = SECONDS) -> Mapping[str, Any]:
        """Ask a node something. Raises `Unreachable`."""
        import httpx

        try:
            async with asyncio.timeout(seconds):
                answer = await self.client.post(f"{url}{path}", json=dict(body))
                found = answer.json()
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError) as error:
            raise Unreachable(f"{url} does not answer: {str(error) or type(error).__name__}") from error
        if answer.status_code != 200 or not isinstance(found, dict):
            detail = found.get("detail", "") if isinstance(found, dict) else ""
            raise Unreachable(f"{url} answers {answer.status_code}: {str(detail)[:300]}")
        return found

    async def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.aclose()

    async def _status(self, url: str, seconds: float) -> Status | None:
        import httpx

        try:
            async with asyncio.timeout(seconds):
                answer = await self.client.get(f"{url}/readyz")
            return status_of(url, answer)
        except (httpx.HTTPError, httpx.InvalidURL, TimeoutError, ValueError):
            return None


def status_of(url: str, answer: httpx.Response) -> Status | None:
    """The status in an answer of ``/readyz``; None where it is none, as of a node that is only just starting."""
    if len(answer.content) > LARGEST:
        return None
    found = answer.json()
    if not isinstance(found, dict):
        return None
    node, epoch, role = found.get("node"), found.get("epoch"), found.get("role")
    term, lsn = found.get("term"), found.get("durable")
    if not (isinstance(node, str) and isinstance(epoch, str) and isinstance(role, str)):
        return None
    if not node or not epoch:
        return None
    if type(term) is not int or type(lsn) is not int or not 0 <= term < MOST_TERM or lsn < 0:
        return None
    return Status(url, node, epoch, role, term, lsn)


def leader_of(statuses: Sequence[Status], epoch: str | None = None, term: int = 0) -> Status | None:
    """The leader among nodes: of those of this epoch that lead, with at least this term, the one with the highest."""
    leads = [one for one in statuses if one.role == LEADER and one.term >= term and epoch in (None, one.epoch)]
    return max(leads, key=lambda one: one.rank, default=None)
