"""The workload of the paper's Section V: random boxes, and commands that subscribe and unsubscribe them.

A box has two uniform ends in [0, 2^31 - 1] in every attribute. A command unsubscribes with probability p, one of those
that are there, chosen at random; else it subscribes a new one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from indexes.jit import kernel
from indexes.relays.forward import SUBSCRIBE, UNSUBSCRIBE
from indexes.relays.points import Points, as_points, empty_points, write

MOST = 2**31 - 1


class Commands(NamedTuple):
    """Commands by number of the subscription, in order of creation, and the boxes of these, of shape (n, d)."""

    op: npt.NDArray[np.uint8]
    slot: npt.NDArray[np.int32]
    lo: npt.NDArray[np.float64]
    hi: npt.NDArray[np.float64]

    def table(self) -> Points:
        """The subscriptions as a table of points."""
        n, d = self.lo.shape
        points = empty_points(n, 2 * d)
        write(points, np.arange(n, dtype=np.int32), as_points(self.lo, self.hi), np.arange(n))
        return points


@kernel
def _choose(chance, pick, p):  # type: ignore[no-untyped-def]
    n = chance.size
    op, slot, there = np.empty(n, np.uint8), np.empty(n, np.int32), np.empty(n, np.int32)
    live = 0
    born = 0
    for i in range(n):
        if live > 0 and chance[i] < p:
            j = min(live - 1, int(pick[i] * live))
            op[i] = UNSUBSCRIBE
            slot[i] = there[j]
            live -= 1
            there[j] = there[live]
        else:
            op[i] = SUBSCRIBE
            slot[i] = born
            there[live] = born
            live += 1
            born += 1
    return op, slot, born


def make_boxes(n: int, d: int, seed: int = 3) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Random boxes of d attributes."""
    ends = np.sort(np.random.default_rng(seed).integers(0, MOST + 1, (n, d, 2)), axis=2).astype(np.float64)
    return ends[:, :, 0], ends[:, :, 1]


def make_commands(n: int, d: int, p: float, seed: int = 3) -> Commands:
    """n commands on boxes of d attributes; the paper's dimensions are 2d."""
    rng = np.random.default_rng(seed)
    op, slot, born = _choose(rng.random(n), rng.random(n), p)
    return Commands(op, slot, *make_boxes(born, d, seed))
