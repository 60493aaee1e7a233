"""What the machine does by itself, for who compares a page with that of another machine or another hour."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any, NamedTuple

import numpy as np

CELLS = 1 << 25
"""Of 8 bytes, 268 MB: more than any cache has."""

READS = 1 << 20
STEPS = 1 << 20
ROUNDS = 3


class Machine(NamedTuple):
    """Memory that a process touches first and memory that is read in order, in GB/s; a read of 8 bytes anywhere of 268
    MB and a step of a loop of the interpreter, in ns."""

    first_touch: float
    in_order: float
    anywhere: float
    step: float

    def said(self) -> str:
        """As the page has it."""
        return (
            f"Before the run this machine took {self.anywhere:.0f} ns for a read of 8 bytes anywhere in "
            f"{8e-6 * CELLS:.0f} MB and {self.step:.0f} ns for an empty step of a loop of the interpreter, read "
            f"{self.in_order:.1f} GB/s in order, and gave {self.first_touch:.2f} GB/s of memory that a process touches "
            "first. Hosts of virtual machines differ by several times in the first and in the last, also from hour to "
            "hour."
        )


def measure() -> Machine:
    """Measure it, in about two seconds on an idle machine."""
    began = time.perf_counter()
    cells = np.empty(CELLS)
    cells.fill(1.0)
    first = time.perf_counter() - began
    places = np.random.default_rng(1).integers(0, CELLS, READS)
    in_order = _seconds(cells.sum)
    anywhere = _seconds(lambda: cells.take(places))
    step = _seconds(_loop)
    bytes_read = 8e-9 * CELLS
    return Machine(bytes_read / first, bytes_read / in_order, anywhere / READS * 1e9, step / STEPS * 1e9)


def _seconds(run: Callable[[], Any]) -> float:
    found = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        run()
        found.append(time.perf_counter() - began)
    return median(found)


def _loop() -> None:
    for _ in range(STEPS):
        pass
