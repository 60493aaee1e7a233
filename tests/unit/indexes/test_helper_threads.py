"""Helper threads, and the number that they count by."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import numpy as np
import pytest

from indexes.compiled.atomic import fetch_add
from indexes.compiled.jit import kernel
from indexes.core import helper_threads
from indexes.core.arrays import Ints
from indexes.core.helper_threads import HelperThread


@pytest.fixture
def helper() -> Iterator[HelperThread]:
    thread = HelperThread()
    yield thread
    thread.stop()


def test_a_helper_runs_one_piece_of_work_at_a_time(helper: HelperThread) -> None:
    go_on, ran = threading.Event(), list[int]()

    def work() -> None:
        go_on.wait()
        ran.append(threading.get_ident())

    for _ in range(2):
        assert helper.begin(work)
        assert not helper.begin(work)
        go_on.set()
        assert helper.end() is None
    assert len(ran) == 2
    assert ran[0] == ran[1] != threading.get_ident()


def test_what_the_work_raised_is_returned(helper: HelperThread) -> None:
    error = ValueError("wrong")

    def fail() -> None:
        raise error

    assert helper.begin(fail)
    assert helper.end() is error
    assert helper.begin(lambda: None)
    assert helper.end() is None


def test_helpers_that_are_replaced_end(helper: HelperThread) -> None:
    prepared = list[int]()
    helper_threads.provide(1, lambda: prepared.append(threading.get_ident()))
    (one,) = helper_threads.threads()
    assert one.begin(lambda: None)
    assert one.end() is None
    thread = one._thread
    helper_threads.provide(0)
    assert helper_threads.threads() == ()
    assert not one.begin(lambda: None)
    assert thread is not None
    thread.join(10)
    assert not thread.is_alive()
    assert prepared == [thread.ident]


@kernel
def take_all(counter: Ints, taken: Ints, end: int) -> None:
    at = fetch_add(counter, 2)
    while at < end:
        taken[at] += 1
        at = fetch_add(counter, 2)


def test_no_number_is_taken_twice(helper: HelperThread) -> None:
    counter, taken = np.zeros(1, np.int64), np.zeros(20_000, np.int64)
    take_all(counter, taken, 0)
    counter[0] = 0
    assert helper.begin(lambda: take_all(counter, taken, len(taken)))
    take_all(counter, taken, len(taken))
    assert helper.end() is None
    assert (taken[::2] == 1).all()
    assert (taken[1::2] == 0).all()
