"""Indexes as arrays and a few numbers, to be written to images and read again.

An image can be read only by the version of the code that wrote it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray


class PackedPart(NamedTuple):
    """One index: its arrays in one dimension, their shapes, and its numbers."""

    arrays: dict[str, NDArray[Any]]
    shapes: dict[str, list[int]]
    numbers: dict[str, Any]


def packed(arrays: Any, numbers: Mapping[str, Any]) -> PackedPart:
    """A named tuple of arrays, over the same memory, and numbers."""
    columns = {name: np.ascontiguousarray(array) for name, array in arrays._asdict().items()}
    return PackedPart(
        {name: array.ravel() for name, array in columns.items()},
        {name: list(array.shape) for name, array in columns.items()},
        dict(numbers),
    )


def unpacked(kind: type[Any], part: PackedPart) -> Any:
    """The inverse of `packed` for a named tuple of type `kind`, over the same memory. Raises KeyError, TypeError or
    ValueError if the part is not of that kind."""
    return kind(**{name: array.reshape(part.shapes[name]) for name, array in part.arrays.items()})
