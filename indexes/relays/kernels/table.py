"""The table of all subscriptions of a relay, and a kernel that writes new ones into it and into the index for
notifications."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from indexes.compiled.jit import kernel
from indexes.compiled.kept import Words, declare, unpacked
from indexes.core.arrays import Bools, Floats, Ints32, int64
from indexes.relays.kernels.points import Points, empty_points, write_points
from indexes.relays.kernels.slab_codes import put_slots
from indexes.relays.kernels.slabs import SlabIndex

LOCAL = -1
"""The link number of local subscriptions."""


class Table(NamedTuple):
    """The columns of a relay, by slot: the point of the subscription, the number of the link that it came over, whether
    the slot is in use, and whether the subscription is doubtful."""

    points: Points
    link: Ints32
    there: Bools
    doubtful: Bools


class KeptTable(NamedTuple):
    """A table and the index, as kernels keep them."""

    words: Words


def empty_table(slots: int, coordinates: int) -> Table:
    """A table of so many slots."""
    no = np.zeros(slots, np.bool_)
    return Table(empty_points(slots, coordinates), np.full(slots, LOCAL, np.int32), no, no.copy())


declare(KeptTable, lambda: (empty_table(0, 2), SlabIndex(1).arrays))


@kernel
def begin(kept: Any, slots: Ints32, rows: Floats, link: Ints32, born: int, comes: Ints32) -> None:
    """Write new subscriptions into their slots: their points, and the numbers of their links, which may be left out
    where all are local. The first one has the age `born`. The slots in `comes` are added to the index, which has room
    for them."""
    table, index = unpacked(kept)
    write_points(table.points, slots, rows, born)
    for i in range(slots.size):
        s = int64(slots[i])
        table.link[s] = link[i] if link.size > 0 else LOCAL
        table.there[s] = True
        table.doubtful[s] = False
    put_slots(index, table.points, comes)
