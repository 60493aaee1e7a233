"""The Idempotency-Key of a request, and what it entitles a retry to."""

from __future__ import annotations

import asyncio
import re
from typing import cast

from starlette.requests import Request

from app.api.bodies import PLAIN
from app.api.problems import invalid
from app.security.callers import ANONYMOUS
from app.write_path.idempotency import Answers, Replay, Ticket, hash_request

_LARGE = 1 << 20
KEY = re.compile(r"[!-~]{1,255}")
"""What an Idempotency-Key may be."""


def idempotency_key(request: Request) -> str | None:
    """The request's Idempotency-Key. Raises the problem 422 when it is not 1 to 255 visible characters."""
    if PLAIN in request.scope:
        return None
    key = request.headers.get("idempotency-key")
    if key is not None and not KEY.fullmatch(key):
        raise invalid("Idempotency-Key", "must be 1 to 255 visible ASCII characters")
    return key


async def claim(answers: Answers, request: Request, raw: bytes | bytearray, part: int = 0) -> Ticket | Replay | None:
    """What the Idempotency-Key of a request entitles it to: a ticket, the first response, or None without a key.

    A body that is processed in parts has a response for each. Raises the problem 422 for a malformed key, `KeyReused`
    and `StillRunning`.
    """
    key = idempotency_key(request)
    if key is None:
        return None
    if part:
        # No key of a request has a space.
        key = f"{key} {part}"
    scope = request.scope
    method: str = scope["method"]
    parts = (
        # A request over a socket is another one than the same over HTTP.
        f"{scope['way']} {method}" if "way" in scope else method,
        scope["path"],
        scope["query_string"].decode("latin-1"),
        cast(bytes, raw),
    )
    digest = await asyncio.to_thread(hash_request, *parts) if len(raw) > _LARGE else hash_request(*parts)
    whose = scope.get("key_id", ANONYMOUS)
    row = await answers.look_up(whose, key) if answers.elsewhere(whose, key) else None
    claimed = answers.claim(whose, key, digest, row)
    if isinstance(claimed, Replay) and answers.confirmed is not None:
        await answers.confirmed()
    return claimed
