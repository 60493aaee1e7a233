"""Where links may lead: the addresses that requests with a key are sent to."""

from __future__ import annotations

from collections.abc import Collection


def bad_url(url: str, hosts: Collection[str] = ()) -> str | None:
    """Why a URL is not that of a service, of one of these hosts if there are any; None where it is.

    >>> bad_url("https://north.example/rankcast"), bad_url("file:///etc/passwd"), bad_url("http://me:secret@north.example")
    (None, 'must begin with http:// or https://', 'must not hold a user or a password: give the key')
    """
    import httpx  # as in `app.overlay.peer`

    try:
        parsed = httpx.URL(url)
        # A host is looked into when it is asked for, which it may not stand.
        host, port = parsed.host, parsed.port
    except (httpx.InvalidURL, ValueError):
        return "is not a URL"
    if parsed.scheme not in ("http", "https"):
        return "must begin with http:// or https://"
    if parsed.userinfo:
        return "must not hold a user or a password: give the key"
    if not host:
        return "must name a host"
    if parsed.query or parsed.fragment or "?" in url or "#" in url:
        return "must end before any ? or #"
    if port is not None and not 0 < port < 1 << 16:
        return "must name a port from 1 to 65535"
    if hosts and host.lower() not in hosts:
        return "leads to a host that is not among those allowed"
    return None
