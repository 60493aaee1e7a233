"""Every request to a map as a value: what to send and how to read the answer. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rankcast_client.calls import Call, Page, json_call, listed, page, segment, seq_of
from rankcast_client.errors import FieldError
from rankcast_client.map_models import (
    Better,
    MapAttribute,
    MapInfo,
    Moved,
    Moves,
    NewPlace,
    NewQuery,
    Place,
    Put,
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
from rankcast_client.models import UNSET, OnError, Unset
from rankcast_client.zones import Bounds, Location, Metric


def map_path(map: str, *parts: str) -> str:
    """`/v1/maps/{map}/...`; raises ValueError for what cannot be a name."""
    return "/".join(["/v1/maps", segment(map), *parts])


def put_map(map: str, attributes: Mapping[str, Better | MapAttribute], bounds: Bounds, metric: Metric) -> Call[MapInfo]:
    said = {name: one.wire if isinstance(one, MapAttribute) else one for name, one in attributes.items()}
    body = {"attributes": said, "bounds": list(bounds), "metric": metric}
    return json_call("PUT", map_path(map), lambda data: MapInfo.from_json(map, data), body)


def map_info(map: str) -> Call[MapInfo]:
    return Call("GET", map_path(map), lambda data: MapInfo.from_json(map, data))


def delete_map(map: str) -> Call[int]:
    return Call("DELETE", map_path(map), seq_of)


def maps(limit: int, cursor: str | None) -> Call[Page[MapInfo]]:
    return page("/v1/maps", lambda data: MapInfo.from_json(str(data.get("name", "")), data), limit, cursor)


# Objects


def put_objects(map: str, objects: Sequence[NewPlace], on_error: OnError) -> Call[Put]:
    return Call("POST", map_path(map, "objects"), Put.from_json, **listed("objects", objects, {"on_error": on_error}))


def put_arrow(map: str, stream: bytes, on_error: OnError) -> Call[Put]:
    kind = "application/vnd.apache.arrow.stream"
    return Call("POST", map_path(map, "objects"), Put.from_json, {"on_error": on_error}, stream, kind)


def write_object(
    method: str, map: str, id: str, location: Location | None, values: Mapping[str, float] | None, payload: Any
) -> Call[Place]:
    body: dict[str, Any] = {}
    if location is not None:
        body["location"] = list(location)
    if values is not None:
        body["values"] = values
    if payload is not UNSET:
        body["payload"] = payload
    return json_call(method, map_path(map, "objects", segment(id)), Place.from_json, body)


def get_object(map: str, id: str) -> Call[Place]:
    return Call("GET", map_path(map, "objects", segment(id)), Place.from_json)


def delete_object(map: str, id: str) -> Call[int]:
    return Call("DELETE", map_path(map, "objects", segment(id)), seq_of)


def delete_objects(map: str, ids: Iterable[str]) -> Call[int]:
    return json_call("POST", map_path(map, "objects", "delete"), _deleted, {"ids": list(ids)})


def objects(map: str, limit: int, cursor: str | None) -> Call[Page[Place]]:
    return page(map_path(map, "objects"), Place.from_json, limit, cursor)


def _deleted(data: Any) -> int:
    return int(data["deleted"])


# Questions


def top(map: str, question: Top, location: Location) -> Call[TopAnswer]:
    body = {"location": list(location), **question.wire}
    call = json_call("POST", map_path(map, "top"), lambda data: top_answer(data, location, data["seq"]), body)
    return replace(call, asks=True)


def tops(map: str, question: Top, locations: Sequence[Location]) -> Call[tuple[TopAnswer, ...]]:
    def read(data: Any) -> tuple[TopAnswer, ...]:
        return tuple(top_answer(one, at, data["seq"]) for one, at in zip(data["results"], locations, strict=True))

    body = {"locations": [list(at) for at in locations], **question.wire}
    return replace(json_call("POST", map_path(map, "top"), read, body), asks=True)


def skyline(map: str, location: Location) -> Call[SkylineAnswer]:
    def read(data: Any) -> SkylineAnswer:
        return skyline_answer(data, location, data["seq"])

    return replace(json_call("POST", map_path(map, "skyline"), read, {"location": list(location)}), asks=True)


def skylines(map: str, locations: Sequence[Location]) -> Call[tuple[SkylineAnswer, ...]]:
    def read(data: Any) -> tuple[SkylineAnswer, ...]:
        return tuple(skyline_answer(one, at, data["seq"]) for one, at in zip(data["results"], locations, strict=True))

    body = {"locations": [list(at) for at in locations]}
    return replace(json_call("POST", map_path(map, "skyline"), read, body), asks=True)


# Standing queries


def add_queries(map: str, queries: Iterable[NewQuery], lists: bool | None, on_error: OnError) -> Call[Queries]:
    elements = []
    for one in queries:
        more: dict[str, Any] = {name: one[name] for name in ("id", "ttl") if name in one}
        elements.append({**_standing(one["question"], one["location"]), **more})
    rest: dict[str, Any] = {"on_error": on_error} | ({} if lists is None else {"lists": lists})
    return Call("POST", map_path(map, "queries"), Queries.from_json, **listed("queries", elements, rest))


def put_query(map: str, id: str, question: Question, location: Location, ttl: float | None) -> Call[Query]:
    body = _standing(question, location) | ({} if ttl is None else {"ttl": ttl})
    return json_call("PUT", map_path(map, "queries", segment(id)), Query.from_json, body)


def _standing(question: Question, location: Location) -> dict[str, Any]:
    return {"kind": kind_of(question), "location": list(location), **question.wire}


def patch_query(map: str, id: str, ttl: float | Unset | None, **changes: Any) -> Call[Query]:
    body = {name: value for name, value in changes.items() if value is not None}
    if not isinstance(ttl, Unset):
        body["ttl"] = ttl
    return json_call("PATCH", map_path(map, "queries", segment(id)), Query.from_json, body)


def get_query(map: str, id: str) -> Call[Query]:
    return Call("GET", map_path(map, "queries", segment(id)), Query.from_json)


def delete_query(map: str, id: str) -> Call[int]:
    return Call("DELETE", map_path(map, "queries", segment(id)), seq_of)


def delete_queries(map: str, ids: Iterable[str]) -> Call[int]:
    return json_call("POST", map_path(map, "queries", "delete"), _deleted, {"ids": list(ids)})


def queries(map: str, limit: int, cursor: str | None) -> Call[Page[Query]]:
    return page(map_path(map, "queries"), Query.from_json, limit, cursor)


def move(map: str, id: str, location: Location) -> Call[Moved]:
    def read(data: Any) -> Moved:
        return _moved({"id": id, **data}, location, data["seq"])

    return json_call("PATCH", map_path(map, "queries", segment(id)), read, {"location": list(location)})


def moves(map: str, places: Sequence[tuple[str, Location]], on_error: OnError) -> Call[Moves]:
    def read(data: Any) -> Moves:
        results = tuple(
            _moved(one, places[one.get("index", at)][1], data["seq"]) for at, one in enumerate(data["results"])
        )
        return Moves(data["seq"], results, FieldError.all_in(data), bool(data.get("replayed", False)))

    elements = [{"id": id, "location": list(location)} for id, location in places]
    path = map_path(map, "queries", "moves")
    return Call("POST", path, read, **listed("moves", elements, {"on_error": on_error}))


def _moved(data: Mapping[str, Any], location: Location, seq: int) -> Moved:
    return Moved(data["id"], seq, bool(data["inside"]), answer_of(data, location, seq))
