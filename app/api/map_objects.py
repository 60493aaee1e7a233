"""The objects of maps."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from app.api.bodies import validated
from app.api.context import Done, begun, check_id, id_in_path, json_alone, page_response
from app.api.elements import Read
from app.api.map_context import MapContext
from app.api.map_models import (
    PlaceAnswer,
    PlaceBody,
    PlacePatch,
    Places,
    PlacesAnswer,
    PlacesBody,
)
from app.api.models import Deleted, IdsBody, NoQuery, OnErrorQuery, Seq
from app.api.paging import PageQuery, query
from app.api.responses import JsonResponse, json_response
from app.api.routing import Routes
from app.delivery.maps_json import map_json
from app.idempotency import Ticket
from app.problems import not_found
from app.writer import Skeleton
from indexes.commands import Refused
from indexes.maps.commands import DeleteObjects, PutObjects
from indexes.maps.plans import PutPlan
from indexes.maps.views import ObjectView

_LEARNED = dict.fromkeys(("location", "values", "created", "payload"))
"""What of an object's answer only putting it tells."""


class ObjectRoutes:
    """``/v1/maps/{map}/objects``."""

    def __init__(self, context: MapContext) -> None:
        self._context = context

    def add_routes(self, routes: Routes) -> None:
        """Serve the objects."""
        many, tag, write, see = "/v1/maps/{map}/objects", "maps", "maps:write", "maps:read"
        one, shown, add = many + "/{id}", PlaceAnswer, routes.add
        add(
            "POST",
            many,
            self.post_places,
            needs=write,
            tag=tag,
            answers={200: PlacesAnswer},
            body=PlacesBody,
            bulk="NewPlace",
            query=OnErrorQuery,
        )
        ids, gone = many + "/delete", {200: Deleted}
        add("POST", ids, self.delete_places, needs=write, tag=tag, answers=gone, body=IdsBody)
        add("GET", many, self.list_places, needs=see, tag=tag, answers={200: Places}, query=PageQuery)
        put, patch = {201: shown, 200: shown}, {200: shown}
        add("PUT", one, self.put_place, needs=write, tag=tag, answers=put, body=PlaceBody)
        add("PATCH", one, self.patch_place, needs=write, tag=tag, answers=patch, body=PlacePatch)
        add("GET", one, self.get_place, needs=see, tag=tag, answers={200: shown})
        add("DELETE", one, self.delete_place, needs=write, tag=tag, answers={200: Seq})

    async def post_places(self, request: Request) -> Response:
        """Put many objects, in order; all of them or none, unless `on_error` is `skip`.

        A new one needs its location and all values; one that is there keeps what is left out. `on_error` is a query
        parameter with NDJSON and Arrow bodies (columns `id`, `x`, `y`, the attributes, `payload` as JSON text); in JSON
        it is a field.
        """
        return await self._context.bulk(request, OnErrorQuery(), self._context.object_reader, self._put_many)

    async def _put_many(self, request: Request, found: Read[PutObjects], ticket: Ticket | None) -> Done:
        def answer(plan: PutPlan) -> dict[str, Any]:
            start = begun(found, plan.last_seq, plan.faults)
            return {"seq": start.pop("seq"), "applied": plan.count, **start}

        plan: PutPlan = await self._context.submit(
            request, found.command, ticket=ticket, skeleton=lambda plan: Skeleton(200, answer(plan))
        )
        return Done(JsonResponse(answer(plan)), answer(plan))

    async def put_place(self, request: Request) -> Response:
        """Make an object, or merge a location, values and a payload into it."""
        check_id(request)
        return await self._put(request, must_exist=False)

    async def patch_place(self, request: Request) -> Response:
        """Change the location, some values or the payload of an object."""
        return await self._put(request, must_exist=True)

    async def _put(self, request: Request, must_exist: bool) -> Response:
        raw = await json_alone(request)
        id = id_in_path(request)

        async def run(ticket: Ticket | None) -> Done:
            config = self._context.config(request)
            validators = self._context.validators(config)
            body: dict[str, Any] = validated(raw, validators.patch_object if must_exist else validators.put_object)
            command = self._context.object_reader(config).one(id, body, must_exist)
            write = map_json(config)
            text = ""

            def show(plan: PutPlan) -> None:
                nonlocal text
                found = plan.engine.object(id)
                assert found is not None, "it was just put"
                text = write.object(_shown(found), f'"seq":{plan.last_seq},')

            def skeleton(plan: PutPlan) -> Skeleton:
                return Skeleton(_status(plan), {"seq": plan.last_seq, "id": id, **_LEARNED}, open=True)

            try:
                plan: PutPlan = await self._context.submit(
                    request, command, ticket=ticket, skeleton=skeleton, then=show
                )
            except Refused as refused:
                raise _about_one(refused) from None
            return Done(json_response(text, _status(plan)), {} if ticket is None else json.loads(text))

        return await self._context.once(request, raw, run)

    async def get_place(self, request: Request) -> Response:
        """An object as it is."""
        query(request, NoQuery)
        engine, id = self._context.engine(request), id_in_path(request)
        seq, found = await self._context.between(request, lambda: (engine.seq, engine.object(id)))
        if found is None:
            raise not_found("id", f"there is no object {id[:128]!r}")
        return json_response(map_json(engine.config).object(_shown(found), f'"seq":{seq},'))

    async def list_places(self, request: Request) -> Response:
        """The objects in order of id."""
        page = query(request, PageQuery)
        engine, after = self._context.engine(request), page.after
        seq, found = await self._context.between(request, lambda: (engine.seq, engine.objects(after, page.limit + 1)))
        write = map_json(engine.config).object
        return page_response(seq, found, page.limit, lambda item: write(_shown(item)), lambda item: item.id)

    async def delete_place(self, request: Request) -> Response:
        """Delete an object."""
        query(request, NoQuery)
        command = DeleteObjects([id_in_path(request)], must_exist=True)
        return await self._context.delete(request, b"", command, counted=False)

    async def delete_places(self, request: Request) -> Response:
        """Delete many objects; ids that are not there are passed over."""
        return await self._context.delete_many(request, DeleteObjects)


def _status(plan: PutPlan) -> int:
    return 201 if plan.created else 200


def _shown(item: ObjectView) -> ObjectView:
    """An object as GET shows it: one without a payload says so."""
    return item if item.payload is not None else item._replace(payload=b"null")


def _about_one(refused: Refused) -> Exception:
    """A refused command about the object in the path, which is not found where it is unknown."""
    for fault in refused.faults:
        if fault.field == "id" and fault.kind in ("unknown", "missing"):
            return not_found("id", fault.reason)
    return Refused([replace(fault, index=None) for fault in refused.faults])
