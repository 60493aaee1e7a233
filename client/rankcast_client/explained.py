"""Explanations as typed values: what an event would do, and what a subscription costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from rankcast_client.models import Area, Entry, Tile

EffectKind: TypeAlias = Literal["better", "worse", "insertion", "deletion", "move", "payload", "nothing"]


def areas(data: Sequence[Mapping[str, Any]]) -> tuple[Area, ...]:
    """Areas from a response."""
    return tuple(map(Area.from_json, data))


@dataclass(frozen=True, slots=True)
class Exposed:
    """An object that comes into lists because the event's makes room, and where: `reached` subscriptions in all."""

    object: Entry
    tiles: tuple[Area, ...]
    reached: int

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Exposed:
        return cls(Entry.from_json(data["object"]), areas(data["tiles"]), data["reached"])


@dataclass(frozen=True, slots=True)
class Nearest:
    """The x of the nearest objects that rank before one, on its west and on its east, nearest first (those at its own x
    may be on either side): the first k of both bound where it is among the k best."""

    west: tuple[float, ...]
    east: tuple[float, ...]

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Nearest:
        return cls(tuple(data["west"]), tuple(data["east"]))


@dataclass(frozen=True, slots=True)
class Effect:
    """What an event does to the subscriptions of one `k`, and on boards with several range attributes of one `shape`.

    `before` and `after` are where the object is among the k best: strips from west to east, and with several range
    attributes or indexed fields rectangles of the subscriptions whose lists have it. `tiles` are those of the object
    itself, `exposed` of those that take its place. `tile_count` and `reached` (subscriptions on the tiles) are complete
    also where tiles are left out. `calls` counts the queries of painting to the indexes.
    """

    k: int
    before: tuple[Area, ...]
    after: tuple[Area, ...]
    tiles: tuple[Tile, ...]
    exposed: tuple[Exposed, ...]
    tile_count: int
    reached: int
    calls: Mapping[str, int]
    shape: str = "box"

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Effect:
        return cls(
            data["k"],
            areas(data["before"]),
            areas(data["after"]),
            tuple(Tile.from_json(tile) for tile in data["tiles"]),
            tuple(Exposed.from_json(one) for one in data["exposed"]),
            data["tile_count"],
            data["reached"],
            data["calls"],
            data.get("shape", "box"),
        )


@dataclass(frozen=True, slots=True)
class Explanation:
    """What an event would do, were it the next one after `seq`.

    `before` and `after` are the object as it is and as it would be, None where it is absent; `near_before` and
    `near_after` are what is near it then, up to the board's largest k, None with several range attributes or indexed
    fields. A `move` is one in any range attribute or indexed field. `affected` subscriptions would see their lists
    change. `truncated` says that not all of the `tile_count` tiles are shown.
    """

    seq: int
    kind: EffectKind
    before: Entry | None
    after: Entry | None
    near_before: Nearest | None
    near_after: Nearest | None
    classes: tuple[Effect, ...]
    tile_count: int
    affected: int
    truncated: bool = False

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Explanation:
        near_before, near_after = data["near"]["before"], data["near"]["after"]
        before, after = (None if data[at] is None else Entry.from_json(data[at]) for at in ("before", "after"))
        return cls(
            data["seq"],
            data["kind"],
            before,
            after,
            Nearest.from_json(near_before) if before and near_before else None,
            Nearest.from_json(near_after) if after and near_after else None,
            tuple(Effect.from_json(one) for one in data["classes"]),
            data["tile_count"],
            data["affected"],
            bool(data.get("truncated", False)),
        )

    @property
    def tiles(self) -> tuple[Tile, ...]:
        """All tiles in the order in which they apply: of the object that goes or stays, of those exposed, and last, in
        a move, of the object at its new place."""
        found: list[Tile] = []
        for one in self.classes:
            last = [tile for tile in one.tiles if self.kind == "move" and not tile.gone]
            found += [tile for tile in one.tiles if self.kind != "move" or tile.gone]
            found += [Tile.of(one.k, at, other.object) for other in one.exposed for at in other.tiles]
            found += last
        return tuple(found)


@dataclass(frozen=True, slots=True)
class SubscriptionCost:
    """What a subscription costs at `seq`.

    `kth` is the rank value that a newcomer has to beat, None while the list is not full. `share` is the part of events
    that change the list when each gives a random object a new place in rank. `live`: its list is kept, because
    `streams` are open or were a short while ago; since then there were `changes` messages, of which `kept` can be sent
    to a reader that reconnects. `bytes` is an estimate of the memory it takes.
    """

    seq: int
    id: str
    k: int
    objects_in_range: int
    list_length: int
    kth: float | None
    share: float
    live: bool
    streams: int
    kept: int
    changes: int
    bytes: int
    offset: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> SubscriptionCost:
        return cls(**{name: data[name] for name in cls.__dataclass_fields__ if name in data})
