"""Arrays in pages of their own are zero, and take memory only where they are written to."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from indexes.core import aligned
from indexes.core.aligned import APART_BYTES, HUGE_BYTES, LINE_BYTES
from tests.unit.indexes.resident import leave_garbage, resident_bytes


@pytest.mark.parametrize("size", [1, 5, APART_BYTES // 8, HUGE_BYTES // 8 + 3])
def test_what_is_apart_is_zero_and_writable(size: int) -> None:
    array = aligned.apart((2, size), np.int32)
    assert array.shape == (2, size) and array.dtype == np.int32 and array.flags.c_contiguous
    assert array.ctypes.data % LINE_BYTES == 0 and not array.any()
    array[1] = np.arange(size)
    assert not array[0].any() and np.array_equal(array[1], np.arange(size))


@pytest.mark.skipif(sys.platform != "linux", reason="pages apart are those of Linux")
@pytest.mark.parametrize("size", [APART_BYTES, 2 * HUGE_BYTES])
def test_pages_never_written_to_take_no_memory(size: int) -> None:
    leave_garbage()
    array = aligned.apart(size, np.uint8)
    assert resident_bytes(array) == 0
    array[size // 2] = 1
    assert 0 < resident_bytes(array) <= HUGE_BYTES // 2
