"""Arrays that begin at a line of the cache, so that rows of a line's length, or a fraction of it, cross none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

LINE_BYTES = 64


def zeros(shape: int | tuple[int, ...], dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """As `numpy.zeros`. Pages that are never touched are never there."""
    sizes = shape if isinstance(shape, tuple) else (shape,)
    nbytes = math.prod(sizes) * np.dtype(dtype).itemsize
    raw = np.zeros(nbytes + LINE_BYTES, np.uint8)
    first = -raw.ctypes.data % LINE_BYTES
    return raw[first : first + nbytes].view(dtype).reshape(sizes)
