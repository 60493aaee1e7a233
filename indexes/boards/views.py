"""What the engine shows: objects, subscriptions, tiles and changed lists in the user's own terms.

Rank values carry the user's sign again, unbounded ends are infinities in views of ranges and None in tiles.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import isinf
from typing import NamedTuple

import numpy as np
import numpy.typing as npt


class ObjectView(NamedTuple):
    """An object as the user wrote it. `payload` is compact JSON text."""

    id: str
    x: float
    y: float
    created: int
    payload: bytes | None


class SubscriptionView(NamedTuple):
    """A subscription; `l` and `r` are infinite where the range is unbounded."""

    id: str
    l: float
    r: float
    k: int
    ttl: float | None


class TileView(NamedTuple):
    """A rectangle of subscription space and the object its subscribers must hear of (paper, II-A).

    Reaches (l, r) iff l_outer < l <= l_inner and r_inner <= r < r_outer; None is an infinite side.
    """

    k: int
    l_outer: float | None
    l_inner: float | None
    r_inner: float | None
    r_outer: float | None
    object: ObjectView
    gone: bool


class TileRows(NamedTuple):
    """Tiles by column: the place of the event in its command, the four sides, x and y (one row of `numbers`; a side may
    be infinite), and the rest of a `TileView`."""

    event: list[int]
    numbers: npt.NDArray[np.float64]
    k: list[int]
    id: list[str]
    created: list[int]
    gone: list[bool]
    payload: list[bytes | None]

    def views(self) -> Iterator[tuple[int, TileView]]:
        """The tiles one by one, each with the place of its event."""
        for t, (*sides, x, y) in enumerate(self.numbers.tolist()):
            l_outer, l_inner, r_inner, r_outer = (None if isinf(side) else side for side in sides)
            shown = ObjectView(self.id[t], x, y, self.created[t], self.payload[t])
            yield self.event[t], TileView(self.k[t], l_outer, l_inner, r_inner, r_outer, shown, self.gone[t])


class ListEntry(NamedTuple):
    """One object that entered, left or got new values in one list. Ranks count from 1; None is outside the list."""

    id: str
    old_rank: int | None
    new_rank: int | None
    object: ObjectView | None


class ListChange(NamedTuple):
    """The net change of one live list at one seq. Equal changes of a seq share the same `entries` tuple."""

    seq: int
    live: int
    entries: tuple[ListEntry, ...]


class LiveTiles(NamedTuple):
    """The tiles of one seq that reach one live subscription, in the order in which they apply."""

    seq: int
    live: int
    tiles: tuple[TileView, ...]


class Slice(NamedTuple):
    """What live subscriptions must hear of after a stretch of commands, each list in order of seq.

    `moved` names subscriptions whose question changed (their net change is in `changes`), `gone` those deleted, whose
    live slots are free again.
    """

    last_seq: int
    changes: list[ListChange]
    tiles: list[LiveTiles]
    moved: list[tuple[int, int]]
    gone: list[tuple[int, int]]
