"""URLs that clients give: whether requests can be sent there at all. Where they may go is `app.runtime.egress`'s."""

from __future__ import annotations


def bad_url(url: str, query: bool = False) -> str | None:
    """Why a URL cannot be one of another service; None where it can. It may end with a `query`.

    >>> bad_url("https://me:secret@north.example"), bad_url("https://north.example/?a", query=True)
    ('must not hold a user or a password', None)
    """
    import httpx  # by those who ask another service: 20 ms less for a start

    try:
        parsed = httpx.URL(url)
        # httpx parses the host when it is accessed, which may fail.
        host, port = parsed.host, parsed.port
    except (httpx.InvalidURL, ValueError):
        return "is not a URL"
    if parsed.scheme not in ("http", "https"):
        return "must begin with http:// or https://"
    if parsed.userinfo:
        return "must not hold a user or a password"
    if not host:
        return "must name a host"
    if not query and (parsed.query or parsed.fragment or "?" in url or "#" in url):
        return "must end before any ? or #"
    if parsed.fragment or "#" in url:
        return "must end before any #"
    if port is not None and not 0 < port < 1 << 16:
        return "must name a port from 1 to 65535"
    return None
