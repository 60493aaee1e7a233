"""The router of matchers: the modules of `routes` add their operations."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request

from app.api.matchers.context import MatcherContext
from app.api.routing import REFUSALS, DirectRoute, needs
from app.api.wired import wired

router = APIRouter(prefix="/v1/matchers", tags=["matchers"], route_class=DirectRoute, responses=REFUSALS)

READ, WRITE = needs("matchers:read"), needs("matchers:write")


def matchers(request: Request) -> MatcherContext:
    """The matchers of the service."""
    return wired(request).matchers
