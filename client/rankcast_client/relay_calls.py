"""Every request to a relay as a value: what to send and how to read the answer. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rankcast_client.calls import Call, Page, dumps, json_call, listed, page, segment, seq_of, wire_ranges
from rankcast_client.errors import ProblemError
from rankcast_client.models import OnError, Pair, Unset
from rankcast_client.relay_models import (
    Answer,
    Box,
    Boxes,
    Command,
    Ended,
    GraphKind,
    LinkChange,
    NewBox,
    Notification,
    Notified,
    RelayIndex,
    RelayInfo,
    answer_of,
)

ARROW = "application/vnd.apache.arrow.stream"


def relay_path(relay: str, *parts: str) -> str:
    """`/v1/relays/{relay}/...`; raises ValueError for what cannot be a name."""
    return "/".join(["/v1/relays", segment(relay), *parts])


def put_relay(
    relay: str,
    attributes: Sequence[str],
    graph: GraphKind | None,
    k: int | None,
    index: RelayIndex | None,
    links: Mapping[str, LinkChange] | None,
) -> Call[RelayInfo]:
    body: dict[str, Any] = {"attributes": list(attributes)}
    if graph is not None or k is not None:
        body["graph"] = {"kind": graph or "G", **({} if k is None else {"k": k})}
    if index is not None:
        body["index"] = index
    if links is not None:
        body["links"] = {name: dict(link) for name, link in links.items()}
    return json_call("PUT", relay_path(relay), lambda data: RelayInfo.from_json(relay, data), body)


def patch_relay(relay: str, links: Mapping[str, LinkChange | None]) -> Call[RelayInfo]:
    body = {"links": {name: None if link is None else dict(link) for name, link in links.items()}}
    return json_call("PATCH", relay_path(relay), lambda data: RelayInfo.from_json(relay, data), body)


def relay_info(relay: str) -> Call[RelayInfo]:
    return Call("GET", relay_path(relay), lambda data: RelayInfo.from_json(relay, data))


def delete_relay(relay: str) -> Call[int]:
    return Call("DELETE", relay_path(relay), seq_of)


def relays(limit: int, cursor: str | None) -> Call[Page[RelayInfo]]:
    return page("/v1/relays", lambda data: RelayInfo.from_json(str(data.get("name", "")), data), limit, cursor)


def subscribe_many(relay: str, boxes: Iterable[NewBox], on_error: OnError) -> Call[Boxes]:
    elements = []
    for box in boxes:
        element: dict[str, Any] = dict(box)
        if "box" in box:
            element["box"] = wire_ranges(box["box"])
        elements.append(element)
    path = relay_path(relay, "subscriptions")
    return Call("POST", path, Boxes.from_json, **listed("subscriptions", elements, {"on_error": on_error}))


def subscribe_arrow(relay: str, stream: bytes, on_error: OnError) -> Call[Boxes]:
    return Call("POST", relay_path(relay, "subscriptions"), Boxes.from_json, {"on_error": on_error}, stream, ARROW)


def write_box(
    method: str,
    relay: str,
    id: str,
    box: Mapping[str, Pair | None] | None,
    link: str | None,
    ttl: float | Unset | None,
) -> Call[Box]:
    body: dict[str, Any] = {}
    if box is not None:
        given = {name: pair for name, pair in box.items() if pair is not None}
        body["box"] = {**dict.fromkeys(box), **wire_ranges(given)}
    if link is not None:
        body["link"] = link
    if not isinstance(ttl, Unset):
        body["ttl"] = ttl
    return json_call(method, relay_path(relay, "subscriptions", segment(id)), Box.from_json, body)


def get_box(relay: str, id: str) -> Call[Box]:
    return Call("GET", relay_path(relay, "subscriptions", segment(id)), Box.from_json)


def delete_box(relay: str, id: str) -> Call[Ended]:
    return Call("DELETE", relay_path(relay, "subscriptions", segment(id)), Ended.from_json)


def delete_boxes(relay: str, ids: Iterable[str]) -> Call[tuple[Ended, ...]]:
    def read(data: Any) -> tuple[Ended, ...]:
        return tuple(Ended.from_json(one) for one in data.get("results") or ())

    return json_call("POST", relay_path(relay, "subscriptions", "delete"), read, {"ids": list(ids)})


def boxes(relay: str, limit: int, cursor: str | None) -> Call[Page[Box]]:
    return page(relay_path(relay, "subscriptions"), Box.from_json, limit, cursor)


def run_commands(relay: str, commands: Sequence[Command], on_error: OnError) -> Call[tuple[Answer, ...]]:
    lines = b"\n".join(map(dumps, commands))
    params = {"on_error": on_error}
    return Call("POST", relay_path(relay, "commands"), _answers, params, lines, "application/x-ndjson", decode=_lines)


def _lines(content: bytes) -> list[Any]:
    return [json.loads(line) for line in content.splitlines() if line]


def _answers(lines: Sequence[Mapping[str, Any]]) -> tuple[Answer, ...]:
    """The answers of a conversation. Raises ProblemError where it ended with one."""
    if lines and "problem" in lines[-1]:
        problem = lines[-1]["problem"]
        raise ProblemError.from_response(problem["status"], problem["title"], dumps(problem), None)
    return tuple(map(answer_of, lines))


def notify(relay: str, notifications: Iterable[Notification], on_error: OnError) -> Call[Notified]:
    path, rest = relay_path(relay, "notifications"), {"on_error": on_error}
    return Call("POST", path, Notified.from_json, **listed("notifications", list(notifications), rest))
