"""The OpenAPI document: FastAPI's, made when it is first asked for, with what no route brings."""

from __future__ import annotations

import asyncio
import warnings
from threading import Lock
from typing import Any

from fastapi import APIRouter, FastAPI
from pydantic.warnings import UnsupportedFieldAttributeWarning
from starlette.requests import Request
from starlette.responses import Response

from app.api.examples import EXAMPLES
from app.api.problems import PROBLEMS
from app.api.responses import JsonResponse
from app.api.routing import DirectRoute

TAGS = {
    "boards": "Ranked objects, and subscriptions to the k best of a range: [Range top-k].",
    "matchers": "Scored subscriptions, of which each event wins the k best: [Ranked matching].",
    "relays": "Subscriptions to boxes of notifications, forwarded between services by covering: [Covering].",
    "maps": "Objects in the plane, and top-k and skyline queries of moving clients: [Moving queries].",
    "feeds": "A window of posts, and the k best of them by keywords and distance: [Spatial-keyword].",
    "streams": "Tickets for streams of those who cannot send a header.",
    "webhooks": "Events of subscriptions, sent to a URL as signed requests.",
    "admin": "Keys, snapshots, rebuilds, verification, and the jobs that they start.",
    "health": "Liveness, readiness and metrics.",
}

ABOUT: dict[str, Any] = {
    "summary": "Ranked publish/subscribe over HTTP.",
    "description": "A publish/subscribe service in which every subscription is a ranked standing query.",
    "openapi_tags": [{"name": name, "description": text} for name, text in TAGS.items()],
    "servers": [{"url": "/", "description": "The service that serves this document."}],
    "license_info": {"name": "Apache License 2.0", "identifier": "Apache-2.0"},
}
"""What the document says of the whole, as arguments of FastAPI."""

router = APIRouter(route_class=DirectRoute, include_in_schema=False)


@router.api_route("/openapi.json", methods=["GET", "HEAD"])
async def openapi_json(request: Request) -> Response:
    """The document."""
    # The first time it takes half a second, which the event loop has not got.
    return JsonResponse(await asyncio.to_thread(request.app.openapi))


def complete_document(app: FastAPI) -> None:
    """Add to ``app.openapi()`` the examples of models and the problem document,."""
    make, lock = app.openapi, Lock()

    def openapi() -> dict[str, Any]:
        with lock:
            if app.openapi_schema is None:
                with warnings.catch_warnings():
                    # FastAPI hides this one about its own fields too, but only while it makes them.
                    warnings.simplefilter("ignore", UnsupportedFieldAttributeWarning)
                    _complete(make())
            assert app.openapi_schema is not None, "it was just made"
            return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(schema: dict[str, Any]) -> None:
    schemas = schema["components"]["schemas"]
    schemas["Problem"] = _problem_schema()
    for name, model in schemas.items():
        if name in EXAMPLES:
            model["examples"] = [EXAMPLES[name]]


def _problem_schema() -> dict[str, Any]:
    field = {
        "type": "object",
        "required": ["field", "reason"],
        "properties": {
            "field": {"type": "string", "description": "Path of the field, as in `events[3].values.delay`."},
            "reason": {"type": "string", "description": "What is wrong with it."},
        },
    }
    return {
        "type": "object",
        "description": "A refused request (RFC 9457).",
        "required": ["type", "title", "status", "detail", "errors"],
        "properties": {
            "type": {
                "type": "string",
                "enum": [f"/problems/{slug}" for slug in PROBLEMS],
                "description": "What is wrong, for programs; a page of the service explains it.",
            },
            "title": {"type": "string", "description": "The same, for people."},
            "status": {"type": "integer", "description": "The HTTP status."},
            "detail": {"type": "string", "description": "What is wrong with this request."},
            "errors": {"type": "array", "items": field, "description": "Invalid fields, at most 100."},
        },
    }
