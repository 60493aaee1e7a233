"""Every request to a map as a value: what to send and how to read the answer. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rankcast_client.calls import Call, Page, ResourceCalls, changed, given, json_call, listed, page, segment, seq_of
from rankcast_client.errors import FieldError, outcome
from rankcast_client.map_models import (
    MapInfo,
    Moved,
    Moves,
    NewQuery,
    Place,
    Queries,
    Query,
    Question,
    SkylineAnswer,
    Top,
    TopAnswer,
    answer_of,
    kind_of,
    skyline_answer,
    top_answer,
)
from rankcast_client.models import OnError
from rankcast_client.zones import Location

MAPS = ResourceCalls("maps", MapInfo.from_json, Query.from_json, "queries")


# Objects


def write_object(
    method: str, map: str, id: str, location: Location | None, values: Mapping[str, float] | None, payload: Any
) -> Call[Place]:
    where = None if location is None else list(location)
    body = {**given(location=where, values=values), **changed(payload=payload)}
    return json_call(method, MAPS.path(map, "objects", segment(id)), Place.from_json, body)


def get_object(map: str, id: str) -> Call[Place]:
    return Call("GET", MAPS.path(map, "objects", segment(id)), Place.from_json)


def delete_object(map: str, id: str) -> Call[int]:
    return Call("DELETE", MAPS.path(map, "objects", segment(id)), seq_of)


def objects(map: str, limit: int, cursor: str | None) -> Call[Page[Place]]:
    return page(MAPS.path(map, "objects"), Place.from_json, limit, cursor)


# Questions


def top(map: str, question: Top, location: Location) -> Call[TopAnswer]:
    body = {"location": list(location), **question.wire}
    call = json_call("POST", MAPS.path(map, "top"), lambda data: top_answer(data, location, data["seq"]), body)
    return replace(call, asks=True)


def tops(map: str, question: Top, locations: Sequence[Location]) -> Call[tuple[TopAnswer, ...]]:
    def read(data: Any) -> tuple[TopAnswer, ...]:
        return tuple(top_answer(one, at, data["seq"]) for one, at in zip(data["results"], locations, strict=True))

    body = {"locations": [list(at) for at in locations], **question.wire}
    return replace(json_call("POST", MAPS.path(map, "top"), read, body), asks=True)


def skyline(map: str, location: Location) -> Call[SkylineAnswer]:
    def read(data: Any) -> SkylineAnswer:
        return skyline_answer(data, location, data["seq"])

    return replace(json_call("POST", MAPS.path(map, "skyline"), read, {"location": list(location)}), asks=True)


def skylines(map: str, locations: Sequence[Location]) -> Call[tuple[SkylineAnswer, ...]]:
    def read(data: Any) -> tuple[SkylineAnswer, ...]:
        return tuple(skyline_answer(one, at, data["seq"]) for one, at in zip(data["results"], locations, strict=True))

    body = {"locations": [list(at) for at in locations]}
    return replace(json_call("POST", MAPS.path(map, "skyline"), read, body), asks=True)


# Standing queries


def add_queries(map: str, queries: Iterable[NewQuery], lists: bool | None, on_error: OnError) -> Call[Queries]:
    elements = []
    for one in queries:
        more: dict[str, Any] = {name: one[name] for name in ("id", "ttl") if name in one}
        elements.append({**standing(one["question"], one["location"]), **more})
    return MAPS.publish(map, "queries", elements, Queries.from_json, on_error=on_error, lists=lists)


def standing(question: Question, location: Location) -> dict[str, Any]:
    """The fields of a standing query."""
    return {"kind": kind_of(question), "location": list(location), **question.wire}


def move(map: str, id: str, location: Location) -> Call[Moved]:
    def read(data: Any) -> Moved:
        return _moved({"id": id, **data}, location, data["seq"])

    return json_call("PATCH", MAPS.path_of(map, id), read, {"location": list(location)})


def moves(map: str, places: Sequence[tuple[str, Location]], on_error: OnError) -> Call[Moves]:
    def read(data: Any) -> Moves:
        results = tuple(
            _moved(one, places[one.get("index", at)][1], data["seq"]) for at, one in enumerate(data.get("results", ()))
        )
        return Moves(data["seq"], results, FieldError.all_in(data), *outcome(data))

    elements = [{"id": id, "location": list(location)} for id, location in places]
    path = MAPS.path(map, "queries", "moves")
    return Call("POST", path, read, **listed("moves", elements, {"on_error": on_error}))


def _moved(data: Mapping[str, Any], location: Location, seq: int) -> Moved:
    return Moved(data["id"], seq, bool(data["inside"]), answer_of(data, location, seq))
