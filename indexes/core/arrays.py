"""Names for arrays in annotations, and numbers that many modules share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

Ints: TypeAlias = NDArray[np.int64]
Ints32: TypeAlias = NDArray[np.int32]
Rows: TypeAlias = NDArray[np.int32]
Floats: TypeAlias = NDArray[np.float64]
Bools: TypeAlias = NDArray[np.bool_]
Counts: TypeAlias = NDArray[np.integer[Any]]
Int8s: TypeAlias = NDArray[np.int8]
Int16s: TypeAlias = NDArray[np.int16]
Bytes: TypeAlias = NDArray[np.uint8]
UInt32s: TypeAlias = NDArray[np.uint32]
UInt64s: TypeAlias = NDArray[np.uint64]

INF = np.inf

int64 = cast("Callable[[Any], int]", np.int64)
uint32 = cast("Callable[[Any], int]", np.uint32)
uint64 = cast("Callable[[Any], int]", np.uint64)
"""For kernels: numbers of one width, which the type checker takes for `int`."""


def run_lengths(end: Ints) -> Ints:
    """How long runs are that end there, one after the other. `np.diff` says the same, and takes ten times as long for
    a few.

    >>> run_lengths(np.array([2, 5])).tolist()
    [2, 3]
    """
    length = end.copy()
    length[1:] -= end[:-1]
    return length


def run_places(begin: Ints, length: Ints) -> Ints:
    """The places of runs, one after the other. O(places).

    >>> run_places(np.array([7, 2]), np.array([2, 3])).tolist()
    [7, 8, 2, 3, 4]
    """
    end = np.cumsum(length)
    places: Ints = np.repeat(begin - end + length, length) + np.arange(int(length.sum()))
    return places
