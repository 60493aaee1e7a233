"""Maps themselves: their configuration."""

from __future__ import annotations

from starlette.requests import Request

from app.api.maps.context import MapContext
from app.api.maps.models import MOST_ATTRIBUTES, RESERVED, Map, MapBody, MapPage, RangedAttribute
from app.api.maps.parsing.questions import bad_bounds
from app.api.maps.router import maps, router
from app.api.problems import many
from app.api.resources import ResourceRoutes
from app.errors import FieldError
from indexes.maps.attributes import Attribute
from indexes.maps.config import MapConfig


class MapRoutes(ResourceRoutes[MapContext]):
    """``/v1/maps`` and ``/v1/maps/{map}``."""

    noun = "map"
    body, shown, page = MapBody, Map, MapPage

    def context(self, request: Request) -> MapContext:
        return maps(request)

    def config(self, context: MapContext, body: MapBody) -> MapConfig:
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


MapRoutes().add_to(router)


def _attribute(name: str, about: RangedAttribute) -> Attribute:
    high = about.order == "high"
    if about.range is None:
        return Attribute(name, high)
    lo, hi = about.range
    return Attribute(name, high, (lo + 0.0, hi + 0.0))
