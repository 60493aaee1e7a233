"""Changes of single objects of a map in groups: by one command."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, cast

from pydantic_core import SchemaValidator

from app.api.element_errors import ElementError
from app.api.maps.context import MapContext
from app.api.maps.parsing.objects import ObjectReader
from app.api.maps.routes.objects import LEARNED, about_one
from app.api.problems import Problem, many
from app.api.together.kind import Answer, Elsewhere, Outcome, Several, ShortBurst, ShortRequest, Verb, receipts
from app.api.together.latest import Latest
from app.api.together.listed import Form, OneOfMany
from app.api.together.shaped import keep_distinct, read_shaped
from app.api.values import is_name
from app.errors import FieldError
from app.rendering.maps import MapJson, map_json
from app.security.callers import Caller
from app.security.scopes import Need
from app.write_path.idempotency import Ticket
from app.write_path.writer import Skeleton
from indexes.core.commands import Fault, Refused
from indexes.maps.config import MapConfig
from indexes.maps.engine import MapEngine
from indexes.maps.plans.objects import PutPlan

_SKIPPED = Problem("internal")


class ObjectChange(NamedTuple):
    """One request: the object that it says, by the configuration of the map `engine`."""

    engine: MapEngine
    id: str
    body: dict[str, Any]


class Applied(NamedTuple):
    """What became of the changes of a group, each at its place there: the answers, and why there are none."""

    answers: dict[int, Answer]
    refused: dict[int, Problem]


class Parts(NamedTuple):
    """What reads and writes objects by one configuration."""

    validator: SchemaValidator
    reader: ObjectReader
    write: MapJson


class ObjectChanges:
    """`PUT` of single objects, or with `must_exist` `PATCH`: see `app.api.together.kind.Kind`."""

    def __init__(self, context: MapContext, must_exist: bool) -> None:
        self._context = context
        self._must_exist = must_exist
        self._parts: Latest[MapConfig, Parts] = Latest(self._make_parts)

    def need(self, name: str) -> Need:
        return Need("maps", "publish", name)

    def read(self, request: ShortRequest, caller: Caller) -> ObjectChange | Several[ObjectChange]:
        """The change that a request asks for. Any exception sends it to the slow path."""
        engine = self._context.resources.latest(request.name)
        validator = self._parts.of(engine.config).validator
        if request.query:
            raise Elsewhere
        if request.count > 1:
            return _burst(engine, cast(ShortBurst, request), validator)
        body: dict[str, Any] = request.checked_body(validator)
        id = request.id
        if body.get("id", id) != id or not is_name(id):
            raise Elsewhere
        body["id"] = id
        return ObjectChange(engine, id, body)

    def _make_parts(self, config: MapConfig) -> Parts:
        validators = self._context.validators(config)
        validator = validators.patch_object if self._must_exist else validators.put_object
        return Parts(validator, self._context.object_reader(config), map_json(config))

    def subject(self, item: ObjectChange) -> str | None:
        """The object: the answer shows it as it is after the change, and it is looked at once the group is applied."""
        return item.id

    async def apply(self, name: str, items: Sequence[ObjectChange], tickets: Sequence[Ticket | None]) -> Applied:
        """Apply the changes as one command. Raises as `Writer.submit`."""
        engine = items[0].engine
        parts = self._parts.of(engine.config)
        read = parts.reader.read_items([item.body for item in items])
        read.command.must_exist = self._must_exist
        answers = dict[int, Answer]()

        def places(plan: PutPlan) -> Sequence[int]:
            if plan.positions is None and read.indexes is None:
                return range(plan.count)
            return [read.place_of(at) for at in (range(plan.count) if plan.positions is None else plan.positions)]

        def status(made: set[int], at: int) -> int:
            return 201 if at in made else 200

        def made_by(plan: PutPlan) -> set[int]:
            return {read.place_of(at) for at in plan.makers.tolist()} if plan.created else set()

        def requests(plan: PutPlan) -> Iterator[tuple[Ticket, Skeleton]]:
            made = made_by(plan)

            def skeleton(event: int, at: int) -> Skeleton:
                kept = {"seq": plan.first_seq + event, "id": items[at].id, **LEARNED}
                return Skeleton(status(made, at), kept, open=True)

            return receipts(tickets, places(plan), skeleton)

        def show(plan: PutPlan) -> None:
            made = made_by(plan)
            for at, text in zip(places(plan), parts.write.put_objects(plan.views(), plan.first_seq), strict=True):
                answers[at] = Answer(status(made, at), f"{text}\n".encode(), None)

        plan: PutPlan = await self._context.resources.submit(
            name, read.command, reader=engine, requests=requests if any(tickets) else None, then=show
        )
        if not plan.faults and not read.errors:
            return Applied(answers, {})
        faults: dict[int, list[Fault]] = {}
        for fault in plan.faults:
            faults.setdefault(read.place_of(fault.index or 0), []).append(replace(fault, index=None))
        refused = {at: about_one(Refused(those)) for at, those in faults.items()}
        errors: dict[int, list[ElementError]] = {}
        for error in read.errors:
            errors.setdefault(error.index, []).append(error)
        for at, wrong in errors.items():
            refused[at] = many([FieldError(error.field, error.reason) for error in wrong])
        return Applied(answers, refused)

    async def outcomes(self, job: Applied, items: Sequence[ObjectChange]) -> list[Outcome]:
        """Each with the object as it is at its seq."""
        return [job.answers.get(at) or job.refused.get(at, _SKIPPED) for at in range(len(items))]


def _burst(engine: MapEngine, burst: ShortBurst, validator: SchemaValidator) -> Several[ObjectChange]:
    """The changes that a burst asks for, up to one of an object that changes before it. Any exception makes its
    requests be read one by one."""
    ids, body, _ = shaped = keep_distinct(burst, read_shaped(burst, validator))
    if not body.keys() <= {"location", "values"}:
        raise Elsewhere
    changes = [ObjectChange(engine, id, {**one, "id": id}) for id, one in zip(ids, shaped.bodies(), strict=True)]
    return Several(engine, changes, ids)


def object_changes(context: MapContext) -> list[Verb]:
    """The changes of objects that are carried out together."""
    form: Form[MapConfig] = Form(
        "objects",
        200,
        lambda config: context.validators(config).objects,
        lambda config, objects: context.object_reader(config).read_items(objects),
        lambda plan: [f'{{"seq":{seq},"applied":1}}' for seq in range(plan.first_seq, plan.last_seq + 1)],
        _kept,
    )
    one = "/v1/maps/{map}/objects/{id}"
    return [
        Verb(OneOfMany[MapEngine, MapConfig](context, form), "POST", "/v1/maps/{map}/objects"),
        Verb(ObjectChanges(context, must_exist=False), "PUT", one, bursts=True),
        Verb(ObjectChanges(context, must_exist=True), "PATCH", one, bursts=True),
    ]


def _kept(plan: PutPlan, event: int) -> dict[str, Any]:
    return {"seq": plan.first_seq + event, "applied": 1}
