"""What a relay knows."""

from __future__ import annotations

from indexes.relays.engine import RelayEngine
from tests.oracles.relay_http import least
from tests.unit.relays.direct import box


def known(engine: RelayEngine) -> dict[str, tuple[list[str], list[str]]]:
    """By neighbour: what it has been told of, and the least that it would have to know; oldest first."""
    relay, found = engine.relay, {}
    for to in relay.neighbours:
        keys = relay._keys(relay._subject(to), {})
        chosen = least({key: list(box(relay, key).values()) for key in keys})
        found[to] = relay.forwarded(to), [key for key in keys if key in chosen]
    return found
