"""Lists of slots in order of age, beside a sort by numpy."""

from __future__ import annotations

import numpy as np
import pytest

from indexes.relays.kernels.by_age import FEW, sort_by_age


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
