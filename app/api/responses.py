"""JSON responses. They end in a newline, so that a shell's prompt starts on a line of its own."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse, Response

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class JsonResponse(JSONResponse):
    """A value as a response."""

    def render(self, content: Any) -> bytes:
        """Its text."""
        return _encode(content).encode() + b"\n"


def json_response(text: str | bytes, status: int = 200) -> Response:
    """JSON text as a response."""
    return Response(text + "\n" if isinstance(text, str) else text + b"\n", status, media_type="application/json")
