"""Where links may lead: the addresses that requests with a key are sent to."""

from __future__ import annotations

from collections.abc import Collection

import httpx


def bad_url(url: str, hosts: Collection[str] = ()) -> str | None:
    """Why a URL is not that of a service, of one of these hosts if there are any; None where it is.

    >>> bad_url("https://north.example/rankcast"), bad_url("file:///etc/passwd"), bad_url("http://me:secret@north.example")
    (None, 'must begin with http:// or https://', 'must not hold a user or a password: give the key')
    """
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        return "is not a URL"
    if parsed.scheme not in ("http", "https"):
        return "must begin with http:// or https://"
    if parsed.userinfo:
        return "must not hold a user or a password: give the key"
    if not parsed.host:
        return "must name a host"
    if parsed.query or parsed.fragment or "?" in url or "#" in url:
        return "must end before any ? or #"
    if hosts and parsed.host.lower() not in hosts:
        return "leads to a host that is not among those allowed"
    return None
