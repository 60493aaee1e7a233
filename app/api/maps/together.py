"""Single objects of a map in lists, carried out together."""

from __future__ import annotations

from typing import Any

from app.api.maps.context import MapContext
from app.api.together.kind import Verb
from app.api.together.listed import Form, OneOfMany
from indexes.maps.config import MapConfig
from indexes.maps.engine import MapEngine
from indexes.maps.plans.objects import PutPlan


def single_objects(context: MapContext) -> list[Verb]:
    """The changes of objects that are carried out together."""
    form: Form[MapConfig] = Form(
        "objects",
        200,
        lambda config: context.validators(config).objects,
        lambda config, objects: context.object_reader(config).read_items(objects),
        lambda plan, event: f'{{"seq":{plan.first_seq + event},"applied":1}}',
        _kept,
    )
    return [Verb(OneOfMany[MapEngine, MapConfig](context, form), "POST", "/v1/maps/{map}/objects")]


def _kept(plan: PutPlan, event: int, executed: bool) -> dict[str, Any]:
    return {"seq": plan.first_seq + event, "applied": 1}
