"""Where links may lead: the addresses that requests with a key are sent to."""

from __future__ import annotations

from collections.abc import Collection

from app.runtime import urls


def bad_url(url: str, hosts: Collection[str] = ()) -> str | None:
    """Why a URL cannot be that of a service, on one of these hosts if there are any; None where it can.

    >>> bad_url("https://north.example/rankcast"), bad_url("file:///etc/passwd"), bad_url("http://me:secret@north.example")
    (None, 'must begin with http:// or https://', 'must not hold a user or a password: give the key')
    """
    why = urls.bad_url(url)
    if why is not None:
        return f"{why}: give the key" if "password" in why else why
    if hosts and not allowed_host(url, hosts):
        return "leads to a host that is not among those allowed"
    return None


def allowed_host(url: str, hosts: Collection[str]) -> bool:
    """Whether a URL leads to one of these hosts, at every port or at the one that is named with it.

    >>> allowed_host("http://north:8001/", ["north:8001"]), allowed_host("http://north/", ["north:8001"])
    (True, False)
    """
    import httpx

    parsed = httpx.URL(url)
    host, port = parsed.host.lower(), parsed.port or (443 if parsed.scheme == "https" else 80)
    return host in hosts or f"{host}:{port}" in hosts
