"""Connections to other processes of ours, whose failures are all errors of httpx."""

from __future__ import annotations

import httpx


class PlainTransport(httpx.AsyncHTTPTransport):
    """httpx's own transport.

    A connection that the other side resets as soon as it is made has no peer's name, for which anyio raises
    AttributeError. No request was sent on it: here that is the ConnectError that callers expect.
    """

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """As httpx's."""
        try:
            return await super().handle_async_request(request)
        except AttributeError as error:
            if "getpeername" not in str(error):
                raise
            raise httpx.ConnectError("the connection was closed as it was made", request=request) from error
