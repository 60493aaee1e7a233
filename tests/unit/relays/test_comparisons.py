"""Rows of coordinates: compiled as defined, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from indexes.compiled.jit import kernel
from indexes.relays.kernels.comparisons import ROW, row_codes, row_raise


@kernel
def _raise(a: Any, b: Any) -> None:
    row_raise(a, 1, b, 2)


@kernel
def _codes(a: Any, low: Any, steps: Any, out: Any) -> None:
    row_codes(a, 1, low, steps, 2, out)


def _rows(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    some = np.array([-np.inf, -3e38, -1.0, 0.0, 1e-40, 0.5, 7.0, 3e38, np.inf], np.float32)
    return rng.choice(some, ROW + 3), rng.choice(some, ROW + 3)


@pytest.mark.parametrize("seed", range(8))
def test_a_row_is_raised(seed: int) -> None:
    a, b = _rows(seed)
    mine, wanted = a.copy(), a.copy()
    _raise(mine, b)
    row_raise(wanted, 1, b, 2)
    assert mine.tobytes() == wanted.tobytes()
    assert (mine[1 : ROW + 1] == np.maximum(a[1 : ROW + 1], b[2 : ROW + 2])).all()
    assert mine[0] == a[0] and (mine[ROW + 1 :] == a[ROW + 1 :]).all()


@pytest.mark.parametrize("seed", range(8))
def test_codes_of_a_row(seed: int) -> None:
    a, _ = _rows(seed)
    rng = np.random.default_rng(seed)
    low = rng.choice(np.array([-1.0, 0.0, 0.25, 5.0], np.float32), ROW + 3)
    steps = rng.choice(np.array([1e-30, 0.5, 1.0, 40.0, 1e30], np.float32), ROW + 3)
    found, wanted = np.zeros(ROW, np.int8), np.zeros(ROW, np.int8)
    _codes(a, low, steps, found)
    row_codes(a, 1, low, steps, 2, wanted)
    assert found.tolist() == wanted.tolist()
    assert wanted[a[1 : ROW + 1] == np.inf].tolist() == [127] * int((a[1 : ROW + 1] == np.inf).sum())
