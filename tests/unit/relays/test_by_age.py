"""Lists of slots in order of age, beside a sort by numpy."""

from __future__ import annotations

import numpy as np
import pytest

from indexes.relays.kernels import by_age
from indexes.relays.kernels.by_age import FEW, NEAR, WIDEST, sort_by_age


@pytest.mark.parametrize("step", [1, 7, 100_000, 10**7])
@pytest.mark.parametrize("longest", [2, FEW + 1, 900])
def test_lists_are_in_order_of_age_however_far_apart_ages_are(step: int, longest: int) -> None:
    rng = np.random.default_rng(longest)
    for lists in range(12):
        age = rng.permutation(3_000).astype(np.int64) * step
        sizes = rng.integers(0, longest + 1, lists)
        chosen = [rng.choice(len(age), size, replace=False).astype(np.int32) for size in sizes.tolist()]
        slots = np.concatenate([np.empty(0, np.int32), *chosen])
        sort_by_age(slots, np.cumsum(sizes), age)
        wanted = [mine[np.argsort(age[mine])] for mine in chosen]
        np.testing.assert_array_equal(slots, np.concatenate([np.empty(0, np.int32), *wanted]))


def test_lists_of_all_kinds_follow_each_other() -> None:
    """Short ones, and long ones whose ages lie near each other, far apart, and too far; and no list leaves anything
    behind.
    """
    rng, n = np.random.default_rng(7), 4_000
    spreads = [n, NEAR, NEAR + 1, 20 * NEAR, WIDEST, 8 * WIDEST]
    age = np.concatenate([rng.permutation(n).astype(np.int64) * (spread - 1) // (n - 1) for spread in spreads])
    for _ in range(6):
        chosen = []
        for _ in range(20):
            size, kind = int(rng.choice([0, 1, 2, FEW, FEW + 1, 200, n])), int(rng.integers(len(spreads)))
            chosen.append((kind * n + rng.choice(n, size, replace=False)).astype(np.int32))
        slots = np.concatenate(chosen)
        sort_by_age(slots, np.cumsum([len(mine) for mine in chosen]), age)
        np.testing.assert_array_equal(slots, np.concatenate([mine[np.argsort(age[mine])] for mine in chosen]))
        assert not by_age._space.scratch.there.any()
