"""The transport of clients that `app.runtime.egress` makes."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable
from typing import Protocol

import httpx


class Resolver(Protocol):
    """What the transport needs of `app.runtime.egress.Egress`."""

    def resolve(self, host: str, port: int, /) -> Awaitable[list[str]]:
        """The addresses of a host, all of which may be reached. Raises `NotAllowed`."""


class CheckedTransport(httpx.AsyncBaseTransport):
    """Resolves and checks the host of each request, and connects to a checked address.

    Hosts have pools of their own: a connection is never used for another name at the same address. Transports may share
    a `context`, which takes some milliseconds to make.
    """

    def __init__(self, resolver: Resolver, limits: httpx.Limits, context: ssl.SSLContext | None = None) -> None:
        self._resolver = resolver
        self._limits = limits
        self._context = context or ssl.create_default_context()
        self._pools: dict[str, httpx.AsyncHTTPTransport] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request. Raises `NotAllowed`, and what httpx raises."""
        url = request.url
        addresses = await self._resolver.resolve(url.host, url.port or (443 if url.scheme == "https" else 80))
        pool = self._pools.get(url.host)
        if pool is None:
            pool = self._pools[url.host] = httpx.AsyncHTTPTransport(verify=self._context, limits=self._limits)
        request.extensions = {**request.extensions, "sni_hostname": url.host}
        for address in addresses[:-1]:
            try:
                return await self._to(pool, request, url.copy_with(host=address))
            except httpx.ConnectError:
                continue
        return await self._to(pool, request, url.copy_with(host=addresses[-1]))

    async def _to(self, pool: httpx.AsyncHTTPTransport, request: httpx.Request, url: httpx.URL) -> httpx.Response:
        # The header Host names the host as it was given.
        request.url = url
        return await pool.handle_async_request(request)

    async def aclose(self) -> None:
        """Close all connections."""
        for pool in self._pools.values():
            await pool.aclose()
