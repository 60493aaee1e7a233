"""Administration: the API keys."""

import asyncio
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter
from pydantic import Field, TypeAdapter
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import format_of, read, validated
from app.api.changes import Change
from app.api.models import Page, Replayed
from app.api.pages import PageQuery, Query, cursor, query
from app.api.problems import PRINTABLE_PATTERN, Problem, invalid, not_found
from app.api.responses import JsonResponse
from app.api.routing import REFUSALS, DirectRoute, accepts, caller_of, keyring_of, needs
from app.api.values import Strict
from app.api.wired import wired
from app.security.keyring import new_key
from app.security.scopes import ADMIN, PATTERN
from app.storage import Stores
from app.storage.keys import KeyRow
from app.storage.rows import StoredAnswer

router = APIRouter(
    prefix="/v1/admin", tags=["admin"], route_class=DirectRoute, responses=REFUSALS, dependencies=needs(ADMIN)
)


MOST_SCOPES = 1_000
LONGEST = 3e9
"""Seconds until a key expires, at most: about a century."""


class NewKey(Strict):
    """A key to create."""

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=PRINTABLE_PATTERN, description="Whose it is.")]
    scopes: Annotated[
        list[Annotated[str, Field(pattern=PATTERN)]],
        Field(
            min_length=1,
            max_length=MOST_SCOPES,
            description="What the key may do: `admin`, which includes all others, or `<resources>[/<name>]:<right>`.",
        ),
    ]
    expires: Annotated[
        float | None, Field(gt=0, le=LONGEST, description="Seconds until the key expires; null: it does not.")
    ] = None


class Key(Strict):
    """A key, without its secret."""

    id: Annotated[str, Field(description="Id of the key.")]
    name: Annotated[str, Field(description="Whose it is.")]
    scopes: Annotated[list[str], Field(description="What the key may do.")]
    created: Annotated[str, Field(description="When it was created, in RFC 3339.")]
    expires: Annotated[str | None, Field(description="When it expires, in RFC 3339; null: never.")] = None


class NewKeyResponse(Key):
    """A new key. `key` is shown this once and left out when the answer is replayed."""

    key: Annotated[str | None, Field(description="The secret.")] = None
    replayed: Replayed = False


class KeyPage(Page):
    """A page of keys."""

    items: Annotated[list[Key], Field(description="The page, in order of id.")]


class DeletedKeyResponse(Strict):
    """A deleted key."""

    id: Annotated[str, Field(description="Id of the deleted key.")]
    replayed: Replayed = False


_NEW_KEY = TypeAdapter(NewKey)


@router.post("/keys", response_model=NewKeyResponse, openapi_extra=accepts(NewKey))
async def create_key(request: Request) -> Response:
    """Create a key. The first key must have `admin`, and from then on every request needs a key."""
    keyring = keyring_of(request)
    query(request, Query)
    format_of(request)
    raw = await read(request)
    body = validated(raw, _NEW_KEY)
    secret, row = new_key(body.name, body.scopes, body.expires)

    async def add(stores: Stores, kept: StoredAnswer | None) -> None:
        await asyncio.to_thread(stores.keys.add, row, kept)
        keyring.add(row)

    def prepare() -> Change:
        keyring.check(caller_of(request))
        if keyring.open and ADMIN not in body.scopes:
            raise invalid("scopes", "the first key must have admin")
        if keyring.open and body.expires is not None:
            raise invalid("expires", "the first key must not expire")
        return Change(200, {**_shown(row), "key": secret}, add)

    return await wired(request).keys.write(request, raw, row.id, prepare)


@router.get("/keys", response_model=KeyPage, openapi_extra=accepts(query=PageQuery))
async def list_keys(request: Request) -> Response:
    """The keys in order of id, without their secrets."""
    page = query(request, PageQuery)
    after = page.after
    rows = [row for row in keyring_of(request) if after is None or row.id > after]
    items = [_shown(row) for row in rows[: page.limit]]
    more = cursor(items[-1]["id"]) if len(rows) > page.limit else None
    return JsonResponse({"items": items, "next": more})


@router.delete("/keys/{id}", response_model=DeletedKeyResponse)
async def delete_key(request: Request) -> Response:
    """Delete a key and end its streams. The last key with `admin` stays."""
    keyring = keyring_of(request)
    query(request, Query)
    key_id = request.path_params["id"]

    async def delete(stores: Stores, kept: StoredAnswer | None) -> None:
        await asyncio.to_thread(stores.keys.delete, key_id, kept)
        keyring.remove(key_id)

    def prepare() -> Change:
        keyring.check(caller_of(request))
        if keyring.get(key_id) is None:
            raise not_found("id", f"there is no key {key_id!r}")
        if keyring.is_last_admin(key_id):
            raise Problem("last-admin", "no other key has admin")
        return Change(200, {"id": key_id}, delete)

    return await wired(request).keys.write(request, b"", key_id, prepare)


def _shown(row: KeyRow) -> dict[str, Any]:
    times = {"created": _rfc3339(row.created_at), "expires": _rfc3339(row.expires_at)}
    return {"id": row.id, "name": row.name, "scopes": list(row.scopes), **times}


def _rfc3339(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
