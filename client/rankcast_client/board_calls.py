"""Every request to a board as a value: what to send and how to read the response. No I/O."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from rankcast_client.board_zones import BoardZones, StreamStart
from rankcast_client.calls import (
    Call,
    Page,
    ResourceCalls,
    changed,
    dumps,
    finite,
    given,
    json_call,
    page,
    segment,
    wire_ranges,
)
from rankcast_client.explained import Explanation, SubscriptionCost
from rankcast_client.models import (
    Algorithm,
    AnyRange,
    BoardInfo,
    Entry,
    Event,
    OnError,
    Pair,
    Published,
    Ranges,
    Registered,
    Subscription,
    Unset,
    Want,
    Where,
    entries,
)
from rankcast_client.shapes import Shape

BOARDS = ResourceCalls("boards", BoardInfo.from_json, Subscription.from_json)


# Objects


def write_object(method: str, board: str, id: str, values: Mapping[str, float] | None, payload: Any) -> Call[Published]:
    body = {**given(values=values), **changed(payload=payload)}
    return json_call(method, BOARDS.path(board, "objects", segment(id)), Published.from_json, body)


def delete_object(board: str, id: str) -> Call[Published]:
    return Call("DELETE", BOARDS.path(board, "objects", segment(id)), Published.from_json)


def get_object(board: str, id: str) -> Call[Entry]:
    return Call("GET", BOARDS.path(board, "objects", segment(id)), Entry.from_json)


def objects(board: str, limit: int, cursor: str | None) -> Call[Page[Entry]]:
    return page(BOARDS.path(board, "objects"), Entry.from_json, limit, cursor)


End = float | None | Mapping[str, float | None]


def top(
    board: str,
    l: End,  # noqa: E741
    r: End,
    k: int | None,
    offset: int,
    where: Where | None,
) -> Call[tuple[Entry, ...]]:
    params = _end_params("l", l) | _end_params("r", r)
    params |= {f"where.{name}": dumps(value).decode() for name, value in (where or {}).items()}
    params |= {name: str(value) for name, value in given(k=k, offset=offset or None).items()}
    return Call("GET", BOARDS.path(board, "top"), lambda data: entries(data["list"]), params)


def _end_params(name: str, end: End) -> dict[str, str]:
    named = {f"{name}.{at}": value for at, value in end.items()} if isinstance(end, Mapping) else {name: end}
    return {key: repr(value) for key, end in named.items() if (value := finite(end)) is not None}


# Asking why


def explain(board: str, event: Event, algorithm: Algorithm | None, epsilon: float | Unset | None) -> Call[Explanation]:
    body = {"event": event, **given(algorithm=algorithm), **changed(epsilon=epsilon)}
    return replace(json_call("POST", BOARDS.path(board, "explain"), Explanation.from_json, body), asks=True)


def explain_subscription(board: str, id: str) -> Call[SubscriptionCost]:
    return Call("GET", BOARDS.path_of(board, id, "explain"), SubscriptionCost.from_json)


# Zones


def zones(board: str) -> Call[BoardZones]:
    return Call("GET", BOARDS.path(board, "zones"), BoardZones.from_json)


def cut_zones(board: str) -> Call[BoardZones]:
    return Call("POST", BOARDS.path(board, "zones"), BoardZones.from_json)


def stream_start(board: str, id: str) -> Call[StreamStart]:
    return Call("GET", BOARDS.path_of(board, id, "start"), StreamStart.from_json)


# Subscriptions


def ranges_of(range: Pair | Ranges | None, attributes: Sequence[str]) -> Ranges:
    """A range by attribute. A pair is for the board's only one."""
    if range is None:
        return {}
    if isinstance(range, Mapping):
        return range
    if len(attributes) != 1:
        raise ValueError(f"the board has the range attributes {', '.join(attributes)}: say which the range is for")
    return {attributes[0]: pair(range)}


def pair(range: Any) -> Pair:
    low, high = range
    return low, high


def wire_region(range: AnyRange, attributes: Sequence[str]) -> dict[str, Any]:
    """The field that says a subscription's region."""
    if isinstance(range, Shape):
        return {range.name: range.wire()}
    return {"range": wire_ranges(ranges_of(range, attributes))}


def register(
    board: str, wants: Iterable[Want], attributes: Sequence[str], lists: bool | None, on_error: OnError
) -> Call[Registered]:
    elements = []
    for want in wants:
        element: dict[str, Any] = dict(want)
        if "range" in want:
            del element["range"]
            element |= wire_region(want["range"], attributes)
        elements.append(element)
    return BOARDS.publish(board, "subscriptions", elements, Registered.from_json, on_error=on_error, lists=lists)
