"""How much of an array is resident, and memory that temporary arrays have left behind."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

PAGE = 4096


def resident_bytes(array: NDArray[Any]) -> int:
    """The bytes of the pages of an array that are in memory."""
    first = array.ctypes.data // PAGE * PAGE
    size = array.ctypes.data + array.nbytes - first
    pages = np.zeros(-(-size // PAGE), np.uint8)
    failed = ctypes.CDLL(None, use_errno=True).mincore(
        ctypes.c_void_p(first), ctypes.c_size_t(size), ctypes.c_void_p(pages.ctypes.data)
    )
    assert not failed, ctypes.get_errno()
    return int((pages & 1).sum()) * PAGE


def leave_garbage() -> None:
    """Make the allocator keep large pieces that are given back to it, and give it some, all of which are resident."""
    for _ in range(2):
        pieces = [np.ones(31 << 17) for _ in range(4)]
        del pieces
