"""Arrays aligned to cache lines, so that no row of a line's length, or a fraction of it, crosses one."""

from __future__ import annotations

import math
import mmap
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

LINE_BYTES = 64

APART_BYTES = 1 << 17
"""From so many on, what is `apart` has pages of its own."""

HUGE_BYTES = 1 << 22
"""From so many on, pages may be huge ones, as those of numpy's own arrays."""

HUGE_PAGE = 1 << 21
"""Bytes of such a page."""

Shape = int | tuple[int, ...]


def empty(shape: Shape, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """As `numpy.empty`. Pages that are never written to take no memory."""
    return _within(np.empty(_bytes(shape, dtype) + LINE_BYTES, np.uint8), shape, dtype)


def zeros(shape: Shape, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """As `numpy.zeros`. Pages that are never written to take no memory."""
    return _within(np.zeros(_bytes(shape, dtype) + LINE_BYTES, np.uint8), shape, dtype)


def apart(shape: Shape, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """As `zeros`, for large arrays with room that is used later, or that stay for long.

    Memory that was in use before is in no page of them, so that those never written to take none, and the last one goes
    back to the system with the array. What `zeros` and `empty` return may be memory that a temporary array has left
    behind, all of which is resident.
    """
    size = _bytes(shape, dtype)
    if size < APART_BYTES or sys.platform != "linux":
        return zeros(shape, dtype)
    huge = size >= HUGE_BYTES
    memory = mmap.mmap(-1, size + huge * HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    raw = np.frombuffer(memory, np.uint8)
    # The last page of another array, which may lie next to this one, is not the first of this.
    first = -raw.ctypes.data % HUGE_PAGE if huge else 0
    if huge:
        # Refused by kernels that have none.
        with suppress(OSError):
            memory.madvise(mmap.MADV_HUGEPAGE)
    return raw[first : first + size].view(dtype).reshape(shape)


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
