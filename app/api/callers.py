"""Who sent a request, as `app.api.routing` found it, and whether it still may."""

from __future__ import annotations

from collections.abc import Iterable

from starlette.requests import Request

from app.security.callers import NOBODY_ASKED, Caller
from app.security.keyring import Keyring


def keyring_of(request: Request) -> Keyring:
    """The keys of the service that a request came to."""
    found: Keyring = request.scope["app"].state.keyring
    return found


def caller_of(request: Request) -> Caller:
    """Who sent a request."""
    found: Caller = request.scope.get("caller", NOBODY_ASKED)
    return found


def check_ids(request: Request, ids: Iterable[str]) -> None:
    """Raise `Forbidden` for the id of a subscription that is not the caller's."""
    caller_of(request).require_ids(ids)


def check_caller(request: Request) -> None:
    """Raise `Unauthorized` where the key of a request was deleted, or has expired, since its head came."""
    app = request.scope.get("app")
    if app is not None:
        app.state.keyring.check(caller_of(request))
