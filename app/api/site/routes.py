"""Serves the pages: static files of this folder, and a page of each problem type.

They load nothing from elsewhere, and their content security policy allows nothing else. No key is needed to read them.
"""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from app.api.problems import PROBLEMS, ProblemType, not_found
from app.api.responses import JsonResponse
from app.api.routing import DirectRoute

_FILES = {
    "/": ("index.html", "text/html"),
    "/docs": ("docs.html", "text/html"),
    "/site/docs.js": ("docs.js", "text/javascript"),
    "/site/site.css": ("site.css", "text/css"),
    "/site/icon.svg": ("../../console/icon.svg", "image/svg+xml"),
}
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-cache",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_PAGE = """<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>{title}</title>
    <link rel="icon" href="/site/icon.svg" type="image/svg+xml">
    <link rel="stylesheet" href="/site/site.css">
  </head>
  <body>
    <h1>{title}</h1>
{body}
  </body>
</html>
"""


router = APIRouter(route_class=DirectRoute, include_in_schema=False)


def _file(name: str, media_type: str) -> Any:
    async def serve(_: Request) -> Response:
        return Response((Path(__file__).parent / name).read_bytes(), headers=_HEADERS, media_type=media_type)

    return serve


for _path, (_name, _media_type) in _FILES.items():
    router.add_api_route(_path, _file(_name, _media_type), methods=["GET", "HEAD"])


@router.api_route("/problems", methods=["GET", "HEAD"])
async def list_problems(request: Request) -> Response:
    """All problem types."""
    if not _wants_html(request):
        return JsonResponse({"items": [_document(slug, kind) for slug, kind in PROBLEMS.items()]}, headers=_VARY)
    rows = "\n".join(
        f'      <tr><td>{kind.status}</td><td><a href="/problems/{slug}">{slug}</a></td>'
        f"<td>{escape(kind.title)}</td></tr>"
        for slug, kind in PROBLEMS.items()
    )
    return _html("Problem types", f"    <table>\n{rows}\n    </table>")


@router.api_route("/problems/{slug}", methods=["GET", "HEAD"])
async def show_problem(request: Request) -> Response:
    """One problem type: what it means and what to do. Raises the problem 404."""
    slug = request.path_params["slug"]
    kind = PROBLEMS.get(slug)
    if kind is None:
        raise not_found("slug", f"there is no problem type {slug[:80]!r}")
    if not _wants_html(request):
        return JsonResponse(_document(slug, kind), headers=_VARY, media_type="application/problem+json")
    body = (
        f"    <p>Status {kind.status}, type <code>/problems/{slug}</code></p>\n"
        f"    <h2>What it means</h2>\n    <p>{escape(kind.meaning)}</p>\n"
        f"    <h2>What to do</h2>\n    <p>{escape(kind.remedy)}</p>\n"
        '    <p><a href="/problems">All problem types</a></p>'
    )
    return _html(kind.title, body)


_VARY = {"Vary": "Accept"}


def _wants_html(request: Request) -> bool:
    return "text/html" in request.headers.get("accept", "")


def _html(title: str, body: str) -> Response:
    text = _PAGE.format(title=escape(title), body=body)
    return Response(text, headers={**_HEADERS, **_VARY}, media_type="text/html")


def _document(slug: str, kind: ProblemType) -> dict[str, Any]:
    return {
        "type": f"/problems/{slug}",
        "title": kind.title,
        "status": kind.status,
        "detail": kind.meaning,
        "remedy": kind.remedy,
    }
