"""The objects of maps."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import validated
from app.api.bulk import Read
from app.api.context import Done, begun, check_id, id_in_path, json_body
from app.api.maps.models import (
    MapObjectBody,
    MapObjectPage,
    MapObjectPatch,
    MapObjectResponse,
    MapObjectsBody,
    MapObjectsResponse,
    NewMapObject,
)
from app.api.maps.router import PUBLISH, READ, maps, router
from app.api.models import DeletedResponse, IdsBody, NoQuery, OnErrorQuery, SeqResponse
from app.api.pages import PageQuery, query
from app.api.problems import Problem, from_refused, not_found
from app.api.responses import JsonResponse, json_response
from app.api.routing import accepts
from app.rendering.maps import map_json
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.core.commands import Refused
from indexes.maps.commands import DeleteObjects, PutObjects
from indexes.maps.engine import MapEngine
from indexes.maps.plans.objects import PutPlan
from indexes.maps.results import ObjectView

LEARNED = dict.fromkeys(("location", "values", "created", "payload"))
"""Fields of the response that are known only after the change."""


@router.post(
    "/{map}/objects",
    response_model=MapObjectsResponse,
    dependencies=PUBLISH,
    openapi_extra=accepts(MapObjectsBody, element=NewMapObject, query=OnErrorQuery),
)
async def post_objects(request: Request) -> Response:
    """Create or change many objects, in order; all or none, unless `on_error` is `skip`.

    A new one needs its location and all values; one that exists keeps what is absent. `on_error` is a query
    parameter with NDJSON and Arrow bodies (columns `id`, `x`, `y`, the attributes, `payload` as JSON text); in JSON
    it may be a field instead.
    """
    context = maps(request)
    return await context.bulk(request, OnErrorQuery(), context.object_reader, _put_many)


async def _put_many(request: Request, found: Read[PutObjects], ticket: Ticket | None) -> Done:
    context = maps(request)

    def answer(plan: PutPlan) -> dict[str, Any]:
        start = begun(found, plan.last_seq, plan.faults)
        return {"seq": start.pop("seq"), "applied": plan.count, **start}

    plan: PutPlan = await context.submit(
        request, found.command, ticket=ticket, skeleton=lambda plan: Skeleton(200, answer(plan))
    )
    return Done(JsonResponse(answer(plan)), answer(plan))


@router.put(
    "/{map}/objects/{id}",
    status_code=201,
    response_model=MapObjectResponse,
    responses={200: {"model": MapObjectResponse}},
    dependencies=PUBLISH,
    openapi_extra=accepts(MapObjectBody),
)
async def put_object(request: Request) -> Response:
    """Create an object, or merge a location, values and a payload into it."""
    check_id(request)
    return await _put(request, must_exist=False)


@router.patch(
    "/{map}/objects/{id}", response_model=MapObjectResponse, dependencies=PUBLISH, openapi_extra=accepts(MapObjectPatch)
)
async def patch_object(request: Request) -> Response:
    """Change the location, some values or the payload of an object."""
    return await _put(request, must_exist=True)


async def _put(request: Request, must_exist: bool) -> Response:
    context = maps(request)
    raw = await json_body(request)
    id = id_in_path(request)

    async def run(ticket: Ticket | None) -> Done:
        config = context.config(request)
        validators = context.validators(config)
        body: dict[str, Any] = validated(raw, validators.patch_object if must_exist else validators.put_object)
        command = context.object_reader(config).one(id, body, must_exist)
        write = map_json(config)
        text = ""

        def show(plan: PutPlan) -> None:
            nonlocal text
            found = plan.engine.object(id)
            assert found is not None, "it was just put"
            text = write.object(shown_object(found), f'"seq":{plan.last_seq},')

        def skeleton(plan: PutPlan) -> Skeleton:
            return Skeleton(_status(plan), {"seq": plan.last_seq, "id": id, **LEARNED}, open=True)

        try:
            plan: PutPlan = await context.submit(request, command, ticket=ticket, skeleton=skeleton, then=show)
        except Refused as refused:
            raise about_one(refused) from None
        return Done(json_response(text, _status(plan)), {} if ticket is None else json.loads(text))

    return await context.once(request, raw, run)


@router.get("/{map}/objects/{id}", response_model=MapObjectResponse, dependencies=READ)
async def get_object(request: Request) -> Response:
    """Get an object."""
    context = maps(request)
    return await context.item(request, "object", MapEngine.object, _writer)


@router.get("/{map}/objects", response_model=MapObjectPage, dependencies=READ, openapi_extra=accepts(query=PageQuery))
async def list_objects(request: Request) -> Response:
    """List the objects in order of id."""
    context = maps(request)
    return await context.page(request, MapEngine.objects, _writer, lambda item: item.id)


@router.delete("/{map}/objects/{id}", response_model=SeqResponse, dependencies=PUBLISH)
async def delete_object(request: Request) -> Response:
    """Delete an object."""
    context = maps(request)
    query(request, NoQuery)
    command = DeleteObjects([id_in_path(request)], must_exist=True)
    return await context.delete(request, b"", command, counted=False)


@router.post(
    "/{map}/objects/delete", response_model=DeletedResponse, dependencies=PUBLISH, openapi_extra=accepts(IdsBody)
)
async def delete_objects(request: Request) -> Response:
    """Delete several objects; unknown ids are ignored."""
    context = maps(request)
    return await context.delete_many(request, DeleteObjects)


def _status(plan: PutPlan) -> int:
    return 201 if plan.created else 200


def _writer(engine: MapEngine) -> Callable[..., str]:
    write = map_json(engine.config).object
    return lambda item, head="": write(shown_object(item), head)


def shown_object(item: ObjectView) -> ObjectView:
    """An object as GET shows it: one without a payload says so."""
    return item if item.payload is not None else item._replace(payload=b"null")


def about_one(refused: Refused) -> Problem:
    """A refused command about the object in the path, which is not found where it is unknown."""
    for fault in refused.faults:
        if fault.field == "id" and fault.kind in ("unknown", "missing"):
            return not_found("id", fault.reason)
    return from_refused(Refused([replace(fault, index=None) for fault in refused.faults]))
