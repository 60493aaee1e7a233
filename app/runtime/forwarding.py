"""What a request and its response keep on their way through this node to another one and back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

HOP = frozenset(
    {
        b"connection",
        b"keep-alive",
        b"proxy-authenticate",
        b"proxy-authorization",
        b"te",
        b"trailer",
        b"transfer-encoding",
        b"upgrade",
    }
)
"""Headers of one connection alone (RFC 9110, 7.6.1)."""


def end_to_end(
    headers: Iterable[tuple[bytes, bytes]], without: frozenset[bytes] = frozenset()
) -> list[tuple[bytes, bytes]]:
    """The headers of a message that go along, by names in lower case: neither those of one connection nor `without`."""
    found = [(name.lower(), value) for name, value in headers]
    return [(name, value) for name, value in found if name not in HOP and name not in without]


def target_of(scope: Mapping[str, Any]) -> bytes:
    """The path and query of a request as they came."""
    path: bytes = scope.get("raw_path") or scope["path"].encode()
    path, query = path.partition(b"?")[0], scope["query_string"]
    return path + b"?" + query if query else path
