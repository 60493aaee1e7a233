"""Values as tests want them, and the type checker with them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import numba
import numpy as np

T = TypeVar("T")

UNCOMPILED: bool = numba.config.DISABLE_JIT  # type: ignore[attr-defined]
"""Whether kernels run as they are written (``NUMBA_DISABLE_JIT=1``)."""


def present(value: T | None) -> T:
    """A value that is there."""
    assert value is not None
    return value


def in_order(pair: tuple[float | None, float | None]) -> bool:
    """Whether the ends of a range are in order; None is unbounded."""
    lo, hi = pair
    return lo is None or hi is None or lo <= hi


def pair(values: Iterable[float]) -> tuple[float, float]:
    """A place, say, as two arguments."""
    x, y = values
    return x, y


def four(values: Iterable[float]) -> tuple[float, float, float, float]:
    """The sides of a tile, say, as four arguments."""
    a, b, c, d = values
    return a, b, c, d


def between(values: Iterable[float]) -> tuple[float, float]:
    """Two values in order."""
    lo, hi = sorted(values)
    return lo, hi


def scalar(value: float | tuple[float, ...]) -> float:
    """The value of the only range attribute."""
    assert not isinstance(value, tuple)
    return value


def same_columns(ours: Iterable[Any], others: Iterable[Any]) -> bool:
    """Whether structures of arrays have the same values, column by column."""
    return all(np.array_equal(one, other) for one, other in zip(ours, others, strict=True))
