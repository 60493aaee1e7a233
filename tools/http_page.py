"""Write `docs/http.md`, every request of the API on one page, from the service: `python -m tools.http_page`; with
`--check` compare only.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

from tools.documents import run_text
from tools.openapi import document

METHODS = ("get", "put", "post", "patch", "delete")

HEAD = """# Requests

Every request of the HTTP API, with the [right](security.md) that its key needs where the service has keys; those of
`/v1`, but for streams, can be sent [over a socket](streams.md#requests-over-the-socket) too. Names in braces are parts
of the path. Bodies, parameters and answers are in `openapi.yaml`, which the service shows at `/docs`; the page of each
section explains them with examples. What else a socket carries is in [Streams](streams.md#the-websocket).
`make openapi` writes this page from the service.
"""

PAGES = {"admin": "operations.md", "health": "operations.md#health"}
"""The pages that explain sections which have none of their own name."""


def render(described: dict[str, Any]) -> str:
    """The page."""
    parts = [HEAD]
    for tag in described["tags"]:
        name = tag["name"]
        page = PAGES.get(name, f"{name}.md")
        parts.append(f"\n## {name.capitalize()}\n\nSee [{page.partition('#')[0]}]({page}).\n\n")
        parts += [_row("Request", "What it does", "Right"), _row("---", "---", "---")]
        parts += [row for tags, row in _rows(described) if name in tags]
    return "".join(parts)


def _rows(described: dict[str, Any]) -> Iterator[tuple[list[str], str]]:
    """The tags of each operation, and its row."""
    for path, operations in described["paths"].items():
        for method in METHODS:
            if method in operations:
                operation = operations[method]
                request, effect = f"`{method.upper()} {path}`", _first_paragraph(operation["description"])
                yield operation["tags"], _row(request, effect, _right(operation))


def _row(*cells: str) -> str:
    """A row of a table."""
    return "".join("| " + cell.replace("|", r"\|") + " " for cell in cells) + "|\n"


def _first_paragraph(description: str) -> str:
    """The first paragraph of a description, on one line."""
    return " ".join(description.partition("\n\n")[0].split())


def _right(operation: dict[str, Any]) -> str:
    """The right that a key needs: "any" where each key will do, empty where no key is needed."""
    for way in operation.get("security", ()):
        if "key" in way:
            return ", ".join(f"`{scope}`" for scope in way["key"]) or "any"
    return ""


if __name__ == "__main__":
    sys.exit(run_text(__doc__, "docs/http.md", lambda: render(document())))
