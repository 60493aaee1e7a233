"""Changes of objects, as kernels take them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

SET, DELETE = 0, 1
"""Kinds of changes."""


class Changes(NamedTuple):
    """Columns of equal length. `x` and `y` are NaN where a change keeps what is there; `touched` marks a new payload;
    `created` counts for rows that are new."""

    kind: npt.NDArray[np.uint8]
    row: npt.NDArray[np.int32]
    x: npt.NDArray[np.float64]
    y: npt.NDArray[np.float64]
    created: npt.NDArray[np.int64]
    touched: npt.NDArray[np.uint8]
