"""The router of feeds: the modules of `routes` add their operations."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request

from app.api.feeds.context import FeedContext
from app.api.routing import REFUSALS, DirectRoute, needs
from app.api.wired import wired

router = APIRouter(prefix="/v1/feeds", tags=["feeds"], route_class=DirectRoute, responses=REFUSALS)

READ, PUBLISH = needs("feeds:read"), needs("feeds:publish")


def feeds(request: Request) -> FeedContext:
    """The feeds of the service."""
    return wired(request).feeds
