"""The router of maps: the modules of `routes` add their operations."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request

from app.api.maps.context import MapContext
from app.api.routing import REFUSALS, DirectRoute, needs
from app.api.wired import wired

router = APIRouter(prefix="/v1/maps", tags=["maps"], route_class=DirectRoute, responses=REFUSALS)

READ, SUBSCRIBE, PUBLISH = needs("maps:read"), needs("maps:subscribe"), needs("maps:publish")


def maps(request: Request) -> MapContext:
    """The maps of the service."""
    return wired(request).maps
