"""Maps themselves: their configuration."""

from __future__ import annotations

from pydantic import TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import validated
from app.api.map_asks import AskRoutes
from app.api.map_context import MapContext
from app.api.map_models import MOST_ATTRIBUTES, RESERVED, Map, MapBody, Maps, RangedAttribute
from app.api.map_moves import MoveRoutes
from app.api.map_objects import ObjectRoutes
from app.api.map_queries import QueryRoutes
from app.api.map_questions import bad_bounds
from app.api.models import Seq
from app.api.paging import PageQuery
from app.api.routing import Routes
from app.problems import FieldError, many
from app.service import Service
from indexes.maps.attributes import Attribute
from indexes.maps.model import MapConfig

_PUT = TypeAdapter(MapBody)


class MapRoutes:
    """Everything under ``/v1/maps`` but the streams; `moves` are those of clients on sockets, too."""

    def __init__(self) -> None:
        self._context = MapContext()
        self.moves = MoveRoutes(self._context)

    def start(self, service: Service) -> None:
        """Give the routes the service that was started."""
        self._context.start(service)

    def add_routes(self, routes: Routes) -> None:
        """Serve the maps."""
        all_, one, tag = "/v1/maps", "/v1/maps/{map}", "maps"
        write, see, add = "maps:write", "maps:read", routes.add
        add("GET", all_, self.list_maps, needs=see, tag=tag, answers={200: Maps}, query=PageQuery)
        add("PUT", one, self.put_map, needs=write, tag=tag, answers={201: Map, 200: Map}, body=MapBody)
        add("GET", one, self.get_map, needs=see, tag=tag, answers={200: Map})
        add("DELETE", one, self.delete_map, needs=write, tag=tag, answers={200: Seq})
        ObjectRoutes(self._context).add_routes(routes)
        AskRoutes(self._context).add_routes(routes)
        QueryRoutes(self._context).add_routes(routes)
        self.moves.add_routes(routes)

    async def list_maps(self, request: Request) -> Response:
        """The maps in order of name."""
        return await self._context.listing(request)

    async def put_map(self, request: Request) -> Response:
        """Make a map. One that is there stays as it is: with another configuration 409."""
        return await self._context.put(request, lambda raw: _config(validated(raw, _PUT)))

    async def get_map(self, request: Request) -> Response:
        """A map's configuration and sizes."""
        return await self._context.get(request)

    async def delete_map(self, request: Request) -> Response:
        """Delete a map with all that is in it; its streams end."""
        return await self._context.drop(request)


def _config(body: MapBody) -> MapConfig:
    """The configuration that a body says. Raises the problem 422."""
    errors = []
    if len(body.attributes) > MOST_ATTRIBUTES:
        errors.append(FieldError("attributes", f"must be at most {MOST_ATTRIBUTES} attributes"))
    for name, about in body.attributes.items():
        if name in RESERVED:
            errors.append(FieldError(f"attributes.{name}", f"must not be called {name!r}"))
        if about.range is not None and not about.range[0] < about.range[1]:
            errors.append(FieldError(f"attributes.{name}.range", "must begin below its end"))
    errors += bad_bounds(body.bounds, body.metric)
    if errors:
        raise many(errors)
    x0, y0, x1, y1 = (value + 0.0 for value in body.bounds)
    attributes = tuple(_attribute(name, about) for name, about in body.attributes.items())
    return MapConfig(attributes, (x0, y0, x1, y1), body.metric)


def _attribute(name: str, about: RangedAttribute) -> Attribute:
    high = about.order == "high"
    if about.range is None:
        return Attribute(name, high)
    lo, hi = about.range
    return Attribute(name, high, (lo + 0.0, hi + 0.0))
