"""Memory for copies that is faulted in before they are made.

The first write to a page costs more than to copy it: 56 MB take 10 ms into a `Room`, and 20 to 90 ms into fresh memory.
On a virtual machine it may cost ten times that, and stall the processor while the host allocates. So pages are small,
and faulted in a piece at a time: the first write to a huge page faults in all of it, 12 to 30 ms were seen.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
import time
import weakref
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from indexes.core.aligned import LINE_BYTES

S = TypeVar("S", bound=np.generic)

PIECE = 1 << 18
"""Bytes that are faulted in at a time."""

REST = 0.0005
"""Seconds between two pieces."""


class Room:
    """Memory for copies of `size` bytes in all; copies that do not fit get memory of their own.

    It is freed with the last of the copies. Making it takes about 3 ms a MiB, most of it sleep.
    """

    def __init__(self, size: int = 0) -> None:
        self._memory = _small_pages(size)
        for first in range(0, size, PIECE):
            if first:
                time.sleep(REST)
            self._memory[first : first + PIECE].fill(0)
        self._used = 0

    def copy(self, array: NDArray[S]) -> NDArray[S]:
        """As `numpy.copy`."""
        first = self._used + (-(self._memory.ctypes.data + self._used)) % LINE_BYTES
        if first + array.nbytes > self._memory.size:
            return np.array(array, order="C")
        self._used = first + array.nbytes
        out: NDArray[S] = self._memory[first : self._used].view(array.dtype).reshape(array.shape)
        np.copyto(out, array)
        return out


def _small_pages(size: int) -> NDArray[np.uint8]:
    """Memory in pages of the usual size, which other threads need not wait for when it is given back: 100 MB of them
    take 19 ms, and `mmap` and numpy hold the interpreter for that long."""
    if not size or sys.platform != "linux":
        return np.empty(size, np.uint8)
    system = _system()
    address = system.mmap(
        None, size, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0
    )  # fmt: skip
    if address == ctypes.c_void_p(-1).value:
        raise MemoryError(f"no memory for a copy of {size:,} bytes")
    pages = (ctypes.c_uint8 * size).from_address(address)
    weakref.finalize(pages, system.munmap, address, size).atexit = False
    return np.ctypeslib.as_array(pages)


def _system() -> Any:
    """The C library, whose calls leave the interpreter to other threads."""
    system = ctypes.CDLL(None, use_errno=True)
    system.mmap.restype = ctypes.c_void_p
    system.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *3 * [ctypes.c_int], ctypes.c_long]
    system.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return system
