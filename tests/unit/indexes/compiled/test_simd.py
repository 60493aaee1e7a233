"""The primitives of blocks and of floats: compiled they are what they are uncompiled, by definition."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from indexes.compiled.blocks import copy_lanes, fill_lanes, pack_lanes
from indexes.compiled.floats import above, below
from indexes.compiled.jit import kernel
from indexes.compiled.simd import lanes_beyond, lanes_from, lanes_inside, lanes_reached, lanes_upto, lanes_within
from indexes.core.arrays import Floats, Ints

MAX = float(np.finfo(np.float64).max)
VALUES = [0.0, -0.0, 5e-324, -5e-324, 1.0, -1.0, 0.1, 2.0**-1022, -(2.0**-1022), MAX, -MAX, math.inf, -math.inf]


@kernel
def _sides(a: Floats, base: int, bound: float) -> tuple[int, int]:
    return lanes_upto(a, base, bound), lanes_from(a, base, bound)


@kernel
def _between(a: Ints, base: int, least: int, most: int) -> int:
    return lanes_within(a, base, least, most)


@kernel
def _boxes(sides: Floats, base: int, a: float, b: float, c: float, d: float) -> tuple[int, int, int]:
    w, e, s, n = sides[0], sides[1], sides[2], sides[3]
    return (
        lanes_reached(w, e, s, n, base, a, b, c, d),
        lanes_inside(w, e, s, n, base, a, b, c, d),
        lanes_beyond(w, e, s, n, base, a, b, c, d),
    )


@kernel
def _written(into: Ints, filled: Floats, at: int, source: Ints, base: int, value: float) -> None:
    copy_lanes(into, at, source, base)
    fill_lanes(filled, at, value)


@kernel
def _packed(into: Any, at: int, source: Any, base: int, mask: int) -> int:
    return pack_lanes(into, at, source, base, mask)


@kernel
def _neighbours(value: float) -> tuple[float, float]:
    return below(value), above(value)


def _column(rng: np.random.Generator, size: int) -> Floats:
    """Numbers of which many are equal, and some extreme."""
    return np.where(rng.random(size) < 0.2, rng.choice(VALUES, size), rng.integers(-3, 4, size) / 2)


@pytest.mark.parametrize("seed", range(20))
def test_masks_are_those_of_their_definitions(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sides, counts = np.array([_column(rng, 40) for _ in range(4)]), rng.integers(-3, 4, 40)
    for base in range(24):
        a, b, c, d = _column(rng, 4).tolist()
        assert _sides(sides[0], base, a) == (lanes_upto(sides[0], base, a), lanes_from(sides[0], base, a))
        assert _between(counts, base, -1, 2) == lanes_within(counts, base, -1, 2)
        box = (sides[0], sides[1], sides[2], sides[3], base, a, b, c, d)
        assert _boxes(sides, base, a, b, c, d) == (lanes_reached(*box), lanes_inside(*box), lanes_beyond(*box))


def test_lanes_are_written_where_they_have_to_be() -> None:
    source = np.arange(40) - (1 << 60)
    for at, base in ((0, 0), (3, 1), (24, 24)):
        into, filled = np.zeros(40, np.int64), np.zeros(40)
        _written(into, filled, at, source, base, -0.1)
        wanted, all_filled = np.zeros(40, np.int64), np.zeros(40)
        copy_lanes(wanted, at, source, base)
        fill_lanes(all_filled, at, -0.1)
        assert wanted[at : at + 16].tolist() == source[base : base + 16].tolist() and all_filled.sum() < -1.5
        assert np.array_equal(into, wanted) and np.array_equal(filled, all_filled)


@pytest.mark.parametrize("kind", [np.int64, np.float64])
@pytest.mark.parametrize("mask", [0, 1, 1 << 15, (1 << 16) - 1, 0b1010_0000_0110_0001, 0b1111_1111, 0xFF00])
def test_lanes_are_packed_one_behind_the_other(mask: int, kind: type[np.int64] | type[np.float64]) -> None:
    source: Any = (np.arange(40) - (1 << 50)).astype(kind)
    for at, base in ((0, 0), (3, 1), (24, 24)):
        into, wanted = np.zeros(40, kind), np.zeros(40, kind)
        n = pack_lanes(wanted, at, source, base, mask)
        assert _packed(into, at, source, base, mask) == n == mask.bit_count()
        assert np.array_equal(into[: at + n], wanted[: at + n]) and not into[at + 16 :].any()
    # Within one column, to an earlier place.
    assert _packed(source, 20, source, 24, mask) == n and np.array_equal(source[20 : 20 + n], wanted[24 : 24 + n])


@pytest.mark.parametrize("value", VALUES)
def test_neighbours_are_the_next_floats(value: float) -> None:
    found = _neighbours(value)
    expected = (math.nextafter(value, -math.inf), math.nextafter(value, math.inf))
    assert [each.hex() for each in found] == [each.hex() for each in expected]
