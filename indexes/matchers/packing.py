"""The indexes of a matcher as parts (`indexes.core.packing`), to be written to an image and mapped again."""

from __future__ import annotations

from typing import Any

from indexes.core.packing import PackedPart, packed, unpacked
from indexes.matchers.alternatives.lists import ListIndex, Lists
from indexes.matchers.alternatives.segments import SegmentIndex, Segments
from indexes.matchers.kernels.blocks import BlockIndex, Blocks
from indexes.matchers.kernels.cells import CellIndex, Cells
from indexes.matchers.kernels.run_index import RunIndex
from indexes.matchers.kernels.runs import Runs
from indexes.matchers.kernels.strategies import Sample
from indexes.matchers.layout import Indexes

PARTS: dict[str, tuple[type[Any], type[Any]]] = {
    "blocks": (BlockIndex, Blocks),
    "runs": (RunIndex, Runs),
    "lists": (ListIndex, Lists),
    "segments": (SegmentIndex, Segments),
    "cells": (CellIndex, Cells),
}
"""Each index and its arrays; its other attributes are numbers."""

SAMPLE = "sample"


PackedMatcher = dict[str, PackedPart]


def pack_indexes(indexes: Indexes) -> PackedMatcher:
    """Indexes by name, over the same memory."""
    parts = {name: getattr(indexes, name) for name in PARTS}
    made = {name: packed(part.arrays, _numbers(part)) for name, part in parts.items() if part is not None}
    return {**made, SAMPLE: packed(indexes.sample, {})}


def _numbers(part: Any) -> dict[str, Any]:
    return {name: value for name, value in vars(part).items() if name != "arrays"}


def unpack_indexes(image: PackedMatcher) -> Indexes:
    """What `pack_indexes` was given, over the same memory. Raises KeyError, TypeError or ValueError where that is not
    what it made."""
    parts: dict[str, Any] = dict.fromkeys(PARTS)
    for name in image.keys() - {SAMPLE}:
        kind, arrays = PARTS[name]
        parts[name] = object.__new__(kind)
        vars(parts[name]).update(image[name].numbers, arrays=unpacked(arrays, image[name]))
    return Indexes(**parts, sample=unpacked(Sample, image[SAMPLE]))
