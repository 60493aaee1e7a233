"""Copies in memory that is there already are copies, also where it is too small."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from indexes.core.aligned import LINE_BYTES
from indexes.core.room import Room


@pytest.mark.parametrize("size", [0, 100, 1 << 12])
def test_a_copy_is_that_of_numpy(size: int) -> None:
    room = Room(size)
    rng = np.random.default_rng(1)
    sides = rng.random((2, 40))
    arrays: list[NDArray[Any]] = [
        rng.integers(0, 9, 13).astype(np.uint8),
        sides[:, :31],
        np.arange(7, dtype=np.int32),
        np.empty(0),
    ]
    copies = [room.copy(array) for array in arrays]
    for array, copy in zip(arrays, copies, strict=True):
        assert (copy.dtype, copy.shape) == (array.dtype, array.shape) and copy.flags.c_contiguous
        np.testing.assert_array_equal(copy, array)
        assert not np.shares_memory(copy, array)
    for i, one in enumerate(copies):
        one.fill(1)
        assert not any(np.shares_memory(one, other) for other in copies[:i])


def test_copies_lie_in_the_room_while_it_lasts() -> None:
    room = Room(2 * (80 + LINE_BYTES))
    inside = [room.copy(np.arange(10.0)) for _ in range(2)]
    assert all(np.shares_memory(copy, room._memory) for copy in inside)
    assert all(copy.ctypes.data % LINE_BYTES == 0 for copy in inside)
    assert not np.shares_memory(room.copy(np.arange(100.0)), room._memory)


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a room is an array of numpy's")
def test_memory_goes_with_the_last_copy() -> None:
    def mapped() -> int:
        return sum(line.startswith("VmSize:") and int(line.split()[1]) for line in Path("/proc/self/status").open())

    size = 64 << 20
    before = mapped()
    room: Room | None = Room(size)
    assert room is not None
    copy: NDArray[Any] | None = room.copy(np.arange(10.0))
    room = None
    assert copy is not None and mapped() - before > size >> 11
    np.testing.assert_array_equal(copy, np.arange(10.0))
    copy = None
    assert mapped() - before < size >> 11
