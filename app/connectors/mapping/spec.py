"""The mapping file: TOML or JSON. It says which part of a message is which part of an event."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.connectors.errors import ConnectorError
from app.connectors.mapping.pointers import BadPointer, parse

MOST_BYTES = 64 << 10
MOST_NAMES = 64
"""Entries of a table of a mapping."""

Pointer = tuple[str, ...]

PARTS: Mapping[str, tuple[frozenset[str], frozenset[str]]] = {
    "boards": (frozenset({"id"}), frozenset({"op", "ops", "values", "payload"})),
    "feeds": (frozenset({"id"}), frozenset({"keywords", "text", "location", "payload"})),
    "maps": (frozenset({"id"}), frozenset({"location", "values", "payload"})),
    "matchers": (frozenset({"values"}), frozenset({"payload"})),
    "relays": (frozenset({"values"}), frozenset({"payload", "from"})),
}
"""The parts that an event of each type of resource needs, and those that it may have."""

OPS = ("upsert", "update", "delete")
_ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True)
class Spec:
    """A mapping: pointers by the name of the part. `values`, `payload` and `location` may have several."""

    type: str
    single: Mapping[str, Pointer]
    values: Mapping[str, Pointer] = field(default_factory=dict)
    location: tuple[Pointer, ...] = ()
    payload: Mapping[str, Pointer] = field(default_factory=dict)
    ops: Mapping[str, str] = field(default_factory=dict)
    events: Pointer | None = None
    redis_field: str | None = None


def read_spec(path: Path, type: str) -> Spec:
    """The mapping in a file, for one type of resource. Raises ConnectorError, which names the entry."""
    try:
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise ConnectorError(f"{path}: a mapping has at most {MOST_BYTES} bytes")
        text = raw.decode()
        data = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise ConnectorError(f"{path}: {error.strerror or error}") from None
    except (ValueError, RecursionError) as error:
        raise ConnectorError(f"{path} is no {'JSON' if path.suffix == '.json' else 'TOML'}: {error}") from None
    if not isinstance(data, dict):
        raise ConnectorError(f"{path} is no object")
    try:
        return parse_spec(data, type)
    except ConnectorError as error:
        raise ConnectorError(f"{path}: {error}") from None


def parse_spec(data: Mapping[str, Any], type: str) -> Spec:
    """A mapping from its parsed file. Raises ConnectorError, which names the entry."""
    needed, optional = PARTS[type]
    known = needed | optional | {"events", "redis"}
    for name in data:
        if name not in known:
            raise ConnectorError(f"{name}: no part of what {type} take; those are {', '.join(sorted(known))}")
    for name in sorted(needed - data.keys()):
        raise ConnectorError(f"{name}: missing, {type} need it")
    if "ops" in data and "op" not in data:
        raise ConnectorError("ops: there is no op whose words it could explain")
    if type == "feeds" and ("keywords" in data) == ("text" in data):
        raise ConnectorError("keywords, text: give one of them")
    payload = data.get("payload")
    return Spec(
        type,
        single={name: _pointer(name, data[name]) for name in ("id", "op", "keywords", "text", "from") if name in data}
        | ({"payload": _pointer("payload", payload)} if isinstance(payload, str) else {})
        | ({"location": _pointer("location", data["location"])} if isinstance(data.get("location"), str) else {}),
        values=_pointers("values", data.get("values", {}), _ATTRIBUTE),
        location=_location(data.get("location")),
        payload={} if payload is None or isinstance(payload, str) else _pointers("payload", payload),
        ops=_ops(data.get("ops", {})),
        events=_pointer("events", data["events"]) if "events" in data else None,
        redis_field=_redis(data.get("redis")),
    )


def _pointer(name: str, text: Any) -> Pointer:
    if not isinstance(text, str):
        raise ConnectorError(f"{name}: must be a JSON pointer as text")
    try:
        return parse(text)
    except BadPointer as error:
        raise ConnectorError(f"{name}: {error}") from None


def _pointers(name: str, table: Any, allowed: re.Pattern[str] | None = None) -> dict[str, Pointer]:
    if not isinstance(table, dict) or not table.keys() or len(table) > MOST_NAMES:
        if table == {} and name == "values":
            return {}
        raise ConnectorError(f"{name}: must be a table of 1 to {MOST_NAMES} JSON pointers")
    for key in table:
        if allowed is not None and not allowed.fullmatch(key):
            raise ConnectorError(f"{name}.{key}: no name of an attribute")
    return {key: _pointer(f"{name}.{key}", text) for key, text in table.items()}


def _location(given: Any) -> tuple[Pointer, ...]:
    if given is None or isinstance(given, str):
        return ()
    if not isinstance(given, Sequence) or len(given) != 2:
        raise ConnectorError("location: must be a JSON pointer to two numbers, or a list of two pointers")
    return tuple(_pointer(f"location[{i}]", text) for i, text in enumerate(given))


def _ops(table: Any) -> dict[str, str]:
    if not isinstance(table, dict) or len(table) > MOST_NAMES:
        raise ConnectorError(f"ops: must be a table of at most {MOST_NAMES} words")
    for word, op in table.items():
        if op not in OPS:
            raise ConnectorError(f"ops.{word}: {op!r} is none of {', '.join(OPS)}")
    return dict(table)


def _redis(table: Any) -> str | None:
    if table is None:
        return None
    if not isinstance(table, dict) or table.keys() != {"field"} or not isinstance(table["field"], str):
        raise ConnectorError('redis: must be a table with `field`: the name of a field, or "*" for all as an object')
    return table["field"]
