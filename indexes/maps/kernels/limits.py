"""Whether a few objects that are to change are there, and their numbers are right."""

from __future__ import annotations

from indexes.compiled.jit import kernel
from indexes.core.arrays import Floats, Ints32


@kernel
def are_known(slots: Ints32, points: Floats, values: Floats, lowest: Floats, highest: Floats) -> bool:
    """Whether none of the slots is -1, the numbers that are given, which are not NaN, are within the limits, and both
    coordinates of each are given or none."""
    right = True
    for r in range(slots.size):
        x, y = points[r, 0], points[r, 1]
        if x == x or y == y:
            right = right and lowest[0] <= x <= highest[0] and lowest[1] <= y <= highest[1]
        for j in range(values.shape[1]):
            value = values[r, j]
            right = right and (value != value or lowest[2 + j] <= value <= highest[2 + j])
        right = right and slots[r] >= 0
    return right
