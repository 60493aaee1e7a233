"""Every request to a matcher as a value: what to send and how to read the answer. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rankcast_client.calls import Call, Page, finite, json_call, listed, page, segment, seq_of, wire_ranges
from rankcast_client.matches import (
    Combine,
    EventValue,
    Interest,
    Interests,
    Matched,
    MatcherIndex,
    MatcherInfo,
    MatchEvent,
    MatchMode,
    NewInterest,
)
from rankcast_client.models import OnError, Pair, Unset


def matcher_path(matcher: str, *parts: str) -> str:
    """`/v1/matchers/{matcher}/...`; raises ValueError for what cannot be a name."""
    return "/".join(["/v1/matchers", segment(matcher), *parts])


def put_matcher(
    matcher: str, dimensions: Sequence[str], mode: MatchMode, combine: Combine | None, index: MatcherIndex | None
) -> Call[MatcherInfo]:
    body: dict[str, Any] = {"dimensions": list(dimensions), "mode": mode}
    if combine is not None:
        body["combine"] = combine
    if index is not None:
        body["index"] = index
    return json_call("PUT", matcher_path(matcher), lambda data: MatcherInfo.from_json(matcher, data), body)


def matcher_info(matcher: str) -> Call[MatcherInfo]:
    return Call("GET", matcher_path(matcher), lambda data: MatcherInfo.from_json(matcher, data))


def delete_matcher(matcher: str) -> Call[int]:
    return Call("DELETE", matcher_path(matcher), seq_of)


def matchers(limit: int, cursor: str | None) -> Call[Page[MatcherInfo]]:
    return page("/v1/matchers", lambda data: MatcherInfo.from_json(str(data.get("name", "")), data), limit, cursor)


def register(matcher: str, interests: Iterable[NewInterest], on_error: OnError) -> Call[Interests]:
    elements = []
    for interest in interests:
        element: dict[str, Any] = dict(interest)
        if "intervals" in interest:
            element["intervals"] = wire_ranges(interest["intervals"])
        elements.append(element)
    rest = {"on_error": on_error}
    path = matcher_path(matcher, "subscriptions")
    return Call("POST", path, Interests.from_json, **listed("subscriptions", elements, rest))


def register_arrow(matcher: str, stream: bytes, on_error: OnError) -> Call[Interests]:
    kind = "application/vnd.apache.arrow.stream"
    path = matcher_path(matcher, "subscriptions")
    return Call("POST", path, Interests.from_json, {"on_error": on_error}, stream, kind)


def write_interest(
    method: str,
    matcher: str,
    id: str,
    intervals: Mapping[str, Pair | None] | None,
    weights: Mapping[str, float | None] | None,
    score: float | None,
    ttl: float | Unset | None,
) -> Call[Interest]:
    body: dict[str, Any] = {}
    if intervals is not None:
        given = {name: pair for name, pair in intervals.items() if pair is not None}
        body["intervals"] = {**dict.fromkeys(intervals), **wire_ranges(given)}
    if weights is not None:
        body["weights"] = dict(weights)
    if score is not None:
        body["score"] = score
    if not isinstance(ttl, Unset):
        body["ttl"] = ttl
    return json_call(method, matcher_path(matcher, "subscriptions", segment(id)), Interest.from_json, body)


def get_interest(matcher: str, id: str) -> Call[Interest]:
    return Call("GET", matcher_path(matcher, "subscriptions", segment(id)), Interest.from_json)


def delete_interest(matcher: str, id: str) -> Call[int]:
    return Call("DELETE", matcher_path(matcher, "subscriptions", segment(id)), seq_of)


def delete_interests(matcher: str, ids: Iterable[str]) -> Call[int]:
    path = matcher_path(matcher, "subscriptions", "delete")
    return json_call("POST", path, lambda data: int(data["deleted"]), {"ids": list(ids)})


def interests(matcher: str, limit: int, cursor: str | None) -> Call[Page[Interest]]:
    return page(matcher_path(matcher, "subscriptions"), Interest.from_json, limit, cursor)


def match(
    matcher: str, events: Sequence[MatchEvent], k: int | None, explain: bool, notify: bool, on_error: OnError
) -> Call[Matched]:
    """A question, unless it notifies."""
    rest: dict[str, Any] = {"explain": explain, "notify": notify, "on_error": on_error}
    if k is not None:
        rest["k"] = k
    elements = [{**event, "values": wire_values(event["values"])} for event in events]
    call = Call("POST", matcher_path(matcher, "match"), Matched.from_json, **listed("events", elements, rest))
    return replace(call, asks=not notify)


def wire_values(values: Mapping[str, EventValue]) -> dict[str, Any]:
    """An event's values for the wire."""
    return {
        name: value if value is None or isinstance(value, int | float) else [finite(end) for end in value]
        for name, value in values.items()
    }
