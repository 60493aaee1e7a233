"""The index of a map as parts (see `indexes.core.packing`), to be written to an image and mapped again."""

from __future__ import annotations

from typing import Any

from indexes.core.packing import PackedPart, packed, unpacked
from indexes.maps.kernels.rtree import Tree

OBJECTS = "objects"

PackedMap = dict[str, PackedPart]


def pack_index(tree: Tree) -> PackedMap:
    """A packed tree by name, over the same memory."""
    return {OBJECTS: packed(tree, {})}


def unpack_index(image: PackedMap) -> Tree:
    """The tree that `pack_index` was given, over the same memory. Raises KeyError, TypeError or ValueError for parts
    that it has not made."""
    tree: Any = unpacked(Tree, image[OBJECTS])
    return Tree(*tree)
