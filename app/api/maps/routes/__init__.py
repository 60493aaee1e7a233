"""The operations of maps, one module for each kind of sub-resource; importing them adds them to the router."""

from app.api.maps.router import router
from app.api.maps.routes import maps, moves, objects, queries, questions

__all__ = ["maps", "moves", "objects", "queries", "questions", "router"]
