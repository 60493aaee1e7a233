"""The router of boards: the modules of `routes` add their operations."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request

from app.api.boards.context import BoardContext
from app.api.routing import REFUSALS, DirectRoute, needs
from app.api.wired import wired

router = APIRouter(prefix="/v1/boards", tags=["boards"], route_class=DirectRoute, responses=REFUSALS)

READ, PUBLISH, WRITE = needs("boards:read"), needs("boards:publish"), needs("boards:write")


def boards(request: Request) -> BoardContext:
    """The boards of the service."""
    return wired(request).boards
