"""Changes of what is beside the resources, such as the API keys and the webhooks: stored first, and then in force."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from app.api.idempotency import claim
from app.api.responses import JsonResponse
from app.errors import LogUnavailable, NotReplicated
from app.runtime import logs
from app.storage import Stores
from app.storage.rows import StoredAnswer
from app.write_path.idempotency import Answers, Replay


class Change(NamedTuple):
    """A change that was checked: the status and the response of its request, and what stores it together with that
    response, and lets it count.
    """

    status: int
    answer: dict[str, Any]
    apply: Callable[[Stores, StoredAnswer | None], Awaitable[None]]


class Changes:
    """Applies changes of one kind, which `about` names, one at a time; `note` logs that there was one."""

    def __init__(self, about: str, stores: Stores, answers: Answers, note: Callable[[str], Awaitable[None]]) -> None:
        self._about = about
        self._stores = stores
        self._answers = answers
        self._note = note
        self._one_at_a_time = asyncio.Lock()
        self._log = logs.get(about)

    async def write(
        self,
        request: Request,
        raw: bytes | bytearray,
        name: str,
        prepare: Callable[[], Change],
        before: Callable[[], Awaitable[None]] | None = None,
    ) -> Response:
        """Check, store and apply one change of what has this name; what takes long to check is checked `before`."""
        ticket = await claim(self._answers, request, raw)
        if isinstance(ticket, Replay):
            return JsonResponse(ticket.answer, ticket.status)
        try:
            if before is not None:
                await before()
            async with self._one_at_a_time:
                status, answer, apply = prepare()
                kept = ticket.store(self._stores.log.last_lsn, status, answer, time.time()) if ticket else None
                await apply(self._stores, kept)
            try:
                await self._note(self._about)
            except LogUnavailable as error:
                self._log.warning(f"the next snapshot may lack a change of the {self._about}", error=str(error))
            except NotReplicated:
                if ticket:
                    ticket.complete(status, answer)
                raise
        except BaseException:
            if ticket:
                ticket.abandon()
            raise
        if ticket:
            ticket.complete(status, answer)
        self._log.info(f"{self._about} changed", method=request.method, name=name)
        return JsonResponse(answer, status)
