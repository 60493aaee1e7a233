"""Indexes as arrays and a few numbers, to be written down and taken up again.

What is written is of use only to the very code that laid it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt


class PackedPart(NamedTuple):
    """One index: its arrays in one dimension, their shapes, and its numbers."""

    arrays: dict[str, npt.NDArray[Any]]
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
    """The named tuple, of type `kind`, that `packed` was given, over the same memory. Raises KeyError, TypeError or
    ValueError where that is not what it made."""
    return kind(**{name: array.reshape(part.shapes[name]) for name, array in part.arrays.items()})
