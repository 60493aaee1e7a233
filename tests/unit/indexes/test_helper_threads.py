"""Helper threads, and the number that they count by."""

from __future__ import annotations

import os
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
    ran = list[int]()
    helper_threads.provide(1)
    (one,) = helper_threads.threads()
    assert one.begin(lambda: ran.append(threading.get_ident()))
    assert one.end() is None
    thread = one._thread
    helper_threads.provide(0)
    assert helper_threads.threads() == ()
    assert not one.begin(lambda: None)
    assert thread is not None
    thread.join(10)
    assert not thread.is_alive()
    assert ran == [thread.ident]


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


def waits(for_it: threading.Event) -> None:
    assert for_it.wait(10)


def waits_at(meeting: threading.Barrier) -> None:
    meeting.wait(30)


def threads_of_both() -> set[int]:
    """The threads in which two halves run."""
    ran = list[int]()
    helper_threads.run_both(lambda: ran.append(threading.get_ident()), lambda: ran.append(threading.get_ident()))
    assert len(ran) == 2
    return set(ran)


def test_halves_run_at_the_same_time() -> None:
    helper_threads.provide(1)
    try:
        meet = threading.Barrier(2)
        assert helper_threads.run_both(lambda: waits_at(meet), lambda: waits_at(meet)) >= 0.0
    finally:
        helper_threads.provide(0)


def test_halves_run_in_two_threads_if_one_is_free() -> None:
    assert len(threads_of_both()) == 1
    helper_threads.provide(1)
    try:
        assert len(threads_of_both()) == 2
        (one,) = helper_threads.threads()
        go_on = threading.Event()
        assert one.begin(lambda: waits(go_on))
        assert len(threads_of_both()) == 1
        go_on.set()
        assert one.end() is None
        assert len(threads_of_both()) == 2
    finally:
        helper_threads.provide(0)


@pytest.mark.parametrize("which", [0, 1])
def test_what_a_half_raised_is_raised_when_both_have_ended(which: int) -> None:
    ended = list[int]()

    def half(number: int) -> None:
        ended.append(number)
        if number == which:
            raise ValueError(number)

    helper_threads.provide(1)
    try:
        with pytest.raises(ValueError, match=str(which)):
            helper_threads.run_both(lambda: half(0), lambda: half(1))
        assert sorted(ended) == [0, 1]
        assert len(threads_of_both()) == 2
    finally:
        helper_threads.provide(0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are not forked here")
def test_a_forked_process_has_helpers_of_its_own() -> None:
    helper_threads.provide(1)
    try:
        assert len(threads_of_both()) == 2
        child = os.fork()
        if child == 0:
            os._exit(0 if len(threads_of_both()) == 2 else 1)
        assert os.waitpid(child, 0)[1] == 0
    finally:
        helper_threads.provide(0)
