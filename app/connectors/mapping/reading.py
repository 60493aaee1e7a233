"""A message as the events in it, each as JSON for a request, or as what is wrong with it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from app.connectors.mapping.pointers import Missing, find
from app.connectors.mapping.spec import OPS, Pointer, Spec
from app.connectors.messages import DeadLetter, Message, Reason

MOST_EVENTS = 1_000
"""Events of one message."""

SHOWN = 60
"""Characters of a wrong value in a reason."""

_SURROGATE = "\\ud"
_NUMBER = re.compile(r"\s*-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?\s*")
_LONGEST_NUMBER = 400


class Wrong(Exception):
    """A message or event cannot be one; `reasons` name the fields."""

    def __init__(self, *reasons: Reason) -> None:
        super().__init__(reasons)
        self.reasons = reasons


@dataclass(frozen=True, slots=True)
class Read:
    """A message that was read: its events as JSON with their places in it, and what is wrong with the others."""

    message: Message
    events: tuple[str, ...]
    places: tuple[int, ...]
    refused: tuple[DeadLetter, ...]
    size: int

    def letter(self, event: int, reasons: tuple[Reason, ...], certain: bool = True) -> DeadLetter:
        """The dead letter of one of the events."""
        message = self.message
        return DeadLetter(message.position, message.lane, self.places[event], reasons, self.events[event], certain)


class Reader:
    """Reads messages: by a mapping, or those that are events already. None longer than `most_bytes` is parsed."""

    def __init__(self, spec: Spec | None = None, most_bytes: int = 256 << 10) -> None:
        self._spec = spec
        self._most_bytes = most_bytes

    def read(self, message: Message) -> Read:
        """The events of a message. Nothing that it holds makes this fail."""
        data = message.data
        try:
            if message.fault:
                raise Wrong(Reason("", message.fault))
            if len(data) > self._most_bytes:
                raise Wrong(Reason("", f"has {len(data)} bytes, more than the {self._most_bytes} of --max-message"))
            text, value = _parsed(data)
            if self._spec is None and isinstance(value, dict):
                return Read(message, (text,), (0,), (), len(text))
            elements = _elements(value, self._spec)
        except Wrong as wrong:
            whole = data.decode("utf-8", "replace")
            letter = DeadLetter(message.position, message.lane, None, wrong.reasons, whole)
            return Read(message, (), (), (letter,), len(data))
        return self._read_all(message, elements)

    def _read_all(self, message: Message, elements: list[Any]) -> Read:
        events: list[str] = []
        places: list[int] = []
        refused: list[DeadLetter] = []
        for index, element in enumerate(elements):
            try:
                if not isinstance(element, dict):
                    raise Wrong(Reason("", f"is {_kind(element)}, not an object"))
                events.append(_packed(element if self._spec is None else mapped(self._spec, element)))
            except Wrong as wrong:
                text = json.dumps(element, separators=(",", ":"))
                refused.append(DeadLetter(message.position, message.lane, index, wrong.reasons, text))
                continue
            places.append(index)
        size = sum(map(len, events)) + len(message.data)
        return Read(message, tuple(events), tuple(places), tuple(refused), size)


def _parsed(data: bytes) -> tuple[str, Any]:
    """The text of a message and its value. What is returned is one JSON value, and can be pasted among others."""
    try:
        text = data.decode()
        value = json.loads(text, parse_constant=_no_constant)
        if _SURROGATE in text or "\\uD" in text:
            # Half a character, which Python reads and others do not.
            json.dumps(value, ensure_ascii=False).encode()
        return text, value
    except UnicodeError:
        raise Wrong(Reason("", "is not UTF-8")) from None
    except RecursionError:
        raise Wrong(Reason("", "is nested too deeply")) from None
    except ValueError as error:
        raise Wrong(Reason("", f"is not JSON: {error}")) from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _packed(event: Mapping[str, Any]) -> str:
    try:
        return json.dumps(event, separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise Wrong(Reason("", "has a number that is too large")) from None


def _elements(value: Any, spec: Spec | None) -> list[Any]:
    if spec is not None and spec.events is not None:
        try:
            value = find(spec.events, value)
        except Missing:
            raise Wrong(Reason("events", f"nothing is at {shown(spec.events)}")) from None
        if not isinstance(value, list):
            raise Wrong(Reason("events", f"{shown(spec.events)} is {_kind(value)}, not a list"))
    if isinstance(value, dict):
        return [value]
    if not isinstance(value, list):
        raise Wrong(Reason("", f"is {_kind(value)}, not an event or a list"))
    if len(value) > MOST_EVENTS:
        raise Wrong(Reason("", f"has {len(value)} events, more than {MOST_EVENTS}"))
    return value


def mapped(spec: Spec, source: Mapping[str, Any]) -> dict[str, Any]:
    """The event that a mapping makes of a part of a message. Raises Wrong, with all that is wrong."""
    event: dict[str, Any] = {}
    wrong: list[Reason] = []

    def take(name: str, keys: Pointer, read: Any, into: dict[Any, Any], key: Any, needed: bool = False) -> None:
        try:
            value = find(keys, source)
        except Missing:
            value = None
        if value is None:
            if needed:
                wrong.append(Reason(name, f"nothing is at {shown(keys)}"))
            return
        try:
            into[key] = read(value)
        except ValueError as error:
            wrong.append(Reason(name, f"{shown(keys)} {error}"))

    single = spec.single
    if spec.type == "boards":
        event["op"] = "upsert"
    if "op" in single:
        take("op", single["op"], lambda value: _op(spec.ops, value), event, "op")
    if "id" in single:
        take("id", single["id"], _id, event, "id", needed=True)
    values: dict[str, Any] = {}
    for name, keys in spec.values.items():
        take(f"values.{name}", keys, _number, values, name)
    if spec.values and event.get("op") != "delete":
        event["values"] = values
    for name in ("keywords", "text", "from", "payload"):
        if name in single and not (name == "payload" and event.get("op") == "delete"):
            take(name, single[name], _same, event, name)
    if "location" in single:
        take("location", single["location"], _place, event, "location")
    if spec.location:
        place: dict[int, Any] = {}
        for i, keys in enumerate(spec.location):
            take(f"location[{i}]", keys, _number, place, i)
        if len(place) == 2:
            event["location"] = [place[0], place[1]]
    if spec.payload and event.get("op") != "delete":
        payload: dict[str, Any] = {}
        for name, keys in spec.payload.items():
            take(f"payload.{name}", keys, _same, payload, name)
        event["payload"] = payload
    if wrong:
        raise Wrong(*wrong)
    return event


def shown(keys: Pointer) -> str:
    """A pointer as text."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in keys) or "the whole"


def _same(value: Any) -> Any:
    return value


def _op(words: Mapping[str, str], value: Any) -> str:
    op = words.get(value, value) if isinstance(value, str) else None
    if op not in OPS:
        raise ValueError(f"is {_kind(value)}, none of {', '.join((*OPS, *words))}")
    return op


def _id(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    raise ValueError(f"is {_kind(value)}, not text or an integer")


def _number(value: Any) -> Any:
    """A number; a text that is one counts too, since many send them so. What overflows is none."""
    if isinstance(value, str) and len(value) <= _LONGEST_NUMBER and _NUMBER.fullmatch(value):
        value = json.loads(value)
    if isinstance(value, list) and len(value) == 2:
        return [_number(one) for one in value]
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or (isinstance(value, float) and math.isinf(value))
    ):
        raise ValueError(f"is {_kind(value)}, not a number")
    return value


def _place(value: Any) -> Any:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"is {_kind(value)}, not a list of two numbers")
    return [_number(one) for one in value]


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, str):
        text = json.dumps(value[:SHOWN])
        return f"the text {text}" if len(value) <= SHOWN else f"a text that begins {text}"
    if isinstance(value, dict | list):
        return "an object" if isinstance(value, dict) else "a list"
    return f"the number {str(value)[:SHOWN]}"
