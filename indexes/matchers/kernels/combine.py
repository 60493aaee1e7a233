"""How the weights of the dimensions that match make one score, and how high a score can be.

Weights are not negative. Sums and products run in the order of dimensions, so that every way to compute a score gives
the same float.
"""

from __future__ import annotations

import numpy as np

from indexes.compiled.jit import expanded
from indexes.core.arrays import Floats

SUM, MAX, PRODUCT = range(3)

NUMBERS = {"sum": SUM, "max": MAX, "product": PRODUCT}
"""By the name that a matcher's configuration gives them."""


@expanded
def combined(how: int, total: float, weight: float, first: bool) -> float:
    """The score with one more dimension that matches; `first` says that it is the first."""
    if first:
        total = weight
    elif how == SUM:
        total = total + weight
    elif how == PRODUCT:
        total = total * weight
    else:
        total = max(total, weight)
    return total


def highest(weights: Floats, how: int) -> Floats:
    """The most that each row of weights, shape (n, d), can score: over all sets of dimensions that may match.

    For a product that is the product of the weights above 1, or the largest when there are none. A dimension that takes
    no part has weight 0.
    """
    total = np.zeros(len(weights))
    most = weights.max(axis=1, initial=0.0)
    if how == SUM:
        for column in weights.T:
            total = total + column
        return total
    if how == PRODUCT:
        product = np.ones(len(weights))
        for column in weights.T:
            product = product * np.maximum(column, 1.0)
        return np.where(most >= 1.0, product, most)
    return most
