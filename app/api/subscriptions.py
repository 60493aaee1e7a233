"""Subscriptions of any resource: created in bulk, put, changed, read, listed and deleted the same way everywhere.

What differs is data (models, names, the command that deletes) and a few small functions: how a subscription is found,
written, and described by the plan that created or changed it.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from fastapi import APIRouter
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import validated
from app.api.bulk import Read, Reader
from app.api.callers import caller_of, check_ids
from app.api.chunked_response import KEPT, answer_of, in_pieces, opened, portions, streamed
from app.api.context import Context, Done, begun, check_id, id_in_path, json_body
from app.api.models import DeletedResponse, IdsBody, NoQuery, OnErrorQuery, SeqResponse
from app.api.pages import PageQuery, Query, query
from app.api.responses import json_response
from app.api.routing import accepts, needs
from app.security.callers import Caller
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.core.commands import Refused

EngineT = TypeVar("EngineT")
ConfigT = TypeVar("ConfigT")
ContextT = TypeVar("ContextT", bound=Context[Any, Any])

LISTS = 1_000
"""Subscriptions up to which their lists are in the response unless the request says otherwise."""

PORTION = 64
"""Lists that are read at a time; other requests run in between."""

ROOM = 1_000
"""List entries that are read and written at a time, on the event loop: some milliseconds."""


@dataclass(frozen=True, slots=True)
class Models:
    """The models of subscriptions: one to be created, the bodies of POST, PUT and PATCH, the responses."""

    new: type[BaseModel]
    many: type[BaseModel]
    whole: type[BaseModel]
    part: type[BaseModel]
    shown: type[BaseModel]
    created: type[BaseModel]
    page: type[BaseModel]
    changed: type[BaseModel]
    deleted: type[BaseModel] = SeqResponse
    deleted_many: type[BaseModel] = DeletedResponse
    query: type[Query] = OnErrorQuery


@dataclass(frozen=True, slots=True)
class Prose:
    """What the document says of the operations beyond what is common to all resources."""

    columns: str
    post: str = ""
    put: str = ""
    patch: str = ""
    delete: str = ""


class Change(NamedTuple):
    """A PUT (`whole`) or PATCH of the subscription `id`."""

    id: str
    whole: bool
    body: dict[str, Any]
    config: Any


class SubscriptionRoutes(ABC, Generic[ContextT, EngineT, ConfigT]):
    """The routes of the subscriptions of one resource type, but for the streams.

    `collection` is their name in paths and `noun` in messages, `results` the name of the list in the response to POST.
    `delete_command` makes the command that deletes ids; with `lists` the response to POST may have lists.
    """

    collection: ClassVar[str] = "subscriptions"
    noun: ClassVar[str] = "subscription"
    results: ClassVar[str] = "subscriptions"
    lists: ClassVar[bool] = False
    models: ClassVar[Models]
    prose: ClassVar[Prose]
    delete_command: ClassVar[Callable[..., Any]]

    def add_to(self, router: APIRouter) -> None:
        """Add the operations to the router of the resource type."""
        models, parent = self.models, router.prefix.removeprefix("/v1/")
        many = f"/{{{parent.removesuffix('s')}}}/{self.collection}"
        reads, writes = needs(f"{parent}:read"), needs(f"{parent}:subscribe")
        some, it = self.noun.replace("query", "querie") + "s", f"a {self.noun}"
        router.add_api_route(
            many,
            self.post,
            methods=["POST"],
            status_code=201,
            response_model=models.created,
            dependencies=writes,
            openapi_extra=accepts(models.many, element=models.new, query=models.query),
            description=f"Create {some}: all of them or none, unless `on_error` is `skip`. {self.prose.post} The "
            f"query parameters are for NDJSON and Arrow bodies; in JSON they may be fields instead. Arrow columns: "
            f"{self.prose.columns}.",
        )
        router.add_api_route(
            many + "/delete",
            self.delete_many,
            methods=["POST"],
            response_model=models.deleted_many,
            dependencies=writes,
            openapi_extra=accepts(IdsBody),
            description=f"Delete several {some}; unknown ids are ignored. Their streams end. {self.prose.delete}",
        )
        router.add_api_route(
            many,
            self.list_page,
            methods=["GET"],
            response_model=models.page,
            dependencies=reads,
            openapi_extra=accepts(query=PageQuery),
            description=f"List the {some} in order of id, without their results.",
        )
        router.add_api_route(
            many + "/{id}",
            self.put,
            methods=["PUT"],
            status_code=201,
            response_model=models.shown,
            responses={200: {"model": models.shown}},
            dependencies=writes,
            openapi_extra=accepts(models.whole),
            description=f"Create {it} or replace it, so that a client can repeat the request after a restart. "
            f"Open streams continue without a gap. {self.prose.put}",
        )
        router.add_api_route(
            many + "/{id}",
            self.patch,
            methods=["PATCH"],
            response_model=models.changed,
            dependencies=writes,
            openapi_extra=accepts(models.part),
            description=f"Change {it}; what is absent stays. Open streams continue without a gap. {self.prose.patch}",
        )
        router.add_api_route(
            many + "/{id}",
            self.get,
            methods=["GET"],
            response_model=models.shown,
            dependencies=reads,
            description=f"Get {it} with its result, if it has one.",
        )
        router.add_api_route(
            many + "/{id}",
            self.delete,
            methods=["DELETE"],
            response_model=models.deleted,
            dependencies=writes,
            description=f"Delete {it}; its streams end. {self.prose.delete}",
        )

    # --- what differs ---------------------------------------------------------------------------------------------

    @abstractmethod
    def context(self, request: Request) -> ContextT:
        """The resources of the service that a request came to."""

    def reader(self, context: Any, config: ConfigT) -> Reader[Any, Any]:
        """What reads the elements of POST; `whole` and `part` of it make the commands of PUT and PATCH."""
        found: Reader[Any, Any] = context.subscription_reader(config)
        return found

    def validators(self, context: Any, config: ConfigT) -> tuple[Any, Any]:
        """The validators of the bodies of PUT and PATCH."""
        found = context.validators(config)
        return found.put_subscription, found.patch_subscription

    @abstractmethod
    def find(self, engine: EngineT, id: str) -> Any | None:
        """A subscription with its list; None if there is none of this id."""

    def find_many(self, engine: Any, after: str | None, limit: int) -> Sequence[Any]:
        """Subscriptions in order of id, without lists."""
        found: Sequence[Any] = engine.subscriptions(after, limit)
        return found

    @abstractmethod
    def writer(self, engine: EngineT) -> Callable[..., str]:
        """What writes a subscription as JSON; its second argument, if given, are fields before others."""

    @abstractmethod
    def piece(self, found: Any, plan: Any, at: range) -> str:
        """Some elements of the response to POST, without lists, as JSON separated by commas."""

    @abstractmethod
    def text(self, plan: Any, change: Change) -> str:
        """The response to PUT or PATCH, once the plan is applied."""

    @abstractmethod
    def skeleton(self, plan: Any, change: Change) -> Skeleton:
        """The same as far as it is known before."""

    def created(self, plan: Any) -> bool:
        """Whether a PUT created the subscription; a plan that changes nothing does not say."""
        return bool(getattr(plan, "made", False))

    def check_ids(self, request: Request, ids: Iterable[str]) -> None:
        """As `require_ids`, for the caller of a request."""
        self.require_ids(caller_of(request), ids)

    def require_ids(self, caller: Caller, ids: Iterable[str]) -> None:
        """Raise `Forbidden` where these ids are not the caller's to make, change or delete."""
        caller.require_ids(ids)

    def key(self, item: Any) -> str:
        """The id by which a listed subscription is ordered."""
        found: str = item.id
        return found

    def views(self, plan: Any, at: range) -> list[Any]:
        """Some of the subscriptions that a command creates, without lists; where `lists`."""
        raise NotImplementedError

    def sizes(self, plan: Any) -> Iterable[int]:
        """How long the lists of the created subscriptions may be; where `lists`."""
        raise NotImplementedError

    def merged(self, view: Any, now: Any | None) -> Any:
        """A created subscription with the list that it has `now`; None if it is gone already. Where `lists`."""
        raise NotImplementedError

    def kept(self, plan: Any, change: Change, text: str) -> dict[str, Any]:
        """What is kept of a response to PUT or PATCH for a retry."""
        found: dict[str, Any] = json.loads(text)
        return found

    def kept_elements(self, found: Any, plan: Any) -> list[Any]:
        """What is kept of the elements of a response to POST."""
        elements: list[Any] = json.loads(f"[{self.piece(found, plan, range(plan.count))}]")
        return elements

    def expected_elements(self, found: Any, plan: Any) -> list[Any]:
        """The same before the plan is applied."""
        return self.kept_elements(found, plan)

    def replayed(self, kept: dict[str, Any]) -> dict[str, Any]:
        """A kept response to PUT or PATCH as a retry gets it."""
        return kept

    def refusal(self, refused: Refused, config: ConfigT) -> Exception:
        """A refused PUT or PATCH."""
        return Refused([replace(fault, index=None) for fault in refused.faults])

    def pieces(self, request: Request, found: Any, plan: Any) -> AsyncIterator[bytes]:
        """The elements of the response to POST."""
        if self.lists and self.wants_lists(found, plan):
            return self._with_lists(request, found, plan)
        return in_pieces(plan.count, partial(self.piece, found, plan))

    # --- what is alike --------------------------------------------------------------------------------------------

    @staticmethod
    def wants_lists(found: Any, plan: Any) -> bool:
        """Whether the response to POST has lists."""
        wanted: bool | None = found.lists
        return bool(plan.count <= LISTS) if wanted is None else wanted

    async def post(self, request: Request) -> Response:
        """Create subscriptions."""
        context = self.context(request)
        return await context.bulk(request, self.models.query(), partial(self.reader, context), self._create)

    async def _create(self, request: Request, found: Read[Any], ticket: Ticket | None) -> Done:
        self.check_ids(request, map(str, found.command.ids))

        def kept(plan: Any, elements: Callable[[Any, Any], list[Any]]) -> dict[str, Any]:
            start = begun(found, plan.last_seq, plan.faults)
            return {**start, self.results: elements(found, plan)} if plan.count <= KEPT else start

        plan = await self.context(request).submit(
            request,
            found.command,
            ticket=ticket,
            skeleton=lambda plan: Skeleton(201, kept(plan, self.expected_elements)),
        )
        start = opened(begun(found, plan.last_seq, plan.faults), self.results)
        response = await answer_of(streamed(start, self.pieces(request, found, plan)), 201)
        return Done(response, {} if ticket is None else kept(plan, self.kept_elements))

    async def _with_lists(self, request: Request, found: Read[Any], plan: Any) -> AsyncIterator[bytes]:
        """The subscriptions with their lists, which are those at the response's seq unless one says its own."""
        engine = plan.engine

        def look(views: list[Any]) -> tuple[int, list[Any]]:
            return engine.seq, [self.find(engine, view.id) for view in views]

        for at in portions(self.sizes(plan), PORTION, ROOM):
            views, heads = self.views(plan, at), found.heads_at(plan.positions, at) or [""] * len(at)
            seq, now = await self.context(request).between(request, partial(look, views))
            later = "" if seq == plan.last_seq else f'"seq":{seq},'
            write = self.writer(engine)
            texts = [
                write(self.merged(view, one), head + later) for view, one, head in zip(views, now, heads, strict=True)
            ]
            yield ",".join(texts).encode()
            await asyncio.sleep(0)

    async def put(self, request: Request) -> Response:
        """Create a subscription or replace it."""
        check_id(request)
        return await self._set(request, whole=True)

    async def patch(self, request: Request) -> Response:
        """Change a subscription."""
        return await self._set(request, whole=False)

    async def _set(self, request: Request, whole: bool) -> Response:
        raw = await json_body(request)
        context, id = self.context(request), id_in_path(request)
        self.check_ids(request, [id])
        context.touch(request, id)

        async def run(ticket: Ticket | None) -> Done:
            config = context.config(request)
            reader: Any = self.reader(context, config)
            put, patch = self.validators(context, config)
            body: dict[str, Any] = validated(raw, put if whole else patch)
            command = reader.whole(id, body) if whole else reader.part(id, body)
            change, text = Change(id, whole, body, config), ""

            def show(plan: Any) -> None:
                nonlocal text
                text = self.text(plan, change)

            try:
                plan = await context.submit(
                    request, command, ticket=ticket, skeleton=lambda plan: self.skeleton(plan, change), then=show
                )
            except Refused as refused:
                raise self.refusal(refused, config) from None
            context.touch(request, id)
            kept = {} if ticket is None else self.kept(plan, change, text)
            return Done(json_response(text, self.status(plan)), kept)

        return await context.once(request, raw, run, self.replayed)

    def status(self, plan: Any) -> int:
        """The status of the response to a PUT or PATCH."""
        return 201 if self.created(plan) else 200

    async def get(self, request: Request) -> Response:
        """Get a subscription."""
        check_ids(request, [id_in_path(request)])
        return await self.context(request).item(request, self.noun, self.find, self.writer, touch=True)

    async def list_page(self, request: Request) -> Response:
        """List subscriptions."""
        prefix = caller_of(request).prefix
        return await self.context(request).page(request, self.find_many, self.writer, self.key, prefix)

    async def delete(self, request: Request) -> Response:
        """Delete a subscription."""
        query(request, NoQuery)
        self.check_ids(request, [id_in_path(request)])
        command = type(self).delete_command([id_in_path(request)], must_exist=True)
        return await self.context(request).delete(request, b"", command, counted=False)

    async def delete_many(self, request: Request) -> Response:
        """Delete several subscriptions."""

        def command(ids: list[str]) -> Any:
            self.check_ids(request, ids)
            return type(self).delete_command(ids)

        return await self.context(request).delete_many(request, command)
