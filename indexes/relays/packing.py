"""The indexes of a relay as parts (`indexes.core.packing`), to be written to an image and mapped again.

Only G_k has arrays for its graph; G* and the poset are rebuilt.
"""

from __future__ import annotations

import numpy as np

from indexes.core.packing import PackedPart, packed, unpacked
from indexes.relays.config import UPSTREAM, RelayConfig
from indexes.relays.kernels.covering_index import CoverIndex
from indexes.relays.kernels.graph import Graph
from indexes.relays.kernels.slabs import SlabIndex
from indexes.relays.relations import Known, Relations
from indexes.relays.relay import Indexes, RelayState, relations_of

EVERYTHING = "everything"

PackedRelay = dict[str, PackedPart]


def pack_everything(index: SlabIndex) -> PackedRelay:
    """The index of all subscriptions, over the same memory."""
    return {EVERYTHING: packed(index.trimmed(), {})}


def pack_relations(i: int, relations: Known) -> PackedRelay:
    """What is known towards neighbour i, in order of name, over the same memory."""
    return {f"index{i}": packed(relations.index.trimmed(), {}), f"graph{i}": packed(relations.graph, {})}


def unpack_indexes(config: RelayConfig, state: RelayState, parts: PackedRelay) -> Indexes:
    """What was packed, for the state that it was made of, over the same memory. Raises KeyError, TypeError or
    ValueError where that is not what it was made to."""
    everything = SlabIndex(len(config.attributes))
    _put(everything, parts[EVERYTHING])
    found: dict[str, Relations] = {}
    for i, name in enumerate(state.links or (UPSTREAM,)):
        relations = relations_of(config)
        if isinstance(relations, Known):
            _put(relations.index, parts[f"index{i}"])
            graph: Graph = unpacked(Graph, parts[f"graph{i}"])
            concerned = np.flatnonzero(state.link != (i if state.links else -2)).astype(np.int32)
            relations.take_up(graph, concerned)
            found[name] = relations
    return Indexes(everything, found)


def _put(index: CoverIndex | SlabIndex, part: PackedPart) -> None:
    index.arrays = unpacked(type(index.arrays), part)
