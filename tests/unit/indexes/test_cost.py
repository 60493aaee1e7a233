"""Estimates of what changes cost."""

from __future__ import annotations

import pytest

from indexes.core.cost import WATCHED, Cost


def test_a_costly_change_counts_at_once_and_is_forgotten_slowly() -> None:
    cost = Cost(1e-5)
    cost.learn(0.01, 10)
    assert cost.seconds == pytest.approx(1e-3)
    cost.learn(0.0, 10)
    assert cost.seconds == pytest.approx(9e-4)
    assert cost.fit(0.0046) == 5 and cost.fit(1e-9) == 1 and cost.fit(1.0, 7) == 7


def test_what_a_pass_takes_besides_its_changes_is_not_theirs() -> None:
    cost = Cost(1e-5, apart=3e-4)
    cost.learn(2.5e-4, 1)
    assert cost.seconds < 1e-5
    cost.learn(3e-4 + 128 * 2e-5, 128)
    assert cost.seconds == pytest.approx(2e-5)
    cost.learn(0.0403, 1)
    assert cost.seconds == pytest.approx(0.04)
    for _ in range(10_000):
        cost.learn(0.0, 1)
    assert cost.fit(0.005, 4_096) == 4_096


def test_a_fixed_cost_is_not_learnt() -> None:
    cost = Cost(1e-5, fixed=True)
    cost.learn(1.0, 1)
    assert cost.seconds == 1e-5


def test_a_single_change_is_timed_by_its_thread_where_the_last_one_took_long() -> None:
    cost = Cost(1e-5, apart=3e-4)
    assert cost.by_thread, "none was made yet"
    cost.learn(2e-4, 1)
    assert not cost.by_thread
    before = cost.seconds
    cost.learn_passed(2.5e-4)
    assert not cost.by_thread and cost.seconds < before
    before = cost.seconds
    cost.learn_passed(0.05)
    assert cost.by_thread and cost.seconds == before, "others may have had the processor"
    cost.learn(0.04, 1)
    assert cost.by_thread and cost.seconds == pytest.approx(0.0397)
    for _ in range(WATCHED):
        assert cost.by_thread
        cost.learn(1e-4, 1)
    assert not cost.by_thread


def test_costly_changes_between_others_count_although_each_comes_behind_a_short_one() -> None:
    cost = Cost(1e-5, apart=3e-4)
    for at in range(60):
        spent = 0.04 if at % 6 == 5 else 1e-4
        if cost.by_thread:
            cost.learn(spent, 1)
        else:
            cost.learn_passed(spent)
    assert cost.seconds > 0.02


def test_without_a_part_that_does_not_count_each_change_is_timed_by_its_thread() -> None:
    cost = Cost(1e-5)
    cost.learn(1e-6, 1)
    assert cost.by_thread
