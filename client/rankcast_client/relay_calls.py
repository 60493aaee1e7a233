"""Every request to a relay as a value: what to send and how to read the answer. No I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rankcast_client.calls import Call, ResourceCalls, dumps, json_call, wire_ranges
from rankcast_client.errors import ProblemError
from rankcast_client.models import OnError
from rankcast_client.relay_models import (
    Answer,
    Box,
    Boxes,
    Command,
    Ended,
    NewBox,
    RelayInfo,
    answer_of,
)

RELAYS = ResourceCalls("relays", RelayInfo.from_json, Box.from_json)


def subscribe_many(relay: str, boxes: Iterable[NewBox], on_error: OnError) -> Call[Boxes]:
    elements = []
    for box in boxes:
        element: dict[str, Any] = dict(box)
        if "box" in box:
            element["box"] = wire_ranges(box["box"])
        elements.append(element)
    return RELAYS.publish(relay, "subscriptions", elements, Boxes.from_json, on_error=on_error)


def delete_box(relay: str, id: str) -> Call[Ended]:
    return Call("DELETE", RELAYS.path_of(relay, id), Ended.from_json)


def delete_boxes(relay: str, ids: Iterable[str]) -> Call[tuple[Ended, ...]]:
    def read(data: Any) -> tuple[Ended, ...]:
        return tuple(Ended.from_json(one) for one in data.get("results") or ())

    return json_call("POST", RELAYS.path(relay, "subscriptions", "delete"), read, {"ids": list(ids)})


def run_commands(relay: str, commands: Sequence[Command], on_error: OnError) -> Call[tuple[Answer, ...]]:
    lines = b"\n".join(map(dumps, commands))
    params = {"on_error": on_error}
    return Call("POST", RELAYS.path(relay, "commands"), _answers, params, lines, "application/x-ndjson", decode=_lines)


def _lines(content: bytes) -> list[Any]:
    return [json.loads(line) for line in content.splitlines() if line]


def _answers(lines: Sequence[Mapping[str, Any]]) -> tuple[Answer, ...]:
    """The results of a batch of commands. Raises ProblemError where it ended with one."""
    if lines and "problem" in lines[-1]:
        problem = lines[-1]["problem"]
        raise ProblemError.from_response(problem["status"], problem["title"], dumps(problem), None)
    return tuple(map(answer_of, lines))
