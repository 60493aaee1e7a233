"""Theorem 1 of the paper.

In expectation, under random unsubscriptions, G_1 makes at most twice the searches of any G_k; and what it says nothing
of: a nested sequence, where it makes many more.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from indexes.relays.kernels.covering_index import QUERIES
from indexes.relays.kernels.forward import SUBSCRIBE, UNSUBSCRIBE
from indexes.relays.kernels.kd_tree import KdIndex
from indexes.relays.kernels.points import as_points, empty_points, write
from indexes.relays.relations import Known


def searches(
    lo: np.ndarray, hi: np.ndarray, op: list[int], slots: list[int], k: int, roots: bool
) -> tuple[np.ndarray, int]:
    """Searches by subscribing and by unsubscribing, and how many subscriptions are forwarded in the end."""
    points = empty_points(len(lo), 2 * lo.shape[1])
    write(points, np.arange(len(lo), dtype=np.int32), as_points(lo, hi), 0)
    relations = Known(KdIndex(2 * lo.shape[1], full=16), k, roots)
    told = relations.apply(points, np.array(op, np.uint8), np.array(slots, np.int32))
    assert len(told.forward) == len(op)
    return relations.seen[:, QUERIES], int(relations.forwarded.sum())


def random_commands(rng: Any, n: int, p: float) -> tuple[list[int], list[int], int]:
    op: list[int] = []
    slots: list[int] = []
    there: list[int] = []
    born = 0
    for _ in range(n):
        if there and rng.random() < p:
            op.append(UNSUBSCRIBE)
            slots.append(there.pop(int(rng.integers(len(there)))))
        else:
            op.append(SUBSCRIBE)
            slots.append(born)
            there.append(born)
            born += 1
    return op, slots, born


@pytest.mark.parametrize("p", [0.05, 0.15, 0.4])
def test_g1_makes_at_most_twice_the_searches_of_any_gk_on_average(p: float) -> None:
    rng = np.random.default_rng(int(100 * p))
    total: dict[Any, int] = {1: 0, 2: 0, 4: 0, 6: 0, "roots": 0}
    unsubscribed = {1: 0, "roots": 0}
    rounds, commands = 20, 400
    ends = 0
    for _ in range(rounds):
        op, slots, born = random_commands(rng, commands, p)
        ends += op.count(UNSUBSCRIBE)
        # Few attributes and a grid, so that much is covered.
        sides = np.sort(rng.integers(0, 12, (born, 2, 2)), axis=2).astype(float)
        decided = set()
        for way in total:
            k, roots = (1, True) if way == "roots" else (way, False)
            seen, forwarded = searches(sides[:, :, 0], sides[:, :, 1], op, slots, k, roots)
            assert seen[0] == born  # Equation 2
            total[way] += int(seen.sum())
            if way in unsubscribed:
                unsubscribed[way] += int(seen[1])
            decided.add(forwarded)
        assert len(decided) == 1
    for way in (2, 4, 6):
        assert total[1] <= 2 * total[way], total
        assert total["roots"] <= 2 * total[way], total
    assert max(unsubscribed.values()) <= ends, (unsubscribed, ends)  # Lemma 1: at most one search an unsubscription


def test_a_nested_sequence_is_not_a_random_one() -> None:
    n = 60
    step = np.arange(n, dtype=float)[:, None]
    op, slots = [SUBSCRIBE] * n + [UNSUBSCRIBE] * (n - 2), [*range(n), *range(n - 2)]
    one, _ = searches(step, 200 - step, op, slots, 1, True)
    many, _ = searches(step, 200 - step, op, slots, n, False)
    assert one.sum() > 5 * many.sum()
