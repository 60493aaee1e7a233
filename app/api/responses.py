"""JSON as the answer to a request. It ends in a newline, so that a shell's prompt does not follow it on its line."""

from __future__ import annotations

from typing import Any

from starlette.responses import JSONResponse, Response


class JsonResponse(JSONResponse):
    """A value as an answer."""

    def render(self, content: Any) -> bytes:
        """Its text."""
        return super().render(content) + b"\n"


def json_response(text: str | bytes, status: int = 200) -> Response:
    """JSON text as an answer."""
    return Response(text + "\n" if isinstance(text, str) else text + b"\n", status, media_type="application/json")
