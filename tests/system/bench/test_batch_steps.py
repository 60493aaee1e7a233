"""The paper's steps for batches fail where the design says, and the right rule never does."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.boards.batch_steps import (
    INF,
    Batch,
    best,
    count_faults,
    paper_steps,
    random_batch,
    received,
    right_steps,
)

WORSE = Batch({0: 1.0, 1: 5.0, 2: INF}, [(0, 8.0), (1, 9.0), (2, 3.0)])
AGAIN = Batch({0: 0.0, 1: 8.0, 2: 12.0}, [(2, 5.0), (0, 15.0)])
ALL = range(3)


def true(batch: Batch, inside: range, k: int) -> list[tuple[int, float]]:
    after = batch.after()
    return [(i, after[i]) for i in best(after, inside, k)]


def test_the_papers_steps_leave_a_wrong_list() -> None:
    assert received(WORSE.y, ALL, 2, paper_steps(WORSE, 2)[ALL]) == [(2, 3.0), (1, 5.0)]
    assert received(WORSE.y, ALL, 2, right_steps(WORSE, 2)[ALL]) == true(WORSE, ALL, 2) == [(2, 3.0), (0, 8.0)]


def test_the_papers_steps_send_an_object_again_for_nothing() -> None:
    assert (1, 8.0) in paper_steps(AGAIN, 2)[ALL]
    assert right_steps(AGAIN, 2)[ALL] == [(0, 15.0), (2, 5.0)]


@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_the_rule_makes_every_list_right_and_none_hears_of_an_object_twice(seed: int, k: int) -> None:
    batch = random_batch(np.random.default_rng(seed))
    for inside, messages in right_steps(batch, k).items():
        assert received(batch.y, inside, k, messages) == true(batch, inside, k)
        assert len({i for i, _ in messages}) == len(messages)


@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_one_update_is_told_as_a_single_event_is_by_the_paper(seed: int, k: int) -> None:
    rng = np.random.default_rng(seed)
    batch = random_batch(rng)
    single = Batch(batch.y, batch.updates[:1])
    for inside, messages in paper_steps(single, k).items():
        assert received(batch.y, inside, k, messages) == true(single, inside, k)
        assert len(messages) == len(right_steps(single, k)[inside])


def test_no_order_of_fewer_messages_would_do_where_the_rule_sends_some() -> None:
    """Theorem 6 as it is meant, on a batch where it holds: by trying all shorter sequences."""
    batch = Batch({0: 1.0, 1: 2.0, 2: 3.0, 3: 4.0}, [(0, 5.0), (3, 0.0)])
    inside, k = range(4), 2
    after = batch.after()
    needed = right_steps(batch, k)[inside]
    for size in range(len(needed)):
        for objects in permutations(range(4), size):
            messages = [(i, after[i]) for i in objects]
            assert received(batch.y, inside, k, messages) != true(batch, inside, k)


def test_faults_are_counted_by_batch_and_by_list() -> None:
    faults = count_faults(400)
    assert faults.worlds == 400
    assert 0 < faults.wrong_worlds <= faults.wrong
    assert 0 < faults.wasteful_worlds <= faults.wasteful
    assert faults.wrong_by_rule == 0
    assert faults.lists > 1_000


@pytest.mark.parametrize("order", list(permutations([(0, 3.0), (1, INF), (2, 1.0)])))
def test_a_subscriber_keeps_the_best_of_what_it_knows(order: list[tuple[int, float]]) -> None:
    start = {0: 1.0, 1: 2.0, 2: 5.0}
    held = dict(received(start, range(3), 3, list(order)))
    assert held == {2: 1.0, 0: 3.0}
