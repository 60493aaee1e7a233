"""Changes of objects, as kernels take them."""

from __future__ import annotations

from typing import NamedTuple

from indexes.core.arrays import Bytes, Floats, Ints, Ints32

SET, DELETE = 0, 1
"""Kinds of changes."""


class Changes(NamedTuple):
    """Columns of equal length. `x` and `y` are NaN where a change keeps the value; `touched` marks a new payload;
    `created` is read for new rows only."""

    kind: Bytes
    row: Ints32
    x: Floats
    y: Floats
    created: Ints
    touched: Bytes
