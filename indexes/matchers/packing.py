"""The indexes of a matcher as parts (`indexes.parts`), to be written down and taken up again."""

from __future__ import annotations

from typing import Any

from indexes.matchers.blocks import BlockIndex, Blocks
from indexes.matchers.dynamic import RunIndex
from indexes.matchers.layout import Indexes
from indexes.matchers.lists import ListIndex, Lists
from indexes.matchers.runs import Runs
from indexes.matchers.segments import SegmentIndex, Segments
from indexes.matchers.ways import Sample
from indexes.parts import PackedPart, packed, unpacked

PARTS: dict[str, tuple[type[Any], type[Any]]] = {
    "blocks": (BlockIndex, Blocks),
    "runs": (RunIndex, Runs),
    "lists": (ListIndex, Lists),
    "segments": (SegmentIndex, Segments),
}
"""Each index and its arrays; what it holds besides are numbers."""

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
