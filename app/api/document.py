"""The OpenAPI document: made from the routes when it is first asked for, and then kept."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic.warnings import UnsupportedFieldAttributeWarning
from starlette.requests import Request
from starlette.responses import Response

from app.api.responses import JsonResponse
from app.api.routing import DirectRoute
from app.problems import PROBLEMS


def add_document(app: FastAPI) -> None:
    """Make ``app.openapi()`` the document of all direct routes, and serve it at ``/openapi.json``."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            routes = [route.describe() for route in app.routes if isinstance(route, DirectRoute)]
            with warnings.catch_warnings():
                # FastAPI hides this one about its own fields too, but only while it makes them.
                warnings.simplefilter("ignore", UnsupportedFieldAttributeWarning)
                schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=routes)
            app.openapi_schema = _complete(schema)
        return app.openapi_schema

    async def openapi_json(_: Request) -> Response:
        # The first time it takes half a second, which the event loop has not got.
        return JsonResponse(await asyncio.to_thread(openapi))

    app.openapi = openapi  # type: ignore[method-assign]
    app.add_route("/openapi.json", openapi_json, include_in_schema=False)


def _complete(schema: dict[str, Any]) -> dict[str, Any]:
    """Add to a generated OpenAPI document what no route brings: the problem document and the keys."""
    components = schema.setdefault("components", {})
    components.setdefault("schemas", {})["Problem"] = {
        "type": "object",
        "required": ["type", "title", "status", "detail", "errors"],
        "properties": {
            "type": {"type": "string", "enum": [f"/problems/{slug}" for slug in PROBLEMS]},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string"},
            "errors": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["field", "reason"],
                    "properties": {"field": {"type": "string"}, "reason": {"type": "string"}},
                },
            },
        },
    }
    components["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
    return schema
