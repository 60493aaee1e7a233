"""What one subscription costs, and how likely the next event is to change its list."""

from __future__ import annotations

from typing import NamedTuple

from indexes.boards.regions import Region, widest
from indexes.boards.store import BoardStore

INDEXED = 62
"""Bytes of a subscription in its index and in the columns by sid, as measured on large boards with one range
attribute."""

POINT, SIDE, COLUMNS, COLUMN = 24, 13, 9, 8
"""With several: bytes of a point of the tree of subscriptions and of each side of its region there, as measured, and in
the columns by sid, which have room for the widest region."""

PACKED_ID, RECENT_ID = 12, 151
"""Bytes of an id in addition to its characters, at most: among the sorted ids, of which most leave out what they share
with the one before, and in the dict of those that came since."""

LIVE, ENTRY = 500, 8
"""Bytes of a live list in the index of live lists and in its columns, and of each of the k places in it."""


class SubscriptionCost(NamedTuple):
    """`k` and `offset` are the subscription's, `list_length` the objects that it shows.

    `kth` is the rank value, with the user's sign, that a newcomer has to beat to be among the offset + k best; None
    where there are fewer. `share` is the part of events that would change the list (see `share_of`), `nbytes` an
    estimate.
    """

    objects_in_range: int
    k: int
    offset: int
    list_length: int
    kth: float | None
    share: float
    nbytes: int


def cost_of(board: BoardStore, key: str) -> SubscriptionCost | None:
    """What the subscription of an id costs, or None. O((offset + k) log n); with several range attributes or indexed
    fields O(objects in range) and two searches."""
    view = board.subscription(key)
    if view is None:
        return None
    region = board.filters.region(view.region, view.where)
    inside = board.catalogue.view.count_in(region)
    best = board.top(view.region, view.k, view.offset, view.where)
    ids, depth = board.subscribers.ids, view.offset + view.k
    nbytes = _indexed(region, board.config.dimensions) + len(key) + (RECENT_ID if key in ids.recent else PACKED_ID)
    if ids.find(key) in board.live_of:
        nbytes += LIVE + ENTRY * depth
    kth = best[-1].y if len(best) == view.k else None
    share = share_of(inside, depth, board.object_count, view.offset)
    return SubscriptionCost(inside, view.k, view.offset, len(best), kth, share, nbytes)


def _indexed(region: Region, d: int) -> int:
    """Bytes of a subscription without its id."""
    return INDEXED if d == 1 else POINT + SIDE * len(region.sides) + COLUMNS + COLUMN * widest(d)


def share_of(inside: int, k: int, objects: int, offset: int = 0) -> float:
    """The part of events that change the ranks offset + 1 to `k` of the `inside` objects of a range, in a board of
    `objects`, when each event gives a random object, wherever it is, a new rank value that is as likely to take any
    place among the objects of the range as any other (the updates of [Range top-k] V).

    An object of the range changes them unless it is behind them, or before them, both before and after the event. So
    they are a part 1 - (1 - k / inside)^2 - (offset / inside)^2 of those that meet the range.

    >>> share_of(0, 5, 100), share_of(4, 5, 100), share_of(8, 4, 100), share_of(8, 4, 100, offset=2)
    (0.0, 0.04, 0.06, 0.055)
    """
    if inside == 0:
        return 0.0
    behind, before = 1.0 - min(k, inside) / inside, min(offset, inside) / inside
    return inside / objects * (1.0 - behind * behind - before * before)
