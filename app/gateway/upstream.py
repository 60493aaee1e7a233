"""The service behind a gateway: requests to it, with the rights of who asked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import httpx
from pydantic_core import from_json
from starlette.responses import Response

from app.errors import NotReady, ServiceError
from app.gateway.asking import Answer, Asker
from app.runtime.plain_transport import PlainTransport

PROBLEM = "application/problem+json"
ASK_SECONDS = 10.0
CONNECT_SECONDS = 2.0

PASSED = ("authorization", "host", "origin", "user-agent")
"""Headers of a request by which the service lets its sender in."""


class Credentials(NamedTuple):
    """By what a reader is let in: headers of its request, and a ticket if it has one."""

    headers: tuple[tuple[str, str], ...] = ()
    ticket: str | None = None

    def with_key(self, key: str) -> Credentials:
        """The same with a key that came later."""
        rest = tuple(pair for pair in self.headers if pair[0] != "authorization")
        return Credentials((*rest, ("authorization", f"Bearer {key}")))


def credentials_of(headers: Mapping[str, str], ticket: str | None) -> Credentials:
    """Those of a request."""
    return Credentials(tuple((name, headers[name]) for name in PASSED if name in headers), ticket)


class Passed(ServiceError):
    """A refusal of the service, passed on as it is."""

    code = "passed"

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str]) -> None:
        super().__init__(f"the service answered {status}")
        self.status_code = status
        self.body = body
        self.headers: Mapping[str, str] | None = {
            name: headers[name] for name in ("retry-after", "www-authenticate") if name in headers
        }

    def document(self) -> dict[str, Any]:
        """The problem in it."""
        try:
            found: dict[str, Any] = json.loads(self.body)
        except ValueError:
            found = {"type": "about:blank", "title": "Refused", "status": self.status_code}
        return found

    def response(self) -> Response:
        """The response to the request."""
        return Response(self.body, self.status_code, dict(self.headers or {}), PROBLEM)


class Upstream:
    """The service at a URL. `key` is the gateway's own, for what no reader asked for."""

    def __init__(self, url: str, key: str | None) -> None:
        self.url = url.rstrip("/")
        own = () if key is None else (("authorization", f"Bearer {key}"),)
        self.own = Credentials(own)
        self.has_key = key is not None
        self.term: int | None = None
        timeout = httpx.Timeout(ASK_SECONDS, connect=CONNECT_SECONDS, read=None, pool=None)
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
        self._asker = Asker(self.url, CONNECT_SECONDS)
        self.http = httpx.AsyncClient(
            base_url=self.url, timeout=timeout, transport=PlainTransport(limits=limits, trust_env=False)
        )

    async def close(self) -> None:
        """Close its connections."""
        await self.http.aclose()
        await self._asker.close()

    async def ask(self, path: str, who: Credentials, **params: str) -> dict[str, Any]:
        """A GET. Raises `Passed` for a refusal, and `NotReady` where the service is away."""
        if who.ticket is not None:
            params["ticket"] = who.ticket
        answer: Answer | httpx.Response
        if self._asker.takes(who.headers):
            answer = await self._asker.get(path, params, who.headers, ASK_SECONDS)
        else:
            try:
                answer = await self.http.get(path, params=params, headers=dict(who.headers), timeout=ASK_SECONDS)
            except httpx.HTTPError as error:
                raise away(error) from None
        if answer.status_code != 200:
            raise Passed(answer.status_code, answer.content, answer.headers)
        found: dict[str, Any] = from_json(answer.content, cache_strings="keys")
        return found

    async def ready(self) -> bool:
        """Whether the service can be used; `term` is its leader's then."""
        try:
            answer = await self.http.get("/readyz", timeout=CONNECT_SECONDS)
            if answer.status_code == 200:
                self.term = answer.json().get("term")
        except (httpx.HTTPError, ValueError):
            return False
        return answer.status_code == 200


def away(error: Exception) -> NotReady:
    """The service cannot be reached."""
    return NotReady(f"the service cannot be reached: {type(error).__name__}", retry_after=1)
