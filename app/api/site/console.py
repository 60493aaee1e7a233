"""Serves the console at ``/console``. Its files need no key; what it asks of the API does."""

from __future__ import annotations

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.api.problems import not_found
from app.api.routing import DirectRoute
from app.console.files import File, console

POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""The page loads and asks its own service alone, and nothing turns text into markup or script."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
LOOK_AGAIN = "no-cache"
FOR_EVER = "public, max-age=31536000, immutable"

router = APIRouter(route_class=DirectRoute, include_in_schema=False)


@router.api_route("/console", methods=["GET", "HEAD"])
@router.api_route("/console/", methods=["GET", "HEAD"])
async def show_console(request: Request) -> Response:
    """The page."""
    return _served(request, console().page, LOOK_AGAIN)


@router.api_route("/console/{version}/{name}", methods=["GET", "HEAD"])
async def show_asset(request: Request) -> Response:
    """A script, the styles or the icon of this version. Raises the problem 404 for all else."""
    found = console()
    name = request.path_params["name"]
    file = found.assets.get(name)
    if file is None or request.path_params["version"] != found.version:
        raise not_found("name", f"the console has no file {name[:80]!r} in this version")
    return _served(request, file, FOR_EVER)


def _served(request: Request, file: File, caching: str) -> Response:
    headers = {**HEADERS, "Cache-Control": caching, "ETag": file.etag}
    known = request.headers.get("if-none-match", "")
    if file.etag in (one.strip().removeprefix("W/") for one in known.split(",")):
        return Response(status_code=304, headers=headers)
    return Response(file.body, headers=headers, media_type=file.media_type)
