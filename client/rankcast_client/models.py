"""The shapes of the wire as typed values: what the service answers, and what a caller sends.

Numbers stay as JSON gave them (integers come back as integers). `None` is an unbounded end of a range.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, NotRequired, TypeAlias, TypedDict

from rankcast_client.errors import FieldError, outcome
from rankcast_client.shapes import Disc, HalfPlane, Shape, Simplex, numbers, shape_in

Order: TypeAlias = Literal["asc", "desc"]
Algorithm: TypeAlias = Literal["sparse", "dense"]
Form: TypeAlias = Literal["changes", "tiles"]
Messages: TypeAlias = Literal["full", "count", "none"]
Mode: TypeAlias = Literal["each", "batch"]
OnError: TypeAlias = Literal["refuse", "skip"]
Pair: TypeAlias = tuple[float | None, float | None]
Ranges: TypeAlias = Mapping[str, Pair]
AnyRange: TypeAlias = Pair | Ranges | Shape
"""A pair is enough on a board with one range attribute; otherwise ranges by attribute, unbounded where left out. With
two attributes it may also be a disc, a half-plane or a simplex."""


Value: TypeAlias = str | float | bool | None
Where: TypeAlias = Mapping[str, Value]
"""What the payload must have in some of the board's indexed fields."""


class Unset:
    """The type of `UNSET`."""

    def __repr__(self) -> str:
        return "UNSET"


UNSET: Final = Unset()
"""Says "leave it as it is" where None means "take it away"."""


class Event(TypedDict):
    """One change of one object, made by `upsert`, `update` or `delete`."""

    op: Literal["upsert", "update", "delete"]
    id: str
    values: NotRequired[Mapping[str, float]]
    payload: NotRequired[Any]


def upsert(id: str, values: Mapping[str, float], payload: Any = UNSET) -> Event:
    """Insert the object or give it these values. All attributes for a new one."""
    event: Event = {"op": "upsert", "id": id, "values": values}
    if not isinstance(payload, Unset):
        event["payload"] = payload
    return event


def update(id: str, values: Mapping[str, float] | None = None, payload: Any = UNSET) -> Event:
    """An object that is there gets these values; those left out stay. `payload=None` takes the payload away."""
    event: Event = {"op": "update", "id": id}
    if values is not None:
        event["values"] = values
    if not isinstance(payload, Unset):
        event["payload"] = payload
    return event


def delete(id: str) -> Event:
    """The object goes."""
    return {"op": "delete", "id": id}


class Want(TypedDict):
    """One subscription to register, to the ranks offset + 1 to offset + k.

    `range` may be left out: everything. A missing id is generated, an offset left out is 0.
    """

    id: NotRequired[str]
    range: NotRequired[AnyRange]
    where: NotRequired[Where]
    k: int
    offset: NotRequired[int]
    ttl: NotRequired[float]


@dataclass(frozen=True, slots=True)
class Entry:
    """An object: alone, or as a member of a list, where its rank is its place, counted from the list's offset on."""

    id: str
    values: Mapping[str, float]
    created: int
    payload: Any = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Entry:
        return cls(data["id"], data["values"], data.get("created", -1), data.get("payload"))


def entries(data: Sequence[Mapping[str, Any]]) -> tuple[Entry, ...]:
    """A list as the service sends it, best first."""
    return tuple(Entry.from_json(entry) for entry in data)


@dataclass(frozen=True, slots=True)
class Sides:
    """One attribute's sides of a tile; None is an infinite side.

    Holds `(l, r)` iff `l_outer < l <= l_inner` and `r_inner <= r < r_outer`. An infinite outer side takes in every
    subscription on that side, unbounded ones too, and a finite one never takes in an unbounded one. An infinite inner
    side takes in the unbounded ones only.
    """

    l_outer: float | None
    l_inner: float | None
    r_inner: float | None
    r_outer: float | None

    def hold(self, l: float, r: float) -> bool:  # noqa: E741
        """Whether a subscription with these ends, infinite where unbounded, is inside."""
        return (
            (self.l_outer is None or self.l_outer < l)
            and l <= (-math.inf if self.l_inner is None else self.l_inner)
            and (math.inf if self.r_inner is None else self.r_inner) <= r
            and (self.r_outer is None or r < self.r_outer)
        )


@dataclass(frozen=True, slots=True)
class Reached:
    """The subscriptions that a tile reaches, by their filter on one indexed field: those without one if `any`, and
    those that want one of `values`."""

    any: bool
    values: tuple[Any, ...]

    def hold(self, where: Where, name: str) -> bool:
        """Whether a subscription with this filter is among them."""
        if name not in where:
            return self.any
        # True is 1 to Python, but not to the service.
        wanted = where[name]
        return any(value == wanted and isinstance(value, bool) == isinstance(wanted, bool) for value in self.values)


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle of subscriptions.

    `box` has the sides by range attribute; on a board with one, which the wire does not name, the key is "". One of
    subscriptions of another shape has none: `shape` names it, and `bounds` are the least and the largest value of each
    of its numbers, both included. `where` says for each indexed field which filters it reaches.
    """

    box: Mapping[str, Sides]
    shape: str = "box"
    bounds: tuple[Pair, ...] = ()
    where: Mapping[str, Reached] = field(default_factory=dict)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Area:
        shape = next((kind.name for kind in (Disc, HalfPlane, Simplex) if kind.name in data), "box")
        bounds = () if shape == "box" else tuple((low, high) for low, high in numbers(data[shape]))
        box = {}
        if "box" in data:
            box = {name: Sides(*sides) for name, sides in data["box"].items()}
        elif shape == "box":
            box = {"": Sides(data["l_outer"], data["l_inner"], data["r_inner"], data["r_outer"])}
        where = data.get("where", {}).items()
        return cls(box, shape, bounds, {name: Reached(one["any"], tuple(one["values"])) for name, one in where})

    def reaches(self, range: AnyRange, where: Where | None = None) -> bool:
        """Whether a subscription with this range or shape and this filter is in it."""
        if not all(reached.hold(where or {}, name) for name, reached in self.where.items()):
            return False
        if isinstance(range, Shape):
            inside = zip(self.bounds, numbers(range.wire()), strict=False)
            return range.name == self.shape and all(hold(pair, value) for pair, value in inside)
        if self.shape != "box":
            return False
        if isinstance(range, tuple):
            if len(self.box) != 1:
                raise ValueError(f"this board has the range attributes {', '.join(self.box)}: give a range for each")
            return next(iter(self.box.values())).hold(*ends(range))
        if "" in self.box:
            if len(range) > 1:
                raise ValueError("this board has one range attribute")
            return self.box[""].hold(*ends(next(iter(range.values()), (None, None))))
        return all(sides.hold(*ends(range.get(name, (None, None)))) for name, sides in self.box.items())


@dataclass(frozen=True, slots=True)
class Tile:
    """A rectangle of subscriptions and the change of an object that they receive.

    `box`, `shape`, `bounds` and `where` are those of its `area`. `gone` says that the object leaves (its values are the
    old ones). `event` is the index of its event in a request.
    """

    k: int
    box: Mapping[str, Sides]
    object: Entry
    gone: bool = False
    event: int | None = None
    shape: str = "box"
    bounds: tuple[Pair, ...] = ()
    where: Mapping[str, Reached] = field(default_factory=dict)

    @classmethod
    def of(cls, k: int, area: Area, object: Entry, gone: bool = False, event: int | None = None) -> Tile:
        """The tile of an area."""
        return cls(k, area.box, object, gone, event, area.shape, area.bounds, area.where)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Tile:
        thing = data["object"]
        gone = bool(thing.get("gone", False))
        return cls.of(data["k"], Area.from_json(data), Entry.from_json(thing), gone, data.get("event"))

    @property
    def area(self) -> Area:
        """The rectangle."""
        return Area(self.box, self.shape, self.bounds, self.where)

    def reaches(self, range: AnyRange, where: Where | None = None) -> bool:
        """Whether a subscription with this range or shape and this filter is on the tile (its k must be the tile's,
        too)."""
        return self.area.reaches(range, where)


def hold(pair: Pair, value: float) -> bool:
    """Whether a value is between two ends, both included."""
    low, high = ends(pair)
    return low <= value <= high


def ends(pair: Pair) -> tuple[float, float]:
    """A pair with infinities in place of None."""
    low, high = pair
    return -math.inf if low is None else low, math.inf if high is None else high


@dataclass(frozen=True, slots=True)
class Published:
    """What a write of objects did. `seq` is that of the last change, `applied` how many there were.

    `tiles` is there with `messages="full"` and `tile_count` with "full" or "count"; `truncated` says that not all tiles
    are shown. `errors` are the elements skipped with `on_error="skip"`, the first 1,000 of `error_count`. A
    `replayed` answer is that of an
    earlier attempt which had been applied; it has no tiles.
    """

    seq: int
    applied: int
    tile_count: int | None = None
    tiles: tuple[Tile, ...] | None = None
    truncated: bool = False
    errors: tuple[FieldError, ...] = ()
    replayed: bool = False
    error_count: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Published:
        tiles = data.get("tiles")
        return cls(
            data["seq"],
            data.get("applied", 1),
            data.get("tile_count"),
            None if tiles is None else tuple(Tile.from_json(tile) for tile in tiles),
            bool(data.get("truncated", False)),
            FieldError.all_in(data),
            *outcome(data),
        )


@dataclass(frozen=True, slots=True)
class Subscription:
    """A standing question: the best `k` objects within `range`, or within `shape` where that is one, behind the first
    `offset` of them.

    `list` is its answer at `seq`, if asked for.
    """

    id: str
    range: Ranges
    k: int
    ttl: float | None = None
    seq: int | None = None
    list: tuple[Entry, ...] | None = None
    offset: int = 0
    shape: Shape | None = None
    where: Where = field(default_factory=dict)

    @property
    def region(self) -> Ranges | Shape:
        """What it asks about: its shape, or its ranges."""
        return self.range if self.shape is None else self.shape

    @classmethod
    def from_json(cls, data: Mapping[str, Any], seq: int | None = None) -> Subscription:
        ranges = {name: (low, high) for name, (low, high) in data.get("range", {}).items()}
        shown = data.get("list")
        answer = None if shown is None else entries(shown)
        place = data.get("seq", seq), answer, data.get("offset", 0)
        return cls(data["id"], ranges, data["k"], data.get("ttl"), *place, shape_in(data), data.get("where", {}))


@dataclass(frozen=True, slots=True)
class Registered:
    """What became of a registration: the subscriptions that were made, in the order asked for.

    `errors` are those skipped with `on_error="skip"`, the first 1,000 of `error_count`. A `replayed` answer,
    that of an earlier attempt which had
    been applied, has no lists.
    """

    seq: int
    subscriptions: tuple[Subscription, ...]
    errors: tuple[FieldError, ...] = ()
    replayed: bool = False
    error_count: int = 0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Registered:
        seq = data["seq"]
        made = tuple(Subscription.from_json(one, seq) for one in data.get("subscriptions") or ())
        return cls(seq, made, FieldError.all_in(data), *outcome(data))


@dataclass(frozen=True, slots=True)
class BoardInfo:
    """A board's configuration. What else the service says of it (sizes) is in `more`."""

    name: str
    range_attributes: tuple[str, ...]
    rank: str
    order: Order
    ks: tuple[int, ...]
    algorithm: Algorithm
    epsilon: float | None
    seq: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict)
    indexed: tuple[str, ...] = ()

    @classmethod
    def from_json(cls, name: str, data: Mapping[str, Any]) -> BoardInfo:
        known = {"name", "range_attributes", "rank", "ks", "algorithm", "epsilon", "seq", "indexed"}
        return cls(
            data.get("name", name),
            tuple(data["range_attributes"]),
            data["rank"]["attribute"],
            data["rank"].get("order", "asc"),
            tuple(data["ks"]),
            data.get("algorithm", "sparse"),
            data.get("epsilon"),
            data.get("seq"),
            {name: value for name, value in data.items() if name not in known},
            tuple(data.get("indexed", ())),
        )


@dataclass(frozen=True, slots=True)
class ChangedEntry:
    """One object that entered a list (`old_rank` None), left it (`new_rank` None) or got new values.

    Ranks count over the whole ranking: a list with an offset begins at rank offset + 1. `entry` is there with a new
    rank, and with an old one, where they were asked for, `old_values`: what the object had before.
    """

    id: str
    old_rank: int | None
    new_rank: int | None
    entry: Entry | None
    old_values: Mapping[str, float] | None = None

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> ChangedEntry:
        new_rank = data.get("new_rank")
        entry = None if new_rank is None else Entry.from_json(data)
        return cls(data["id"], data.get("old_rank"), new_rank, entry, data.get("old_values"))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The list with which a stream begins. Its first entry has the rank offset + 1."""

    seq: int
    entries: tuple[Entry, ...]
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Reset:
    """The whole list again, after a gap that could not be filled or a change of the subscription."""

    seq: int
    entries: tuple[Entry, ...]
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Change:
    """What entered, left or got new values. Objects that only shift are not named."""

    seq: int
    changes: tuple[ChangedEntry, ...]


@dataclass(frozen=True, slots=True)
class Tiles:
    """The tiles of one seq that reach the subscription, in the order in which they apply (`form="tiles"`)."""

    seq: int
    tiles: tuple[Tile, ...]


@dataclass(frozen=True, slots=True)
class Ready:
    """The connection has caught up: what comes from here on is new."""

    seq: int


@dataclass(frozen=True, slots=True)
class Missed:
    """Events before this seq may be missing: the connection was lost for too long, or the reader was too slow."""

    seq: int


@dataclass(frozen=True, slots=True)
class Gone:
    """The subscription, or its board, was deleted."""

    seq: int | None


StreamEvent: TypeAlias = Snapshot | Reset | Change | Tiles | Ready
