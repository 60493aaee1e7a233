"""The zones of a board, in which its tiles are published on NATS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rankcast_client.models import Entry, Pair, entries


@dataclass(frozen=True, slots=True)
class BoardZone:
    """One zone: `l` and `r` of its subscriptions, from the lower end on and below the upper one, None for unbounded.
    `rate` is in messages a second, of late."""

    id: int
    l: Pair  # noqa: E741
    r: Pair
    subscriptions: int
    rate: float


@dataclass(frozen=True, slots=True)
class BoardZones:
    """The zones of a board under a version. `subject` is that of a zone but for its id; NATS has everything up to the
    seq `published`."""

    seq: int
    version: int
    subject: str
    published: int | None
    zones: tuple[BoardZone, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> BoardZones:
        zones = tuple(
            BoardZone(one["id"], tuple(one["l"]), tuple(one["r"]), one["subscriptions"], one["rate"])
            for one in data["zones"]
        )
        return cls(data["seq"], data["version"], data["subject"], data["published"], zones)


@dataclass(frozen=True, slots=True)
class StreamStart:
    """What a stream of a subscription begins with, at `seq`: its list from the first rank on. It goes on with the tiles
    of `k` that are published in its `zone`, None where they are not."""

    seq: int
    epoch: str
    range: Pair
    k: int
    offset: int
    zone: int | None
    version: int | None
    list: tuple[Entry, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> StreamStart:
        zone = data["zone"] or {"zone": None, "version": None}
        return cls(
            data["seq"],
            data["epoch"],
            (data["l"], data["r"]),
            data["k"],
            data["offset"],
            zone["zone"],
            zone["version"],
            entries(data["list"]),
        )
