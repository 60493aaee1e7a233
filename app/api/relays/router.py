"""The router of relays: the modules of `routes` add their operations."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request

from app.api.relays.context import RelayContext
from app.api.routing import REFUSALS, DirectRoute, needs
from app.api.wired import wired
from app.security.scopes import LINK_SCOPE

router = APIRouter(prefix="/v1/relays", tags=["relays"], route_class=DirectRoute, responses=REFUSALS)

SUBSCRIBE, PUBLISH, WRITE = needs("relays:subscribe"), needs("relays:publish"), needs("relays:write")
LINK = needs(LINK_SCOPE)


def relays(request: Request) -> RelayContext:
    """The relays of the service."""
    return wired(request).relays
