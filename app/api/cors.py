"""Cross-origin requests: which pages of other origins may ask, and read the answers."""

from __future__ import annotations

from collections.abc import Collection

from starlette.responses import Response

Header = tuple[bytes, bytes]

METHODS = b"GET, POST, PUT, PATCH, DELETE"
REQUEST_HEADERS = b"Authorization, Content-Type, Idempotency-Key, Last-Event-ID, X-Request-Id"
EXPOSED = b"ETag, Retry-After, Location, X-Request-Id"
MAX_AGE = b"600"
_VARY: Header = (b"vary", b"Origin")


class Cors:
    """The origins whose pages are let in; ``*`` lets in all. No cookies are used, so none are allowed."""

    def __init__(self, origins: Collection[str]) -> None:
        self._all = "*" in origins
        self._origins = frozenset(origin.encode() for origin in origins)

    def __bool__(self) -> bool:
        return bool(self._origins)

    def headers(self, origin: bytes | None) -> list[Header]:
        """What a response to a request from this origin has in addition."""
        if self._all:
            return [(b"access-control-allow-origin", b"*"), (b"access-control-expose-headers", EXPOSED)]
        if origin is None or origin.lower() not in self._origins:
            return [_VARY]
        return [(b"access-control-allow-origin", origin), (b"access-control-expose-headers", EXPOSED), _VARY]

    def preflight(self) -> Response:
        """The response to a preflight; `headers` says whether its origin is let in."""
        response = Response(status_code=204)
        response.raw_headers += [
            (b"access-control-allow-methods", METHODS),
            (b"access-control-allow-headers", REQUEST_HEADERS),
            (b"access-control-max-age", MAX_AGE),
        ]
        return response
