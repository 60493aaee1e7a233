"""What a board must hold after a stream of messages, worked out without the service and without the connector."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from random import Random
from typing import Any

BOARD = {"range_attributes": ["x"], "rank": {"attribute": "y"}, "ks": [5]}
ATTRIBUTES = ("x", "y")
IDS = 40


@dataclass
class Model:
    """A board and what was refused. `seq` is that of a board that was made by the change 0."""

    seq: int = 0
    created: int = 0
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    refused: list[tuple[str, int | None]] = field(default_factory=list)

    def take(self, message: bytes) -> None:
        """Apply a message. What is refused is noted with its place in it, None for the whole."""
        text = message.decode()
        try:
            value = json.loads(text)
        except ValueError:
            self.refused.append((text, None))
            return
        for index, event in enumerate(value if isinstance(value, list) else [value]):
            if not self._apply(event):
                self.refused.append((text, index))

    def _apply(self, event: dict[str, Any]) -> bool:
        op, id, values = event.get("op"), event.get("id"), event.get("values", {})
        known = self.objects.get(str(id))
        if op not in ("upsert", "update", "delete") or not set(values) <= set(ATTRIBUTES):
            return False
        if not all(isinstance(value, int | float) for value in values.values()):
            return False
        if op != "upsert" and known is None:
            return False
        if op == "delete":
            del self.objects[str(id)]
        elif known is None:
            if len(values) < len(ATTRIBUTES):
                return False
            self.objects[str(id)] = {"id": id, "values": values, "created": self.created}
            self.created += 1
        else:
            known["values"] = {**known["values"], **values}
        self.seq += 1
        return True


def messages(draw: Random, count: int) -> list[bytes]:
    """Messages as a careless producer sends them: events, lists of events, some wrong, some that are no JSON."""
    found = []
    for _ in range(count):
        if draw.random() < 0.02:
            found.append(draw.choice([b"{", b"nothing", b'{"op": "upsert"} {}', b'"a\\', b'{"a": NaN}']))
        elif draw.random() < 0.1:
            found.append(json.dumps([_event(draw) for _ in range(draw.randrange(4))]).encode())
        else:
            found.append(json.dumps(_event(draw)).encode())
    return found


def _event(draw: Random) -> dict[str, Any]:
    id = f"o{draw.randrange(IDS)}"
    kind = draw.random()
    if kind < 0.1:
        return {"op": "delete", "id": id}
    if kind < 0.3:
        return {"op": "update", "id": id, "values": {"y": draw.randrange(1000)}}
    if kind < 0.33:
        return {"op": "upsert", "id": id, "values": {"x": "far", "y": 1}}
    if kind < 0.35:
        return {"op": "upsert", "id": id, "values": {"z": 1}}
    return {"op": "upsert", "id": id, "values": {"x": draw.randrange(1000), "y": draw.randrange(1000)}}
