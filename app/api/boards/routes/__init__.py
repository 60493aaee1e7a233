"""The operations of boards, one module for each kind of sub-resource; importing them adds them to the router."""

from app.api.boards.router import router
from app.api.boards.routes import boards, explain, objects, subscriptions, zones

__all__ = ["boards", "explain", "objects", "router", "subscriptions", "zones"]
