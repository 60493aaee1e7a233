"""Every request to a matcher as a value: what to send and how to read the answer. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rankcast_client.calls import Call, ResourceCalls, finite, given, listed, wire_ranges
from rankcast_client.matches import (
    EventValue,
    Interest,
    Interests,
    Matched,
    MatcherInfo,
    MatchEvent,
    NewInterest,
)
from rankcast_client.models import OnError, Pair

MATCHERS = ResourceCalls("matchers", MatcherInfo.from_json, Interest.from_json)


def register(matcher: str, interests: Iterable[NewInterest], on_error: OnError) -> Call[Interests]:
    elements = []
    for interest in interests:
        element: dict[str, Any] = dict(interest)
        if "intervals" in interest:
            element["intervals"] = wire_ranges(interest["intervals"])
        elements.append(element)
    return MATCHERS.publish(matcher, "subscriptions", elements, Interests.from_json, on_error=on_error)


def interest_fields(
    intervals: Mapping[str, Pair | None] | None, weights: Mapping[str, float | None] | None, score: float | None
) -> dict[str, Any]:
    """The fields of a subscription that are given."""
    return given(
        intervals=None if intervals is None else wire_ranges(intervals),
        weights=None if weights is None else dict(weights),
        score=score,
    )


def match(
    matcher: str, events: Sequence[MatchEvent], k: int | None, explain: bool, notify: bool, on_error: OnError
) -> Call[Matched]:
    """A question, unless it notifies."""
    elements = [{**event, "values": wire_values(event["values"])} for event in events]
    rest = given(k=k, explain=explain, notify=notify, on_error=on_error)
    call = Call("POST", MATCHERS.path(matcher, "match"), Matched.from_json, **listed("events", elements, rest))
    return replace(call, asks=not notify)


def wire_values(values: Mapping[str, EventValue]) -> dict[str, Any]:
    """An event's values for the wire."""
    return {
        name: value if value is None or isinstance(value, int | float) else [finite(end) for end in value]
        for name, value in values.items()
    }
