"""JSON responses. They end in a newline, so that a shell's prompt starts on a line of its own."""

from __future__ import annotations

import json
from typing import Any

from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


class JsonResponse(JSONResponse):
    """A value as a response."""

    def render(self, content: Any) -> bytes:
        """Its text."""
        return _encode(content).encode() + b"\n"


def json_response(text: str | bytes, status: int = 200) -> Response:
    """JSON text as a response."""
    return Response(text + "\n" if isinstance(text, str) else text + b"\n", status, media_type="application/json")


async def deny_socket(response: Response, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a WebSocket handshake with a plain response where the server can, else by closing it."""
    await receive()
    extensions: dict[str, Any] = scope.get("extensions") or {}
    if "websocket.http.response" not in extensions:
        await send({"type": "websocket.close", "code": 1008, "reason": "refused"})
        return
    headers = response.raw_headers
    await send({"type": "websocket.http.response.start", "status": response.status_code, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": bytes(response.body)})
