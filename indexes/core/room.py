"""Memory for copies, got from the system before they are made.

A page that is written to for the first time costs more than to copy it: 56 MB take 10 ms into a `Room`, and 20 to 90 ms
into fresh memory. On a virtual machine it may cost ten times that, and slow down the other processor too, so it is got
a piece at a time.
"""

from __future__ import annotations

import time
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from indexes.core.aligned import LINE_BYTES

S = TypeVar("S", bound=np.generic)

PIECE = 1 << 20
"""Bytes that are got from the system at once."""

REST = 0.002
"""Seconds between two pieces."""


class Room:
    """Memory for copies of `size` bytes in all; what does not fit any more is copied into memory of its own.

    It is given back when the last of the copies goes. Making it takes about 3 ms a MiB, most of it rest.
    """

    def __init__(self, size: int = 0) -> None:
        self._memory = np.empty(size, np.uint8)
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
