"""Building the packed indexes of a relay: at once, or in parts, each by itself, also by several processes.

Slots number subscriptions by age. So the result depends on their boxes and links alone, and is the same to the last bit
whoever computes it.
"""

from __future__ import annotations

import numpy as np

from indexes.core.arrays import Floats, Ints32
from indexes.relays.config import RelayConfig
from indexes.relays.kernels.points import Points, empty_points, grown, write
from indexes.relays.kernels.slabs import SlabIndex
from indexes.relays.packing import PackedRelay, pack_everything, pack_relations
from indexes.relays.relations import Known
from indexes.relays.relay import NOWHERE, derived

EVERYTHING = -1
"""The part by which notifications are matched; the others are neighbours, by number in order of name."""


def parts_of(config: RelayConfig) -> list[int]:
    """The parts that there are. Of graphs other than G nothing is laid out but the index of everything."""
    neighbours = range(len(config.links) or 1) if config.graph == "G" else ()
    return [EVERYTHING, *neighbours]


def lay_out(config: RelayConfig, points: Floats, link: Ints32) -> PackedRelay:
    """All parts of subscriptions in order of age: their points (`points.as_points`), and the numbers of the links that
    they came over, in order of name, negative for none. O(n log^2 n) for each neighbour; any thread."""
    return join([lay_out_part(config, part, points, link) for part in parts_of(config)])


def lay_out_part(config: RelayConfig, part: int, points: Floats, link: Ints32) -> PackedRelay:
    """One part, as `lay_out`. The least set that covers all that concern a neighbour is forwarded to it: in its graph,
    what no edge leads to."""
    table, slots = _table(points), np.arange(len(points), dtype=np.int32)
    if part == EVERYTHING:
        index = SlabIndex(points.shape[1] // 2)
        index.load(table, slots)
        return pack_everything(index)
    relations = derived(config, table, slots[link != (part if config.links else NOWHERE)])
    assert isinstance(relations, Known), "other graphs have no such part"
    return pack_relations(part, relations)


def join(parts: list[PackedRelay]) -> PackedRelay:
    """What `lay_out` makes, out of all parts in the order of `parts_of`."""
    return {name: packed for part in parts for name, packed in part.items()}


def _table(points: Floats) -> Points:
    n, coordinates = points.shape
    table = grown(empty_points(0, coordinates), n)
    write(table, np.arange(n, dtype=np.int32), np.ascontiguousarray(points), 0)
    return table
