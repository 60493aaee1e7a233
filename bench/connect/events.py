"""The events that are carried: the same for every case."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random

OBJECTS = 5_000


def events(count: int) -> Iterator[str]:
    """Upserts of some thousand objects at random, as JSON."""
    draw = Random(1)
    for _ in range(count):
        values = {"distance": draw.randrange(3_000), "delay": draw.randrange(-60, 1_000)}
        yield json.dumps({"op": "upsert", "id": f"o{draw.randrange(OBJECTS)}", "values": values})
