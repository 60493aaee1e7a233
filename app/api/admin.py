"""Administration: the API keys."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import Field, TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from app import logs
from app.api.bodies import kind_of, read, validated
from app.api.paging import PageQuery, Query, cursor, query
from app.api.responses import JsonResponse
from app.api.routing import Routes, claim
from app.api.values import Strict
from app.idempotency import Answers, Replay
from app.problems import PRINTABLE_PATTERN, Problem, invalid, not_found
from app.security import ADMIN, ANONYMOUS, SCOPES, Keyring, ScopeName, new_key
from app.storage import Stores
from app.storage.keys import KeyRow
from app.storage.log import LogUnavailable, StoredAnswer


class NewKey(Strict):
    """A key to be made."""

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=PRINTABLE_PATTERN, description="Whose it is.")]
    scopes: Annotated[list[ScopeName], Field(min_length=1, max_length=len(SCOPES))]


class Key(Strict):
    """A key, without its secret."""

    id: str
    name: str
    scopes: list[str]
    created: str


class ShownKey(Key):
    """A new key. `key` is shown this once and left out when the answer is replayed."""

    key: str | None = None
    replayed: bool = False


class Keys(Strict):
    """A page of keys."""

    items: list[Key]
    next: str | None


class DeletedKey(Strict):
    """A key that is no more."""

    id: str
    replayed: bool = False


_NEW_KEY = TypeAdapter(NewKey)


class KeyRoutes:
    """``/v1/admin/keys``."""

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self._stores: Stores | None = None
        self._answers: Answers | None = None
        self._one_at_a_time = asyncio.Lock()
        self._log = logs.get("keys")

    def start(self, stores: Stores, answers: Answers, note: Callable[[str], Awaitable[None]]) -> None:
        """Give the routes what was opened at start-up; `note` lets a row of the log stand for a change."""
        self._stores = stores
        self._answers = answers
        self._note = note

    def add_routes(self, routes: Routes) -> None:
        """Serve the keys."""
        path = "/v1/admin/keys"
        routes.add("POST", path, self.create_key, needs=ADMIN, tag="admin", answers={200: ShownKey}, body=NewKey)
        routes.add("GET", path, self.list_keys, needs=ADMIN, tag="admin", answers={200: Keys}, query=PageQuery)
        routes.add("DELETE", path + "/{id}", self.delete_key, needs=ADMIN, tag="admin", answers={200: DeletedKey})

    async def create_key(self, request: Request) -> Response:
        """Make a key. On an open service it must have `admin`, and from then on every request needs a key."""
        query(request, Query)
        kind_of(request)
        raw = await read(request)
        body = validated(raw, _NEW_KEY)
        secret, row = new_key(body.name, body.scopes)

        def check() -> None:
            if not self._keyring.allows(request.scope.get("key_id", ANONYMOUS), ADMIN):
                raise Problem("unauthorized", "a key was made meanwhile", headers={"WWW-Authenticate": "Bearer"})
            if self._keyring.open and ADMIN not in body.scopes:
                raise invalid("scopes", "the first key must have admin")

        def change(stores: Stores, kept: StoredAnswer | None) -> Callable[[], None]:
            stores.keys.add(row, kept)
            return lambda: self._keyring.add(row)

        return await self._write(request, raw, {**_shown(row), "key": secret}, check, change)

    async def list_keys(self, request: Request) -> Response:
        """The keys in order of id, without their secrets."""
        page = query(request, PageQuery)
        after = page.after
        rows = [row for row in self._keyring if after is None or row.id > after]
        items = [_shown(row) for row in rows[: page.limit]]
        more = cursor(items[-1]["id"]) if len(rows) > page.limit else None
        return JsonResponse({"items": items, "next": more})

    async def delete_key(self, request: Request) -> Response:
        """Delete a key and end its streams. The last key with `admin` stays."""
        query(request, Query)
        key_id = request.path_params["id"]

        def check() -> None:
            if self._keyring.get(key_id) is None:
                raise not_found("id", f"there is no key {key_id!r}")
            if self._keyring.is_last_admin(key_id):
                raise Problem("last-admin", "no other key has admin")

        def change(stores: Stores, kept: StoredAnswer | None) -> Callable[[], None]:
            stores.keys.delete(key_id, kept)
            return lambda: self._keyring.remove(key_id)

        return await self._write(request, b"", {"id": key_id}, check, change)

    async def _write(
        self,
        request: Request,
        raw: bytes | bytearray,
        answer: dict[str, Any],
        check: Callable[[], None],
        change: Callable[[Stores, StoredAnswer | None], Callable[[], None]],
    ) -> Response:
        """Check and store one change, then let it count; `change` runs in a thread, what it returns on the loop."""
        assert self._stores is not None and self._answers is not None, "requests are let in once the stores are open"
        ticket = await claim(self._answers, request, raw)
        if isinstance(ticket, Replay):
            return JsonResponse(ticket.answer, ticket.status)
        try:
            async with self._one_at_a_time:
                check()
                kept = ticket.store(self._stores.log.last_lsn, 200, answer, time.time()) if ticket else None
                count = await asyncio.to_thread(change, self._stores, kept)
                count()
            try:
                await self._note("keys")
            except LogUnavailable as error:
                self._log.warning("the next snapshot may lack a change of the keys", error=str(error))
        except BaseException:
            if ticket:
                ticket.abandon()
            raise
        if ticket:
            ticket.complete(200, answer)
        self._log.info("keys changed", method=request.method, key=answer["id"])
        return JsonResponse(answer)


def _shown(row: KeyRow) -> dict[str, Any]:
    created = datetime.fromtimestamp(row.created_at, UTC).isoformat(timespec="milliseconds")
    return {"id": row.id, "name": row.name, "scopes": list(row.scopes), "created": created}
