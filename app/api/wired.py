"""What endpoints work with: wired by `app.main` when the service starts, and kept in the state of the application."""

from __future__ import annotations

from typing import NamedTuple

from starlette.requests import Request

from app.api.boards.context import BoardContext
from app.api.changes import Changes
from app.api.feeds.context import FeedContext
from app.api.maps.context import MapContext
from app.api.matchers.context import MatcherContext
from app.api.relays.context import RelayContext
from app.security.tickets import Tickets
from app.service import Service
from app.streaming.websocket import StreamSocket


class Wired(NamedTuple):
    """The service, and what the endpoints of each kind need of it."""

    service: Service
    boards: BoardContext
    matchers: MatcherContext
    relays: RelayContext
    maps: MapContext
    feeds: FeedContext
    keys: Changes
    webhooks: Changes
    tickets: Tickets
    sockets: StreamSocket


def wired(request: Request) -> Wired:
    """What the application of a request has wired. No request gets here before: the guard answers 503 until then."""
    found: Wired = request.scope["app"].state.wired
    return found
