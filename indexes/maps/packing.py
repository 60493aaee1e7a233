"""The index of a map's objects as parts (`indexes.parts`), to be written down and taken up again."""

from __future__ import annotations

from typing import Any

from indexes.maps.rtree import Tree
from indexes.parts import PackedPart, packed, unpacked

OBJECTS = "objects"

PackedMap = dict[str, PackedPart]


def pack_index(tree: Tree) -> PackedMap:
    """A packed tree by name, over the same memory."""
    return {OBJECTS: packed(tree, {})}


def unpack_index(image: PackedMap) -> Tree:
    """What `pack_index` was given, over the same memory. Raises KeyError, TypeError or ValueError where that is not
    what it made."""
    tree: Any = unpacked(Tree, image[OBJECTS])
    return Tree(*tree)
