"""Arrays aligned to cache lines, so that no row of a line's length, or a fraction of it, crosses one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

LINE_BYTES = 64

Shape = int | tuple[int, ...]


def empty(shape: Shape, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """As `numpy.empty`. Pages that are never written to take no memory."""
    return _within(np.empty(_bytes(shape, dtype) + LINE_BYTES, np.uint8), shape, dtype)


def zeros(shape: Shape, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """As `numpy.zeros`. Pages that are never written to take no memory."""
    return _within(np.zeros(_bytes(shape, dtype) + LINE_BYTES, np.uint8), shape, dtype)


def full(shape: Shape, value: Any, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """As `numpy.full`."""
    array = empty(shape, dtype)
    array.fill(value)
    return array


def copied(array: NDArray[Any]) -> NDArray[Any]:
    """As `numpy.copy`."""
    copy = empty(array.shape, array.dtype)
    copy[...] = array
    return copy


def concatenated(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """As `numpy.concatenate`, for columns of one type."""
    return np.concatenate(parts, out=empty(sum(map(len, parts)), parts[0].dtype))


def _bytes(shape: Shape, dtype: DTypeLike) -> int:
    return math.prod(shape if isinstance(shape, tuple) else (shape,)) * np.dtype(dtype).itemsize


def _within(raw: NDArray[np.uint8], shape: Shape, dtype: DTypeLike) -> NDArray[Any]:
    first = -raw.ctypes.data % LINE_BYTES
    return raw[first : first + _bytes(shape, dtype)].view(dtype).reshape(shape)
