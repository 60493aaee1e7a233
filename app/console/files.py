"""The files of the console, as they are served: a fixed list, read once.

Scripts and styles are served under a version, the hash of all of them, so that they may be cached for ever: another
release has other addresses. The page itself names them, and is asked for again each time.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

PAGE = "index.html"
SCRIPTS = (
    "admin.js",
    "announce.js",
    "api.js",
    "board.js",
    "canvas.js",
    "charts.js",
    "dom.js",
    "feed.js",
    "form.js",
    "live.js",
    "main.js",
    "map.js",
    "matcher.js",
    "metrics.js",
    "overview.js",
    "place.js",
    "ranked.js",
    "ranking.js",
    "relay.js",
    "scope.js",
    "space.js",
    "standing.js",
    "subscriptions.js",
    "types.js",
    "webhooks.js",
    "zones.js",
)
ASSETS = {
    **dict.fromkeys(SCRIPTS, "text/javascript"),
    "console.css": "text/css",
    "icon.svg": "image/svg+xml",
}
"""What the page loads, by name, and its media type."""


class File(NamedTuple):
    """A file as it is served."""

    body: bytes
    media_type: str
    etag: str


class Console(NamedTuple):
    """The page, and what it loads from under `version`."""

    version: str
    page: File
    assets: dict[str, File]


@cache
def console() -> Console:
    """Read all files."""
    folder = Path(__file__).parent
    assets = {name: _file((folder / name).read_bytes(), media) for name, media in ASSETS.items()}
    whole = hashlib.sha256("".join(f"{name} {file.etag}\n" for name, file in sorted(assets.items())).encode())
    version = whole.hexdigest()[:16]
    preloads = "\n".join(f'    <link rel="modulepreload" href="/console/{version}/{name}">' for name in SCRIPTS)
    page = (folder / PAGE).read_text(encoding="utf-8").replace("{version}", version).replace("    {preloads}", preloads)
    return Console(version, _file(page.encode(), "text/html"), assets)


def _file(body: bytes, media_type: str) -> File:
    return File(body, media_type, f'"{hashlib.sha256(body).hexdigest()[:32]}"')
